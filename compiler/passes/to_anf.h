// A-normal form: every step of the computation has a name.
#ifndef RVM_COMPILER_PASSES_TO_ANF_H_
#define RVM_COMPILER_PASSES_TO_ANF_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module (specialize.h). Gives blocks: a function body, a branch of an `if`
// and a clause of a `match` is a chain of lets that ends in a tail. The value of a let and a tail
// is one step, whose operands are atoms: variables and constants. Exceptions: the callee of a
// call may be an operator, a constructor, a global function or a primitive function literal, and
// the argument of an operator on a tuple (`concatenate`) is a tuple of atoms written in place, and so
// may be the value of a match that only looks at its fields.
// No let renames a variable, unless to another type; no tail is the variable bound just before.
// Evaluation stays left to right.
ir::Module ToAnf(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_TO_ANF_H_
