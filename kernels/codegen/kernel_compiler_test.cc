#include "kernels/codegen/kernel_compiler.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/long_tests.h"
#include "kernels/codegen/llvm/emit_kernel.h"
#include "kernels/codegen/testing.h"
#include "kernels/te/evaluate.h"

namespace rvm::codegen {
namespace {

using te::BinaryOp;
using te::Computation;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;

using Indices = std::span<const Expr>;

constexpr DataType kAllTypes[] = {kBool,   kInt8,   kInt16,   kInt32,   kInt64,   kUInt8,    kUInt16,
                                  kUInt32, kUInt64, kFloat16, kFloat32, kFloat64, kBFloat16, kFloat8E4M3FN};

Tensor Map(const Tensor& x, UnaryOp op) {
  return ComputeTensor("map", te::Unary(op, x(std::vector<Expr>(x.rank(), te::Index(0)))).dtype(), x.dims(),
                       [&](Indices i) { return te::Unary(op, x(i)); });
}

Tensor Zip(BinaryOp op, const Tensor& a, const Tensor& b) {
  DataType dtype = IsComparison(op) ? kBool : a.dtype();
  return ComputeTensor("zip", dtype, a.dims(), [&](Indices i) { return te::Binary(op, a(i), b(i)); });
}

// Reduces one axis away.
Tensor ReduceAxis(ReduceOp op, const Tensor& x, size_t axis) {
  Dims dims = x.dims();
  Dim extents[] = {dims[axis]};
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  DataType dtype = IsArg(op) ? kInt64 : x.dtype();
  return ComputeTensor("reduce", dtype, dims, [&](Indices i) {
    return te::Reduce(op, extents, [&](Indices r) {
      std::vector<Expr> at(i.begin(), i.end());
      at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), r[0]);
      return x(at);
    });
  });
}

Tensor Dense(const Tensor& x, const Tensor& w, bool transposed = false) {
  Dims dims = x.dims();
  Dim extents[] = {dims.back()};
  dims.back() = w.dims()[transposed ? 1 : 0];
  return ComputeTensor("dense", x.dtype(), dims, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
      std::vector<Expr> at(i.begin(), i.end());
      at.back() = r[0];
      return x(at) * (transposed ? w({r[0], i.back()}) : w({i.back(), r[0]}));
    });
  });
}

TEST(KernelCompilerTest, UnaryOperationsOfEveryType) {
  for (DataType dtype : kAllTypes) {
    Tensor x = Input(0, "x", dtype, {Dim(3), Dim(37)});
    Computation computation{"unary", {x}, {}};
    for (int op = 0; op <= static_cast<int>(UnaryOp::kIsFinite); ++op) {
      auto unary = static_cast<UnaryOp>(op);
      bool bitwise = unary == UnaryOp::kLogicalNot || unary == UnaryOp::kBitwiseNot;
      if (dtype.is_float() ? bitwise : (unary == UnaryOp::kLogicalNot && !dtype.is_bool())) continue;
      computation.outputs.push_back(Map(x, unary));
    }
    CheckKernel(computation);
    if (HasFatalFailure()) return;
  }
}

TEST(KernelCompilerTest, BinaryOperationsOfEveryType) {
  for (DataType dtype : kAllTypes) {
    Tensor a = Input(0, "a", dtype, {Dim(41)}), b = Input(1, "b", dtype, {Dim(41)});
    Computation computation{"binary", {a, b}, {}};
    for (int op = 0; op <= static_cast<int>(BinaryOp::kGreaterEqual); ++op) {
      auto binary = static_cast<BinaryOp>(op);
      bool bits = IsBitwise(binary);
      if (dtype.is_float() && bits) continue;
      computation.outputs.push_back(Zip(binary, a, b));
    }
    CheckKernel(computation, {.range = dtype.is_float() ? 4.0 : 9.0});
    if (HasFatalFailure()) return;
  }
}

TEST(KernelCompilerTest, IntegerArithmeticNeverTraps) {
  Tensor a = Input(0, "a", kInt32, {Dim(6)}), b = Input(1, "b", kInt32, {Dim(6)});
  Computation computation{"divide", {a, b}, {}};
  for (BinaryOp op : {BinaryOp::kDivide, BinaryOp::kFloorDivide, BinaryOp::kFloorMod, BinaryOp::kTruncDivide,
                      BinaryOp::kTruncMod, BinaryOp::kShiftLeft, BinaryOp::kShiftRight, BinaryOp::kPower}) {
    computation.outputs.push_back(Zip(op, a, b));
  }
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  const int32_t x[] = {kMin, kMin, 7, -7, kMin, 5}, y[] = {-1, 0, 0, -2, 33, -40};
  CheckKernelOn(computation,
                {Literal::FromValues<int32_t>(kInt32, {6}, x), Literal::FromValues<int32_t>(kInt32, {6}, y)});
}

