// Splits operators whose number of results depends on all elements in counting and filling.
#ifndef RVM_COMPILER_PASSES_COUNT_RESULTS_H_
#define RVM_COMPILER_PASSES_COUNT_RESULTS_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes and gives A-normal form. `op(args)` of an operator with OpDef::count_op becomes
// `let n = count_op(args); fill_op(args, n)`, unless its type says the number.
ir::Module CountResults(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_COUNT_RESULTS_H_
