// Translates kernel recipes to OpenCL C 1.2, for the code of a kernel on an OpenCL device.
//
// Each nest of a recipe becomes one function, whose work items are the positions of the nest; a reduction is a loop
// within its item. As in a recipe, a load outside a buffer gives 0 and a store outside one is skipped. Loops over more
// items than were launched stride over the grid, so any number of items may be launched.
#ifndef RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
#define RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/dim.h"
#include "serialization/executable.h"

namespace rvm::lowering {

struct OpenClKernel {
  std::string source;  // its functions: "k<number>_0", "k<number>_1", ...
  Dims launches;       // work items of each
  bool uses_fp64 = false;
};

// Returns the prelude of all programs of kernels: functions that the kernels call. `uses_fp64`: whether any of them
// computes in float64, which is an extension of OpenCL C 1.2.
std::string OpenClPrelude(bool uses_fp64);

// `recipe` is that of `kernel`, made from a schedule without vectors. The parameters of each function are, in order:
// the buffers of the kernel's parameters (`ulong`, the bits of the element, for a rank-0 parameter) and results, the
// workspace, and the symbols (`long`). Returns kUnimplemented, with the reason, for kernels that must run on the host.
absl::StatusOr<OpenClKernel> MakeOpenClKernel(uint32_t number, const KernelDesc& kernel, const KernelRecipe& recipe);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_OPENCL_SOURCE_H_
