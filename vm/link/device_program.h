// DeviceProgram: the code of an executable for devices, loaded. Computed once per Program, shared by its machines.
#ifndef RVM_VM_LINK_DEVICE_PROGRAM_H_
#define RVM_VM_LINK_DEVICE_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/device/device.h"
#include "vm/link/dim_program.h"
#include "vm/link/product_program.h"

namespace rvm::vm {

struct DeviceLaunch {
  // An argument of the kernel, from its byte `offset` on.
  struct Argument {
    uint32_t argument;
    DimProgram offset;
  };
  DimProgram items;            // work items
  uint32_t function = 0;       // of the code
  bool passes_all = true;      // arguments of the kernel, in their order
  std::vector<Argument> args;  // if not
};

struct DeviceKernel {
  size_t part = 0;  // of DeviceProgram: the device it runs on
  std::vector<DeviceLaunch> launches;
  // Indexed by launch; shorter than `launches` if the trailing launches are no GEMMs.
  std::vector<std::optional<ProductProgram>> products;
  // Launches that finish the product of the one before, and run only if a library computed that.
  std::vector<uint32_t> tails;  // ascending
  DimProgram workspace;         // bytes
};

// Code of one kind, on the device that runs it.
struct LoadedCode {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Code> code;
};

struct DeviceProgram {
  std::vector<LoadedCode> parts;
  std::vector<std::unique_ptr<const DeviceKernel>> kernels;  // by kernel; null: it runs on the host
};

// Assigns a device ordinal to each DeviceCode. Codes of one target get ordinals 0, 1, ... in order; codes with the same
// kernels are alternatives and share one.
class DeviceNumbers {
 public:
  size_t Of(const DeviceCode& code);

 private:
  absl::flat_hash_map<std::string, std::vector<std::vector<KernelId>>> kernels_;  // by target and number
};

// Loads each code of the executable on the device of its number (DeviceNumbers) among those that it fits. A kernel with
// several codes runs the first that has a device; code that no kernel runs is left out. Kernels that no device fits run
// on the host; kFailedPrecondition if their code is required and there is no `host_fallback`: the message says what is
// missing. Null if all kernels run on the host.
absl::StatusOr<std::unique_ptr<const DeviceProgram>> LoadDeviceProgram(const Executable& executable,
                                                                       const device::DeviceList& devices,
                                                                       bool host_fallback = false);

}  // namespace rvm::vm

#endif  // RVM_VM_LINK_DEVICE_PROGRAM_H_
