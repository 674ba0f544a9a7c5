// Code for devices: which kernels of a program run there, and their code.
#ifndef RVM_COMPILER_DRIVER_DEVICE_CODE_H_
#define RVM_COMPILER_DRIVER_DEVICE_CODE_H_

#include <span>

#include "absl/status/status.h"
#include "compiler/bytecode/emit_program.h"
#include "compiler/target/device_kind.h"
#include "kernels/codegen/ptx_compiler.h"

namespace rvm::driver {

// Adds the code of the program's kernels that are placed on devices of `kind`: for each of them that is used, and each
// member of the kind. A kernel without code runs on the host; the metadata `device.PLACE.KERNEL` says why.
// `device.PLACE` counts the operators that run there. `ptx`: the GPUs that code for NVIDIA's is made for, the latest
// first; code that no kernel needs, as the one for an earlier GPU does the same, is left out. REQUIRES: no kernel reads
// a constant in a packed layout.
absl::Status AddDeviceCode(const target::DeviceKind& kind, std::span<const codegen::PtxTarget> ptx, bool is_required,
                           bytecode::EmittedProgram& program);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_DEVICE_CODE_H_
