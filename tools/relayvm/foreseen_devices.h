// Devices that need not be there, for what is said about an executable without running it.
#ifndef RVM_TOOLS_RELAYVM_FORESEEN_DEVICES_H_
#define RVM_TOOLS_RELAYVM_FORESEEN_DEVICES_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "serialization/executable.h"
#include "vm/link/device_program.h"

namespace rvm::tools {

// Returns the executable on a machine that has every device it has code for, named as `relayvm devices` names the first
// of their kinds; of these, only the ones that `names` stands for (vm/device/choose_devices.h; "": all). Kernels
// without a device run on the host. The code is not loaded, and cannot run. Null if all kernels run on the host.
absl::StatusOr<std::unique_ptr<const vm::DeviceProgram>> ForeseeDevices(const Executable& executable,
                                                                        const std::string& names);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_FORESEEN_DEVICES_H_
