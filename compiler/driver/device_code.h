// Code for devices: which kernels of a program run there, and their code.
#ifndef RVM_COMPILER_DRIVER_DEVICE_CODE_H_
#define RVM_COMPILER_DRIVER_DEVICE_CODE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "compiler/bytecode/emit_program.h"

namespace rvm::driver {

// kInvalidArgument, with the kinds there are, unless each of `names` is a kind of device that kernels are compiled for,
// named once.
absl::Status CheckDeviceNames(const std::vector<std::string>& names);

// Adds the code of the program's kernels for each of `devices`, which CheckDeviceNames accepts. A kernel without code
// for a device runs on the host; the metadata `device.NAME.KERNEL` says why. REQUIRES: no kernel reads a constant in a
// packed layout.
absl::Status AddDeviceCode(const std::vector<std::string>& devices, bool is_required,
                           bytecode::EmittedProgram& program);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_DEVICE_CODE_H_
