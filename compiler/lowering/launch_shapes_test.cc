#include "compiler/lowering/launch_shapes.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <utility>

#include "kernels/te/tensor.h"

namespace rvm::lowering {
namespace {

using te::Expr;
using te::Tensor;
using Indices = std::span<const Expr>;

constexpr schedule::Target kGpu{.has_blocks = true};

KernelDesc DescOf(const te::Computation& computation) {
  KernelDesc desc;
  for (const Tensor& input : computation.inputs) desc.params.push_back({input.dtype(), input.dims()});
  for (const Tensor& output : computation.outputs) desc.results.push_back({output.dtype(), output.dims()});
  return desc;
}

absl::StatusOr<LaunchShapes> ShapesOf(const te::Computation& computation) {
  absl::StatusOr<schedule::Schedule> schedule = schedule::MakeSchedule(computation, {}, kGpu);
  if (!schedule.ok()) return schedule.status();
  return ShapesOfLaunches(DescOf(computation), *schedule);
}

std::string TextOf(const te::Computation& computation) {
  absl::StatusOr<LaunchShapes> shapes = ShapesOf(computation);
  return shapes.ok() ? DimsToString(shapes->threads) : std::string(shapes.status().message());
}

Tensor Negative(const Tensor& x) {
  return te::ComputeTensor("y", x.dtype(), x.dims(),
                           [&](Indices i) { return te::Unary(te::UnaryOp::kNegative, x(i)); });
}

TEST(LaunchShapesTest, ThreadsOfEachLaunch) {
  Tensor x = te::Input(0, "x", kFloat32, {Dim(3), Dim(5)});
  EXPECT_EQ(TextOf({"negative", {x}, {Negative(x)}}), "(15)");
}

TEST(LaunchShapesTest, SymbolsAreNumbered) {
  Dim n = Dim::Var(1234, "n");
  Tensor x = te::Input(0, "x", kFloat32, {n, Dim(5)});
  absl::StatusOr<LaunchShapes> shapes = ShapesOf({"negative", {x}, {Negative(x)}});
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  ASSERT_EQ(shapes->threads.size(), 1u);
  // Threads of a full grid take 4 elements each.
  Dim elements = Dim::Var(0, "n") * Dim(5), in_groups = Min(FloorDiv(elements, 1 << 18), 1);
  EXPECT_EQ(shapes->threads[0], in_groups * FloorDiv(elements + Dim(3), 4) + (1 - in_groups) * elements);
  EXPECT_EQ(shapes->workspace, Dim(0));
}

TEST(LaunchShapesTest, ScalarsStayOnTheHost) {
  Tensor x = te::Input(0, "x", kFloat32, {});
  EXPECT_EQ(TextOf({"negative", {x}, {Negative(x)}}), "it computes scalars from scalars");
}

TEST(LaunchShapesTest, TooManyArgumentsStayOnTheHost) {
  te::Computation many{"sum", {}, {}};
  for (size_t i = 0; i < 100; ++i) many.inputs.push_back(te::Input(i, "x", kFloat32, {Dim(4)}));
  many.outputs.push_back(te::ComputeTensor("sum", kFloat32, {Dim(4)}, [&](Indices i) {
    Expr sum = many.inputs[0](i);
    for (const Tensor& x : std::span(many.inputs).subspan(1)) sum = sum + x(i);
    return sum;
  }));
  EXPECT_EQ(TextOf(many), "it has more arguments than a device function may have");
}

}  // namespace
}  // namespace rvm::lowering
