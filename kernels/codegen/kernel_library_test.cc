// The loader, on objects that the compiler made and on damaged ones.
#include "kernels/runtime/kernel_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/codegen/kernel_compiler.h"
#include "kernels/runtime/cpu_features.h"

namespace rvm::runtime {
namespace {

// A small object with constants and imports: y = sin(x) + exp(x).
const std::vector<uint8_t>& Object() {
  static const std::vector<uint8_t>* object = [] {
    te::Tensor x = te::Input(0, "x", kFloat32, {Dim(5)});
    te::Tensor y = te::ComputeTensor("y", kFloat32, {Dim(5)}, [&](std::span<const te::Expr> i) {
      return te::Unary(te::UnaryOp::kSin, x(i)) + te::Unary(te::UnaryOp::kExp, x(i));
    });
    codegen::HostTarget host = *codegen::ParseHostTarget("x86-64");
    auto schedule = schedule::MakeSchedule({"sum", {x}, {y}}, {}, codegen::ScheduleTarget(host));
    auto compiled = codegen::CompileKernels(host, {{"sum", *std::move(schedule)}}, {});
    return new std::vector<uint8_t>(compiled->object);
  }();
  return *object;
}

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
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], std::sin(x[i]) + std::exp(x[i]), 1e-5);
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

TEST(KernelLibraryTest, DamagedObjectsNeverCrash) {
  const std::vector<uint8_t>& good = Object();
  int accepted = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (uint8_t flip : {0x01, 0x80, 0xff}) {
      std::vector<uint8_t> bad = good;
      bad[i] ^= flip;
      accepted += KernelLibrary::Load(bad).ok();
    }
  }
  EXPECT_GT(accepted, 0);  // some bytes are code
}

TEST(KernelLibraryTest, TruncatedObjectsAreRefused) {
  for (size_t size = 0; size < Object().size(); ++size) {
    EXPECT_EQ(KernelLibrary::Load(std::span(Object()).first(size)).status().code(), absl::StatusCode::kInvalidArgument)
        << size;
  }
}

TEST(KernelLibraryTest, UnknownImportsAreRefused) {
  std::vector<uint8_t> object = Object();
  std::string text(object.begin(), object.end());
  size_t at = text.find("sinf");
  ASSERT_NE(at, std::string::npos);
  object[at] = 'z';
  absl::Status status = KernelLibrary::Load(object).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("`zinf`"), absl::string_view::npos);
}

TEST(CheckHostSupportsTest, NamesWhatIsMissing) {
  EXPECT_TRUE(CheckHostSupports("x86_64-unknown-linux-gnu", "+sse2,-avx512f").ok());
  EXPECT_TRUE(CheckHostSupports("x86_64-unknown-linux-gnu", codegen::ParseHostTarget("host")->features).ok());
  absl::Status missing = CheckHostSupports("x86_64-unknown-linux-gnu", "+sse2,+avx9000");
  EXPECT_EQ(missing.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(missing.message().find("avx9000"), absl::string_view::npos);
  EXPECT_EQ(CheckHostSupports("aarch64-unknown-linux-gnu", "").code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace rvm::runtime
