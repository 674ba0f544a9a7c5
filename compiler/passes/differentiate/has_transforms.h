// Whether a module needs the pass `differentiate`.
#ifndef RVM_COMPILER_PASSES_DIFFERENTIATE_HAS_TRANSFORMS_H_
#define RVM_COMPILER_PASSES_DIFFERENTIATE_HAS_TRANSFORMS_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Returns whether `grad` or another operator on functions is called in it.
bool HasTransforms(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_DIFFERENTIATE_HAS_TRANSFORMS_H_
