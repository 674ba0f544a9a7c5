#include "compiler/lowering/launch_shapes.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "compiler/lowering/symbol_numbers.h"
#include "kernels/schedule/gpu_schedule.h"

namespace rvm::lowering {
namespace {

// OpenCL 1.2 guarantees 1024 bytes of arguments.
constexpr size_t kMaxArguments = 100;

// Returns kUnimplemented, with the reason, if the kernel has too many arguments for a launch, or only scalars.
absl::Status CheckArguments(const KernelDesc& kernel) {
  size_t tensors = kernel.params.size() + kernel.results.size();
  if (tensors + kernel.num_symbols > kMaxArguments) {
    return absl::UnimplementedError("it has more arguments than a device function may have");
  }
  auto is_scalar = [](const KernelTensor& tensor) { return tensor.dims.empty(); };
  if (std::all_of(kernel.params.begin(), kernel.params.end(), is_scalar) &&
      std::all_of(kernel.results.begin(), kernel.results.end(), is_scalar)) {
    return absl::UnimplementedError("it computes scalars from scalars");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LaunchShapes> ShapesOfLaunches(const KernelDesc& kernel, const schedule::Schedule& schedule) {
  RVM_RETURN_IF_ERROR(CheckArguments(kernel));
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
