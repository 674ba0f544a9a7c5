#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "vm/device/device.h"
#include "vm/device/opencl_device.h"

namespace rvm::device {
namespace {

std::shared_ptr<Device> FirstDevice() {
  absl::StatusOr<std::vector<std::shared_ptr<Device>>> devices = OpenClDevices();
  return devices.ok() ? devices->front() : nullptr;
}

absl::StatusOr<std::unique_ptr<Code>> Load(Device& device, const std::string& text) {
  std::vector<std::string> functions = {"k0_0"};
  return device.Load({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, functions);
}

constexpr char kText[] = "kernel void k0_0(global int* x) { x[get_global_id(0)] += 1; }";

TEST(OpenClProgram, CodeOfTwoLoadsIsShared) {
  ::setenv("RELAYVM_DEVICE_CACHE", "off", 1);
  std::shared_ptr<Device> device = FirstDevice();
  if (device == nullptr) GTEST_SKIP() << "there is no OpenCL device";
  absl::StatusOr<std::unique_ptr<Code>> first = Load(*device, kText);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->origin(), "compiled");
  // Devices are looked for again when another executable is loaded.
  std::shared_ptr<Device> again = FirstDevice();
  absl::StatusOr<std::unique_ptr<Code>> second = Load(*again, kText);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->origin(), "shared");
  first->reset();
  EXPECT_EQ((*Load(*device, kText))->origin(), "shared");
  EXPECT_EQ((*Load(*device, std::string(kText) + " "))->origin(), "compiled");
  second->reset();
  EXPECT_EQ((*Load(*device, kText))->origin(), "compiled");
}

TEST(OpenClProgram, CodeThatTheDriverRefusesIsRefusedAgain) {
  ::setenv("RELAYVM_DEVICE_CACHE", "off", 1);
  std::shared_ptr<Device> device = FirstDevice();
  if (device == nullptr) GTEST_SKIP() << "there is no OpenCL device";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Load(*device, "kernel void k0_0() { nonsense }").status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace rvm::device
