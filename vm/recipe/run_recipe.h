// Runs a kernel from its recipe.
#ifndef RVM_VM_RECIPE_RUN_RECIPE_H_
#define RVM_VM_RECIPE_RUN_RECIPE_H_

#include <cstdint>
#include <span>

#include "kernels/abi/kernel_abi.h"
#include "vm/recipe/recipe_plan.h"

namespace rvm::vm {

// A result code in addition to those of kernel_abi.h: the recipe is malformed.
inline constexpr int32_t kRecipeStoresOutside = 100;

// Runs the recipe with the contract of an RvmKernel: the buffers have the sizes that the descriptor states for these
// `symbols`. The workspace of the context has plan.scratch_bytes, followed by the `workspace_bytes` of the descriptor.
// Memory outside the buffers and the workspace is never accessed, whatever the recipe contains.
int32_t RunRecipe(const RecipePlan& plan, void* const* buffers, std::span<const int64_t> symbols,
                  int64_t workspace_bytes, const RvmKernelContext& context);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_RUN_RECIPE_H_
