// DeviceProgram: the code of an executable for one device, loaded. Computed once per Program, shared by its machines.
#ifndef RVM_VM_DEVICE_PROGRAM_H_
#define RVM_VM_DEVICE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/device/device.h"
#include "vm/dim_program.h"

namespace rvm::vm {

struct DeviceKernel {
  std::vector<DimProgram> launches;  // work items of each
  DimProgram workspace;              // bytes
  uint32_t first_function = 0;       // of the code; the launches have consecutive ones
};

struct DeviceProgram {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Code> code;
  std::vector<std::unique_ptr<const DeviceKernel>> kernels;  // by kernel; null: it runs on the host
};

// Loads the code that fits one of the devices: of the executable's codes the first for which there is one, on the first
// such device. Null if the kernels may and must run on the host: no device fits, and the executable requires none.
// kFailedPrecondition if it requires one; the message says what is missing.
absl::StatusOr<std::unique_ptr<const DeviceProgram>> LoadDeviceProgram(const Executable& executable,
                                                                       const device::DeviceList& devices);

}  // namespace rvm::vm

#endif  // RVM_VM_DEVICE_PROGRAM_H_
