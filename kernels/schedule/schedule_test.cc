// The decisions of schedules, by target, as text.
#include "kernels/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/literal.h"
#include "kernels/schedule/vector_runs.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using Indices = std::span<const Expr>;

constexpr Target kWide{.has_vectors = true, .vector_bits = 512, .vector_registers = 32, .has_masks = true};
constexpr Target kMiddle{.has_vectors = true, .vector_bits = 256, .vector_registers = 16, .has_masks = true};
constexpr Target kNarrow{.has_vectors = true};
constexpr Target kGpu{.has_blocks = true};

std::string Text(const te::Computation& computation, std::vector<bool> constants, const Target& target) {
  absl::StatusOr<Schedule> schedule = MakeSchedule(computation, std::move(constants), target);
  return schedule.ok() ? Describe(*schedule) : std::string(schedule.status().message());
}

// b: [n, k] if `transposed`, else [k, n]. Elements of `dtype` are multiplied in `wide`.
te::Computation Product(const Dim& m, const Dim& n, const Dim& k, bool transposed, DataType dtype = kFloat32,
                        DataType wide = kFloat32) {
  Tensor a = Input(0, "a", dtype, {m, k}), b = Input(1, "b", dtype, transposed ? Dims{n, k} : Dims{k, n});
  Dim extents[] = {k};
  Tensor c = ComputeTensor("product", wide, {m, n}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      return te::Cast(wide, a({i[0], r[0]})) * te::Cast(wide, transposed ? b({i[1], r[0]}) : b({r[0], i[1]}));
    });
  });
  return {"product", {a, b}, {c}};
}

TEST(ScheduleTest, ProductsByTarget) {
  te::Computation constant = Product(64, 768, 512, true);
  EXPECT_EQ(Text(constant, {false, true}, kWide),
            "tiles 64x768: product [8x3 vectors of 16 packed, depth 512, unrolled 2]");
  EXPECT_EQ(Text(constant, {false, true}, kMiddle),
            "tiles 64x768: product [6x2 vectors of 8 packed, depth 512, unrolled 4]");
  EXPECT_EQ(Text(constant, {false, true}, kNarrow),
            "tiles 64x768: product [4x3 vectors of 4 packed, depth 512, unrolled 4]");
  EXPECT_EQ(Text(constant, {false, true}, Target{}), "reduce 64x768: product");
}

// Elements along short axes are computed at once if they share work, not if each has its own.
TEST(ScheduleTest, ShortAxesAtOnce) {
  Tensor x = Input(0, "x", kFloat32, {8, 64});
  auto text = [&](bool shares) {
    Tensor y = ComputeTensor("y", kFloat32, {3, 8, 64}, [&](Indices i) {
      auto is = [&](int64_t number) { return te::Binary(te::BinaryOp::kEqual, i[0], te::Index(number)); };
      Expr a = x({i[1], i[2]}), common = shares ? a * a * a * a * a * a : a;
      return te::Select(is(0), common + a, te::Select(is(1), common - a, common));
    });
    return Text({"y", {x}, {y}}, {}, kWide);
  };
  EXPECT_EQ(text(true), "loops 8x64: y [3 elements at once]");
  EXPECT_EQ(text(false), "loops 3x8x64: y");
}

// Stores bypass the caches where they are large, consecutive, and not hidden by the computation.
TEST(ScheduleTest, StreamedStores) {
  constexpr Target kStreams{
      .has_vectors = true, .vector_bits = 512, .vector_registers = 32, .has_masks = true, .has_streamed_stores = true};
  auto text = [](const Dims& dims, int functions, const Target& target) {
    Tensor x = Input(0, "x", kFloat32, dims);
    Tensor y = ComputeTensor("y", kFloat32, dims, [&](Indices i) {
      Expr value = x(i) + x(i);
      for (int n = 0; n < functions; ++n) value = te::Unary(te::UnaryOp::kSin, value);
      return value;
    });
    return Text({"y", {x}, {y}}, {}, target);
  };
  Dim n = Dim::Var(1, "n");
  EXPECT_EQ(text({4096, 4096}, 0, kStreams), "loops 16777216: y [streamed]");
  EXPECT_EQ(text({n, 4096}, 0, kStreams), "loops n * 4096: y [streamed if large]");
  EXPECT_EQ(text({64, 64}, 0, kStreams), "loops 4096: y");
  EXPECT_EQ(text({4096, 4096}, 4, kStreams), "loops 16777216: y");
  EXPECT_EQ(text({4096, 4096}, 0, kWide), "loops 16777216: y");
}

// A condition that chooses between reads, and is the same along the innermost axis, stands around its loop.
TEST(ScheduleTest, UnswitchedConditions) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  auto text = [&](size_t axis) {
    Tensor x = Input(0, "x", kFloat32, {m, m}), z = Input(1, "z", kFloat32, {n, n});
    Tensor y = ComputeTensor("y", kFloat32, {axis == 0 ? m + n : m, axis == 1 ? m + n : m}, [&](Indices i) {
      std::vector<Expr> at = {i[0], i[1]};
      at[axis] = at[axis] - te::DimValue(m);
      return te::Select(te::Binary(BinaryOp::kLess, i[axis], te::DimValue(m)), x(i), z(at));
    });
    return Text({"y", {x, z}, {y}}, {}, kWide);
  };
  EXPECT_EQ(text(0), "loops m + nxm: y [unswitched by 1]");
  EXPECT_EQ(text(1), "loops mxm + n: y");
}

TEST(ScheduleTest, ColumnsOfRows) {
  Tensor x = Input(0, "x", kFloat32, {96, 640});
  Dim extents[] = {96};
  Tensor y = ComputeTensor("y", kFloat32, {640}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return x({r[0], i[0]}); });
  });
  EXPECT_EQ(Text({"y", {x}, {y}}, {}, kWide), "columns 640: y [blocks of 256, 8 rows at once]");
}

