// The local variables that a closure captures.
#ifndef RVM_COMPILER_ANALYSIS_FREE_VARS_H_
#define RVM_COMPILER_ANALYSIS_FREE_VARS_H_

#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::analysis {

// The variables that `function` uses and does not bind, each once, in the order of first use.
// Relies on every variable being bound in one place only. Linear; never recurses.
std::vector<ir::Var*> FreeVars(const ir::Function* function);

}  // namespace rvm::analysis

#endif  // RVM_COMPILER_ANALYSIS_FREE_VARS_H_
