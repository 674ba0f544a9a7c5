// Finds the extents of a function's parameters that repeat a name which another place of the parameters decides.
#ifndef RVM_COMPILER_PASSES_REPEATED_EXTENTS_H_
#define RVM_COMPILER_PASSES_REPEATED_EXTENTS_H_

#include <vector>

#include "compiler/ir/arena.h"
#include "compiler/ir/expr.h"

namespace rvm::passes {

// For each parameter the type that a caller is known to pass: its own type, with `?` in the place of extents that must
// be checked where the function is entered. Null if there are none. Looks into tuples. Two extents of parameters that
// are tensors themselves are no case of this: FunctionEmitter checks those.
std::vector<const ir::Type*> UncheckedParamTypes(ir::Arena& arena, const std::vector<ir::Var*>& params);

// Returns whether a data type, a reference or a function within `type` has an extent with a name, which nothing checks.
bool HidesNamedExtents(const ir::Type* type);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_REPEATED_EXTENTS_H_
