#include "base/dim_bounds.h"

#include <optional>

#include "gtest/gtest.h"

namespace rvm {
namespace {

const Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m"), k = Dim::Var(3, "k");

TEST(DimBounds, LowerBoundOfSumsAndProducts) {
  EXPECT_EQ(LowerBound(7), 7);
  EXPECT_EQ(LowerBound(n), 0);
  EXPECT_EQ(LowerBound(n + 3), 3);
  EXPECT_EQ(LowerBound((n + 2) * (m + 3)), 6);
  EXPECT_EQ(LowerBound(n - 1), -1);
  EXPECT_EQ(LowerBound(n - m), std::nullopt);
  EXPECT_EQ(LowerBound((n + m) - m), 0);
  EXPECT_EQ(LowerBound(Dim::Any()), std::nullopt);
}

TEST(DimBounds, BoundsOfOtherOperations) {
  EXPECT_EQ(LowerBound(FloorDiv(n + 5, 2)), 2);
  EXPECT_EQ(LowerBound(FloorMod(n, 4)), 0);
  EXPECT_EQ(UpperBound(FloorMod(n, 4)), 3);
  EXPECT_EQ(LowerBound(Dim(3) - FloorMod(n, 4)), 0);
  EXPECT_EQ(LowerBound(Max(n - m, 0)), 0);
  EXPECT_EQ(LowerBound(Min(n, 4)), 0);
  EXPECT_EQ(UpperBound(Min(n, 4)), 4);
  EXPECT_EQ(UpperBound(n), std::nullopt);
}

// Negative factors would turn a bound around.
TEST(DimBounds, ProductsOfDimsThatMayBeNegativeHaveNone) {
  EXPECT_EQ(LowerBound(Max(n - m, -5) * Max(n - k, -5)), std::nullopt);
  EXPECT_EQ(LowerBound(Max(n - m, -5) * 2), -10);
}

TEST(DimBounds, IsAtMost) {
  EXPECT_TRUE(IsAtMost(n, n + m));
  EXPECT_TRUE(IsAtMost(Min(n, m), m));
  EXPECT_TRUE(IsAtMost(n, Max(m, n)));
  EXPECT_TRUE(IsAtMost(n * m, n * m + k));
  EXPECT_FALSE(IsAtMost(n, m));
  EXPECT_FALSE(IsAtMost(n, n * m));
  EXPECT_FALSE(IsAtMost(Dim::Any(), Dim::Any()));
}

TEST(DimBounds, ClampedToNatural) {
  EXPECT_EQ(ClampedToNatural(n), n);
  EXPECT_EQ(ClampedToNatural(FloorDiv(n + (-1), 2) + 1), FloorDiv(n + (-1), 2) + 1);
  EXPECT_EQ(ClampedToNatural(n + (-2)), Max(n + (-2), 0));
  EXPECT_EQ(ClampedToNatural(Max(n + (-2), 0)), Max(n + (-2), 0));
}

TEST(DimBounds, ValuesMayBeNegative) {
  Dim value = Dim::Value(7, "v");
  EXPECT_EQ(LowerBound(value + n), std::nullopt);
  EXPECT_EQ(ClampedToNatural(value), Max(value, 0));
}

// Each part has two bounds, which are computed together: one after the other, 40 maxima would take 2^40 steps.
TEST(DimBounds, OfNestedDims) {
  Dim dim = n;
  for (int i = 0; i < 40; ++i) dim = Max(dim + (-1), m);
  EXPECT_EQ(LowerBound(dim), 0);
  EXPECT_EQ(UpperBound(dim), std::nullopt);
}

TEST(DimBounds, AreEqual) {
  EXPECT_EQ(AreEqual(n + m, m + n), true);
  EXPECT_EQ(AreEqual(n, -1), false);
  EXPECT_EQ(AreEqual(n + 2, 1), false);
  EXPECT_EQ(AreEqual(n, 0), std::nullopt);
  EXPECT_EQ(AreEqual(Dim::Any(), -1), std::nullopt);
}

TEST(DimBounds, WithoutCancelled) {
  EXPECT_EQ(WithoutCancelled((n + m) - n), m);
  EXPECT_EQ(WithoutCancelled((n + 5) - (n + 2)), Dim(3));
  EXPECT_EQ(WithoutCancelled((n * 2 + m) - n).ToString(), "n + m");
  EXPECT_EQ(WithoutCancelled(n - m), n - m);
  EXPECT_EQ(WithoutCancelled(Dim::Any()), Dim::Any());
}

TEST(DimBounds, IsNever) {
  EXPECT_TRUE(IsNever(n * 2, 1));
  EXPECT_TRUE(IsNever(n * 4 + m * 6, 1));
  EXPECT_TRUE(IsNever(n + 2, 1));
  EXPECT_FALSE(IsNever(n * 2 + 1, 1));
  EXPECT_FALSE(IsNever(n, 1));
  EXPECT_FALSE(IsNever(n * m, 1));
  EXPECT_FALSE(IsNever(Dim::Any(), 1));
}

}  // namespace
}  // namespace rvm