// Windows on an image with its channels last: each vector of channels is folded in a register.
TEST(ScheduleTest, ColumnsOfFewRows) {
  auto text = [](int64_t window) {
    Tensor x = Input(0, "x", kFloat32, {56, 56, 16});
    Dim extents[] = {window, window};
    const int64_t size = 57 - window;
    Tensor y = ComputeTensor("y", kFloat32, {size, size, 16}, [&](Indices i) {
      return te::Reduce(ReduceOp::kMaximum, extents, [&](Indices r) { return x({i[0] + r[0], i[1] + r[1], i[2]}); });
    });
    return Text({"y", {x}, {y}}, {}, kWide);
  };
  EXPECT_EQ(text(5), "columns 52x52x16: y [all steps unrolled]");
  EXPECT_EQ(text(6), "columns 51x51x16: y [blocks of 256, 8 rows at once]");
}

TEST(ScheduleTest, ProductsByOperand) {
  EXPECT_EQ(Text(Product(64, 96, 80, false), {}, kWide),
            "tiles 64x96: product [8x3 vectors of 16 in place, rows in 4 parts, depth 80, unrolled 2]");
  EXPECT_EQ(Text(Product(64, 90, 80, false), {}, kWide),
            "tiles 64x90: product [8x3 vectors of 16 in place, overlapping, rows in 4 parts, depth 80, unrolled 2]");
  EXPECT_EQ(Text(Product(64, 96, 80, true), {}, kWide),
            "transposed 2x80x48: panels; tiles 64x96: product [8x3 vectors of 16 from panels, rows in 4 parts, depth "
            "80, unrolled 2]");
  // One row: no copy of the matrix pays.
  EXPECT_EQ(Text(Product(1, 96, 80, false), {}, kWide),
            "tiles 96: product [1x6 vectors of 16 in place, depth 80, 2 strands, unrolled 4]");
  EXPECT_EQ(Text(Product(1, 96, 80, true), {}, kWide),
            "tiles 96: product [1x1 vectors of 16, depth 80, rows along the depth]");
  EXPECT_EQ(Text(Product(1, 96, 84, true), {}, kWide), "reduce 96: product");
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n"), k = Dim::Var(3, "k");
  EXPECT_EQ(Text(Product(m, n, k, false), {}, kWide),
            "tiles mxn: product [6x4 vectors of 16 in place, masked, depth k, unrolled 2]");
}

// The last panel ends with the last column.
TEST(ScheduleTest, PanelsOverlap) {
  EXPECT_EQ(Text(Product(64, 90, 80, true), {}, kWide),
            "transposed 2x80x48: panels; tiles 64x90: product [8x3 vectors of 16 from panels, overlapping, rows in 4 "
            "parts, depth 80, "
            "unrolled 2]");
}

TEST(ScheduleTest, RowsThatShareCacheSetsAreFew) {
  EXPECT_EQ(Text(Product(64, 512, 1024, false), {}, kWide),
            "tiles 64x512: product [6x4 vectors of 16 in place, rows in 2 parts, depth 1024, unrolled 2]");
}

TEST(ScheduleTest, ManyRowsPayForACopyIntoPanels) {
  EXPECT_EQ(Text(Product(512, 512, 1024, false), {}, kWide),
            "loops 8x1024x64: panels; tiles 512x512: product [6x4 vectors of 16 from panels, rows in 2 parts, depth "
            "1024, unrolled 2]");
  // Few products: the copy is a large part of them.
  EXPECT_EQ(Text(Product(512, 512, 32, false), {}, kWide),
            "tiles 512x512: product [6x4 vectors of 16 in place, rows in 2 parts, depth 32, unrolled 2]");
}

struct ConvolutionShape {
  int64_t channels = 16, filters = 32, groups = 1, size = 14, window = 3, stride = 1, dilation = 1, pad = 1;
};

te::Computation Convolution(const ConvolutionShape& s) {
  Tensor x = Input(0, "x", kFloat32, {Dim(1), Dim(s.channels), Dim(s.size), Dim(s.size)});
  Tensor w = Input(1, "w", kFloat32, {Dim(s.filters), Dim(s.channels / s.groups), Dim(s.window), Dim(s.window)});
  int64_t out = (s.size + 2 * s.pad - (s.window - 1) * s.dilation - 1) / s.stride + 1;
  Dim extents[] = {s.channels / s.groups, s.window, s.window};
  Tensor y = ComputeTensor("conv", kFloat32, {Dim(1), Dim(s.filters), Dim(out), Dim(out)}, [&](Indices o) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      Expr group = te::Binary(te::BinaryOp::kFloorDivide, o[1], te::Index(s.filters / s.groups)), inside;
      std::vector<Expr> at = {o[0], group * te::Index(s.channels / s.groups) + r[0]};
      if (s.groups == 1) at[1] = r[0];
      for (size_t a : {2, 3}) {
        at.push_back(o[a] * te::Index(s.stride) + r[a - 1] * te::Index(s.dilation) - te::Index(s.pad));
        Expr fits = te::Binary(te::BinaryOp::kAnd, te::Binary(te::BinaryOp::kGreaterEqual, at[a], te::Index(0)),
                               te::Binary(te::BinaryOp::kLess, at[a], te::Index(s.size)));
        inside = inside ? te::Binary(te::BinaryOp::kAnd, inside, fits) : fits;
      }
      Expr value = s.pad == 0 ? x(at) : te::Select(inside, x(at), te::Const(kFloat32, 0));
      return value * w({o[1], r[0], r[1], r[2]});
    });
  });
  return {"convolution", {x, w}, {y}};
}

