#include "kernels/te/operations.h"

#include <span>

#include "base/data_type.h"
#include "gtest/gtest.h"

namespace rvm::te {
namespace {

constexpr DataType kFloat = kFloat32;

TEST(Operations, CountsProductsReductionsAndFunctions) {
  Dim n = Dim::Var(0, "n");
  Tensor x = Input(0, "x", kFloat, {n, 64}), w = Input(1, "w", kFloat, {32, 64});
  Tensor product = ComputeTensor("product", kFloat, {n, 32}, [&](std::span<const Expr> i) {
    const Dim depth[] = {64};
    return Reduce(ReduceOp::kSum, depth, [&](std::span<const Expr> k) { return x({i[0], k[0]}) * w({i[1], k[0]}); });
  });
  EXPECT_EQ(NumOperations({"dense", {x, w}, {product}}).ToString(), (Dim(2) * (n * 32) * 64).ToString());
  Tensor activated = ComputeTensor("tanh", kFloat, {n, 32},
                                   [&](std::span<const Expr> i) { return Unary(UnaryOp::kTanh, product(i)); });
  EXPECT_EQ(CompareDims(NumOperations({"dense_tanh", {x, w}, {activated}}), n * (2 * 32 * 64) + n * 32),
            DimEquality::kEqual);
}

TEST(Operations, LeavesOutIndicesConditionsAndCopies) {
  Tensor x = Input(0, "x", kFloat, {10});
  Tensor reversed = ComputeTensor("reversed", kFloat, {10}, [&](std::span<const Expr> i) {
    return Select(Binary(BinaryOp::kLess, i[0], Index(3)), x({Index(9) - i[0]}), FloatConst(kFloat, 0));
  });
  EXPECT_EQ(NumOperations({"reversed", {x}, {reversed}}), Dim(0));
  Tensor cast = ComputeTensor("cast", kFloat64, {10}, [&](std::span<const Expr> i) { return Cast(kFloat64, x(i)); });
  EXPECT_EQ(NumOperations({"cast", {x}, {cast}}), Dim(0));
}

TEST(Operations, CountsTensorsThatAConditionReads) {
  Tensor x = Input(0, "x", kFloat, {10});
  Tensor sum = ComputeTensor("sum", kFloat, {}, [&](std::span<const Expr>) {
    const Dim extents[] = {10};
    return Reduce(ReduceOp::kSum, extents, [&](std::span<const Expr> i) { return x(i); });
  });
  Tensor chosen = ComputeTensor("chosen", kFloat, {10}, [&](std::span<const Expr> i) {
    return Select(Binary(BinaryOp::kLess, sum(std::span<const Expr>()), FloatConst(kFloat, 0)), x(i),
                  FloatConst(kFloat, 0));
  });
  EXPECT_EQ(NumOperations({"chosen", {x}, {chosen}}), Dim(10));
}

TEST(Operations, CountsNoSorts) {
  Tensor x = Input(0, "x", kInt64, {10});
  Tensor sorted = OrderTensor("sorted", {10}, 10, [&](std::span<const Expr> i) { return x(i) + Index(1); });
  EXPECT_EQ(NumOperations({"sorted", {x}, {sorted}}), Dim(0));
}

TEST(Operations, CountsATensorThatIsReadTwiceOnce) {
  Tensor x = Input(0, "x", kFloat, {10});
  Tensor square = ComputeTensor("square", kFloat, {10}, [&](std::span<const Expr> i) { return x(i) * x(i); });
  Tensor sum = ComputeTensor("sum", kFloat, {10}, [&](std::span<const Expr> i) { return square(i) + square(i); });
  EXPECT_EQ(NumOperations({"sum", {x}, {sum, square}}), Dim(20));
}

}  // namespace
}  // namespace rvm::te
