#include "base/dim_size.h"

#include "gtest/gtest.h"

namespace rvm {
namespace {

TEST(DimSizeTest, CountsLeavesAndOperations) {
  Dim n = Dim::Var(0, "n"), m = Dim::Var(1, "m");
  EXPECT_EQ(CountDimNodes(n, 10), 1);
  EXPECT_EQ(CountDimNodes((n + 1) * m, 10), 5);
  EXPECT_EQ(CountDimNodes((n + 1) * m, 5), 5);
  EXPECT_GT(CountDimNodes((n + 1) * m, 4), 4);
  EXPECT_EQ(DimDepth(n), 0);
  EXPECT_EQ(DimDepth((n + 1) * m), 2);
}

TEST(DimSizeTest, SharedPartsCountEachTimeButTakeNoTime) {
  Dim dim = Dim::Var(0, "n");
  for (int i = 0; i < 40; ++i) dim = Max(FloorDiv(dim, 2), dim);  // 2^40 leaves
  EXPECT_GT(CountDimNodes(dim, 4096), 4096);
}

}  // namespace
}  // namespace rvm