template <typename T>
void CheckQuotients(DataType dtype, const char* target) {
  std::mt19937_64 random(1);
  std::vector<T> x, y;
  for (int i = 0; i < 20'000; ++i) {
    auto divisor = static_cast<T>(static_cast<int64_t>(random()) >> (random() % 64));
    auto value = static_cast<T>(random());
    // Quotients that are integers, or just are not.
    if (i % 2 == 0 && divisor != 0 && divisor != -1) value = static_cast<T>(value / divisor * divisor + i % 3 - 1);
    x.push_back(value), y.push_back(divisor);
  }
  auto count = static_cast<int64_t>(x.size());
  Tensor a = Input(0, "a", dtype, {Dim(count)}), b = Input(1, "b", dtype, {Dim(count)});
  Computation computation{"divide", {a, b}, {}};
  for (BinaryOp op : {BinaryOp::kFloorDivide, BinaryOp::kFloorMod, BinaryOp::kTruncDivide, BinaryOp::kTruncMod}) {
    computation.outputs.push_back(Zip(op, a, b));
  }
  CheckKernelOn(computation, {Literal::FromValues<T>(dtype, {count}, x), Literal::FromValues<T>(dtype, {count}, y)},
                {.target = target});
}

TEST(KernelCompilerTest, QuotientsAreExact) {
  for (const char* target : kX86Targets) {
    CheckQuotients<int8_t>(kInt8, target);
    CheckQuotients<int16_t>(kInt16, target);
    CheckQuotients<int32_t>(kInt32, target);
    CheckQuotients<int64_t>(kInt64, target);
  }
}

// Any bits by any bits, and numbers near multiples, with quotients of few bits and of many.
TEST(KernelCompilerTest, RemaindersOfFloatsAreExact) {
  std::mt19937 random(1);
  std::vector<float> x, y;
  for (int i = 0; i < 40'000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    y.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    float divisor = std::ldexp(static_cast<float>(random() % 0xffffff + 1), -static_cast<int>(random() % 40));
    double multiple = divisor * std::floor(std::ldexp(1.0, static_cast<int>(random() % 40)) * 1.1);
    y.push_back(i % 3 == 0 ? -divisor : divisor);
    x.push_back(std::nextafter(static_cast<float>(multiple), i % 2 == 0 ? 0.0F : 1e30F));
  }
  auto count = static_cast<int64_t>(x.size());
  Tensor a = Input(0, "a", kFloat32, {Dim(count)}), b = Input(1, "b", kFloat32, {Dim(count)});
  for (const char* target : kX86Targets) {
    CheckKernelOn({"remainder", {a, b}, {Zip(BinaryOp::kTruncMod, a, b)}},
                  {Literal::FromValues<float>(kFloat32, {count}, x), Literal::FromValues<float>(kFloat32, {count}, y)},
                  {.tolerance = 0, .target = target});
  }
}

TEST(KernelCompilerTest, CastsBetweenAllTypes) {
  for (DataType from : kAllTypes) {
    Tensor x = Input(0, "x", from, {Dim(29)});
    Computation computation{"cast", {x}, {}};
    for (DataType to : kAllTypes) {
      computation.outputs.push_back(ComputeTensor("cast", to, x.dims(), [&](Indices i) { return te::Cast(to, x(i)); }));
    }
    CheckKernel(computation, {.range = 300});
    if (HasFatalFailure()) return;
  }
}

TEST(KernelCompilerTest, BitsAsAnotherTypeOfTheirSize) {
  for (DataType from : kAllTypes) {
    Tensor x = Input(0, "x", from, {Dim(29)});
    Computation computation{"bitcast", {x}, {}};
    for (DataType to : kAllTypes) {
      if (to.bits != from.bits) continue;
      computation.outputs.push_back(
          ComputeTensor("bitcast", to, x.dims(), [&](Indices i) { return te::Bitcast(to, x(i)); }));
    }
    for (const char* target : {"host", "x86-64"}) CheckKernel(computation, {.range = 300, .target = target});
    if (HasFatalFailure()) return;
  }
}

TEST(KernelCompilerTest, ScansReadWhatTheyComputedBefore) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  Tensor x = Input(0, "x", kInt32, {m, n});
  auto before = [](Indices i) { return std::vector<Expr>{i[0], i[1] - te::Index(1)}; };
  auto is_first = [](const Expr& i) { return te::Binary(BinaryOp::kEqual, i, te::Index(0)); };
  Tensor sums = te::ScanTensor("sums", kInt32, x.dims(), [&](Indices i, const Tensor& self) {
    return te::Select(is_first(i[1]), x(i), self(before(i)) + x(i));
  });
  // How many elements before are less and were not counted themselves.
  Dim extents[] = {n};
  Tensor chosen = te::ScanTensor("chosen", kInt32, x.dims(), [&](Indices i, const Tensor& self) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices k) {
      Expr less = te::Binary(BinaryOp::kLess, x({i[0], k[0]}), x(i));
      Expr earlier = te::Binary(BinaryOp::kLess, k[0], i[1]);
      Expr zero = te::IntConst(kInt32, 0), one = te::IntConst(kInt32, 1);
      Expr counts = te::Select(te::Binary(BinaryOp::kEqual, self({i[0], k[0]}), zero), one, zero);
      return te::Select(earlier, te::Select(less, counts, zero), zero);
    });
  });
  Tensor both = ComputeTensor("both", kInt32, x.dims(), [&](Indices i) { return sums(i) + chosen(i); });
  CheckKernel({"scan", {x}, {sums, chosen, both}},
              {.symbol_values = {{0, 3}, {1, 0}, {1, 1}, {3, 7}, {40, 700}}, .range = 50, .threads = true});
}

