// Removes what no result depends on.
#ifndef RVM_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_
#define RVM_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module, in A-normal form or not. Gives it without the lets whose variable
// is unused and whose value is pure, and without functions that the entries do not reach. Pure is
// all but a write to a reference, a `match?`, and a call of a function, which may not return. An
// operator that would have failed on its arguments' dims does not fail any more.
ir::Module EliminateDeadCode(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_ELIMINATE_DEAD_CODE_H_
