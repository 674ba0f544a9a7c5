// Devices of OpenCL 1.2 and later.
#ifndef RVM_VM_DEVICE_OPENCL_DEVICE_H_
#define RVM_VM_DEVICE_OPENCL_DEVICE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "vm/device/device.h"

namespace rvm::device {

// Returns the devices of all platforms, in their order: "opencl:0", "opencl:1", ... kUnavailable, with what is missing,
// if there are none.
absl::StatusOr<std::vector<std::shared_ptr<Device>>> OpenClDevices();

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_OPENCL_DEVICE_H_