TEST(KernelCompilerTest, OrdersKeysStably) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  for (double range : {3.0, 1e9}) {
    Tensor x = Input(0, "x", kInt32, {m, n});
    Tensor order =
        te::OrderTensor("order", x.dims(), x.dims().back(), [&](Indices i) { return te::Cast(kInt64, x(i)); });
    auto row = [&](int64_t which) {
      return ComputeTensor("row", kInt64, x.dims(), [&](Indices i) { return order({i[0], te::Index(which), i[1]}); });
    };
    CheckKernel({"order", {x}, {row(0), row(1)}},
                {.symbol_values = {{0, 3}, {2, 0}, {1, 1}, {3, 2}, {5, 32}, {5, 33}, {2, 3000}}, .range = range});
  }
}

TEST(KernelCompilerTest, OrdersTheFirstKeys) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n"), k = Dim::Var(3, "k");
  Dim first = Min(n, k);
  for (double range : {3.0, 1e9}) {
    Tensor x = Input(0, "x", kInt32, {m, n}), like = Input(1, "like", kInt32, {k});
    Tensor order = te::OrderTensor("order", x.dims(), first, [&](Indices i) { return te::Cast(kInt64, x(i)); });
    auto row = [&](int64_t which) {
      return ComputeTensor("row", kInt64, {m, first}, [&](Indices i) { return order({i[0], te::Index(which), i[1]}); });
    };
    CheckKernel(
        {"order", {x, like}, {row(0), row(1)}},
        {.symbol_values = {{0, 3, 2}, {2, 0, 1}, {3, 2, 0}, {5, 33, 7}, {5, 33, 40}, {2, 3000, 16}, {2, 3000, 700}},
         .range = range});
  }
}

// With these extents nothing is left that reads what is scanned and ordered.
TEST(KernelCompilerTest, ScansThatNobodyReads) {
  Tensor x = Input(0, "x", kInt64, {Dim(1)});
  Tensor order = te::OrderTensor("order", x.dims(), x.dims().back(), [&](Indices i) { return x(i); });
  Tensor scan = te::ScanTensor("scan", kInt64, {Dim(5)}, [&](Indices i, const Tensor& self) {
    Expr before =
        te::Select(te::Binary(BinaryOp::kEqual, i[0], te::Index(0)), te::Index(7), self({i[0] - te::Index(1)}));
    return before + order({te::Index(0), te::Index(0)});
  });
  Tensor result = ComputeTensor("result", kInt64, x.dims(), [&](Indices i) {
    Expr is_first = te::Binary(BinaryOp::kEqual, i[0], te::Index(0));
    return te::Select(is_first, x(i), scan({i[0]}));
  });
  CheckKernel({"unread", {x}, {result}});
}

TEST(KernelCompilerTest, SpecialFloats) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f,  -0.0f, kInf,   -kInf,   kNan,    1e30f, -1e30f, 1e-40f, 3e-39f,
                          88.7f, 89.5f, -87.5f, -100.0f, -104.5f, 1.0f,  0.5f,   3.4e38f};
  int64_t count = std::size(values);
  Tensor x = Input(0, "x", kFloat32, {Dim(count)});
  Computation computation{"special", {x}, {}};
  for (UnaryOp op :
       {UnaryOp::kExp, UnaryOp::kLog, UnaryOp::kLog2, UnaryOp::kLog10, UnaryOp::kTanh, UnaryOp::kSigmoid, UnaryOp::kErf,
        UnaryOp::kSign, UnaryOp::kRound, UnaryOp::kIsFinite, UnaryOp::kIsInf, UnaryOp::kIsNan}) {
    computation.outputs.push_back(Map(x, op));
  }
  for (DataType to : {kInt8, kInt32, kInt64, kUInt8, kUInt64, kFloat16, kBFloat16, kFloat8E4M3FN}) {
    computation.outputs.push_back(ComputeTensor("cast", to, x.dims(), [&](Indices i) { return te::Cast(to, x(i)); }));
  }
  for (const char* target : {"host", "x86-64"}) {
    CheckKernelOn(computation, {Literal::FromValues<float>(kFloat32, {count}, values)}, {.target = target});
  }
}

