// The sizes of a scheduled kernel's launches on a GPU, read off its schedule.
#ifndef RVM_COMPILER_LOWERING_LAUNCH_SHAPES_H_
#define RVM_COMPILER_LOWERING_LAUNCH_SHAPES_H_

#include "absl/status/statusor.h"
#include "base/dim.h"
#include "kernels/schedule/schedule.h"
#include "serialization/executable.h"

namespace rvm::lowering {

// Symbols are numbered in the order of te::KernelSymbols.
struct LaunchShapes {
  Dim workspace;  // bytes
  Dims threads;   // of each of schedule::Launches
};

// Returns kUnimplemented, with the reason, for kernels that run on the host whatever the device: those that have no
// parallel form, or are not worth a launch.
absl::StatusOr<LaunchShapes> ShapesOfLaunches(const KernelDesc& kernel, const schedule::Schedule& schedule);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_LAUNCH_SHAPES_H_
