// Translates kernel recipes to OpenCL C 1.2, for the code of a kernel on an OpenCL device.
//
// Each nest of a recipe becomes one function, whose work items are the positions of the nest; a reduction is a loop
// within its item. As in a recipe, a load outside a buffer gives 0 and a store outside one is skipped. Loops over more
// items than were launched stride over the grid, so any number of items may be launched.
#ifndef RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
#define RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dim.h"
#include "serialization/executable.h"

namespace rvm::lowering {

struct OpenClFunction {
  std::string text;  // from the parameters on, without "__kernel void NAME"; equal for nests that do the same
  std::vector<DeviceCall::Argument> arguments;
};

struct OpenClKernel {
  std::vector<OpenClFunction> functions;  // one for each launch
  Dims launches;                          // work items of each
  bool uses_fp64 = false;
};

// Returns the prelude of all programs of kernels: functions that the kernels call. `uses_fp64`: whether any of them
// computes in float64, which is an extension of OpenCL C 1.2.
std::string OpenClPrelude(bool uses_fp64);

// `recipe` is that of `kernel`, made from a schedule without vectors. The parameters of each function are, in order:
// the buffers that it accesses, in the order of their first use (`ulong`, the bits of the element, for a rank-0
// parameter; the place in the workspace for a tensor there), the workspace, and the symbols that it reads (`long`).
// Returns kUnimplemented, with the reason, for kernels that must run on the host.
absl::StatusOr<OpenClKernel> MakeOpenClKernel(const KernelDesc& kernel, const KernelRecipe& recipe);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
