// The subexpressions of an expression, in the order of evaluation. Programs are deep: to walk one
// whole, keep a stack of one's own (PushChildren) rather than recurse.
#ifndef RVM_COMPILER_IR_WALK_H_
#define RVM_COMPILER_IR_WALK_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/ir/expr.h"

namespace rvm::ir {

// Calls `visit` with the place of each subexpression.
void ForEachChild(Expr* expr, absl::FunctionRef<void(Expr*& child)> visit);

// Appends them so that the one evaluated first is popped first.
void PushChildren(const Expr* expr, std::vector<const Expr*>& stack);

// Calls `visit(expr)` for every expression in `root`, parents first, in the order of evaluation.
// `visit` returns false to skip what is inside.
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
