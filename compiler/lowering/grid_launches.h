// How kernels run on devices with a grid of work items (GPUs): each nest of a kernel's recipe is one launch, whose work
// items are the positions of the nest.
#ifndef RVM_COMPILER_LOWERING_GRID_LAUNCHES_H_
#define RVM_COMPILER_LOWERING_GRID_LAUNCHES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dim.h"
#include "serialization/executable.h"

namespace rvm::lowering {

// Returns kUnimplemented, with the reason, if the kernel has too many arguments for a launch, or only scalars.
absl::Status CheckGridArguments(const KernelDesc& kernel);

// Returns the work items of each launch of a recipe. Returns kUnimplemented, with the reason, for kernels that run on
// the host whatever the device: those that have no parallel form, or are not worth a launch.
absl::StatusOr<Dims> GridLaunches(const KernelDesc& kernel, const KernelRecipe& recipe);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_GRID_LAUNCHES_H_
