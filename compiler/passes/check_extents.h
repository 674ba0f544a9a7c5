// Checks of the extents that types could not prove.
#ifndef RVM_COMPILER_PASSES_CHECK_EXTENTS_H_
#define RVM_COMPILER_PASSES_CHECK_EXTENTS_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a module as typed. Where a tensor comes to a place declared with an extent that is not provably its own (the
// result of a function, a let, a field, an argument of a function value, the contents of a reference), calls
// `check_extent` on it: `extent`s of the parameters say what a name stands for. What no parameter says, and what
// stands inside of a data type or a function type, stays unchecked, with a warning. Arguments of named functions
// are not its business: the functions check them when they are entered.
//
// The evaluator and the compiler run what this gives, so that they agree on which extents are checked.
ir::Module CheckExtents(const ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_CHECK_EXTENTS_H_