TEST(ScheduleTest, ConvolutionsReadAPaddedCopyAndPackedFilters) {
  EXPECT_EQ(Text(Convolution({}), {false, true}, kWide),
            "loops 16x16x16: padded [in 9 ranges]; tiles 32x14x14: conv [14x2 vectors of 16 packed, inner 14, depth "
            "16x3x3, stored "
            "transposed]");
  EXPECT_EQ(Text(Convolution({.groups = 2, .stride = 2}), {false, true}, kMiddle),
            "loops 16x15x15: padded [in 4 ranges]; tiles 2x16x7x7: conv [4x2 vectors of 8 packed, outer 2, inner 7, "
            "depth 8x3x3, stored transposed]");
}

// Sums of few rows take more vectors; windows that slide along the rows of a tile are not unrolled.
TEST(ScheduleTest, TilesFitRegistersRowsAndWindows) {
  auto text = [](const ConvolutionShape& shape) { return Text(Convolution(shape), {false, true}, kMiddle); };
  EXPECT_EQ(text({.channels = 64, .filters = 48, .size = 30}),
            "loops 64x32x32: padded [in 9 ranges]; tiles 48x30x30: conv [6x2 vectors of 8 packed, inner 30, depth "
            "64x3x3, stored transposed]");
  // Rows in fours are stored in whole vectors.
  EXPECT_EQ(text({.channels = 64, .filters = 48, .size = 28}),
            "loops 64x30x30: padded [in 9 ranges]; tiles 48x28x28: conv [4x3 vectors of 8 packed, inner 28, depth "
            "64x3x3, stored transposed]");
  EXPECT_EQ(text({.channels = 64, .filters = 48, .size = 4}),
            "loops 64x6x6: padded [in 9 ranges]; tiles 48x4x4: conv [4x3 vectors of 8 packed, inner 4, depth 64x3x3, "
            "stored transposed]");
  // Every other row reads what none of the others does.
  EXPECT_EQ(text({.channels = 64, .filters = 48, .size = 28, .window = 2, .stride = 2, .pad = 0}),
            "tiles 48x14x14: conv [4x3 vectors of 8 packed, inner 14, depth 64x2x2, unrolled 2, stored transposed]");
}

// int32 sums of products of bytes. A pair of the broadcast factor is one load of a copy in int16, if several vectors
// are multiplied by it.
TEST(ScheduleTest, PairsOfBytesAreWidenedOnce) {
  Target target = kMiddle;
  target.has_pair_products = true;
  auto text = [&](int64_t columns) {
    Tensor a = Input(0, "a", kUInt8, {24, 64}), b = Input(1, "b", kInt8, {columns, 64});
    Dim extents[] = {64};
    Tensor c = ComputeTensor("product", kInt32, {24, columns}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
        return te::Cast(kInt32, a({i[0], r[0]})) * te::Cast(kInt32, b({i[1], r[0]}));
      });
    });
    return Text({"product", {a, b}, {c}}, {false, true}, target);
  };
  EXPECT_EQ(text(16), "tiles 24x16: product [6x2 vectors of 8 packed, rows in 2 parts, depth 64, unrolled 4]");
  EXPECT_EQ(text(32),
            "loops 1536: a; tiles 24x32: product [6x2 vectors of 8 packed, rows in 2 parts, depth 64, unrolled 4]");
  // A product takes a register before it is added.
  EXPECT_EQ(text(8), "tiles 24x8: product [12x1 vectors of 8 packed, depth 64, unrolled 4]");
}

// With bytes in fours a copy has the channels of a pixel side by side, in rows without ends between them, and the
// vectors are pixels.
TEST(ScheduleTest, VectorsOfPixelsInFours) {
  Target target = kWide;
  target.has_pair_products = target.has_byte_products = true;
  auto text = [&](int64_t size) {
    Tensor x = Input(0, "x", kUInt8, {8, size, size}), w = Input(1, "w", kInt8, {32, 8});
    Dim extents[] = {8};
    Tensor y = ComputeTensor("y", kInt32, {32, size, size}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
        return te::Cast(kInt32, x({r[0], i[1], i[2]})) * te::Cast(kInt32, w({i[0], r[0]}));
      });
    });
    return Text({"y", {x, w}, {y}}, {false, true}, target);
  };
  EXPECT_EQ(text(14), "loops 2x196x4: pairs; tiles 32x196: y [11x2 vectors of 16 in place, overlapping, depth 2x4]");
  // Sums of few pixels would leave lanes idle: these are stored transposed.
  EXPECT_EQ(text(5), "loops 2x25x4: pairs; tiles 32x25: y [13x2 vectors of 16 packed, depth 2x4, stored transposed]");
}

// The rows of a padded copy are divided into whole vectors, and what is left into shorter ones.
TEST(ScheduleTest, ShortRowsAreRunsOfVectors) {
  auto lanes = [](const ConvolutionShape& shape, const Target& target) {
    absl::StatusOr<Schedule> schedule = MakeSchedule(Convolution(shape), {false, true}, target);
    RVM_CHECK(schedule.ok(), "a convolution has a schedule");
    return schedule->nests[0].run_lanes;
  };
  EXPECT_EQ(lanes({.size = 28}, kWide), 16);
  EXPECT_EQ(lanes({.size = 28}, kMiddle), 8);
  EXPECT_EQ(lanes({.size = 400}, kWide), 0);
  auto runs = [](int64_t count, int64_t lanes) {
    std::string text;
    for (auto [first, end] : VectorRuns(count, lanes)) absl::StrAppend(&text, first, "-", end, " ");
    return text;
  };
  EXPECT_EQ(runs(29, 8), "0-24 24-28 28-29 ");
  EXPECT_EQ(runs(7, 16), "0-4 4-6 6-7 ");
  EXPECT_EQ(runs(32, 16), "0-32 ");
  EXPECT_EQ(runs(0, 16), "");
}

