// From te computations to kernel recipes: what portable executables hold instead of machine code.
#ifndef RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_
#define RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_

#include <string>

#include "absl/status/statusor.h"
#include "kernels/te/tensor.h"
#include "serialization/recipe.h"

namespace rvm::lowering {

struct PortableKernel {
  KernelRecipe recipe;   // symbols are numbered in the order of te::KernelSymbols
  Dim workspace;         // bytes, over the same symbols
  std::string schedule;  // for people
};

// kUnimplemented for nests of more than kMaxRecipeAxes axes.
absl::StatusOr<PortableKernel> MakePortableKernel(const te::Computation& computation);

}  // namespace rvm::lowering

#endif  // RVM_COMPILER_LOWERING_KERNEL_RECIPE_H_
