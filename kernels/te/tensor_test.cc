#include "kernels/te/tensor.h"

#include <gtest/gtest.h>

#include "kernels/te/kernel_symbols.h"

namespace rvm::te {
namespace {

using Indices = std::span<const Expr>;

// a + scale, with names that make no difference.
Computation Shifted(const std::string& name, const Dim& n, double scale) {
  Tensor a = Input(0, name, kFloat32, {n});
  Tensor out = ComputeTensor(name + "_out", kFloat32, {n}, [&](Indices i) { return a(i) + Const(kFloat32, scale); });
  return {name, {a}, {out}};
}

TEST(TensorTest, FingerprintsIgnoreNamesOnly) {
  std::string fingerprint = Fingerprint(Shifted("f", Dim::Var(1, "n"), 2));
  EXPECT_EQ(fingerprint, Fingerprint(Shifted("g", Dim::Var(1, "m"), 2)));
  EXPECT_NE(fingerprint, Fingerprint(Shifted("f", Dim::Var(1, "n"), 3)));
  EXPECT_NE(fingerprint, Fingerprint(Shifted("f", Dim(4), 2)));
}

TEST(TensorTest, IndexArithmeticFolds) {
  Expr n = DimValue(Dim::Var(1, "n"));
  EXPECT_EQ((n + Index(0)).get(), n.get());
  EXPECT_EQ((n * Index(1)).get(), n.get());
  EXPECT_EQ(ToString(n * Index(0)), "0");
  EXPECT_EQ(ToString(Index(3) * Index(4) - Index(2)), "10");
  EXPECT_EQ(ToString(Binary(BinaryOp::kFloorMod, Index(-3), Index(4))), "1");
  EXPECT_EQ(Cast(kInt64, n).get(), n.get());
}

TEST(TensorTest, BroadcastIndicesBySides) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m");
  Expr i = DimValue(Dim::Var(3, "i"));
  EXPECT_EQ(ToString(BroadcastIndex(i, 1, n)), "0");
  EXPECT_EQ(BroadcastIndex(i, n, n).get(), i.get());
  EXPECT_EQ(BroadcastIndex(i, 4, m).get(), i.get());
  EXPECT_EQ(BroadcastIndex(i, n, m)->kind, ExprKind::kSelect);  // n may be 1
}

TEST(TensorTest, DTypesOfOperations) {
  Expr x = Const(kFloat32, 1), b = IntConst(kBool, 1);
  EXPECT_EQ(Binary(BinaryOp::kLess, x, x).dtype(), kBool);
  EXPECT_EQ(Unary(UnaryOp::kIsNan, x).dtype(), kBool);
  EXPECT_EQ(Select(b, x, x).dtype(), kFloat32);
  Dim extents[] = {4};
  EXPECT_EQ(Reduce(ReduceOp::kArgMax, extents, [&](Indices) { return x; }).dtype(), kInt64);
  EXPECT_EQ(Reduce(ReduceOp::kMaximum, extents, [&](Indices) { return x; }).dtype(), kFloat32);
}

TEST(KernelSymbolsTest, InOrderOfAppearanceThenValues) {
  Dim n = Dim::Var(1, "n"), m = Dim::Var(2, "m"), v = Dim::Var(3, "v");
  Tensor a = Input(0, "a", kFloat32, {m * 2, n}), b = Input(1, "b", kInt32, {n, m});
  EXPECT_EQ(KernelSymbols({"f", {a, b}, {}, {{v, 1, 0}}}), (std::vector<Dim>{m, n, v}));
}

}  // namespace
}  // namespace rvm::te
