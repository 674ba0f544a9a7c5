#include "devices/device_kinds.h"

#include "devices/plugin/accelerator_library.h"
#include "gtest/gtest.h"
#include "serialization/device_contract.h"

namespace rvm::target {
namespace {

TEST(DeviceKind, MembersAreKindsWithTargets) {
  for (const DeviceKind* kind : DeviceKinds()) {
    EXPECT_EQ(kind->target.empty(), !kind->members.empty()) << kind->name;
    for (const DeviceKind* member : MembersOf(*kind)) {
      ASSERT_NE(member, nullptr) << kind->name;
      EXPECT_FALSE(member->target.empty()) << kind->name;
      EXPECT_TRUE(UsesTarget(*kind, member->target)) << kind->name;
    }
  }
}

// The environment names no libraries here.
TEST(DeviceKind, LibrariesCannotTakeTheNamesOfKindsInTheTree) {
  for (const DeviceKind* kind : DeviceKinds()) EXPECT_TRUE(device::IsTakenKind(kind->name)) << kind->name;
  EXPECT_FALSE(device::IsTakenKind("npu"));
}

TEST(DeviceKind, KindWithMembersUsesTheirTargets) {
  EXPECT_TRUE(UsesTarget(*FindDeviceKind("gpu"), device_contract::kPtxTarget));
  EXPECT_TRUE(UsesTarget(*FindDeviceKind("cuda"), device_contract::kPtxTarget));
  EXPECT_FALSE(UsesTarget(*FindDeviceKind("opencl"), device_contract::kPtxTarget));
  EXPECT_FALSE(UsesTarget(*FindDeviceKind("sim"), device_contract::kPtxTarget));
}

}  // namespace
}  // namespace rvm::target