// Casts saturate, and a NaN becomes 0, with limits before them that are wider, narrower or those of the dtype.
TEST(KernelCompilerTest, CastsOfLimitedFloats) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const float values[] = {0.0f,    -0.0f,  0.9f,   -0.9f,    127.0f,    127.9f,   128.0f,        -128.0f, -128.9f,
                          -129.0f, 255.9f, 256.0f, 32767.9f, -32769.0f, 65535.5f, 2147483520.0f, 3e9f,    -3e9f,
                          kInf,    -kInf,  kNan,   -1.0f,    1.0f,      200.0f,   -200.0f};
  const int64_t count = std::size(values);
  const std::pair<double, double> limits[] = {{0, 255}, {-128, 127}, {-1e9, 1e9}, {-100, 300}, {5, 250}};
  for (DataType from : {kFloat32, kFloat64}) {
    Tensor x = Input(0, "x", kFloat32, {Dim(count)});
    Computation computation{"limited", {x}, {}};
    for (DataType to : {kInt8, kUInt8, kInt16, kUInt16, kInt32, kUInt32}) {
      for (auto [least, most] : limits) {
        computation.outputs.push_back(ComputeTensor("cast", to, x.dims(), [&](Indices i) {
          Expr low = te::Binary(BinaryOp::kMaximum, te::Cast(from, x(i)), te::Const(from, least));
          return te::Cast(to, te::Binary(BinaryOp::kMinimum, low, te::Const(from, most)));
        }));
      }
    }
    for (const char* target : {"host", "x86-64"}) {
      CheckKernelOn(computation, {Literal::FromValues<float>(kFloat32, {count}, values)}, {.target = target});
    }
  }
}

TEST(KernelCompilerTest, SmallFloatsInSoftware) {
  for (DataType dtype : {kFloat16, kBFloat16, kFloat8E4M3FN}) {
    Tensor a = Input(0, "a", dtype, {Dim(1000)}), b = Input(1, "b", dtype, {Dim(1000)});
    CheckKernel({"half", {a, b}, {Zip(BinaryOp::kMultiply, a, b), ReduceAxis(ReduceOp::kSum, a, 0)}},
                {.range = 1e-3, .target = "x86-64"});
  }
}

TEST(KernelCompilerTest, FloatMathIsAccurate) {
  struct Case {
    UnaryOp op;
    double range, low;
  };
  for (const Case& c : {Case{UnaryOp::kExp, 85, -85}, Case{UnaryOp::kTanh, 9, -9}, Case{UnaryOp::kSigmoid, 80, -80},
                        Case{UnaryOp::kErf, 4.5, -4.5}, Case{UnaryOp::kLog, 10, 1e-6}, Case{UnaryOp::kLog2, 10, 1e-6},
                        Case{UnaryOp::kLog10, 10, 1e-6}}) {
    constexpr int64_t kCount = 4001;
    std::vector<float> values;
    for (int64_t i = 0; i < kCount; ++i)
      values.push_back(static_cast<float>(c.low + (c.range - c.low) * static_cast<double>(i) / (kCount - 1)));
    Tensor x = Input(0, "x", kFloat32, {Dim(kCount)});
    // The relative error, computed by the kernel itself in float64 against libm.
    Tensor y = Map(x, c.op);
    Tensor error = ComputeTensor("error", kFloat64, x.dims(), [&](Indices i) {
      Expr exact = te::Unary(c.op, te::Cast(kFloat64, x(i)));
      Expr off = te::Cast(kFloat64, y(i)) - exact;
      Expr small = te::Binary(BinaryOp::kLess, te::Unary(UnaryOp::kAbs, exact), te::Const(kFloat64, 1e-30));
      return te::Select(small, te::Const(kFloat64, 0), te::Binary(BinaryOp::kDivide, off, exact));
    });
    CheckKernelOn({"math", {x}, {error}}, {Literal::FromValues<float>(kFloat32, {kCount}, values)},
                  {.tolerance = 8e-7});
    if (HasFatalFailure()) {
      ADD_FAILURE() << "operation " << static_cast<int>(c.op);
      return;
    }
  }
}

TEST(KernelCompilerTest, ElementwiseChainsAreVectorised) {
  Dim n = Dim::Var(1, "n");
  Tensor x = Input(0, "x", kFloat32, {n, Dim(64)}), bias = Input(1, "bias", kFloat32, {Dim(64)});
  Tensor y =
      ComputeTensor("y", kFloat32, x.dims(), [&](Indices i) { return te::Unary(UnaryOp::kTanh, x(i) + bias({i[1]})); });
  Tensor z =
      ComputeTensor("z", kFloat32, x.dims(), [&](Indices i) { return te::Unary(UnaryOp::kSigmoid, y(i)) * x(i); });
  ScheduledKernel object =
      CheckKernel({"chain", {x, bias}, {z}}, {.symbol_values = {{0}, {1}, {7}}, .target = "x86-64-v3"});
  EXPECT_NE(object.object.assembly.find("ymm"), std::string::npos);
  EXPECT_NE(object.object.assembly.find("vfmadd"), std::string::npos);
  EXPECT_EQ(object.object.assembly.find("tanhf"), std::string::npos);
  EXPECT_EQ(object.schedule.workspace, Dim(0));
}

TEST(KernelCompilerTest, ReductionsOfEveryKind) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m");
  for (DataType dtype : {kInt8, kInt32, kUInt8, kFloat16, kFloat32, kFloat64}) {
    for (size_t axis : {0, 1, 2}) {
      Tensor x = Input(0, "x", dtype, {n, m, Dim(5)});
      Computation computation{"reduce", {x}, {}};
      for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMaximum, ReduceOp::kMinimum, ReduceOp::kArgMax,
                          ReduceOp::kArgMin, ReduceOp::kArgMaxLast, ReduceOp::kArgMinLast}) {
        computation.outputs.push_back(ReduceAxis(op, x, axis));
      }
      CheckKernel(computation, {.symbol_values = {{3, 4}, {1, 1}, {0, 3}, {3, 0}, {40, 9}, {2, 70}},
                                .tolerance = 1e-3,
                                .range = 2,
                                .threads = true});
      if (HasFatalFailure()) return;
    }
  }
}

