// Verification of kernel recipes.
#ifndef RVM_SERIALIZATION_VERIFY_RECIPE_H_
#define RVM_SERIALIZATION_VERIFY_RECIPE_H_

#include "absl/status/status.h"
#include "serialization/executable.h"

namespace rvm {

// That numbers of axes, extents, buffers and values are in range; that a value is used after
// the step that makes it, and on its side of the reduction; that dtypes fit, and functions have meaning for
// them. The message says where in the recipe.
absl::Status VerifyRecipe(const KernelDesc& kernel, const KernelRecipe& recipe);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_VERIFY_RECIPE_H_
