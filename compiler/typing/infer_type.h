// Type inference: gives every expression and variable its type, in place.
#ifndef RVM_COMPILER_TYPING_INFER_TYPE_H_
#define RVM_COMPILER_TYPING_INFER_TYPE_H_

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::typing {

// Fills Expr::type, Var::type, the type_args of globals and constructors, and completes the
// attributes of operator calls. Checks kinds, `where` constraints and that matches are complete.
// Returns false if errors were reported; several are, and types may then be missing.
//
// Afterwards no holes remain. An expression has its own, most precise type and a variable has its
// annotation if it was given one, so where a value flows into a place with another type the dims
// that differ are those to be checked at run time: `?` or not provably equal, never provably
// different.
//
// May be called again on a module that was typed before and then changed.
bool InferTypes(ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::typing

#endif  // RVM_COMPILER_TYPING_INFER_TYPE_H_