TEST(ScheduleTest, PointwiseConvolutionsAreProductsOfPlanes) {
  auto text = [](int64_t channels, int64_t size) {
    return Text(Convolution({.channels = channels, .size = size, .window = 1, .pad = 0}), {false, true}, kWide);
  };
  EXPECT_EQ(text(80, 28), "tiles 32x28x28: conv [14x2 vectors of 16 packed, inner 28, depth 80, stored transposed]");
  EXPECT_EQ(text(80, 7), "tiles 32x49: conv [13x2 vectors of 16 packed, depth 80, stored transposed]");
  EXPECT_EQ(text(16, 14), "tiles 32x196: conv [11x2 vectors of 16 in place, overlapping, depth 16, unrolled 2]");
  // Rows of a large image are stored in long pieces.
  EXPECT_EQ(Text(Convolution({.channels = 16, .size = 112, .window = 1, .pad = 0}), {false, true}, kMiddle),
            "tiles 32x12544: conv [4x3 vectors of 8 in place, overlapping, 10 panels at once, depth 16, unrolled 4]");
}

TEST(ScheduleTest, DeepConvolutionsReadRowsFromPanels) {
  EXPECT_EQ(
      Text(Convolution({.channels = 320, .filters = 256, .size = 7, .window = 1, .pad = 0}), {false, true}, kMiddle),
      "loops 9x320x6: row_panels; tiles 256x49: conv [6x2 vectors of 8 packed, rows from panels, depth 320, unrolled "
      "4, "
      "stored transposed]");
}

TEST(ScheduleTest, ShallowConvolutionsReadColumnsApart) {
  EXPECT_EQ(Text(Convolution({.channels = 3, .size = 225, .stride = 2}), {false, true}, kMiddle),
            "loops 3x227x227: padded [in 9 ranges]; tiles 32x113x113: conv [11x1 vectors of 8 in place, overlapping, "
            "columns 2 apart, 9 panels at once, outer 113, depth 3x3x3, unrolled 3]");
}

TEST(ScheduleTest, DepthwiseConvolutionsReadRowsAndColumnsOfTheImage) {
  EXPECT_EQ(Text(Convolution({.channels = 32, .groups = 32, .size = 28, .stride = 2}), {false, true}, kWide),
            "rows by 4 {loops 32x29x29: padded [in 4 ranges]; tiles 32x14x14: conv [14x1 vectors of 16 in place, "
            "masked, columns 2 apart, outer 32, depth 3x3, rows share a window of 3]}");
  // The padded copy has the even columns of a row, then the odd ones.
  EXPECT_EQ(Text(Convolution({.channels = 32, .groups = 32, .size = 28, .window = 5, .stride = 2, .pad = 2}),
                 {false, true}, kWide),
            "rows by 4 {loops 32x31x2x16: padded [in 9 ranges]; tiles 32x14x14: conv [14x1 vectors of 16 in place, "
            "masked, outer 32, depth 5x5, rows share a window of 5]}");
  EXPECT_EQ(Text(Convolution({.channels = 32, .groups = 32, .size = 28, .stride = 2}), {false, true}, kMiddle),
            "rows by 4 {loops 32x29x2x15: padded [in 6 ranges]; tiles 32x14x14: conv [7x1 vectors of 8 in place, "
            "overlapping, outer 32, depth 3x3, rows share a window of 3]}");
  // Rows shorter than half of the widest vectors take narrower ones.
  EXPECT_EQ(Text(Convolution({.channels = 32, .groups = 32, .size = 7}), {false, true}, kWide),
            "rows by 50 {loops 32x9x9: padded [in 9 ranges]; tiles 32x7x7: conv [7x1 vectors of 8 in place, masked, "
            "outer 32, depth 3x3, rows share a window of 3]}");
  // With windows of more positions than registers, each row loads its own vectors.
  EXPECT_EQ(Text(Convolution({.channels = 32, .groups = 32, .size = 28, .window = 9, .pad = 4}), {false, true}, kWide),
            "rows by 3 {loops 32x36x36: padded [in 9 ranges]; tiles 32x28x28: conv [14x1 vectors of 16 in place, "
            "overlapping, outer 32, depth 9x9, unrolled 4]}");
  // Few channels are not enough to share among threads.
  EXPECT_EQ(Text(Convolution({.channels = 8, .filters = 8, .groups = 8, .size = 28}), {false, true}, kMiddle),
            "loops 8x30x30: padded [in 9 ranges]; tiles 8x28x28: conv [10x1 vectors of 8 in place, overlapping, outer "
            "8, depth 3x3, rows share a window of 3]");
}

// Sums of x[c, q - j] * w[c, f, j * 2 + p] at position q * 2 + p: a transposed convolution by phases.
TEST(ScheduleTest, PhasesAreSplitFromTheirPositions) {
  constexpr int64_t kSize = 28, kChannels = 8, kFilters = 32;
  Tensor x = Input(0, "x", kFloat32, {Dim(kChannels), Dim(kSize)});
  Tensor w = Input(1, "w", kFloat32, {Dim(kChannels), Dim(kFilters), Dim(4)});
  Dim extents[] = {kChannels, 2};
  Tensor y = ComputeTensor("phases", kFloat32, {Dim(kFilters), Dim(2 * kSize)}, [&](Indices o) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      Expr at = te::Binary(te::BinaryOp::kFloorDivide, o[1], te::Index(2)) - r[1];
      Expr tap = r[1] * te::Index(2) + te::Binary(te::BinaryOp::kFloorMod, o[1], te::Index(2));
      Expr inside = te::Binary(te::BinaryOp::kGreaterEqual, at, te::Index(0));
      return te::Select(inside, x({r[0], at}), te::Const(kFloat32, 0)) * w({r[0], o[0], tap});
    });
  });
  EXPECT_EQ(
      Text({"transposed", {x, w}, {y}}, {false, true}, kWide),
      "loops 8x29: padded [in 2 ranges]; tiles 32x28x2: phases [14x2 vectors of 16 packed, outer 2, depth 8x2, stored "
      "transposed]");
}

