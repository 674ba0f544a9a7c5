// Kernels that are bound by memory: transpositions, rows in groups, ranges of axes, columns, indices of extremes. Odd
// extents and every vector width that this CPU has.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/long_tests.h"
#include "kernels/codegen/testing.h"
#include "kernels/te/tensor.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

Tensor Reduced(ReduceOp op, const Tensor& x, size_t axis, DataType dtype) {
  Dims dims = x.dims();
  Dim extents[] = {dims[axis]};
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return ComputeTensor("reduced", dtype, dims, [&](Indices i) {
    return te::Reduce(op, extents, [&](Indices r) {
      std::vector<Expr> at(i.begin(), i.end());
      at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), r[0]);
      return x(at);
    });
  });
}

TEST(MemoryBoundTest, Transpositions) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  for (DataType dtype : {kFloat32, kFloat64, kFloat16, kUInt8, kBool, kInt64}) {
    Tensor x = Input(0, "x", dtype, {m, n});
    Tensor y = ComputeTensor("y", dtype, {n, m}, [&](Indices i) { return x({i[1], i[0]}); });
    CheckOptions options{.symbol_values = {{1, 1}, {3, 50}, {16, 16}, {33, 47}, {64, 17}, {0, 5}}, .threads = true};
    CheckOnTargets({"transpose", {x}, {y}}, options);
  }
  Tensor x = Input(0, "x", kFloat32, {Dim(5), Dim(19), Dim(37)}), b = Input(1, "b", kFloat32, {Dim(37), Dim(5)});
  Tensor y = ComputeTensor("y", kFloat32, {Dim(5), Dim(37), Dim(19)},
                           [&](Indices i) { return x({i[0], i[2], i[1]}) * b({i[1], i[0]}); });
  CheckOnTargets({"inner", {x, b}, {y}}, {});
  Tensor z = ComputeTensor("z", kFloat32, {Dim(37), Dim(19), Dim(5)}, [&](Indices i) { return x({i[2], i[1], i[0]}); });
  CheckOnTargets({"reversed", {x}, {z}}, {.threads = true});
}

TEST(MemoryBoundTest, TranspositionsBesideOtherReads) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  for (DataType dtype : {kFloat32, kInt64, kUInt8}) {
    Tensor x = Input(0, "x", dtype, {m, n}), r = Input(1, "r", dtype, {n, m}), b = Input(2, "b", dtype, {n});
    Tensor y =
        ComputeTensor("y", dtype, {n, m}, [&](Indices i) { return x({i[1], i[0]}) * b({i[0]}) + r({i[0], i[1]}); });
    CheckOptions options{.symbol_values = {{1, 1}, {3, 50}, {16, 16}, {33, 47}, {64, 17}, {0, 5}}, .threads = true};
    CheckOnTargets({"mixed", {x, r, b}, {y}}, options);
  }
}

// Four elements that share all but their last operation; two axes choose among them.
TEST(MemoryBoundTest, ElementsThatShareWorkAtOnce) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  for (Dim columns : {Dim(37), n}) {
    Tensor x = Input(0, "x", kFloat32, {m, columns});
    Tensor y = ComputeTensor("y", kFloat32, {Dim(2), m, Dim(2), columns}, [&](Indices i) {
      auto is_first = [&](size_t axis) { return te::Binary(BinaryOp::kEqual, i[axis], te::Index(0)); };
      Expr a = te::Unary(UnaryOp::kExp, x({i[1], i[3]})), b = te::Unary(UnaryOp::kTanh, x({i[1], i[3]}));
      Expr sum = a + b, difference = a - b, square = sum * sum + difference;
      return te::Select(is_first(0), te::Select(is_first(2), square + a, square - a),
                        te::Select(is_first(2), square + b, square - b));
    });
    CheckOptions options{.symbol_values = {{1}, {5}, {64}}, .threads = true};
    if (!columns.is_const()) options.symbol_values = {{1, 1}, {5, 33}, {0, 7}, {9, 64}};
    CheckOnTargets({"shared", {x}, {y}}, options);
  }
}