TEST(KernelCompilerTest, AllAndAny) {
  Tensor x = Input(0, "x", kBool, {Dim(13), Dim(3)});
  CheckKernel({"all",
               {x},
               {ReduceAxis(ReduceOp::kAll, x, 1), ReduceAxis(ReduceOp::kAny, x, 1), ReduceAxis(ReduceOp::kAll, x, 0),
                ReduceAxis(ReduceOp::kAny, x, 0)}},
              {.range = 9});
}

// Vectors of all lengths look up bytes, by themselves and behind floats.
TEST(KernelCompilerTest, TablesOfBytes) {
  Dim n = Dim::Var(1, "n");
  for (DataType dtype : {kUInt8, kInt8}) {
    Tensor table = Input(0, "table", dtype, {Dim(256)}), bytes = Input(1, "bytes", kUInt8, {n});
    Tensor floats = Input(2, "floats", kFloat32, {n});
    auto looked_up = [&](const Expr& byte) { return table({te::Cast(kInt64, byte)}); };
    Tensor taken = ComputeTensor("taken", dtype, {n}, [&](Indices i) { return looked_up(bytes(i)); });
    Tensor quantised = ComputeTensor("quantised", dtype, {n}, [&](Indices i) {
      return looked_up(te::Cast(kUInt8, te::Binary(BinaryOp::kMaximum, floats(i), te::Const(kFloat32, 0))));
    });
    CheckOptions options{.symbol_values = {{1}, {7}, {64}, {100}, {1000}}, .range = 100};
    CheckOnTargets({"tables", {table, bytes, floats}, {taken, quantised}}, options);
    options.target = "icelake-server";
    CheckKernel({"tables", {table, bytes, floats}, {taken, quantised}}, options);
  }
}

TEST(KernelCompilerTest, ReduceOverAllAxes) {
  Dim n = Dim::Var(1, "n");
  Tensor x = Input(0, "x", kFloat32, {n, Dim(7), Dim(3)});
  Dim extents[] = {n, 7, 3};
  Tensor sum = ComputeTensor("sum", kFloat32, {}, [&](Indices) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return x(r); });
  });
  Tensor mean = ComputeTensor("mean", kFloat32, {}, [&](Indices) {
    return te::Binary(BinaryOp::kDivide, sum({}), te::Cast(kFloat32, te::DimValue(n * 21)));
  });
  for (const ScheduledKernel& kernel : CheckOnTargets({"mean", {x}, {mean, sum}}, {.symbol_values = {{1}, {5}, {100}}}))
    EXPECT_EQ(Describe(kernel.schedule), "reduce 1: sum, mean");
}

TEST(KernelCompilerTest, BroadcastTransposeReshapeGather) {
  Dim n = Dim::Var(1, "n");
  Tensor x = Input(0, "x", kFloat32, {n, Dim(6)}), row = Input(1, "row", kFloat32, {Dim(6)}),
         at = Input(2, "at", kInt64, {Dim(5)});
  Tensor transposed =
      ComputeTensor("t", kFloat32, {Dim(6), n}, [&](Indices i) { return x({i[1], i[0]}) + row({i[0]}); });
  auto flat_mod = [&](const Expr& flat) {
    return x(
        {te::Binary(BinaryOp::kFloorDivide, flat, te::Index(6)), te::Binary(BinaryOp::kFloorMod, flat, te::Index(6))});
  };
  Tensor reshaped =
      ComputeTensor("r", kFloat32, {n * 2, Dim(3)}, [&](Indices i) { return flat_mod(i[0] * te::Index(3) + i[1]); });
  Tensor taken = ComputeTensor("g", kFloat32, {Dim(5), Dim(6)}, [&](Indices i) {
    Expr last = te::DimValue(n) - te::Index(1);
    Expr clamped = te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, at({i[0]}), last), te::Index(0));
    return x({clamped, i[1]});
  });
  Tensor padded = ComputeTensor("p", kFloat32, {n + 2, Dim(6)}, [&](Indices i) {
    Expr inside = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, i[0], te::Index(1)),
                             te::Binary(BinaryOp::kLessEqual, i[0], te::DimValue(n)));
    return te::Select(inside, x({i[0] - te::Index(1), i[1]}), te::Const(kFloat32, 7));
  });
  CheckKernel({"move", {x, row, at}, {transposed, reshaped, taken, padded}}, {.symbol_values = {{1}, {2}, {17}}});
}

TEST(KernelCompilerTest, SymbolicBroadcast) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m");
  Tensor a = Input(0, "a", kFloat32, {n, Dim(9)}), b = Input(1, "b", kFloat32, {m, Dim(9)});
  Dim wide = Broadcast(n, m);
  Tensor c = ComputeTensor("c", kFloat32, {wide, Dim(9)}, [&](Indices i) {
    return a({te::BroadcastIndex(i[0], n, wide), i[1]}) * b({te::BroadcastIndex(i[0], m, wide), i[1]});
  });
  CheckKernel({"broadcast", {a, b}, {c}}, {.symbol_values = {{1, 5}, {5, 1}, {4, 4}, {0, 1}}});
}

