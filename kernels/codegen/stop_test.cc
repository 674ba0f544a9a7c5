// Long kernels of every kind of loop end soon after their context says so.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codegen/testing.h"

namespace rvm::codegen {
namespace {

using te::Computation;
using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;

using Indices = std::span<const Expr>;

// With the expression below: some tenths of a second.
constexpr int64_t kMany = int64_t{1} << 19;

Expr Slow(Expr x) {
  for (int i = 0; i < 6; ++i) x = te::Unary(te::UnaryOp::kTan, x);
  return x;
}

Tensor SlowMap(const Tensor& x) {
  return ComputeTensor("map", x.dtype(), x.dims(), [&](Indices i) { return Slow(x(i)); });
}

// Over all axes but the last `kept`, of what falls along them: a minimum or its place is settled by the last element.
Tensor SlowReduce(ReduceOp op, const Tensor& x, size_t kept) {
  Dims reduced(x.dims().begin(), x.dims().end() - static_cast<std::ptrdiff_t>(kept));
  Dims dims(x.dims().end() - static_cast<std::ptrdiff_t>(kept), x.dims().end());
  return ComputeTensor("reduce", IsArg(op) ? kInt64 : x.dtype(), dims, [&](Indices i) {
    return te::Reduce(op, reduced, [&](Indices r) {
      std::vector<Expr> at(r.begin(), r.end());
      at.insert(at.end(), i.begin(), i.end());
      Expr place = te::Index(0);
      for (size_t a = 0; a < r.size(); ++a) place = place * te::Index(reduced[a].constant()) + r[a];
      return te::Const(kFloat32, 1e-30) * Slow(x(at)) - te::Cast(kFloat32, place);
    });
  });
}

Tensor SlowDense(const Tensor& x, const Tensor& w) {
  Dim extents[] = {x.dims()[1]};
  return ComputeTensor("dense", kFloat32, {x.dims()[0], w.dims()[0]}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return Slow(x({i[0], r[0]})) * w({i[1], r[0]}); });
  });
}

TEST(StopTest, Elementwise) {
  for (const Dims& dims : {Dims{Dim(kMany)}, Dims{Dim(1), Dim(kMany)}, Dims{Dim(kMany / 2), Dim(2)}}) {
    Tensor x = Input(0, "x", kFloat32, dims);
    CheckStops({"map", {x}, {SlowMap(x)}});
  }
}

TEST(StopTest, TransposedAndBroadcast) {
  for (int64_t rows : {int64_t{2}, int64_t{1024}, kMany / 2}) {
    Tensor x = Input(0, "x", kFloat32, {Dim(rows), Dim(kMany / rows)}), row = Input(1, "row", kFloat32, {Dim(rows)});
    Tensor y = ComputeTensor("y", kFloat32, {Dim(kMany / rows), Dim(rows)},
                             [&](Indices i) { return Slow(x({i[1], i[0]}) + row({i[1]})); });
    CheckStops({"transpose", {x, row}, {y}});
  }
}

TEST(StopTest, Reductions) {
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMinimum, ReduceOp::kArgMin}) {
    Tensor x = Input(0, "x", kFloat32, {Dim(kMany)});
    CheckStops({"all", {x}, {SlowReduce(op, x, 0)}});
    Tensor y = Input(0, "y", kFloat32, {Dim(kMany / 2), Dim(2)});
    CheckStops({"columns", {y}, {SlowReduce(op, y, 1)}});
    Tensor z = Input(0, "z", kFloat32, {Dim(2), Dim(kMany / 2), Dim(1)});
    CheckStops({"axes", {z}, {SlowReduce(op, z, 1)}});
  }
}

TEST(StopTest, Scans) {
  Tensor x = Input(0, "x", kFloat32, {Dim(kMany)});
  Tensor sums = te::ScanTensor("sums", kFloat32, x.dims(), [&](Indices i, const Tensor& self) {
    Expr before = te::Select(te::Binary(te::BinaryOp::kEqual, i[0], te::Index(0)), te::Const(kFloat32, 0),
                             self({i[0] - te::Index(1)}));
    return before + Slow(x(i));
  });
  CheckStops({"scan", {x}, {sums}});
}

TEST(StopTest, ProductsWithConstantWeights) {
  for (int64_t rows : {int64_t{1}, kMany / 512}) {
    Dim depth = kMany / rows;
    Tensor x = Input(0, "x", kFloat32, {Dim(rows), depth}), w = Input(1, "w", kFloat32, {Dim(2), depth});
    te::Computation dense{"dense", {x, w}, {SlowDense(x, w)}};
    CheckStops(dense, {false, true});
    for (const char* target : kX86Targets) EXPECT_NE(ScheduleFor(dense, {false, true}, target)->Layout(1), nullptr);
  }
}

TEST(StopTest, Sorting) {
  for (int64_t keys : {kMany, int64_t{4}}) {
    Tensor x = Input(0, "x", kInt64, {Dim(4 * kMany / keys), Dim(keys)});
    Tensor sorted = te::OrderTensor("sorted", x.dims(), x.dims()[1],
                                    [&](Indices i) { return x(i) * te::Index(0x9e3779b97f4a7c1); });
    Tensor places =
        ComputeTensor("places", kInt64, x.dims(), [&](Indices i) { return sorted({i[0], te::Index(1), i[1]}); });
    CheckStops({"sort", {x}, {places}});
  }
}

}  // namespace
}  // namespace rvm::codegen
