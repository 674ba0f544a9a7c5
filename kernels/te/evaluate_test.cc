#include "kernels/te/evaluate.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace rvm::te {
namespace {

using Indices = std::span<const Expr>;

Literal Vector(const std::vector<float>& values) {
  return Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(values.size())}, values);
}

std::vector<double> Values(const Literal& literal) {
  std::vector<double> values;
  for (int64_t i = 0; i < literal.num_elements(); ++i) values.push_back(literal.DoubleAt(i));
  return values;
}

std::vector<double> EvaluateOne(const Computation& computation, const std::vector<Literal>& inputs) {
  absl::StatusOr<std::vector<Literal>> results = Evaluate(computation, inputs);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? Values((*results)[0]) : std::vector<double>();
}

TEST(EvaluateTest, SymbolsAreBoundByTheShapesOfInputs) {
  Dim n = Dim::Var(1, "n");
  Tensor a = Input(0, "a", kFloat32, {n}), b = Input(1, "b", kFloat32, {n + 1});
  Tensor sum = ComputeTensor("sum", kFloat32, {n},
                             [&](Indices i) { return a(i) + b({i[0] + Index(1)}) + Cast(kFloat32, DimValue(n)); });
  Computation computation{"f", {a, b}, {sum}};
  EXPECT_EQ(EvaluateOne(computation, {Vector({1, 2}), Vector({10, 20, 30})}), (std::vector<double>{23, 34}));
  Literal wrong[] = {Vector({1, 2}), Vector({10, 20})};
  EXPECT_EQ(Evaluate(computation, wrong).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EvaluateTest, ValuesOfInputsMayBeNegativeSymbols) {
  Dim step = Dim::Var(1, "step");
  Tensor steps = Input(0, "steps", kInt32, {Dim(2)});
  Tensor out = ComputeTensor("out", kInt64, {Dim(3)}, [&](Indices i) { return i[0] * DimValue(step); });
  Computation computation{"f", {steps}, {out}, {{step, 0, 1}}};
  std::vector<int32_t> values = {7, -2};
  EXPECT_EQ(EvaluateOne(computation, {Literal::FromValues<int32_t>(kInt32, {2}, values)}),
            (std::vector<double>{0, -2, -4}));
}

TEST(EvaluateTest, SelectsReadOnlyWhatTheyChoose) {
  Tensor a = Input(0, "a", kFloat32, {Dim(2)});
  Tensor padded = ComputeTensor("padded", kFloat32, {Dim(4)}, [&](Indices i) {
    return Select(Binary(BinaryOp::kLess, i[0], Index(2)), a(i), Const(kFloat32, -1));
  });
  EXPECT_EQ(EvaluateOne({"f", {a}, {padded}}, {Vector({5, 6})}), (std::vector<double>{5, 6, -1, -1}));
}

TEST(EvaluateTest, CastsTruncateAndSaturate) {
  Tensor a = Input(0, "a", kFloat32, {Dim(4)});
  Tensor cast = ComputeTensor("cast", kInt8, {Dim(4)}, [&](Indices i) { return Cast(kInt8, a(i)); });
  EXPECT_EQ(EvaluateOne({"f", {a}, {cast}}, {Vector({-1.9f, 300, -300, std::nanf("")})}),
            (std::vector<double>{-1, 127, -128, 0}));
}

TEST(EvaluateTest, HalvesAreRoundedAtEachTensorOnly) {
  // 2049 is no float16. Within one tensor the sum is exact; a tensor between rounds it to 2048.
  Tensor a = Input(0, "a", kFloat16, {Dim(1)});
  auto one = [] { return Const(kFloat16, 1); };
  Tensor whole = ComputeTensor("whole", kFloat16, {Dim(1)}, [&](Indices i) { return a(i) + one() + one(); });
  Tensor part = ComputeTensor("part", kFloat16, {Dim(1)}, [&](Indices i) { return a(i) + one(); });
  Tensor rest = ComputeTensor("rest", kFloat16, {Dim(1)}, [&](Indices i) { return part(i) + one(); });
  Literal start = Literal::Full(kFloat16, {1}, 2048);
  EXPECT_EQ(EvaluateOne({"f", {a}, {whole}}, {start}), std::vector<double>{2050});
  EXPECT_EQ(EvaluateOne({"f", {a}, {rest}}, {start}), std::vector<double>{2048});
}

TEST(EvaluateTest, ReductionsOverNothing) {
  Dim n = Dim::Var(1, "n"), extents[] = {n};
  Tensor a = Input(0, "a", kFloat32, {n});
  for (auto [op, expected] : {std::pair(ReduceOp::kSum, 0.0), std::pair(ReduceOp::kProduct, 1.0)}) {
    Tensor result =
        ComputeTensor("r", kFloat32, {}, [&](Indices) { return Reduce(op, extents, [&](Indices r) { return a(r); }); });
    EXPECT_EQ(EvaluateOne({"f", {a}, {result}}, {Vector({})}), std::vector<double>{expected});
  }
}

TEST(EvaluateTest, NothingIsComputedForNoElements) {
  Tensor a = Input(0, "a", kFloat32, {Dim(0)});
  const Dim huge = int64_t{1} << 40, extents[] = {Dim(0)};
  Tensor counts = ComputeTensor("counts", kFloat32, {huge}, [&](Indices i) { return Cast(kFloat32, i[0]); });
  Tensor none = ComputeTensor("none", kFloat32, {Dim(0)}, [&](Indices i) { return a(i) + counts(i); });
  EXPECT_EQ(EvaluateOne({"f", {a}, {none}}, {Vector({})}), std::vector<double>());
  Tensor sum = ComputeTensor("sum", kFloat32, {Dim(2)}, [&](Indices) {
    return Reduce(ReduceOp::kSum, extents, [&](Indices r) { return none(r); });
  });
  EXPECT_EQ(EvaluateOne({"f", {a}, {sum}}, {Vector({})}), (std::vector<double>{0, 0}));
}

TEST(EvaluateTest, ScansReadEarlierElements) {
  Tensor a = Input(0, "a", kFloat32, {Dim(4)});
  Tensor running = ScanTensor("running", kFloat32, {Dim(4)}, [&](Indices i, const Tensor& self) {
    Expr before = self({i[0] - Index(1)});
    return Select(Binary(BinaryOp::kEqual, i[0], Index(0)), a(i), a(i) + before);
  });
  EXPECT_EQ(EvaluateOne({"f", {a}, {running}}, {Vector({1, 2, 3, 4})}), (std::vector<double>{1, 3, 6, 10}));
}

TEST(EvaluateTest, OrderIsStable) {
  Tensor a = Input(0, "a", kFloat32, {Dim(4)});
  Tensor order = OrderTensor("order", {Dim(4)}, 4, [&](Indices i) { return Cast(kInt64, a(i)); });
  Tensor places = ComputeTensor("places", kInt64, {Dim(4)}, [&](Indices i) { return order({Index(1), i[0]}); });
  EXPECT_EQ(EvaluateOne({"f", {a}, {places}}, {Vector({2, 1, 2, 1})}), (std::vector<double>{1, 3, 0, 2}));
}

}  // namespace
}  // namespace rvm::te