Tensor Softmax(const Tensor& x) {
  size_t last = x.rank() - 1;
  Dims dims = x.dims();
  Dim extents[] = {dims[last]};
  dims[last] = 1;
  auto along = [&](ReduceOp op, const Tensor& t) {
    return ComputeTensor("r", kFloat32, dims, [&](Indices i) {
      return te::Reduce(op, extents, [&](Indices r) {
        std::vector<Expr> at(i.begin(), i.end());
        at[last] = r[0];
        return t(at);
      });
    });
  };
  auto zero = [&](const Tensor& t, Indices i) {
    std::vector<Expr> at(i.begin(), i.end());
    at[last] = te::Index(0);
    return t(at);
  };
  Tensor top = along(ReduceOp::kMaximum, x);
  Tensor power = ComputeTensor("exp", kFloat32, x.dims(),
                               [&](Indices i) { return te::Unary(UnaryOp::kExp, x(i) - zero(top, i)); });
  Tensor sum = along(ReduceOp::kSum, power);
  return ComputeTensor("softmax", kFloat32, x.dims(),
                       [&](Indices i) { return te::Binary(BinaryOp::kDivide, power(i), zero(sum, i)); });
}

TEST(KernelCompilerTest, SoftmaxIsOneKernel) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m");
  Tensor x = Input(0, "x", kFloat32, {n, m});
  for (const ScheduledKernel& kernel : CheckOnTargets(
           {"softmax", {x}, {Softmax(x)}}, {.symbol_values = {{1, 1}, {3, 17}, {5, 300}, {0, 4}}, .threads = true}))
    EXPECT_FALSE(kernel.schedule.workspace == Dim(0));
}

TEST(KernelCompilerTest, LayerNorm) {
  Dim n = Dim::Var(1, "n");
  Tensor x = Input(0, "x", kFloat32, {n, Dim(33)}), gamma = Input(1, "gamma", kFloat32, {Dim(33)});
  Tensor mean = ComputeTensor("mean", kFloat32, {n}, [&](Indices i) {
    return ReduceAxis(ReduceOp::kSum, x, 1)(i) * te::Const(kFloat32, 1.0 / 33);
  });
  Tensor square = ComputeTensor("square", kFloat32, x.dims(), [&](Indices i) {
    Expr d = x(i) - mean({i[0]});
    return d * d;
  });
  Tensor variance = ReduceAxis(ReduceOp::kSum, square, 1);
  Tensor y = ComputeTensor("norm", kFloat32, x.dims(), [&](Indices i) {
    Expr scale =
        te::Unary(UnaryOp::kRsqrt, variance({i[0]}) * te::Const(kFloat32, 1.0 / 33) + te::Const(kFloat32, 1e-5));
    return (x(i) - mean({i[0]})) * scale * gamma({i[1]});
  });
  CheckKernel({"norm", {x, gamma}, {y}}, {.symbol_values = {{1}, {4}, {19}}});
}

TEST(KernelCompilerTest, ContractionsByShape) {
  Sample sample(3);
  for (DataType dtype : {kFloat32, kFloat64}) {
    for (int64_t n : {1, 3, 16, 63, 64, 65, 130}) {
      for (int64_t k : {1, 2, 7, 64}) {
        for (bool transposed : {false, true}) {
          if (!sample.Takes()) continue;
          Dim m = Dim::Var(1, "m");
          Tensor x = Input(0, "x", dtype, {m, Dim(k)}), bias = Input(2, "bias", dtype, {Dim(n)});
          Tensor w = Input(1, "w", dtype, transposed ? Dims{k, n} : Dims{n, k});
          Tensor dense = Dense(x, w, transposed);
          Tensor y = ComputeTensor("relu", dtype, dense.dims(), [&](Indices i) {
            return te::Binary(BinaryOp::kMaximum, dense(i) + bias({i[1]}), te::Const(dtype, 0));
          });
          CheckOptions options{.symbol_values = {{0}, {1}, {2}, {5}, {6}, {7}, {13}}, .threads = true};
          te::Computation computation{"dense", {x, w, bias}, {y}};
          CheckKernel(computation, options);
          options.constant_inputs = {false, true, true};
          CheckKernel(computation, options);
          if (HasFatalFailure()) return;
          for (const char* target : kX86Targets) {
            // Few columns leave lanes idle: then rows that lie close enough to be read in place are the vectors.
            bool rows_are_vectors = n < 16 && k <= 4;
            schedule::Schedule packed = *ScheduleFor(computation, options.constant_inputs, target);
            EXPECT_TRUE(n == 1 || k == 1 || rows_are_vectors || packed.Layout(1) != nullptr)
                << n << " " << k << " " << target;
            EXPECT_EQ(ScheduleFor(computation, {}, target)->Layout(1), nullptr) << target;
          }
        }
      }
    }
  }
}

