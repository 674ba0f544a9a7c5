// The loader, on objects that the compiler made and on damaged ones.
#include "kernels/runtime/kernel_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/runtime/cpu_features.h"
#include "kernels/runtime/linker.h"

namespace rvm::runtime {
namespace {

// Returns a small object with constants and imports: y = fmod(x, 0.75) + exp(x).
std::vector<uint8_t> MakeObject(std::string_view target) {
  te::Tensor x = te::Input(0, "x", kFloat32, {Dim(5)});
  te::Tensor y = te::ComputeTensor("y", kFloat32, {Dim(5)}, [&](std::span<const te::Expr> i) {
    return te::Binary(te::BinaryOp::kTruncMod, x(i), te::FloatConst(kFloat32, 0.75)) +
           te::Unary(te::UnaryOp::kExp, x(i));
  });
  codegen::HostTarget host = *codegen::ParseHostTarget(target);
  auto schedule = schedule::MakeSchedule({"sum", {x}, {y}}, {}, codegen::ScheduleTarget(host));
  return codegen::CompileKernels(host, {{"sum", *std::move(schedule)}}, {})->object;
}

// For every CPU of an architecture.
const std::vector<uint8_t>& ObjectFor(Architecture architecture) {
  static const std::vector<uint8_t> x86 = MakeObject(InfoOf(Architecture::kX86_64).name);
  static const std::vector<uint8_t> arm = MakeObject(InfoOf(Architecture::kAArch64).name);
  return architecture == Architecture::kX86_64 ? x86 : arm;
}

const std::vector<uint8_t>& Object() { return ObjectFor(HostArchitecture().value()); }

TEST(KernelLibraryTest, LoadsAndRuns) {
  absl::StatusOr<std::shared_ptr<const KernelLibrary>> library = KernelLibrary::Load(Object());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ((*library)->Find("other"), nullptr);
  EXPECT_EQ((*library)->Find("sum.0"), nullptr);
  RvmKernel kernel = (*library)->Find("sum");
  ASSERT_NE(kernel, nullptr);
  float x[5] = {0, 1, -1, 2, 0.5f}, y[5] = {};
  void* buffers[] = {x, y};
  RvmKernelContext context{};
  ASSERT_EQ(kernel(buffers, nullptr, &context), kRvmOk);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], std::fmod(x[i], 0.75f) + std::exp(x[i]), 1e-5);
}

TEST(KernelLibraryTest, StopsWhenCancelled) {
  auto library = KernelLibrary::Load(Object());
  ASSERT_TRUE(library.ok());
  float x[5] = {}, y[5] = {};
  void* buffers[] = {x, y};
  int32_t cancel = 1;
  RvmKernelContext context{nullptr, nullptr, &cancel, nullptr};
  EXPECT_EQ((*library)->Find("sum")(buffers, nullptr, &context), kRvmCancelled);
}

// Any machine links the objects of every architecture; it runs its own.
class LinkerTest : public testing::TestWithParam<Architecture> {};

TEST_P(LinkerTest, EachByteDamagedNeverCrashes) {
  const std::vector<uint8_t>& good = ObjectFor(GetParam());
  int accepted = 0, refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bad = good;
      bad[i] ^= flip;
      ++(LinkObject(bad, GetParam()).ok() ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 0);  // some bytes are code
  EXPECT_GT(refused, 0);
}

TEST_P(LinkerTest, TruncatedObjectsAreRefused) {
  std::span<const uint8_t> good = ObjectFor(GetParam());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(LinkObject(good.first(size), GetParam()).status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST_P(LinkerTest, ObjectsOfAnotherArchitectureAreRefused) {
  for (const ArchitectureInfo& info : Architectures()) {
    if (info.architecture == GetParam()) {
      auto image = LinkObject(ObjectFor(GetParam()), GetParam());
      ASSERT_TRUE(image.ok()) << image.status();
      EXPECT_EQ((*image)->functions.count("sum"), 1);
    } else {
      EXPECT_EQ(LinkObject(ObjectFor(GetParam()), info.architecture).status().message(),
                absl::StrCat("malformed kernel object: not a relocatable ", Abseil(info.name), " object"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, LinkerTest, testing::Values(Architecture::kX86_64, Architecture::kAArch64),
                         [](const auto& info) { return info.param == Architecture::kX86_64 ? "X86_64" : "AArch64"; });

TEST(KernelLibraryTest, UnknownImportsAreRefused) {
  std::vector<uint8_t> object = Object();
  std::string text(object.begin(), object.end());
  size_t at = text.find("fmodf");
  ASSERT_NE(at, std::string::npos);
  object[at] = 'z';
  absl::Status status = KernelLibrary::Load(object).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("`zmodf`"), absl::string_view::npos);
}

TEST(CheckHostSupportsTest, NamesWhatIsMissing) {
  std::string triple(InfoOf(HostArchitecture().value()).triple);
  EXPECT_TRUE(CheckHostSupports(triple, codegen::ParseHostTarget("host")->features).ok());
  EXPECT_TRUE(CheckHostSupports(triple, "-avx9000").ok());
  absl::Status missing = CheckHostSupports(triple, "+avx9000");
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(missing.message(), "native code needs features that this CPU lacks: avx9000");
  EXPECT_EQ(CheckHostSupports("riscv64-unknown-linux-gnu", "").message(),
            "native code is for `riscv64-unknown-linux-gnu`, which this machine cannot run");
  EXPECT_FALSE(CheckHostSupports("x86_64-pc-windows", "").ok());
  for (const ArchitectureInfo& info : Architectures()) {
    EXPECT_EQ(CheckHostSupports(info.triple, "").ok(), info.architecture == HostArchitecture()) << info.name;
  }
}

TEST(CpuFeaturesTest, EveryFeatureOfEveryArchitectureIsOneOfTheCompiler) {
  for (const ArchitectureInfo& info : Architectures()) {
    EXPECT_EQ(std::string(codegen::ParseHostTarget(info.name)->triple), info.triple);
    EXPECT_FALSE(CpuFeatures(info.architecture).empty());
  }
  // The newest of LLVM 19's that has all of them.
  std::string features = codegen::ParseHostTarget("neoverse-v2")->features;
  for (std::string_view feature : CpuFeatures(Architecture::kAArch64)) {
    EXPECT_NE(features.find(absl::StrCat("+", Abseil(feature))), std::string::npos) << feature;
  }
}

}  // namespace
}  // namespace rvm::runtime
