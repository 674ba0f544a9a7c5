// Translates schedules to kernel recipes, which portable executables contain instead of machine code.
#ifndef RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_
#define RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_

#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"
#include "serialization/recipe.h"

namespace rvm::lowering {

struct PortableKernel {
  KernelRecipe recipe;  // symbols are numbered in the order of te::KernelSymbols
  Dim workspace;        // bytes, over the same symbols
};

// Returns kUnimplemented for nests of more than kMaxRecipeAxes axes. REQUIRES: !schedule.target.has_vectors.
absl::StatusOr<PortableKernel> MakePortableKernel(const schedule::Schedule& schedule);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_
