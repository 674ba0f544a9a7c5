// Evaluates at compile time what is known then.
#ifndef RVM_COMPILER_PASSES_FOLD_CONSTANT_H_
#define RVM_COMPILER_PASSES_FOLD_CONSTANT_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. Gives it with operator calls on constants replaced by their
// results (those that are small and cheap to compute), an `if` on a constant by its branch, a
// projection of a known tuple by the field, and a `match` on a known constructor by the clause
// that is taken. Variables bound to constants or to other variables are replaced by these.
ir::Module FoldConstant(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FOLD_CONSTANT_H_
