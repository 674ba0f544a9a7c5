// Tests which tensors are inlined, which have a nest, and where those between nests are stored.
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"

namespace rvm::schedule {
namespace {

using te::ComputeTensor;
using te::Expr;
using te::Input;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

constexpr Target kVectors{.has_vectors = true};
const Dim kN = Dim::Var(1, "n");

Tensor Map(const std::string& name, const Tensor& of, UnaryOp op) {
  return ComputeTensor(name, of.dtype(), of.dims(), [&](Indices i) { return te::Unary(op, of(i)); });
}
// Returns the sum of each row of a matrix.
Tensor RowSums(const std::string& name, const Tensor& matrix) {
  Dim extents[] = {matrix.dims()[1]};
  return ComputeTensor(name, matrix.dtype(), {matrix.dims()[0]}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return matrix({i[0], r[0]}); });
  });
}

Schedule Made(const te::Computation& computation) {
  absl::StatusOr<Schedule> schedule = MakeSchedule(computation, {}, kVectors);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

TEST(NestBuilderTest, ElementwiseProducersAreInlined) {
  Tensor a = Input(0, "a", kFloat32, {kN});
  Schedule schedule = Made({"f", {a}, {Map("tanh", Map("exp", a, UnaryOp::kExp), UnaryOp::kTanh)}});
  EXPECT_EQ(Describe(schedule), "loops n: tanh");
  EXPECT_EQ(schedule.workspace, Dim(0));
}

TEST(NestBuilderTest, CostlyProducersOfReductionsAreStored) {
  Tensor a = Input(0, "a", kFloat32, {Dim(8), kN});
  Tensor e = Map("exp", a, UnaryOp::kExp), sums = RowSums("sums", e);
  // exp is needed for the sums and again for the quotients.
  Tensor out = ComputeTensor("softmax", kFloat32, a.dims(),
                             [&](Indices i) { return te::Binary(te::BinaryOp::kDivide, e(i), sums({i[0]})); });
  Schedule schedule = Made({"f", {a}, {out}});
  EXPECT_EQ(Describe(schedule).find("softmax"), Describe(schedule).rfind("softmax"));
  auto is_stored = [&](const Tensor& t) {
    auto keeps = [&](const NestGroup& group) { return group.FindLocal(t) != nullptr; };
    return schedule.buffers.contains(t.get()) || std::ranges::any_of(schedule.groups, keeps);
  };
  EXPECT_TRUE(is_stored(e));
  EXPECT_TRUE(is_stored(sums));
}

TEST(NestBuilderTest, ReadersAtTheSamePositionAreTheEpilogue) {
  Tensor a = Input(0, "a", kFloat32, {Dim(8), kN});
  Tensor sums = RowSums("sums", a), out = Map("root", sums, UnaryOp::kSqrt);
  Schedule schedule = Made({"f", {a}, {out}});
  EXPECT_EQ(schedule.nests.size(), 1u);
  EXPECT_FALSE(schedule.buffers.contains(sums.get()));
}

// Reversing comes behind x * tanh(x) + x, which reads each sum twice.
TEST(NestBuilderTest, FunctionsOfSumsReadElsewhereAreTheEpilogue) {
  Tensor a = Input(0, "a", kFloat32, {Dim(8), kN});
  Tensor sums = RowSums("sums", a), tanh = Map("tanh", sums, UnaryOp::kTanh);
  auto reversed = [&](const Tensor& of) {
    return ComputeTensor("reversed", kFloat32, of.dims(), [&](Indices i) { return of({te::Index(7) - i[0]}); });
  };
  Tensor finished =
      ComputeTensor("finished", kFloat32, sums.dims(), [&](Indices i) { return sums(i) * tanh(i) + sums(i); });
  Schedule schedule = Made({"f", {a}, {reversed(finished)}});
  EXPECT_FALSE(schedule.buffers.contains(sums.get()));
  EXPECT_TRUE(schedule.buffers.contains(finished.get()));
  // Sums that are read elsewhere, too, are stored.
  Tensor both = ComputeTensor("both", kFloat32, sums.dims(),
                              [&](Indices i) { return finished({te::Index(7) - i[0]}) + sums({te::Index(7) - i[0]}); });
  EXPECT_TRUE(Made({"f", {a}, {both}}).buffers.contains(sums.get()));
}

TEST(NestBuilderTest, ExtentsMustFollowFromInputs) {
  Tensor a = Input(0, "a", kFloat32, {Dim(4)});
  Tensor out = ComputeTensor("out", kFloat32, {Dim::Var(7, "free")}, [&](Indices) { return a({te::Index(0)}); });
  EXPECT_EQ(MakeSchedule({"f", {a}, {out}}, {}, kVectors).status().code(), absl::StatusCode::kInvalidArgument);
}

// Reductions over each other's results: none can be inlined.
TEST(BuffersTest, WorkspaceIsReusedOnceDead) {
  Tensor a = Input(0, "a", kFloat32, {Dim(64), Dim(64)});
  auto sums_of = [](const std::string& name, const Tensor& v) {
    Dim extents[] = {64};
    return ComputeTensor(name, kFloat32, {Dim(64)}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents,
                        [&](Indices r) { return v({r[0]}) * te::Cast(kFloat32, i[0] + r[0]); });
    });
  };
  Tensor first = RowSums("first", a), second = sums_of("second", first), third = sums_of("third", second),
         last = sums_of("last", third);
  Schedule schedule = Made({"f", {a}, {last}});
  ASSERT_TRUE(schedule.buffers.contains(first.get()) && schedule.buffers.contains(second.get()) &&
              schedule.buffers.contains(third.get()));
  EXPECT_EQ(schedule.buffers.at(first.get()).offset, schedule.buffers.at(third.get()).offset);
  EXPECT_NE(schedule.buffers.at(first.get()).offset, schedule.buffers.at(second.get()).offset);
  EXPECT_EQ(schedule.workspace, Dim(2 * 64 * 4));
  EXPECT_TRUE(schedule.buffers.at(last.get()).is_output);
}