TEST(ScheduleTest, PackedLayoutsHoldEachElementOnce) {
  absl::StatusOr<Schedule> schedule = MakeSchedule(Convolution({.filters = 24}), {false, true}, kWide);
  ASSERT_TRUE(schedule.ok());
  const PackedLayout* layout = schedule->Layout(1);
  ASSERT_NE(layout, nullptr);
  std::vector<float> values(24 * 16 * 9);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  Literal packed = Pack(*layout, Literal::FromValues<float>(kFloat32, {24, 16, 3, 3}, values));
  EXPECT_EQ(packed.shape(), (Shape{1, 144, 32}));
  // Filter 5, channel 2, tap (1, 2); then a column of padding.
  EXPECT_EQ(packed.DoubleAt((2 * 9 + 5) * 32 + 5), 5 * 144 + 2 * 9 + 5 + 1);
  EXPECT_EQ(packed.DoubleAt((2 * 9 + 5) * 32 + 24), 0);
}

// Returns the reduction of a matrix over one of its axes, or over both.
std::string ReducedOnGpu(ReduceOp op, DataType dtype, int64_t rows, int64_t columns, std::vector<size_t> axes) {
  Tensor x = Input(0, "x", dtype, {rows, columns});
  Dims kept;
  std::vector<Dim> extents;
  for (size_t axis = 0; axis < 2; ++axis) {
    bool is_reduced = std::find(axes.begin(), axes.end(), axis) != axes.end();
    is_reduced ? extents.push_back(x.dims()[axis]) : kept.push_back(x.dims()[axis]);
  }
  Tensor y = ComputeTensor("y", IsArg(op) ? kInt64 : dtype, kept, [&](Indices i) {
    return te::Reduce(op, extents, [&](Indices r) {
      return extents.size() == 2 ? x({r[0], r[1]}) : axes[0] == 0 ? x({r[0], i[0]}) : x({i[0], r[0]});
    });
  });
  return Text({"reduced", {x}, {y}}, {}, kGpu);
}

TEST(ScheduleTest, GpuReductionsInParts) {
  auto text = [](int64_t rows, int64_t columns, std::vector<size_t> axes, ReduceOp op = ReduceOp::kSum,
                 DataType dtype = kFloat32) { return ReducedOnGpu(op, dtype, rows, columns, std::move(axes)); };
  EXPECT_EQ(text(1024, 1024, {0, 1}),
            "rows of 4096 by 128 threads [8 vectors of 4 each] {teams 256: y_parts}; "
            "rows of 256 by 32 threads [2 vectors of 4 each] {teams 1: y}");
  EXPECT_EQ(text(1 << 14, 1 << 12, {0, 1}),
            "rows of 131072 by 128 threads [256 vectors of 4 each, 8 at once] {teams 512: y_parts}; "
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 1: y}");
  EXPECT_EQ(text(4, 100003, {1}, ReduceOp::kMaximum),
            "rows of 4096 by 128 threads [32 elements each] {teams 25x4: y_parts}; teams 4: y [4 warps each]");
  EXPECT_EQ(text(10000, 100, {0}), "teams 79x100: y_parts [4 warps each]; teams 100: y [4 warps each]");
  EXPECT_EQ(text(16384, 1024, {0}), "reduce 128x1024: y_parts; teams 1024: y [4 warps each]");
  // Enough blocks, or little to do; results of 16 bits, and indices.
  EXPECT_EQ(text(64, 1 << 20, {1}), "rows of 1048576 by 128 threads [2048 vectors of 4 each, 8 at once] {teams 64: y}");
  EXPECT_EQ(text(100, 100, {0, 1}), "rows of 10000 by 128 threads [20 vectors of 4 each, edges] {teams 1: y}");
  EXPECT_EQ(text(1024, 1024, {0, 1}, ReduceOp::kSum, kFloat16),
            "rows of 1048576 by 128 threads [1024 vectors of 8 each, 4 at once] {teams 1: y}");
  EXPECT_EQ(text(1, 1 << 20, {1}, ReduceOp::kArgMax),
            "rows of 1048576 by 128 threads [2048 vectors of 4 each, 8 at once] {teams 1: y}");
}

// e^x over its sum, of each row.
te::Computation Softmax(const Dim& rows, const Dim& columns, DataType dtype = kFloat32) {
  Tensor x = Input(0, "x", dtype, {rows, columns});
  Dim extents[] = {columns};
  auto reduced = [&](ReduceOp op, const char* name, const Tensor& of) {
    return ComputeTensor(name, dtype, {rows}, [&](Indices i) {
      return te::Reduce(op, extents, [&](Indices r) { return of({i[0], r[0]}); });
    });
  };
  Tensor most = reduced(ReduceOp::kMaximum, "most", x);
  Tensor e = ComputeTensor("e", dtype, {rows, columns},
                           [&](Indices i) { return te::Unary(te::UnaryOp::kExp, x(i) - most({i[0]})); });
  Tensor sum = reduced(ReduceOp::kSum, "sum", e);
  Tensor y = ComputeTensor("y", dtype, {rows, columns},
                           [&](Indices i) { return te::Binary(te::BinaryOp::kDivide, e(i), sum({i[0]})); });
  return {"softmax", {x}, {y}};
}

