#include "base/permute.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace rvm {
namespace {

template <typename T>
Literal Counting(DataType dtype, Shape shape) {
  std::vector<T> values(static_cast<size_t>(NumElements(shape).value()));
  std::iota(values.begin(), values.end(), T{1});
  return Literal::FromValues<T>(dtype, std::move(shape), values);
}

TEST(Permute, TransposesMatrices) {
  const Literal expected = Literal::FromValues<int32_t>(kInt32, {3, 2}, std::vector<int32_t>{1, 4, 2, 5, 3, 6});
  EXPECT_EQ(Permuted(Counting<int32_t>(kInt32, {2, 3}), std::vector<int64_t>{1, 0}), expected);
}

TEST(Permute, MovesElementsOfAllSizes) {
  const Shape shape = {2, 1, 3, 4};
  const std::vector<int64_t> axes = {2, 3, 0, 1}, back = {2, 3, 0, 1};
  for (const Literal& literal : {Counting<uint8_t>(kUInt8, shape), Counting<uint16_t>(kFloat16, shape),
                                 Counting<int32_t>(kInt32, shape), Counting<int64_t>(kInt64, shape)}) {
    const Literal moved = Permuted(literal, axes);
    EXPECT_EQ(moved.shape(), (Shape{3, 4, 2, 1}));
    // Element (1, 2, 1, 0) of the result is element (1, 0, 1, 2).
    EXPECT_EQ(moved.IntAt((1 * 4 + 2) * 2 + 1), literal.IntAt((1 * 3 + 1) * 4 + 2));
    EXPECT_EQ(Permuted(moved, back), literal);
  }
}

TEST(Permute, TakesScalarsAndEmptyTensors) {
  EXPECT_EQ(Permuted(Literal::Scalar(kFloat32, 3), {}), Literal::Scalar(kFloat32, 3));
  EXPECT_EQ(Permuted(Literal::Full(kFloat32, {2, 0}, 0), std::vector<int64_t>{1, 0}).shape(), (Shape{0, 2}));
}

}  // namespace
}  // namespace rvm
