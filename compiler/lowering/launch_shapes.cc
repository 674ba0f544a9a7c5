#include "compiler/lowering/launch_shapes.h"

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "compiler/lowering/grid_launches.h"
#include "compiler/lowering/symbol_numbers.h"
#include "kernels/schedule/gpu_schedule.h"

namespace rvm::lowering {

absl::StatusOr<LaunchShapes> ShapesOfLaunches(const KernelDesc& kernel, const schedule::Schedule& schedule) {
  RVM_RETURN_IF_ERROR(CheckGridArguments(kernel));
  for (const schedule::LoopNest& nest : schedule.nests) {
    if (nest.update) return absl::UnimplementedError("it updates an argument in place");
    if (nest.tensors[0].tensor->is_ordered) return absl::UnimplementedError("it sorts");
    if (nest.tensors[0].tensor->self) return absl::UnimplementedError("it computes elements one after the other");
  }
  SymbolNumbers symbols(schedule);
  LaunchShapes shapes{.workspace = symbols.Numbered(schedule.workspace), .threads = {}};
  for (const schedule::NestGroup& launch : schedule::Launches(schedule)) {
    shapes.threads.push_back(symbols.Numbered(schedule::GridThreads(schedule, launch)));
  }
  return shapes;
}

}  // namespace rvm::lowering
