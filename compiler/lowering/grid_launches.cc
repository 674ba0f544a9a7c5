#include "compiler/lowering/grid_launches.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace rvm::lowering {
namespace {

// OpenCL 1.2 guarantees 1024 bytes of arguments.
constexpr size_t kMaxArguments = 100;

absl::Status CheckNest(const RecipeNest& nest, size_t num_buffers) {
  std::vector<bool> stored(num_buffers);
  for (const RecipeStep& step : nest.steps) {
    if (IsStore(step.op)) stored[step.buffer] = true;
  }
  for (const RecipeStep& step : nest.steps) {
    if (step.op == RecipeOp::kOrder) return absl::UnimplementedError("it sorts");
    if (step.op == RecipeOp::kLimit || step.op == RecipeOp::kStoreIf)
      return absl::UnimplementedError("it updates an argument in place");
    if (step.op == RecipeOp::kLoad && stored[step.buffer])
      return absl::UnimplementedError("it computes elements one after the other");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckGridArguments(const KernelDesc& kernel) {
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

absl::StatusOr<Dims> GridLaunches(const KernelDesc& kernel, const KernelRecipe& recipe) {
  RVM_RETURN_IF_ERROR(CheckGridArguments(kernel));
  size_t tensors = kernel.params.size() + kernel.results.size();
  Dims launches;
  for (const RecipeNest& nest : recipe.nests) {
    RVM_RETURN_IF_ERROR(CheckNest(nest, tensors + recipe.workspaces.size()));
    launches.push_back(NumElements(nest.axes));
  }
  return launches;
}

}  // namespace rvm::lowering
