#include "compiler/lowering/opencl_source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/loops/lower.h"
#include "kernels/schedule/schedule.h"
#include "kernels/te/kernel_symbols.h"
#include "kernels/te/tensor.h"

namespace rvm::lowering {
namespace {

using te::Expr;
using te::Tensor;
using Indices = std::span<const Expr>;

absl::StatusOr<OpenClKernel> Translate(const te::Computation& computation) {
  RVM_ASSIGN_OR_RETURN(schedule::Schedule schedule, schedule::MakeSchedule(computation, {}, loops::kTarget));
  SymbolNumbers symbols(schedule);
  KernelDesc desc;
  auto add = [&](const Tensor& tensor, std::vector<KernelTensor>& to) {
    KernelTensor& made = to.emplace_back();
    made.dtype = tensor.dtype();
    for (const Dim& dim : tensor.dims()) made.dims.push_back(symbols.Numbered(dim));
  };
  for (const Tensor& input : computation.inputs) add(input, desc.params);
  for (const Tensor& output : computation.outputs) add(output, desc.results);
  desc.num_symbols = static_cast<uint32_t>(te::KernelSymbols(computation).size());
  return MakeOpenClKernel(desc, symbols, loops::Lower(schedule));
}

// Returns the arguments of function `i`, as "0 6+offset".
std::string ArgumentsOf(const OpenClKernel& kernel, size_t i) {
  std::string text;
  for (const DeviceCall::Argument& argument : kernel.functions[i].arguments) {
    absl::StrAppend(&text, text.empty() ? "" : " ", argument.argument);
    if (argument.offset != Dim(0)) absl::StrAppend(&text, "+", argument.offset.ToString());
  }
  return text;
}

void ExpectLines(const std::string& text, std::initializer_list<const char*> lines) {
  for (const char* line : lines) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
  }
}

TEST(OpenClSourceTest, PositionsAreWorkItems) {
  Dims dims = {Dim::Var(7, "n"), Dim(3)};
  Tensor x = te::Input(0, "x", kFloat32, dims), by = te::Input(1, "by", kFloat32, {});
  Tensor y = te::ComputeTensor("y", kFloat32, dims, [&](Indices i) { return x(i) * by({}); });
  absl::StatusOr<OpenClKernel> kernel = Translate({"scale", {x, by}, {y}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_FALSE(kernel->uses_fp64);
  ASSERT_EQ(kernel->functions.size(), 1u);
  EXPECT_EQ(ArgumentsOf(*kernel, 0), "0 1 2 4");
  EXPECT_EQ(kernel->functions[0].text,
            R"((__global const float* restrict b0, ulong b1, __global float* restrict b2, long s0) {
  const float x1 = as_float((uint)b1);
  const long thread = get_local_id(0);
  const long blocks = rvm_floordiv(((s0 * 3L) + 127L), 128L);
  for (long block = get_group_id(0); block < blocks; block += get_num_groups(0)) {
    const long v3 = (long)((ulong)block * (ulong)128L);
    const long v4 = (long)((ulong)v3 + (ulong)thread);
    const long v5 = (s0 * 3L);
    const int v6 = v4 < v5;
    if (v6) {
      const float v7 = b0[v4];
      const float v9 = x1;
      const float v10 = v7 * v9;
      b2[v4] = v10;
    }
  }
}
)");
}

TEST(OpenClSourceTest, RowsAreReducedByTeams) {
  Tensor x = te::Input(0, "x", kFloat64, {Dim(4), Dim(300)});
  Dim extents[] = {300};
  Tensor sum = te::ComputeTensor("sum", kFloat64, {Dim(4)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return x({i[0], r[0]}); });
  });
  absl::StatusOr<OpenClKernel> kernel = Translate({"sum", {x}, {sum}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(kernel->uses_fp64);
  ASSERT_EQ(kernel->functions.size(), 1u);
  ExpectLines(kernel->functions[0].text,
              {"  __local double b", "[128];\n", "    #pragma unroll\n", "    barrier(CLK_LOCAL_MEM_FENCE);\n",
               // No barrier is in a loop that may not run.
               "  long block = get_group_id(0);\n  do {\n", "  } while (block < blocks);\n"});
  EXPECT_EQ(kernel->functions[0].text.find("block < blocks; "), std::string::npos);
}

TEST(OpenClSourceTest, ProductsAreTilesOfMultiplyAdds) {
  Dim extents[] = {64};
  Tensor a = te::Input(0, "a", kFloat32, {Dim(64), Dim(64)}), b = te::Input(1, "b", kFloat32, {Dim(64), Dim(64)});
  Tensor c = te::ComputeTensor("c", kFloat32, {Dim(64), Dim(64)}, [&](Indices i) {
    return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return a({i[0], r[0]}) * b({r[0], i[1]}); });
  });
  absl::StatusOr<OpenClKernel> kernel = Translate({"product", {a, b}, {c}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ASSERT_EQ(kernel->functions.size(), 1u);
  // A product and its addition are one expression, which compilers contract.
  ExpectLines(kernel->functions[0].text, {"__local float", "barrier(CLK_LOCAL_MEM_FENCE);", " + (v"});
}

TEST(OpenClSourceTest, LaunchesThatDoTheSameAreOneText) {
  // Two columns of reductions of the same extents, stored in the workspace and read by a third launch.
  Dim n = Dim::Var(3, "n"), m = Dim::Var(4, "m");
  Tensor x = te::Input(0, "x", kFloat32, {m, n}), y = te::Input(1, "y", kFloat32, {m, n});
  Dim extents[] = {m};
  auto reduce = [&](const Tensor& t) {
    return te::ComputeTensor("column", kFloat32, {n}, [&](Indices i) {
      return te::Reduce(ReduceOp::kSum, extents, [&](Indices r) { return t({r[0], i[0]}); });
    });
  };
  Tensor a = reduce(x), b = reduce(y);
  Tensor z = te::ComputeTensor("z", kFloat32, {m, n}, [&](Indices i) { return a({i[1]}) * b({i[1]}); });
  absl::StatusOr<OpenClKernel> kernel = Translate({"kernel", {x, y}, {z}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ASSERT_EQ(kernel->functions.size(), 3u);
  EXPECT_EQ(kernel->functions[0].text, kernel->functions[1].text);
  EXPECT_NE(kernel->functions[0].text, kernel->functions[2].text);
  EXPECT_EQ(ArgumentsOf(*kernel, 0).substr(0, 4), "0 6 ");
  EXPECT_EQ(ArgumentsOf(*kernel, 1).substr(0, 4), "1 6+");
}

TEST(OpenClSourceTest, KernelsThatStayOnTheHost) {
  Tensor small = te::Input(0, "x", kFloat8E4M3FN, {Dim(4)}), half = te::Input(0, "x", kFloat16, {Dim(4)});
  Tensor wide = te::ComputeTensor("y", kFloat32, {Dim(4)}, [&](Indices i) { return te::Cast(kFloat32, small(i)); });
  EXPECT_EQ(Translate({"k", {small}, {wide}}).status(), absl::UnimplementedError("it computes with float8_e4m3fn"));
  Tensor bits = te::ComputeTensor("y", kInt16, {Dim(4)}, [&](Indices i) { return te::Bitcast(kInt16, half(i)); });
  EXPECT_EQ(Translate({"k", {half}, {bits}}).status(), absl::UnimplementedError("it uses the bits of 16-bit floats"));
}

}  // namespace
}  // namespace rvm::lowering
