#include "compiler/lowering/opencl_source.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "serialization/assembler.h"

namespace rvm::lowering {
namespace {

absl::StatusOr<OpenClKernel> Translate(const std::string& text) {
  absl::StatusOr<Executable> program = Assemble("class portable " + text);
  EXPECT_TRUE(program.ok()) << program.status();
  return MakeOpenClKernel(program->kernels[0], program->recipes[0]);
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

TEST(OpenClSourceTest, PositionsAreWorkItems) {
  absl::StatusOr<OpenClKernel> kernel = Translate(R"(
kernel N0 "scale" "k" ("n") { param float32 ($0, 3) param float32 () result float32 ($0, 3) workspace 0 }
recipe N0 { nest (($0 * 3)) () () {
  v0 = index int64 0  v1 = load float32 v0 B0  v2 = constant int64 0  v3 = load float32 v2 B1
  v4 = binary "*" float32 v1 v3  v5 = store float32 v0 v4 B2
} })");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_FALSE(kernel->uses_fp64);
  ASSERT_EQ(kernel->launches.size(), 1u);
  EXPECT_EQ(kernel->launches[0].ToString(), "n * 3");
  ASSERT_EQ(kernel->functions.size(), 1u);
  EXPECT_EQ(ArgumentsOf(*kernel, 0), "0 1 2 4");
  EXPECT_EQ(kernel->functions[0].text, R"((__global const float* b0, ulong b1, __global float* b2, long s0) {
  const ulong n0 = (ulong)(s0 * 3L);
  const float x1 = as_float((uint)b1);
  const ulong n2 = (ulong)(s0 * 3L);
  const long positions = (s0 * 3L);
  for (long position = get_global_id(0); position < positions; position += get_global_size(0)) {
    long rest = position;
    const long i0 = rest;
    const long v0 = i0;
    const float v1 = (ulong)v0 < n0 ? b0[v0] : 0;
    const long v2 = (long)0x0UL;
    const float v3 = x1;
    const float v4 = v1 * v3;
    if ((ulong)v0 < n2) b2[v0] = v4;
  }
}
)");
}

TEST(OpenClSourceTest, AReductionIsALoopOfItsItem) {
  absl::StatusOr<OpenClKernel> kernel = Translate(R"(
kernel N0 "sum" "k" () { param float64 (4, 5) result float64 (4) workspace 64 }
recipe N0 { workspace float64 0 4  nest (4) (5) () {
  v0 = index int64 0  v1 = constant int64 5  v2 = binary "*" int64 v0 v1  v3 = index int64 1
  v4 = binary "+" int64 v2 v3  v5 = load float64 v4 B0  v6 = reduce "sum" float64 v5
  v7 = index int64 0  v8 = store float64 v7 v6 B2
} })");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_TRUE(kernel->uses_fp64);
  EXPECT_EQ(ArgumentsOf(*kernel, 0), "0 3 2");
  const std::string& text = kernel->functions[0].text;
  for (const char* line : {"(__global const double* b0, ulong at1, __global uchar* workspace) {\n",
                           "  __global double* b1 = (__global double*)(workspace + at1);\n", "    double v6 = 0;\n",
                           "    for (long i1 = 0; i1 < 5L; ++i1) {\n", "      v6 = v6 + v5;\n",
                           "    if ((ulong)v7 < n1) b1[v7] = v6;\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << "\nis not in\n" << text;
  }
}

TEST(OpenClSourceTest, NestsThatDoTheSameAreOneText) {
  absl::StatusOr<OpenClKernel> kernel = Translate(R"(
kernel N0 "twice" "k" ("m", "n") { param float32 ($1) param float32 ($1) result float32 ($1) workspace (64 + ($1 * 4)) }
recipe N0 { workspace float32 64 $1
  nest ($1) () () { v0 = index int64 0  v1 = load float32 v0 B1  v2 = store float32 v0 v1 B3 }
  nest ($1) () () { v0 = index int64 0  v1 = load float32 v0 B3  v2 = store float32 v0 v1 B2 }
  nest ($1) () () { v0 = index int64 0  v1 = load float32 v0 B0  v2 = store float32 v0 v1 B2 }
  nest ($0) () () { v0 = index int64 0  v1 = load float32 v0 B1  v2 = store float32 v0 v1 B2 }
  nest ($1) () () { v0 = index int64 0  v1 = load float32 v0 B1  v2 = store float32 v0 v1 B2 }
})");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  auto text = [&](size_t i) { return kernel->functions[i].text; };
  EXPECT_EQ(ArgumentsOf(*kernel, 0), "1 6+64 3 5");
  EXPECT_EQ(ArgumentsOf(*kernel, 1), "6+64 2 3 5");
  EXPECT_EQ(ArgumentsOf(*kernel, 2), "0 2 5");
  EXPECT_EQ(ArgumentsOf(*kernel, 3), "1 2 5 4") << "of n elements, at m positions";
  EXPECT_EQ(ArgumentsOf(*kernel, 4), "1 2 5");
  EXPECT_EQ(text(2), text(4));
  EXPECT_NE(text(0), text(4)) << "one stores to the workspace";
  EXPECT_NE(text(3), text(4));
}

struct HostCase {
  const char* kernel;
  const char* nest;
  const char* reason;
};

TEST(OpenClSourceTest, KernelsThatStayOnTheHost) {
  const HostCase cases[] = {
      {"param float32 () result float32 ()", "", "it computes scalars from scalars"},
      {"param int64 (4) result int64 (16)", "v0 = constant int64 0 v1 = constant int64 4 v2 = order int64 v0 v1 B1",
       "it sorts"},
      {"param int64 (4) result int64 (4)", "v0 = constant int64 0 v1 = load int64 v0 B1 v2 = store int64 v0 v1 B1",
       "it computes elements one after the other"},
      {"param float8_e4m3fn (4) result int64 (4)", "v0 = constant int64 0 v1 = load float8_e4m3fn v0 B0",
       "it computes with float8_e4m3fn"},
      {"param float16 (4) result int16 (4)", "v0 = constant int64 0 v1 = load float16 v0 B0 v2 = bitcast int16 v1",
       "it uses the bits of 16-bit floats"},
  };
  for (const HostCase& c : cases) {
    absl::Status status = Translate(absl::StrCat("kernel N0 \"k\" \"k\" () { ", c.kernel,
                                                 " workspace 0 } recipe N0 { nest (1) () () { ", c.nest, " } }"))
                              .status();
    EXPECT_EQ(status, absl::UnimplementedError(c.reason));
  }
}

}  // namespace
}  // namespace rvm::lowering
