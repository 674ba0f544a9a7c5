// Products of bytes and of bfloat16 by AMX, compared with te::Evaluate where this
// CPU has them.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/long_tests.h"
#include "kernels/codegen/testing.h"

namespace rvm::codegen {
namespace {

using schedule::Tile;
using te::BinaryOp;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using Indices = std::span<const Expr>;

constexpr const char* kTarget = "sapphirerapids";

// Returns those of the only tile.
std::optional<Tile::Matrices> MatricesOf(const schedule::Schedule& schedule) {
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.form == schedule::NestForm::kTiles) return nest.tile->matrices;
  }
  return std::nullopt;
}

// Returns an element as it is summed.
Expr Widened(const Tensor& tensor, std::vector<Expr> at) {
  return te::Cast(tensor.dtype().is_float() ? kFloat32 : kInt32, tensor(std::move(at)));
}

// float(sum over k of x[m, k] * w[n, k]) * scale[n].
te::Computation Product(DataType a, DataType b, const Dim& m, int64_t n, int64_t k) {
  Tensor x = Input(0, "x", a, {m, k}), w = Input(1, "w", b, {n, k}), scale = Input(2, "scale", kFloat32, {n});
  Dim extents[] = {k};
  Tensor sum = ComputeTensor("sum", a.is_float() ? kFloat32 : kInt32, {m, n}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents,
                      [&](Indices r) { return Widened(x, {i[0], r[0]}) * Widened(w, {i[1], r[0]}); });
  });
  Tensor y = ComputeTensor("y", kFloat32, {m, n},
                           [&](Indices i) { return te::Cast(kFloat32, sum({i[0], i[1]})) * scale({i[1]}); });
  return {"product", {x, w, scale}, {y}};
}

CheckOptions Options(bool constant) {
  return {.constant_inputs = {false, constant, false}, .range = 255, .target = kTarget, .threads = true};
}

TEST(MatricesTest, ProductsOfBytes) {
  Sample sample(2);
  for (auto [a, b] : {std::pair(kInt8, kInt8), {kUInt8, kInt8}, {kInt8, kUInt8}, {kUInt8, kUInt8}}) {
    for (auto [m, n, k] : {std::tuple(4, 40, 500),
                           {7, 100, 192},
                           {16, 35, 128},
                           {17, 64, 100},
                           {31, 30, 200},
                           {32, 48, 64},
                           {33, 70, 32},
                           {50, 16, 260},
                           {200, 33, 36},
                           {96, 200, 1024}}) {
      if (!sample.Takes()) continue;
      for (bool constant : {true, false}) {
        ScheduledKernel kernel = CheckKernel(Product(a, b, m, n, k), Options(constant));
        if (HasFatalFailure()) return;
        ASSERT_TRUE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
      }
    }
  }
  RunsHere(kTarget);
}

TEST(MatricesTest, ProductsOfBFloats) {
  for (auto [m, n, k] :
       {std::tuple(5, 100, 192), {16, 35, 128}, {19, 64, 100}, {31, 30, 94}, {64, 70, 32}, {96, 200, 512}}) {
    for (bool constant : {true, false}) {
      if (!constant && m < 16) continue;  // reads the factor as it is
      CheckOptions options = Options(constant);
      options.range = 2;
      ScheduledKernel kernel = CheckKernel(Product(kBFloat16, kBFloat16, m, n, k), options);
      if (HasFatalFailure()) return;
      ASSERT_TRUE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
      EXPECT_LE(MatricesOf(kernel.schedule)->step, 32);
    }
  }
}

// A last step that is no whole one reads what follows the row, where something does.
TEST(MatricesTest, DepthsOfNoWholeGroups) {
  for (int64_t k : {130, 198, 255}) {
    constexpr int64_t kRows = 21, kColumns = 40;
    Tensor x = Input(0, "x", kUInt8, {kRows + 1, k, 2}), w = Input(1, "w", kInt8, {kColumns, k});
    Dim two[] = {2}, extents[] = {k};
    Tensor pooled = ComputeTensor("pooled", kUInt8, {kRows + 1, k}, [&](Indices i) {
      return te::Reduce(ReduceOp::kMaximum, two, [&](Indices r) { return x({i[0], i[1], r[0]}); });
    });
    Tensor y = ComputeTensor("y", kInt32, {kRows, kColumns}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents,
                        [&](Indices r) { return Widened(pooled, {i[0], r[0]}) * Widened(w, {i[1], r[0]}); });
    });
    CheckOptions options{.constant_inputs = {false, true}, .range = 255, .target = kTarget};
    ScheduledKernel kernel = CheckKernel({"behind", {x, w}, {y}}, options);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
  }
}

