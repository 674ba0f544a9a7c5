// Runs a kernel from its recipe.
#ifndef RVM_VM_RECIPE_RUN_RECIPE_H_
#define RVM_VM_RECIPE_RUN_RECIPE_H_

#include <cstdint>
#include <span>

#include "kernels/abi/kernel_abi.h"
#include "vm/recipe/recipe_plan.h"

namespace rvm::vm {

// kernel_abi.h says what a code means; the recipe itself being wrong is none of those.
inline constexpr int32_t kRecipeStoresOutside = 100;

// As an RvmKernel: the buffers have the elements that the descriptor states for these `symbols`. The context's
// workspace has plan.scratch_bytes, followed by the `workspace_bytes` that the descriptor states. Whatever the recipe
// contains, memory outside the buffers and the workspace is not accessed.
int32_t RunRecipe(const RecipePlan& plan, void* const* buffers, std::span<const int64_t> symbols,
                  int64_t workspace_bytes, const RvmKernelContext& context);

}  // namespace rvm::vm

#endif  // RVM_VM_RECIPE_RUN_RECIPE_H_