TEST(BuffersTest, OutputsMayReplaceInputsReadAtTheSamePosition) {
  Tensor a = Input(0, "a", kFloat32, {kN}), b = Input(1, "b", kFloat32, {kN}), c = Input(2, "c", kInt8, {kN});
  Tensor out = ComputeTensor("out", kFloat32, {kN}, [&](Indices i) {
    Expr mirrored = te::DimValue(kN) - te::Index(1) - i[0];
    return a(i) + b({mirrored}) + te::Cast(kFloat32, c(i));
  });
  Schedule schedule = Made({"f", {a, b, c}, {out}});
  // b is read elsewhere, and c has smaller elements.
  ASSERT_EQ(schedule.reuses.size(), 1u);
  EXPECT_EQ(schedule.reuses[0].input, 0);
}

// sum over k of a[m, k] * b[k, n] + c[m, n]: tiles that overlap add to columns that they have stored already.
TEST(BuffersTest, OutputsOfTilesThatOverlapReplaceNothing) {
  constexpr Target kTarget{.has_vectors = true, .vector_bits = 256, .vector_registers = 16};
  for (int64_t columns : {16, 20}) {
    Dims dims = {6, columns};
    Tensor a = Input(0, "a", kFloat32, {6, 8}), b = Input(1, "b", kFloat32, {8, columns});
    Tensor c = Input(2, "c", kFloat32, dims);
    Dim depth[] = {8};
    Tensor product = ComputeTensor("product", kFloat32, dims, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, depth, [&](Indices r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
    });
    Tensor sum = ComputeTensor("sum", kFloat32, dims, [&](Indices i) { return product(i) + c(i); });
    absl::StatusOr<Schedule> schedule = MakeSchedule({"f", {a, b, c}, {sum}}, {}, kTarget);
    ASSERT_TRUE(schedule.ok());
    bool overlaps = Describe(*schedule).find("overlapping") != std::string::npos;
    EXPECT_EQ(overlaps, columns == 20) << Describe(*schedule);
    EXPECT_EQ(schedule->reuses.size(), overlaps ? 0u : 1u);
  }
}

TEST(BuffersTest, ConstantsAreNotReplaced) {
  Tensor a = Input(0, "a", kFloat32, {kN});
  absl::StatusOr<Schedule> schedule = MakeSchedule({"f", {a}, {Map("exp", a, UnaryOp::kExp)}}, {true}, kVectors);
  ASSERT_TRUE(schedule.ok());
  EXPECT_TRUE(schedule->reuses.empty());
}

TEST(BuffersTest, LaterNestsKeepInputsAlive) {
  Tensor a = Input(0, "a", kFloat32, {Dim(64)});
  Tensor e = Map("exp", a, UnaryOp::kExp);
  Dim extents[] = {64};
  Tensor total = ComputeTensor("total", kFloat32, {}, [&](Indices) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return a({r[0]}); });
  });
  Schedule schedule = Made({"f", {a}, {e, total}});
  bool total_first = schedule.nests[0].tensors[0].tensor.get() == total.get();
  EXPECT_EQ(schedule.reuses.size(), total_first ? 1u : 0u) << Describe(schedule);
}

}  // namespace
}  // namespace rvm::schedule