TEST(MemoryBoundTest, PlacesOfExtremes) {
  float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  Sample sample(2);
  for (ReduceOp op : {ReduceOp::kArgMax, ReduceOp::kArgMin, ReduceOp::kArgMaxLast, ReduceOp::kArgMinLast}) {
    for (size_t axis : {0, 1}) {
      for (DataType dtype : {kFloat32, kInt8, kFloat16}) {
        if (!sample.Takes()) continue;
        Tensor x = Input(0, "x", dtype, {Dim::Var(1, "m"), Dim::Var(2, "n")});
        CheckOnTargets({"place", {x}, {Reduced(op, x, axis, kInt64)}},
                       {.symbol_values = {{0, 2}, {2, 0}, {1, 1}, {3, 50}, {70, 33}, {4, 300}}});
      }
      Tensor x = Input(0, "x", kFloat32, {Dim(3), Dim(4)});
      float special[] = {1, nan, 2, nan, -infinity, -infinity, -infinity, -infinity, 0, -0.0F, 0, infinity};
      Literal values = Literal::FromValues<float>(kFloat32, {3, 4}, special);
      CheckKernelOn({"place", {x}, {Reduced(op, x, axis, kInt64)}}, {values});
    }
  }
}

// A single reduction remains where two could round the values differently.
TEST(MemoryBoundTest, PlacesOfExtremesOfComputedValues) {
  Tensor x = Input(0, "x", kFloat32, {Dim(9), Dim(300)}), b = Input(1, "b", kFloat32, {Dim(300)});
  Tensor sum = ComputeTensor("sum", kFloat32, x.dims(), [&](Indices i) { return x(i) + b({i[1]}); });
  Tensor fused = ComputeTensor("fused", kFloat32, x.dims(), [&](Indices i) { return x(i) * b({i[1]}) + x(i); });
  for (const auto& [value, nests] : {std::pair(sum, 2), std::pair(fused, 1)}) {
    te::Computation place{"place", {x, b}, {Reduced(ReduceOp::kArgMax, value, 1, kInt64)}};
    for (const ScheduledKernel& kernel : CheckOnTargets(place))
      EXPECT_EQ(kernel.schedule.nests.size(), static_cast<size_t>(nests)) << schedule::Describe(kernel.schedule);
  }
}

TEST(MemoryBoundTest, ColumnsSeveralRowsAtOnce) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMaximum, ReduceOp::kProduct}) {
    Tensor x = Input(0, "x", kFloat32, {Dim::Var(1, "m"), Dim::Var(2, "n")});
    CheckOnTargets({"columns", {x}, {Reduced(op, x, 0, kFloat32)}},
                   {.symbol_values = {{0, 3}, {1, 300}, {7, 17}, {8, 257}, {19, 33}}, .range = 1.5, .threads = true});
  }
}

// (x - the row's greatest) / the row's sum, of rows of any length.
Tensor Scaled(const Tensor& x) {
  Tensor top = Reduced(ReduceOp::kMaximum, x, 1, kFloat32);
  Tensor power = ComputeTensor("power", kFloat32, x.dims(),
                               [&](Indices i) { return te::Unary(UnaryOp::kExp, x(i) - top({i[0]})); });
  Tensor sum = Reduced(ReduceOp::kSum, power, 1, kFloat32);
  return ComputeTensor("scaled", kFloat32, x.dims(),
                       [&](Indices i) { return te::Binary(BinaryOp::kDivide, power(i), sum({i[0]})); });
}

TEST(MemoryBoundTest, RowsInGroups) {
  for (int64_t columns : {7, 64, 333, 20000}) {
    Tensor x = Input(0, "x", kFloat32, {Dim::Var(1, "m"), Dim(columns)});
    te::Computation softmax{"softmax", {x}, {Scaled(x)}};
    for (const ScheduledKernel& kernel :
         CheckOnTargets(softmax, {.symbol_values = {{0}, {1}, {5}, {67}}, .threads = true})) {
      EXPECT_EQ(kernel.schedule.groups.size(), 1u) << schedule::Describe(kernel.schedule);
      // Intermediate rows are on the stack unless they are very long.
      EXPECT_EQ(kernel.schedule.workspace == Dim(0), columns < 20000) << kernel.schedule.workspace.ToString();
    }
  }
  Tensor x = Input(0, "x", kFloat32, {Dim::Var(1, "m"), Dim::Var(2, "n")});
  CheckOnTargets({"softmax", {x}, {Scaled(x)}},
                 {.symbol_values = {{0, 3}, {1, 1}, {5, 41}, {67, 130}}, .threads = true});
}