TEST(ScheduleTest, GpuRowsInRegisters) {
  auto text = [](const Dim& rows, const Dim& columns, DataType dtype = kFloat32) {
    return Text(Softmax(rows, columns, dtype), {}, kGpu);
  };
  // A warp for each of many rows, or of short ones; else a block.
  EXPECT_EQ(text(16384, 1024),
            "rows of 1024 by 32 threads [8 vectors of 4 each] {teams 16384: most; loops 16384x1024: e; "
            "teams 16384: sum; loops 16384x1024: y}");
  EXPECT_EQ(text(16, 128),
            "rows of 128 by 32 threads [1 vectors of 4 each] {teams 16: most; loops 16x128: e; teams 16: sum; "
            "loops 16x128: y}");
  Dim n = Dim::Var(1, "n");
  // Narrower vectors where all threads then have as many.
  EXPECT_EQ(text(n, 768),
            "rows of 768 by 128 threads [3 vectors of 2 each] {teams n: most; loops nx768: e; teams n: sum; "
            "loops nx768: y}");
  EXPECT_EQ(text(300, 1000),
            "rows of 1000 by 128 threads [2 vectors of 4 each, edges] {teams 300: most; loops 300x1000: e; "
            "teams 300: sum; loops 300x1000: y}");
  EXPECT_EQ(text(300, 1023, kBFloat16),
            "rows of 1023 by 128 threads [8 elements each, edges] {teams 300: most; loops 300x1023: e; "
            "teams 300: sum; loops 300x1023: y}");
  EXPECT_EQ(text(64, 2048, kBFloat16),
            "rows of 2048 by 128 threads [2 vectors of 8 each] {teams 64: most; loops 64x2048: e; teams 64: sum; "
            "loops 64x2048: y}");
  // Too long to keep, or of an unknown length.
  EXPECT_EQ(
      text(64, 16384),
      "rows of 16384 by 128 threads [32 vectors of 4 each, 8 at once] {teams 64: most}; loops 64x16384: e [4 "
      "neighbours "
      "at once]; rows of 16384 by 128 threads [32 vectors of 4 each, 8 at once] {teams 64: sum}; loops 64x16384: y [4 "
      "neighbours at once]");
  EXPECT_EQ(text(64, n),
            "rows by 1 {teams 64: most [128 neighbours each]; loops 64xn: e; teams 64: sum [128 neighbours each]; "
            "loops 64xn: y}");
}

// Sums of products whose slices of `units` another tensor combines, as gates.
te::Computation Gates(const Dim& batch, int64_t units, int64_t gates, int64_t shift = 0) {
  Tensor h = Input(0, "h", kFloat32, {batch, units}), w = Input(1, "w", kFloat32, {units * gates, units});
  Dim extents[] = {units};
  Tensor sums = ComputeTensor("sums", kFloat32, {batch, units * gates}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return h({i[0], r[0]}) * w({i[1], r[0]}); });
  });
  Tensor y = ComputeTensor("y", kFloat32, {batch, units}, [&](Indices i) {
    Expr product = te::Const(kFloat32, 1);
    for (int64_t gate = 0; gate < gates; ++gate) {
      Expr at = i[1] + te::Index(gate * units + (gate == 1 ? shift : 0));
      product = product * te::Unary(te::UnaryOp::kTanh, sums({i[0], at}));
    }
    return product;
  });
  return {"gates", {h, w}, {y}};
}

TEST(ScheduleTest, GpuGatesWithTheirProducts) {
  EXPECT_EQ(Text(Gates(1, 512, 4), {}, kGpu),
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 512: sums; teams 512: sums; teams 512: sums; "
            "teams 512: sums; loops 512: y}");
  EXPECT_EQ(Text(Gates(3, 512, 2), {}, kGpu),
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 3x512: sums; teams 3x512: sums; loops 3x512: y}");
  // Other elements than those of slices.
  EXPECT_EQ(Text(Gates(1, 512, 4, -1), {}, kGpu),
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 2048: sums}; loops 512: y");
}

TEST(ScheduleTest, GpuProductsInTilesOfBlocks) {
  auto text = [](const Dim& m, const Dim& n, const Dim& k, bool transposed) {
    return Text(Product(m, n, k, transposed), {}, kGpu);
  };
  EXPECT_EQ(text(1024, 1024, 512, true),
            "block tiles 1024x1024: product [128x64 by 8x8, depth 8; rows vectors of 4 along the depth + 4; columns "
            "vectors of 4 along the depth + 4]");
  EXPECT_EQ(text(256, 256, 256, false),
            "block tiles 256x256: product [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4; columns "
            "vectors of 4 along lines]");
  // Odd extents align nothing but the last step of the depth, which is filled with zeros.
  EXPECT_EQ(text(1023, 513, 63, false),
            "block tiles 1023x513: product [64x64 by 8x4, depth 16 with zeros; rows along the depth + 4, edges; "
            "columns along lines + 16, edges]");
  EXPECT_EQ(text(16, 16384, 64, true),
            "block tiles 16x16384: product [16x128 by 4x4, depth 16; rows vectors of 2 along the depth + 4; columns "
            "vectors of 4 along the depth + 4]");
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n"), k = Dim::Var(3, "k");
  // Unknown numbers of rows and columns decide at run time.
  EXPECT_EQ(text(m, 512, 64, true),
            "block tiles mx512: product [64x32 by 4x4, depth 16; rows vectors of 4 along the depth + 4, edges; columns "
            "vectors of 4 along the depth + 4] or [32 neighbours each]");
  EXPECT_EQ(text(m, n, k, false),
            "block tiles mxn: product [64x32 by 4x4, depth 16 with zeros; rows along the depth + 4, edges; columns "
            "along lines + 16, edges] or [32 neighbours each]");
}

