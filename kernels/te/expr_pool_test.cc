#include "kernels/te/expr_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace rvm::te {
namespace {

class ExprPoolTest : public testing::Test {
 protected:
  Expr Constant(int64_t value) { return pool_.Intern(*Index(value)); }
  Expr Make(BinaryOp op, const Expr& a, const Expr& b) { return pool_.Binary(op, a, b); }

  ExprPool pool_;
  IndexVar i_ = pool_.Fresh(4, "i"), j_ = pool_.Fresh(6, "j");
  Expr i = pool_.Variable(i_), j = pool_.Variable(j_);
};

TEST_F(ExprPoolTest, EqualExpressionsAreOneNode) {
  Expr a = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(6)), j);
  Expr b = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, Constant(6), i), j);
  EXPECT_EQ(a.get(), b.get());
  EXPECT_NE(a.get(), Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(5)), j).get());
}

TEST_F(ExprPoolTest, QuotientsAndRemaindersOfSplitIndicesFold) {
  Expr linear = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(6)), j);
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, linear, Constant(6)).get(), i.get());
  EXPECT_EQ(Make(BinaryOp::kFloorMod, linear, Constant(6)).get(), j.get());
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, i, Constant(4)).get(), Constant(0).get());
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, linear, Constant(1)).get(), linear.get());
  EXPECT_EQ(Make(BinaryOp::kFloorMod, linear, Constant(1)).get(), Constant(0).get());
  // j reaches 5: not below 4.
  EXPECT_EQ(Make(BinaryOp::kFloorMod, j, Constant(4))->kind, ExprKind::kBinary);
  Expr quotient = Make(BinaryOp::kFloorDivide, j, Constant(4)), rest = Make(BinaryOp::kFloorMod, j, Constant(4));
  EXPECT_EQ(Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, quotient, Constant(4)), rest).get(), j.get());
}

TEST_F(ExprPoolTest, DivisionsTakeMultiplesOutOfSums) {
  Expr even =
      Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(12)), Make(BinaryOp::kMultiply, j, Constant(2)));
  Expr half = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(6)), j);
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, even, Constant(2)).get(), half.get());
  EXPECT_EQ(Make(BinaryOp::kFloorMod, even, Constant(2)).get(), Constant(0).get());
  Expr odd = Make(BinaryOp::kAdd, even, Constant(1));
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, odd, Constant(2)).get(), half.get());
  EXPECT_EQ(Make(BinaryOp::kFloorMod, odd, Constant(2)).get(), Constant(1).get());
  // The rest reaches 3: not below 2.
  Expr wide = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, j, Constant(2)), i);
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, wide, Constant(2))->kind, ExprKind::kBinary);
  EXPECT_EQ(Make(BinaryOp::kFloorMod, wide, Constant(2))->binary, BinaryOp::kFloorMod);
  Expr twice = Make(BinaryOp::kFloorDivide, Make(BinaryOp::kFloorDivide, wide, Constant(3)), Constant(5));
  EXPECT_EQ(twice.get(), Make(BinaryOp::kFloorDivide, wide, Constant(15)).get());
  Expr large = Constant(std::numeric_limits<int64_t>::max());
  Expr unbounded = pool_.Variable(pool_.Fresh(Dim::Var(1, "n"), "k"));
  Expr kept = Make(BinaryOp::kFloorDivide, Make(BinaryOp::kFloorDivide, unbounded, large), Constant(2));
  EXPECT_EQ(kept->operands[0]->operands[1].get(), large.get());  // no overflow
}

// A slice of split columns: ((i * 4 + h) * 16 + s) of 4x16 columns, in rows of 64.
TEST_F(ExprPoolTest, DivisionsTakeMultiplesOutOfScaledSums) {
  Expr h = pool_.Variable(pool_.Fresh(Dim(4), "h")), s = pool_.Variable(pool_.Fresh(Dim(16), "s"));
  Expr head = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(4)), h);
  Expr flat = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, head, Constant(16)), s);
  EXPECT_EQ(Make(BinaryOp::kFloorDivide, flat, Constant(64)).get(), i.get());
  EXPECT_EQ(Make(BinaryOp::kFloorMod, flat, Constant(64)).get(),
            Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, h, Constant(16)), s).get());
}