// Rows that a later nest reads from other groups are complete before it runs.
TEST(MemoryBoundTest, RowsOfOthersAreNoGroup) {
  Dim m = Dim::Var(1, "m");
  Tensor x = Input(0, "x", kFloat32, {m, Dim(40)});
  Tensor sum = Reduced(ReduceOp::kSum, x, 1, kFloat32);
  Tensor y = ComputeTensor("y", kFloat32, x.dims(),
                           [&](Indices i) { return x(i) * sum({te::DimValue(m) - te::Index(1) - i[0]}); });
  for (const ScheduledKernel& kernel :
       CheckOnTargets({"turned", {x}, {y}}, {.symbol_values = {{1}, {6}, {130}}, .threads = true}))
    EXPECT_EQ(kernel.schedule.groups.size(), 2u) << schedule::Describe(kernel.schedule);
}

TEST(MemoryBoundTest, RangesOfAxes) {
  Tensor a = Input(0, "a", kFloat32, {Dim(5), Dim(40)}), b = Input(1, "b", kFloat32, {Dim(9), Dim(40)});
  auto less = [](const Expr& x, int64_t limit) { return te::Binary(BinaryOp::kLess, x, te::Index(limit)); };
  Tensor joined = ComputeTensor("joined", kFloat32, {Dim(14), Dim(40)}, [&](Indices i) {
    return te::Select(less(i[0], 5), a({i[0], i[1]}), b({i[0] - te::Index(5), i[1]}));
  });
  CheckOnTargets({"joined", {a, b}, {joined}}, {.threads = true});
  Tensor padded = ComputeTensor("padded", kFloat32, {Dim(11), Dim(47)}, [&](Indices i) {
    Expr row = i[0] - te::Index(3), column = i[1] - te::Index(2);
    auto inside = [&](const Expr& x, int64_t extent) {
      return te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, x, te::Index(0)), less(x, extent));
    };
    return te::Select(te::Binary(BinaryOp::kAnd, inside(row, 5), inside(column, 40)), a({row, column}),
                      te::Const(kFloat32, 7));
  });
  for (const ScheduledKernel& kernel : CheckOnTargets({"padded", {a}, {padded}}, {.threads = true}))
    EXPECT_EQ(schedule::Describe(kernel.schedule), "loops 11x47: padded [in 9 ranges]");
}

// Rows and columns that are reflected at both edges, then clamped: in each range the place is a line.
TEST(MemoryBoundTest, RangesOfMinimaAndSelections) {
  Tensor a = Input(0, "a", kFloat32, {Dim(5), Dim(40)});
  auto reflected = [](const Expr& at, int64_t extent) {
    Expr zero = te::Index(0), last = te::Index(extent - 1);
    Expr from_start = te::Select(te::Binary(BinaryOp::kLess, at, zero), zero - at, at);
    Expr turned = te::Select(te::Binary(BinaryOp::kLess, last, from_start), last + last - from_start, from_start);
    return te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, turned, last), zero);
  };
  Tensor padded = ComputeTensor("padded", kFloat32, {Dim(11), Dim(47)}, [&](Indices i) {
    return a({reflected(i[0] - te::Index(3), 5), reflected(i[1] - te::Index(4), 40)});
  });
  for (const ScheduledKernel& kernel : CheckOnTargets({"padded", {a}, {padded}}, {.threads = true}))
    EXPECT_EQ(schedule::Describe(kernel.schedule), "loops 11x47: padded [in 9 ranges]");
}

// Loops along which lines are read again lie inside, behind those along which other lines are.
TEST(MemoryBoundTest, AxesThatReadAgainMoveInside) {
  Tensor x = Input(0, "x", kFloat32, {Dim(300), Dim(301)});
  Tensor tiled =
      ComputeTensor("tiled", kFloat32, {Dim(2), Dim(300), Dim(301)}, [&](Indices i) { return x({i[1], i[2]}); });
  for (const ScheduledKernel& kernel : CheckOnTargets({"tile", {x}, {tiled}}, {.threads = true}))
    EXPECT_EQ(schedule::Describe(kernel.schedule), "loops 300x2x301: tiled");
  Tensor other = Input(1, "other", kFloat32, {Dim(300), Dim(301)});
  Tensor stacked = ComputeTensor("stacked", kFloat32, {Dim(2), Dim(300), Dim(301)}, [&](Indices i) {
    Expr is_first = te::Binary(BinaryOp::kLess, i[0], te::Index(1));
    return te::Select(is_first, x({i[1], i[2]}), other({i[1], i[2]}));
  });
  for (const ScheduledKernel& kernel : CheckOnTargets({"stack", {x, other}, {stacked}}, {}))
    EXPECT_EQ(kernel.schedule.nests[0].axes[0].extent, Dim(2)) << schedule::Describe(kernel.schedule);
  Tensor image = Input(0, "image", kFloat32, {Dim(5), Dim(186), Dim(206)});
  auto deep = [&](int64_t block) {
    return ComputeTensor(
        "deep", kFloat32, {Dim(block * block * 5), Dim(186 / block), Dim(206 / block)}, [=](Indices i) {
          Expr place = te::Binary(BinaryOp::kFloorDivide, i[0], te::Index(5));
          return image({te::Binary(BinaryOp::kFloorMod, i[0], te::Index(5)),
                        i[1] * te::Index(block) + te::Binary(BinaryOp::kFloorDivide, place, te::Index(block)),
                        i[2] * te::Index(block) + te::Binary(BinaryOp::kFloorMod, place, te::Index(block))});
        });
  };
  for (const ScheduledKernel& kernel : CheckOnTargets({"deep", {image}, {deep(2)}}, {.threads = true}))
    EXPECT_EQ(schedule::Describe(kernel.schedule), "loops 5x2x93x2x103: deep");
}