TEST(ScheduleTest, GpuProductsByTensorCores) {
  constexpr Target k75{.has_blocks = true, .tensor_cores = 75}, k80{.has_blocks = true, .tensor_cores = 80},
      kTf32{.has_blocks = true, .tensor_cores = 80, .rounds_to_tf32 = true};
  auto text = [](const Dim& m, const Dim& n, const Dim& k, bool transposed, DataType dtype, const Target& target) {
    return Text(Product(m, n, k, transposed, dtype, dtype.is_float() ? kFloat32 : kInt32), {}, target);
  };
  EXPECT_EQ(text(4096, 4096, 4096, true, kFloat16, k75),
            "block tiles 4096x4096: product [128x64 by 8x8, mma 16x8x8 of float16, depth 32; rows "
            "vectors of 8 along the depth by line + 4; columns vectors of 8 along the depth by line + 4]");
  EXPECT_EQ(text(4096, 4096, 4096, true, kBFloat16, k80),
            "block tiles 4096x4096: product [128x64 by 8x8, mma 16x8x16 of bfloat16, depth 32; rows "
            "vectors of 8 along the depth by line + 4; columns vectors of 8 along the depth by line + 4]");
  EXPECT_EQ(text(256, 256, 256, false, kFloat16, k80),
            "block tiles 256x256: product [32x32 by 2x4, mma 16x8x16 of float16, depth 64; rows "
            "vectors of 8 along the depth by line + 4; columns vectors of 4 along lines + 8]");
  EXPECT_EQ(text(1023, 513, 63, false, kFloat16, k80),
            "block tiles 1023x513: product [64x64 by 4x8, mma 16x8x16 of float16, depth 16 with zeros; rows "
            "along the depth by line + 4, edges; columns along lines + 8, edges]");
  EXPECT_EQ(text(256, 256, 256, true, kInt8, k75),
            "block tiles 256x256: product [32x32 by 2x4, mma 8x8x16 of int8, depth 128; rows "
            "vectors of 16 along the depth by line + 4; columns vectors of 16 along the depth by line + 4]");
  EXPECT_EQ(text(256, 256, 256, false, kUInt8, k80),
            "block tiles 256x256: product [32x32 by 2x4, mma 16x8x32 of uint8, depth 64; rows "
            "vectors of 16 along the depth by line + 4; columns vectors of 4 along lines + 8]");
  EXPECT_EQ(text(256, 256, 256, true, kFloat32, kTf32),
            "block tiles 256x256: product [32x32 by 2x4, mma 16x8x8 of tf32, depth 32; rows "
            "vectors of 4 along the depth by line + 4; columns vectors of 4 along the depth by line + 4]");
  // Not without such an instruction, and not unless it is asked for.
  EXPECT_EQ(text(256, 256, 256, true, kBFloat16, k75), text(256, 256, 256, true, kBFloat16, kGpu));
  EXPECT_EQ(text(256, 256, 256, true, kFloat32, k80), text(256, 256, 256, true, kFloat32, kGpu));
}

TEST(ScheduleTest, GpuProductsTooSmallForTiles) {
  EXPECT_EQ(Text(Product(8, 4096, 512, true), {}, kGpu),
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 8x4096: product}");
  EXPECT_EQ(Text(Product(16, 32, 512, true), {}, kGpu),
            "rows of 512 by 32 threads [4 vectors of 4 each] {teams 16x32: product}");
  EXPECT_EQ(Text(Product(64, 64, 7, true), {}, kGpu), "reduce 64x64: product");
}

// The sum over the last axes of two tensors, whose first axes are batches.
Tensor BatchProduct(const Tensor& a, const Tensor& b) {
  Dim extents[] = {a.dims()[2]};
  return ComputeTensor("batched", kFloat32, {a.dims()[0], a.dims()[1], b.dims()[1]}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return a({i[0], i[1], r[0]}) * b({i[0], i[2], r[0]}); });
  });
}

// Returns the columns of a matrix divided among heads, which come first.
Tensor Heads(const Tensor& x, const Dim& size) {
  const Dim count = FloorDiv(x.dims()[1], size);
  Tensor split = ComputeTensor("split", kFloat32, {x.dims()[0], count, size}, [&](Indices i) {
    Expr at = (i[0] * te::DimValue(count) + i[1]) * te::DimValue(size) + i[2], columns = te::DimValue(x.dims()[1]);
    return x({te::Binary(BinaryOp::kFloorDivide, at, columns), te::Binary(BinaryOp::kFloorMod, at, columns)});
  });
  return ComputeTensor("heads", kFloat32, {count, x.dims()[0], size},
                       [&](Indices i) { return split({i[1], i[0], i[2]}); });
}

TEST(ScheduleTest, GpuProductsReadTranspositions) {
  auto text = [](const Dim& rows) {
    te::Computation product = Product(rows, 256, 64, true);
    Tensor bias = Input(2, "bias", kFloat32, {256}), keys = Input(3, "keys", kFloat32, {rows, 256});
    Tensor sum =
        ComputeTensor("sum", kFloat32, {rows, 256}, [&](Indices i) { return product.outputs[0](i) + bias({i[1]}); });
    return Text(
        {"scores", {product.inputs[0], product.inputs[1], bias, keys}, {BatchProduct(Heads(sum, 32), Heads(keys, 32))}},
        {}, kGpu);
  };
  EXPECT_EQ(text(64),
            "block tiles 64x256: product, sum [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4; "
            "columns vectors of 4 along the depth + 4]; block tiles 8x64x64: batched [32x32 by 4x2, depth 32; "
            "rows vectors of 4 along the depth + 4; columns vectors of 4 along the depth + 4; outer 8]");
  EXPECT_EQ(text(Dim::Var(1, "m")),
            "block tiles mx256: product, sum [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4, "
            "edges; columns vectors of 4 along the depth + 4] or [32 neighbours each]; block tiles 8xmxm: batched"
            " [128x64 by 8x8, depth 8; rows vectors of 4 along the depth + 4, edges; columns vectors of 4 along "
            "the depth + 4, edges; outer 8] or [32 neighbours each]");
}