// Reshapes join axes: i * 12 + n, for 2x6 values n, is the offset of [i, n / 6, n % 6] in [?, 2, 6].
TEST_F(ExprPoolTest, OffsetsOfJoinedAxesAreSums) {
  Expr n = pool_.Variable(pool_.Fresh(Dim(12), "n"));
  Expr flat = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(12)), n);
  Expr outer = Make(BinaryOp::kFloorDivide, flat, Constant(12));
  Expr middle = Make(BinaryOp::kFloorMod, Make(BinaryOp::kFloorDivide, flat, Constant(6)), Constant(2));
  Expr inner = Make(BinaryOp::kFloorMod, flat, Constant(6));
  EXPECT_EQ(outer.get(), i.get());
  EXPECT_EQ(middle.get(), Make(BinaryOp::kFloorDivide, n, Constant(6)).get());
  EXPECT_EQ(inner.get(), Make(BinaryOp::kFloorMod, n, Constant(6)).get());
  Expr offset = pool_.Offset({Dim(4), Dim(2), Dim(6)}, {outer, middle, inner});
  EXPECT_EQ(Stride(offset, i->index.id), 12);
  EXPECT_EQ(Stride(offset, n->index.id), 1);
  // 13 values are not as many.
  Expr more = pool_.Variable(pool_.Fresh(Dim(13), "n"));
  Expr part = Make(BinaryOp::kFloorMod, Make(BinaryOp::kFloorDivide, more, Constant(6)), Constant(2));
  EXPECT_EQ(part->binary, BinaryOp::kFloorMod);
}

TEST_F(ExprPoolTest, DifferencesOfConstantsCombine) {
  Expr shifted = Make(BinaryOp::kSubtract, j, Constant(1));
  EXPECT_EQ(Make(BinaryOp::kSubtract, shifted, Constant(-1)).get(), j.get());
  EXPECT_EQ(Make(BinaryOp::kSubtract, shifted, Constant(2)).get(), Make(BinaryOp::kSubtract, j, Constant(3)).get());
  Expr least = Make(BinaryOp::kSubtract, j, Constant(std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(Make(BinaryOp::kSubtract, least, Constant(-1))->operands[0].get(), least.get());  // no overflow
}

TEST_F(ExprPoolTest, OffsetsAreRowMajor) {
  Expr offset = pool_.Offset({Dim(4), Dim(6)}, {i, j});
  EXPECT_EQ(Stride(offset, i_.id), 6);
  EXPECT_EQ(Stride(offset, j_.id), 1);
  EXPECT_EQ(Stride(Constant(3), i_.id), 0);
  EXPECT_EQ(Stride(Make(BinaryOp::kMultiply, i, i), i_.id), std::nullopt);
  Expr symbolic = pool_.Offset({Dim(4), Dim::Var(1, "n")}, {i, j});
  EXPECT_EQ(Stride(symbolic, i_.id), std::nullopt);
}

TEST_F(ExprPoolTest, SignsAndBounds) {
  EXPECT_TRUE(IsNonNegative(Make(BinaryOp::kAdd, i, j)));
  EXPECT_FALSE(IsNonNegative(Make(BinaryOp::kSubtract, i, j)));
  EXPECT_TRUE(IsNonNegative(Make(BinaryOp::kMaximum, Make(BinaryOp::kSubtract, i, j), Constant(0))));
  EXPECT_TRUE(pool_.IsBelow(i, Constant(4)));
  EXPECT_FALSE(pool_.IsBelow(i, Constant(3)));
  EXPECT_TRUE(pool_.IsBelow(Make(BinaryOp::kFloorMod, j, Constant(3)), Constant(3)));
  EXPECT_TRUE(pool_.IsBelow(Make(BinaryOp::kMinimum, i, Constant(2)), Constant(3)));
  EXPECT_FALSE(pool_.IsBelow(Make(BinaryOp::kMinimum, i, Constant(-1)), Constant(3)));
  Expr scaled = Make(BinaryOp::kMultiply, Make(BinaryOp::kFloorMod, j, Constant(2)), Constant(4));
  EXPECT_TRUE(pool_.IsBelow(scaled, Constant(5)));
  EXPECT_FALSE(pool_.IsBelow(scaled, Constant(4)));
}

TEST_F(ExprPoolTest, CopiesReplaceVariables) {
  Rewrite rewrite;
  rewrite.variables[i_.id] = Constant(2);
  Expr linear = Make(BinaryOp::kAdd, Make(BinaryOp::kMultiply, i, Constant(6)), j);
  Expr copy = pool_.Copy(linear, rewrite);
  EXPECT_FALSE(DependsOn(copy, i_.id));
  EXPECT_EQ(Stride(copy, j_.id), 1);
}

}  // namespace
}  // namespace rvm::te