TEST(MatricesTest, StepsCoverTheDepth) {
  for (auto [depth, step, rest] :
       {std::tuple(64, 64, 0), {96, 48, 0}, {100, 64, 36}, {144, 48, 0}, {184, 64, 56}, {200, 64, 8}, {1152, 64, 0}}) {
    absl::StatusOr<schedule::Schedule> schedule =
        ScheduleFor(Product(kUInt8, kInt8, 64, 64, depth), {false, true, false}, kTarget);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    std::optional<Tile::Matrices> matrices = MatricesOf(*schedule);
    ASSERT_TRUE(matrices) << Describe(*schedule);
    EXPECT_EQ(matrices->step, step) << depth;
    EXPECT_EQ(matrices->rest, rest) << depth;
  }
}

// Few rows, or few products, do not pay for the registers of matrices; nor do rows that a step would read behind.
TEST(MatricesTest, OtherProductsHaveNone) {
  for (auto [m, n, k] : {std::tuple(1, 512, 512), {3, 512, 512}, {16, 16, 64}, {64, 64, 16}, {64, 64, 99}}) {
    ScheduledKernel kernel = CheckKernel(Product(kUInt8, kInt8, m, n, k), Options(true));
    if (HasFatalFailure()) return;
    EXPECT_FALSE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
  }
  ScheduledKernel older = CheckKernel(Product(kUInt8, kInt8, 64, 64, 64),
                                      {.constant_inputs = {false, true, false}, .target = "icelake-server"});
  EXPECT_FALSE(MatricesOf(older.schedule)) << Describe(older.schedule);
}

// A kernel chooses when it runs, with blocks as high as there are rows.
TEST(MatricesTest, UnknownNumbersOfRows) {
  for (auto [a, b] : {std::pair(kUInt8, kInt8), {kInt8, kInt8}, {kBFloat16, kBFloat16}}) {
    for (bool constant : {true, false}) {
      CheckOptions options = Options(constant);
      if (a.is_float()) options.range = 2;
      options.symbol_values = {{0}, {1}, {2}, {3}, {4}, {9}, {15}, {16}, {17}, {32}, {33}, {75}};
      ScheduledKernel kernel = CheckKernel(Product(a, b, Dim::Var(0, "n"), 72, 132), options);
      if (HasFatalFailure()) return;
      ASSERT_TRUE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
    }
  }
}

// Programs whose calls run together have sums of one order, whatever number of rows a call has.
TEST(MatricesTest, FixedOrdersOfSumsHaveNone) {
  te::Computation product = Product(kBFloat16, kBFloat16, Dim::Var(0, "n"), 72, 132);
  schedule::SumOrder order;
  order.is_fixed = true;
  absl::StatusOr<schedule::Schedule> schedule =
      schedule::MakeSchedule(product, {false, true, false}, ScheduleTarget(*ParseHostTarget(kTarget)), order);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_FALSE(MatricesOf(*schedule)) << Describe(*schedule);
}

// The rows of a window of channels that lie side by side, over an image with a border.
TEST(MatricesTest, Convolutions) {
  Sample sample(3);
  for (auto [size, channels, stride] : {std::tuple(14, 64, 1), {18, 36, 1}, {29, 32, 2}, {7, 64, 1}}) {
    for (auto [dtype, filters, sum] :
         {std::tuple(kUInt8, kInt8, kInt32), {kInt8, kInt8, kInt32}, {kBFloat16, kBFloat16, kFloat32}}) {
      if (!sample.Takes()) continue;
      const DataType wide = sum;
      Tensor x = Input(0, "x", dtype, {size, size, channels}), w = Input(1, "w", filters, {40, 3, 3, channels});
      auto padded = [&](Expr row, Expr column, Expr channel) {
        Expr inside;
        for (const Expr& at : {row, column}) {
          Expr fits = te::Binary(BinaryOp::kAnd, te::Binary(BinaryOp::kGreaterEqual, at, te::Index(0)),
                                 te::Binary(BinaryOp::kLess, at, te::Index(size)));
          inside = inside ? te::Binary(BinaryOp::kAnd, inside, fits) : fits;
        }
        return te::Select(inside, Widened(x, {row, column, channel}), te::Const(wide, wide.is_float() ? 0 : 3));
      };
      Dim extents[] = {3, 3, channels};
      const int64_t out = (size - 1) / stride + 1;
      Tensor y = ComputeTensor("y", wide, {out, out, 40}, [&](Indices i) {
        return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) {
          return padded(i[0] * te::Index(stride) + r[0] - te::Index(1), i[1] * te::Index(stride) + r[1] - te::Index(1),
                        r[2]) *
                 Widened(w, {i[2], r[0], r[1], r[2]});
        });
      });
      CheckOptions options{.constant_inputs = {false, true}, .range = 255, .target = kTarget};
      if (wide.is_float()) options.range = 2, options.tolerance = 1e-4;
      ScheduledKernel kernel = CheckKernel({"convolution", {x, w}, {y}}, options);
      if (HasFatalFailure()) return;
      ASSERT_TRUE(MatricesOf(kernel.schedule)) << Describe(kernel.schedule);
    }
  }
}

}  // namespace
}  // namespace rvm::codegen
