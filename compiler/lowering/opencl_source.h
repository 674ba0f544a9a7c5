// Prints programs of loops (kernels/loops/program.h) in OpenCL C 1.2, for the code of a kernel on an OpenCL device.
//
// Each launch of a kernel is one function. Its work groups have device_contract::kGroupItems items, which are the
// threads of a block, and stride over the blocks, so that any number of groups may be launched.
#ifndef RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
#define RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/lowering/symbol_numbers.h"
#include "kernels/loops/program.h"
#include "serialization/executable.h"

namespace rvm::lowering {

struct OpenClFunction {
  std::string text;  // from the parameters on, without "__kernel void NAME"; equal for launches that do the same
  std::vector<DeviceCall::Argument> arguments;
};

struct OpenClKernel {
  std::vector<OpenClFunction> functions;  // one for each launch
  bool uses_fp64 = false;
};

// Returns the prelude of all programs of kernels: functions that the kernels call. `uses_fp64`: whether any of them
// computes in float64, which is an extension of OpenCL C 1.2.
std::string OpenClPrelude(bool uses_fp64);
// Returns the declaration of a function up to its parameters.
std::string OpenClDeclaration(const std::string& name);

// `programs` are those of the launches of `kernel`, over symbols that `symbols` numbers. The parameters of each
// function are, in order: the buffers of the program (`ulong`, the bits of the element, for a rank-0 parameter; the
// place in the workspace for a tensor there), the workspace, and the symbols that it reads (`long`). Returns
// kUnimplemented, with the reason, for kernels that must run on the host.
absl::StatusOr<OpenClKernel> MakeOpenClKernel(const KernelDesc& kernel, const SymbolNumbers& symbols,
                                              std::span<const loops::Program> programs);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
