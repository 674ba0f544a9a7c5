// Copies of higher-order functions for the functions they are called with.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_CALLS_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_CALLS_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. A call `@f(..., literal, ...)` of a global function that does nothing
// with this parameter but call it and pass it to itself, in the same place, becomes a call of a copy
// of the function that contains the literal; what the literal captures becomes parameters. So
// `@foldl(fn ..., z, xs)` is a loop without closures. Drops functions that the entries do not reach
// any more. Functions with shape variables are left alone.
ir::Module SpecializeCalls(const ir::Module& module, const std::vector<std::string>& entries);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_CALLS_H_
