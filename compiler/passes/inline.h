// Puts function bodies where they are called.
#ifndef RVM_COMPILER_PASSES_INLINE_H_
#define RVM_COMPILER_PASSES_INLINE_H_

#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. Replaces by lets of their parameters and their body: calls of small
// global functions that do not call themselves, calls of larger ones if there is no other, calls
// of function literals where they stand, and the one call of a let-bound function literal that
// has no other use. A call whose arguments do not prove what the function's dims promise is
// left alone, so that it is still checked. Drops functions that the entries do not reach any more.
ir::Module Inline(const ir::Module& module, const std::vector<std::string>& entries);

// The part of it that concerns function literals, for the body of one function.
ir::Expr* InlineLocals(ir::Arena& arena, ir::Expr* body);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_INLINE_H_