TEST(KernelCompilerTest, ContractionsOnEveryTarget) {
  for (const char* target : {"x86-64", "x86-64-v2", "x86-64-v3", "host"}) {
    for (int64_t m : {1, 9}) {
      Tensor x = Input(0, "x", kFloat32, {Dim(m), Dim(50)}), w = Input(1, "w", kFloat32, {Dim(70), Dim(50)});
      CheckKernel({"dense", {x, w}, {Map(Dense(x, w), UnaryOp::kTanh)}},
                  {.constant_inputs = {false, true}, .target = target});
    }
  }
}

TEST(KernelCompilerTest, BatchMatmul) {
  Dim b = Dim::Var(1, "b"), m = Dim::Var(2, "m");
  Tensor x = Input(0, "x", kFloat32, {b, m, Dim(24)}), y = Input(1, "y", kFloat32, {b, Dim(24), Dim(31)});
  Dim extents[] = {24};
  Tensor z = ComputeTensor("z", kFloat32, {b, m, Dim(31)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return x({i[0], i[1], r[0]}) * y({i[0], r[0], i[2]}); });
  });
  CheckKernel({"batch", {x, y}, {z}}, {.symbol_values = {{1, 1}, {2, 5}, {3, 0}}, .threads = true});
}

TEST(KernelCompilerTest, LargeWorkIsSharedOut) {
  Dim n = Dim::Var(1, "n");
  Tensor x = Input(0, "x", kFloat32, {Dim(60), n});
  Tensor y = Map(x, UnaryOp::kTanh), columns = ReduceAxis(ReduceOp::kSum, y, 0),
         rows = ReduceAxis(ReduceOp::kMaximum, x, 1);
  CheckKernel({"large", {x}, {y, columns, rows}}, {.symbol_values = {{5000}, {5}}, .threads = true});
}

