#include "compiler/import/torch/promotion.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

namespace rvm::torch {
namespace {

DataType ResultOf(std::initializer_list<std::pair<DataType, OperandRank>> operands) {
  Promotion promotion;
  for (const auto& [dtype, rank] : operands) promotion.Add(dtype, rank);
  return promotion.Result();
}

// The right column is what torch.result_type says.
TEST(PromotionTest, TensorsDecideWithinTheirCategory) {
  using enum OperandRank;
  EXPECT_EQ(ResultOf({{kInt32, kTensor}, {kInt64, kNumber}}), kInt32);
  EXPECT_EQ(ResultOf({{kInt32, kTensor}, {kFloat64, kNumber}}), kFloat32);
  EXPECT_EQ(ResultOf({{kFloat16, kTensor}, {kFloat64, kScalar}}), kFloat16);
  EXPECT_EQ(ResultOf({{kBool, kTensor}, {kInt64, kNumber}}), kInt64);
  EXPECT_EQ(ResultOf({{kInt64, kTensor}, {kFloat16, kScalar}}), kFloat16);
  EXPECT_EQ(ResultOf({{kFloat32, kScalar}, {kFloat64, kScalar}}), kFloat64);
  EXPECT_EQ(ResultOf({}), kFloat32);
}

TEST(PromotionTest, TwoDTypes) {
  EXPECT_EQ(Promote(kFloat16, kBFloat16), kFloat32);
  EXPECT_EQ(Promote(kUInt8, kInt8), kInt16);
  EXPECT_EQ(Promote(kUInt8, kInt32), kInt32);
  EXPECT_EQ(Promote(kInt64, kFloat16), kFloat16);
  EXPECT_EQ(Promote(kBool, kBool), kBool);
}

}  // namespace
}  // namespace rvm::torch
