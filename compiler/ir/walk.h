// The subexpressions of an expression, in evaluation order. Programs can be nested deeply, so a traversal must use an
// explicit stack (PushChildren) instead of recursion.
#ifndef RVM_COMPILER_IR_WALK_H_
#define RVM_COMPILER_IR_WALK_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/ir/expr.h"

namespace rvm::ir {

// Calls `visit` with a reference to the pointer to each subexpression.
void ForEachChild(Expr* expr, absl::FunctionRef<void(Expr*& child)> visit);

// Appends the subexpressions so that the one evaluated first is popped first.
void PushChildren(const Expr* expr, std::vector<const Expr*>& stack);

// Calls `visit(expr)` for every expression in `root`, parents first, in evaluation order. `visit` returns false to skip
// the subexpressions.
template <typename F>
void ForEachExpr(const Expr* root, F&& visit) {
  std::vector<const Expr*> stack = {root};
  while (!stack.empty()) {
    const Expr* expr = stack.back();
    stack.pop_back();
    if (visit(expr)) PushChildren(expr, stack);
  }
}

}  // namespace rvm::ir

#endif  // RVM_COMPILER_IR_WALK_H_