struct Pooling {
  Dim rows, columns;
  int64_t window, stride, dilation, before, after;
};

// A fold over windows of the two last axes, whose places beyond the edges are the identity.
Tensor Pooled(ReduceOp op, const Tensor& x, const Pooling& p, DataType wide, const Expr& outside) {
  auto count = [&](const Dim& extent) {
    return FloorDiv(extent + (p.before + p.after - (p.window - 1) * p.dilation - 1), p.stride) + 1;
  };
  Dims dims = {x.dims()[0], count(p.rows), count(p.columns)};
  Dim extents[] = {p.window, p.window};
  return ComputeTensor("pooled", wide, dims, [&](Indices o) {
    return te::Reduce(op, extents, [&](Indices r) {
      std::vector<Expr> at = {o[0]};
      Expr inside;
      for (size_t i = 0; i < 2; ++i) {
        at.push_back(o[i + 1] * te::Index(p.stride) + r[i] * te::Index(p.dilation) - te::Index(p.before));
        Expr fits = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, at.back(), te::Index(0)),
                               te::Binary(BinaryOp::kLess, at.back(), te::DimValue(i == 0 ? p.rows : p.columns)));
        inside = inside ? te::Binary(BinaryOp::kAnd, inside, fits) : fits;
      }
      return te::Select(inside, te::Cast(wide, x(at)), outside);
    });
  });
}

// Sums of few rows of a matrix, by column, are no windows of its places.
TEST(MemoryBoundTest, ColumnsAreNoWindows) {
  for (int64_t columns : {3, 32}) {
    Tensor x = Input(0, "x", kFloat32, {Dim(32), Dim(columns)});
    for (const ScheduledKernel& kernel : CheckOnTargets({"sum", {x}, {Reduced(ReduceOp::kSum, x, 0, kFloat32)}}, {}))
      EXPECT_EQ(kernel.schedule.nests[0].form, schedule::NestForm::kColumns) << schedule::Describe(kernel.schedule);
  }
}

// Rows and columns of odd extents, shorter than a vector or longer than a block, and edges that hold whole windows.
TEST(MemoryBoundTest, FoldsOverWindows) {
  const double infinity = std::numeric_limits<double>::infinity();
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  const Pooling cases[] = {{19, 37, 3, 2, 1, 1, 1}, {7, 7, 3, 1, 1, 1, 1},   {5, 300, 2, 2, 1, 0, 0},
                           {9, 41, 5, 3, 1, 2, 2},  {12, 30, 3, 1, 2, 2, 2}, {12, 31, 3, 2, 2, 2, 1},
                           {4, 2, 3, 1, 1, 1, 1},   {6, 9, 3, 1, 1, 4, 4},   {3, 1300, 4, 1, 1, 0, 3},
                           {11, 13, 7, 4, 1, 3, 3}, {m, n, 3, 2, 1, 1, 1},   {m, n, 2, 1, 1, 0, 1}};
  Sample sample(15);
  for (const Pooling& p : cases) {
    for (DataType dtype : {kFloat32, kFloat64, kFloat16, kInt8}) {
      Tensor x = Input(0, "x", dtype, {Dim(3), p.rows, p.columns});
      Tensor folded[] = {
          Pooled(ReduceOp::kMaximum, x, p, dtype,
                 dtype.is_float() ? te::FloatConst(dtype, -infinity) : te::IntConst(dtype, -128)),
          Pooled(ReduceOp::kSum, x, p, dtype == kInt8 ? kInt32 : dtype, te::Const(dtype == kInt8 ? kInt32 : dtype, 0))};
      for (const Tensor& y : folded) {
        if (!sample.Takes()) continue;
        CheckOptions options{.threads = true};
        if (p.rows == m) options.symbol_values = {{1, 2}, {8, 8}, {5, 33}, {17, 1}};
        for (const ScheduledKernel& kernel : CheckOnTargets({"pool", {x}, {y}}, options))
          EXPECT_EQ(kernel.schedule.nests.back().form, schedule::NestForm::kWindows)
              << schedule::Describe(kernel.schedule);
      }
    }
  }
}