TEST(ScheduleTest, GpuProductsStoreTranspositions) {
  auto text = [](const Dim& rows, std::vector<size_t> axes, bool is_read_twice) {
    Tensor a = Input(0, "a", kFloat32, {8, rows, 64}), b = Input(1, "b", kFloat32, {8, 32, 64});
    Tensor c = BatchProduct(a, b);
    Tensor doubled = ComputeTensor("doubled", kFloat32, c.dims(), [&](Indices i) { return c(i) + c(i); });
    Dims dims;
    for (size_t axis : axes) dims.push_back(c.dims()[axis]);
    Tensor moved = ComputeTensor("moved", kFloat32, dims, [&](Indices i) {
      std::vector<Expr> at(3);
      for (size_t k = 0; k < 3; ++k) at[axes[k]] = i[k];
      return doubled(at);
    });
    std::vector<Tensor> outputs = {moved};
    if (is_read_twice) outputs.push_back(doubled);
    return Text({"moved", {a, b}, outputs}, {}, kGpu);
  };
  EXPECT_EQ(text(64, {1, 0, 2}, false),
            "block tiles 64x8x32: batched, doubled [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + "
            "4; columns vectors of 4 along the depth + 4; outer 8]");
  EXPECT_EQ(text(Dim::Var(1, "m"), {1, 0, 2}, false),
            "block tiles mx8x32: batched, doubled [32x32 by 4x2, depth 32; rows along the depth + 4, edges; "
            "columns vectors of 4 along the depth + 4; outer 8] or [32 neighbours each]");
  // The columns of a product may be its rows.
  EXPECT_EQ(text(64, {0, 2, 1}, false),
            "block tiles 8x32x64: batched, doubled [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + "
            "4; columns vectors of 4 along the depth + 4; outer 8]");
  // Heads last would be stored far apart; and what is read at both places is stored once.
  EXPECT_EQ(text(64, {1, 2, 0}, false),
            "block tiles 8x64x32: batched, doubled [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + "
            "4; columns vectors of 4 along the depth + 4; outer 8]; loops 64x32x8: moved");
  EXPECT_EQ(text(64, {1, 0, 2}, true),
            "block tiles 8x64x32: batched, doubled [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + "
            "4; columns vectors of 4 along the depth + 4; outer 8]; loops 64x8x32: moved");
}

// A reshape that joins what another one split costs nothing.
TEST(ScheduleTest, GpuProductsReadJoinedHeads) {
  Tensor a = Input(0, "a", kFloat32, {8, 64, 64}), b = Input(1, "b", kFloat32, {8, 32, 64}),
         w = Input(2, "w", kFloat32, {128, 256});
  Tensor c = BatchProduct(a, b);
  Tensor moved = ComputeTensor("moved", kFloat32, {64, 8, 32}, [&](Indices i) { return c({i[1], i[0], i[2]}); });
  Tensor joined = ComputeTensor("joined", kFloat32, {64, 256}, [&](Indices i) {
    Expr at = i[0] * te::Index(256) + i[1], rest = te::Binary(BinaryOp::kFloorDivide, at, te::Index(32));
    return moved({te::Binary(BinaryOp::kFloorDivide, rest, te::Index(8)),
                  te::Binary(BinaryOp::kFloorMod, rest, te::Index(8)),
                  te::Binary(BinaryOp::kFloorMod, at, te::Index(32))});
  });
  Dim extents[] = {256};
  Tensor y = ComputeTensor("y", kFloat32, {64, 128}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return joined({i[0], r[0]}) * w({i[1], r[0]}); });
  });
  EXPECT_EQ(Text({"y", {a, b, w}, {y}}, {}, kGpu),
            "block tiles 64x8x32: batched [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4; columns"
            " vectors of 4 along the depth + 4; outer 8]; block tiles 64x128: y [32x32 by 4x2, depth 32; rows "
            "vectors of 4 along the depth + 4; columns vectors of 4 along the depth + 4]");
}

TEST(ScheduleTest, GpuConvolutionsInTilesOfBlocks) {
  EXPECT_EQ(Text(Convolution({}), {}, kGpu),
            "block tiles 32x14x14: conv [32x32 by 4x2, depth 32 with zeros; rows vectors of 4 along the depth + 4; "
            "columns along lines + 16, edges]");
  EXPECT_EQ(Text(Convolution({.channels = 64, .filters = 64, .groups = 2, .size = 28, .stride = 2}), {}, kGpu),
            "block tiles 2x32x14x14: conv [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4; columns "
            "along lines + 16, edges; outer 2]");
  EXPECT_EQ(Text(Convolution({.channels = 64, .filters = 64, .size = 28, .window = 1, .pad = 0}), {}, kGpu),
            "block tiles 64x28x28: conv [32x32 by 4x2, depth 32; rows vectors of 4 along the depth + 4; columns "
            "vectors of 4 along lines, edges]");
  // A weight is used for many positions, but an element of the image for few.
  EXPECT_EQ(Text(Convolution({.channels = 32, .filters = 32, .groups = 32}), {}, kGpu), "reduce 32x14x14: conv");
}

}  // namespace
}  // namespace rvm::schedule
