#include "compiler/ir/walk.h"

#include <algorithm>
#include <cstddef>

namespace rvm::ir {

void ForEachChild(Expr* expr, absl::FunctionRef<void(Expr*& child)> visit) {
  switch (expr->expr_kind) {
    case ExprKind::kConstant:
    case ExprKind::kVar:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: return;
    case ExprKind::kTuple:
      for (Expr*& field : Cast<Tuple>(expr)->fields) visit(field);
      return;
    case ExprKind::kProject: return visit(Cast<Project>(expr)->tuple);
    case ExprKind::kFunction: return visit(Cast<Function>(expr)->body);
    case ExprKind::kCall:
      visit(Cast<Call>(expr)->callee);
      for (Expr*& arg : Cast<Call>(expr)->args) visit(arg);
      return;
    case ExprKind::kLet: visit(Cast<Let>(expr)->value); return visit(Cast<Let>(expr)->body);
    case ExprKind::kIf:
      visit(Cast<If>(expr)->condition);
      visit(Cast<If>(expr)->then_branch);
      return visit(Cast<If>(expr)->else_branch);
    case ExprKind::kMatch:
      visit(Cast<Match>(expr)->value);
      for (Clause& clause : Cast<Match>(expr)->clauses) visit(clause.body);
      return;
    case ExprKind::kRefCreate: return visit(Cast<RefCreate>(expr)->value);
    case ExprKind::kRefRead: return visit(Cast<RefRead>(expr)->ref);
    case ExprKind::kRefWrite: visit(Cast<RefWrite>(expr)->ref); return visit(Cast<RefWrite>(expr)->value);
  }
}

void PushChildren(const Expr* expr, std::vector<const Expr*>& stack) {
  size_t before = stack.size();
  // Only looked at.
  ForEachChild(const_cast<Expr*>(expr), [&](Expr*& child) { stack.push_back(child); });
  std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(before), stack.end());
}

}  // namespace rvm::ir