TEST(KernelCompilerTest, ExtentsOfNoInputAreRefused) {
  Tensor x = Input(0, "x", kFloat32, {Dim(4)});
  for (const Dim& dim : {Dim::Var(9, "n"), Dim::Any()}) {
    Tensor y = ComputeTensor("y", kFloat32, {dim}, [&](Indices) { return x({te::Index(0)}); });
    absl::Status status = ScheduleAndCompile({"bad", {x}, {y}}, {}, "host").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
}

// A GRU cell: two products, gates, and a new state.
TEST(KernelCompilerTest, GruCellIsOneKernel) {
  constexpr int64_t kHidden = 20, kIn = 12;
  Tensor x = Input(0, "x", kFloat32, {Dim(1), Dim(kIn)}), h = Input(1, "h", kFloat32, {Dim(1), Dim(kHidden)});
  Tensor wi = Input(2, "wi", kFloat32, {Dim(3 * kHidden), Dim(kIn)}),
         wh = Input(3, "wh", kFloat32, {Dim(3 * kHidden), Dim(kHidden)});
  Tensor gi = Dense(x, wi), gh = Dense(h, wh);
  auto part = [&](const Tensor& g, Indices i, int64_t which) { return g({i[0], i[1] + te::Index(which * kHidden)}); };
  auto gate = [&](int64_t which) {
    return ComputeTensor("gate", kFloat32, h.dims(), [&](Indices i) {
      return te::Unary(UnaryOp::kSigmoid, part(gi, i, which) + part(gh, i, which));
    });
  };
  Tensor reset = gate(0), update = gate(1);
  Tensor candidate = ComputeTensor("candidate", kFloat32, h.dims(), [&](Indices i) {
    return te::Unary(UnaryOp::kTanh, part(gi, i, 2) + reset(i) * part(gh, i, 2));
  });
  Tensor next = ComputeTensor("next", kFloat32, h.dims(), [&](Indices i) {
    return (te::Const(kFloat32, 1) - update(i)) * candidate(i) + update(i) * h(i);
  });
  for (bool constant : {false, true}) {
    for (const ScheduledKernel& kernel :
         CheckOnTargets({"gru", {x, h, wi, wh}, {next}}, {.constant_inputs = {false, false, constant, constant}})) {
      std::string text = Describe(kernel.schedule);
      EXPECT_TRUE(text.starts_with("tiles 60: dense [") || text.starts_with("reduce 60: dense; ")) << text;
      EXPECT_TRUE(text.ends_with("; loops 20: next")) << text;
      EXPECT_FALSE(kernel.schedule.workspace == Dim(0));
    }
  }
}

TEST(KernelCompilerTest, RanksZeroAndEmpty) {
  Tensor a = Input(0, "a", kFloat32, {}), b = Input(1, "b", kFloat32, {Dim(0), Dim(4)});
  CheckKernel({"scalars", {a, b}, {Map(a, UnaryOp::kExp), Map(b, UnaryOp::kExp), a, a}});
}

TEST(KernelCompilerTest, OptimisationLevelsAgree) {
  for (int level : {0, 1, 2, 3}) {
    Tensor x = Input(0, "x", kFloat32, {Dim(9), Dim(40)}), w = Input(1, "w", kFloat32, {Dim(33), Dim(40)});
    CheckKernel({"softmax", {x, w}, {Softmax(Dense(x, w))}}, {.constant_inputs = {false, true}, .opt_level = level});
  }
}

TEST(KernelCompilerTest, SameRequestsGiveSameBytes) {
  auto compile = [] {
    Tensor x = Input(0, "x", kFloat32, {Dim(9), Dim(40)}), w = Input(1, "w", kFloat32, {Dim(33), Dim(40)});
    HostTarget host = *ParseHostTarget("x86-64-v3");
    auto request = [&](const char* symbol, te::Computation computation) {
      return KernelRequest{symbol, *MakeSchedule(std::move(computation), {false, true}, ScheduleTarget(host))};
    };
    std::vector<KernelRequest> requests = {request("a", {"softmax", {x, w}, {Softmax(Dense(x, w))}}),
                                           request("b", {"exp", {x}, {Map(x, UnaryOp::kExp)}})};
    return CompileKernels(host, requests, {})->object;
  };
  EXPECT_EQ(compile(), compile());
}

// Kernels that have their arguments, and with them the symbols, in another order.
TEST(KernelCompilerTest, NestsThatAreTheSameAreOneFunction) {
  Dim m = Dim::Var(1, "m"), n = Dim::Var(2, "n");
  HostTarget host = *ParseHostTarget("x86-64-v3");
  auto request = [&](const char* symbol, bool swaps, UnaryOp op) {
    Tensor before = Input(swaps ? 1 : 0, "before", kInt32, {m}), x = Input(swaps ? 0 : 1, "x", kFloat32, {n});
    Tensor next = ComputeTensor("next", kInt32, {m}, [&](Indices i) { return before(i) + te::Const(kInt32, 1); });
    std::vector<Tensor> inputs = {before, x};
    if (swaps) std::swap(inputs[0], inputs[1]);
    te::Computation computation{symbol, inputs, {next, Map(x, op)}};
    return KernelRequest{symbol, *MakeSchedule(std::move(computation), {false, false}, ScheduleTarget(host))};
  };
  std::vector<KernelRequest> requests = {request("first", false, UnaryOp::kExp), request("second", true, UnaryOp::kExp),
                                         request("third", true, UnaryOp::kTanh)};
  std::string assembly = CompileKernels(host, requests, {.keep_ir = true})->assembly;
  auto defines = [&](const char* label) { return assembly.find(label) != std::string::npos; };
  EXPECT_TRUE(defines("\nfirst.0:") && defines("\nfirst.1:") && defines("\nthird.1:")) << assembly;
  EXPECT_FALSE(defines("\nsecond.0:") || defines("\nsecond.1:") || defines("\nthird.0:")) << assembly;
}

// Results count even if there is nothing to add up for them.
TEST(KernelCompilerTest, SmallKernelsTakeFewSteps) {
  struct Case {
    Dim results, terms;
    bool is_small;
  };
  const Dim n = Dim::Var(0, "n");
  const Case cases[] = {{Dim(4), Dim(4), true}, {Dim(1), Dim(16), true},     {Dim(4), Dim(5), false},
                        {n, Dim(1), false},     {Dim(1), n, false},          {Dim(1), Dim(0), true},
                        {n, Dim(0), false},     {Dim(1'000), Dim(0), false}, {Dim(17), Dim(0), false}};
  HostTarget host = *ParseHostTarget("x86-64");
  for (const Case& c : cases) {
    Tensor x = Input(0, "x", kInt32, {c.results, c.terms});
    te::Computation computation{"sum", {x}, {ReduceAxis(ReduceOp::kSum, x, 1)}};
    KernelRequest request{"sum", *MakeSchedule(std::move(computation), {}, ScheduleTarget(host))};
    EXPECT_EQ(IsSmall(request), c.is_small) << c.results.ToString() << " sums of " << c.terms.ToString();
  }
}

TEST(KernelCompilerTest, DeepExpressionsCompile) {
  Tensor x = Input(0, "x", kFloat32, {Dim(4)});
  Tensor y = x;
  for (int i = 0; i < 3000; ++i) {
    Tensor before = y;
    y = ComputeTensor("add", kFloat32, x.dims(),
                      [&](Indices at) { return before(at) * te::Const(kFloat32, 0.5) + x(at); });
  }
  CheckKernel({"deep", {x}, {y}}, {.opt_level = 1});
}

TEST(HostTargetTest, NamesAndFeatures) {
  ASSERT_TRUE(ParseHostTarget("host").ok());
  EXPECT_NE(ParseHostTarget("x86-64-v3")->features.find("+avx2"), std::string::npos);
  EXPECT_EQ(ParseHostTarget("x86-64")->features.find("+avx"), std::string::npos);
  EXPECT_NE(ParseHostTarget("znver3")->features.find("+fma"), std::string::npos);
  EXPECT_EQ(ParseHostTarget("aarch64")->triple, "aarch64-unknown-linux-gnu");
  EXPECT_EQ(ParseHostTarget("aarch64")->features, "+fp-armv8,+neon");
  EXPECT_NE(ParseHostTarget("cortex-a76")->features.find("+dotprod"), std::string::npos);
  EXPECT_EQ(ScheduleTarget(*ParseHostTarget("aarch64")).vector_bits, 128);
  EXPECT_EQ(ScheduleTarget(*ParseHostTarget("aarch64")).vector_registers, 32);
  EXPECT_EQ(ParseHostTarget("nonsense").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace rvm::codegen
