// Finds the sources of the value of an expression.
#ifndef RVM_COMPILER_PASSES_TUPLES_TAILS_H_
#define RVM_COMPILER_PASSES_TUPLES_TAILS_H_

#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::passes {

// Calls `visit(expr)` for each expression inside `root` whose value is the value of `root`, evaluated last: behind
// lets, in branches and in clauses. `let %x = e; %x` is e.
template <typename F>
void ForEachTail(const ir::Expr* root, F&& visit) {
  std::vector<const ir::Expr*> stack = {root};
  while (!stack.empty()) {
    const ir::Expr* expr = stack.back();
    stack.pop_back();
    const ir::Let* last = nullptr;
    while (const auto* let = ir::DynCast<ir::Let>(expr)) {
      last = let;
      expr = let->body;
    }
    const auto* use = ir::DynCast<ir::VarExpr>(expr);
    if (const auto* branch = ir::DynCast<ir::If>(expr)) {
      stack.push_back(branch->else_branch);
      stack.push_back(branch->then_branch);
    } else if (const auto* match = ir::DynCast<ir::Match>(expr)) {
      for (auto it = match->clauses.rbegin(); it != match->clauses.rend(); ++it) stack.push_back(it->body);
    } else if (use != nullptr && last != nullptr && last->var == use->var &&
               last->value->expr_kind != ir::ExprKind::kFunction &&
               ir::TypesEqual(last->value->type, last->var->type)) {
      stack.push_back(last->value);
    } else {
      visit(expr);
    }
  }
}

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_TUPLES_TAILS_H_