// Other values of the nest: what follows the fold, and what is folded, in the memory of an argument.
TEST(MemoryBoundTest, FoldsOverWindowsOfWhatIsComputed) {
  const Pooling p{17, 29, 3, 1, 1, 1, 1};
  Tensor x = Input(0, "x", kFloat32, {Dim(3), p.rows, p.columns}),
         z = Input(1, "z", kFloat32, {Dim(3), p.rows, p.columns});
  Tensor positive = ComputeTensor("positive", kFloat32, x.dims(), [&](Indices i) {
    return te::Binary(BinaryOp::kMaximum, x({i[0], i[1], i[2]}), te::Const(kFloat32, 0));
  });
  Tensor folded = Pooled(ReduceOp::kMaximum, positive, p, kFloat32,
                         te::FloatConst(kFloat32, -std::numeric_limits<double>::infinity()));
  Tensor sum = ComputeTensor("sum", kFloat32, x.dims(), [&](Indices i) {
    return folded({i[0], i[1], i[2]}) * te::Const(kFloat32, 0.5) + z({i[0], i[1], i[2]});
  });
  for (const ScheduledKernel& kernel : CheckOnTargets({"computed", {x, z}, {sum}}, {.threads = true}))
    EXPECT_EQ(schedule::Describe(kernel.schedule), "loops 1479: positive; windows 3x17x29: pooled, sum [3 steps by 1]");
}

// Results that are larger than the caches: rows that begin anywhere, and results in the place of an argument.
TEST(MemoryBoundTest, LargeResultsBypassTheCaches) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  Tensor x = Input(0, "x", kFloat64, {m, n});
  auto moved = [&](int64_t by) {
    return ComputeTensor("moved", kFloat64, {m, n}, [&](Indices i) {
      return x({i[0], te::Binary(BinaryOp::kMaximum, i[1] - te::Index(by), te::Index(0))}) + te::Const(kFloat64, 1);
    });
  };
  for (int64_t by : {0, 3}) {
    te::Computation computation{"moved", {x}, {moved(by)}};
    CheckOnTargets(computation, {.symbol_values = {{3, 349531}, {1, 100}}, .threads = by == 0});
  }
  auto streams = [&](const te::Computation& computation) {
    ScheduledKernel kernel = *ScheduleAndCompile(computation, {}, "x86-64-v3", {.keep_ir = true});
    return kernel.object.assembly.find("vmovntpd") != std::string::npos;
  };
  EXPECT_TRUE(streams({"moved", {x}, {moved(3)}}));
  Tensor small = Input(0, "small", kFloat64, {Dim(512), Dim(512)});
  Tensor next = ComputeTensor("next", kFloat64, small.dims(), [&](Indices i) { return small(i) + small(i); });
  EXPECT_FALSE(streams({"small", {small}, {next}}));
}

TEST(MemoryBoundTest, PowersOfSpecialValues) {
  Tensor x = Input(0, "x", kFloat32, {Dim(9)}), y = Input(1, "y", kFloat32, {Dim(9)});
  Tensor power = ComputeTensor("power", kFloat32, {Dim(9), Dim(9)},
                               [&](Indices i) { return te::Binary(BinaryOp::kPower, x({i[0]}), y({i[1]})); });
  float infinity = std::numeric_limits<float>::infinity();
  float special[] = {0, -0.0F, 1, -1, 2.5F, -3, infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  Literal values = Literal::FromValues<float>(kFloat32, {9}, special);
  CheckKernelOn({"power", {x, y}, {power}}, {values, values}, {.tolerance = 1e-6});
}

}  // namespace
}  // namespace rvm::codegen
