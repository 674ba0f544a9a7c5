// Inlining of function literals.
#ifndef RVM_COMPILER_PASSES_INLINE_H_
#define RVM_COMPILER_PASSES_INLINE_H_

#include "compiler/ir/arena.h"
#include "compiler/ir/expr.h"

namespace rvm::passes {

// Replaces calls of function literals, where they stand or where one let-bound literal has one call, by their bodies:
// the part of the pass `inline` (inline.cc) that concerns one function.
ir::Expr* InlineLocals(ir::Arena& arena, ir::Expr* body);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_INLINE_H_
