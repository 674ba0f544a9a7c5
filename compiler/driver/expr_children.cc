#include "compiler/driver/expr_children.h"

namespace rvm::driver {

void AppendChildren(ir::Expr* expr, std::vector<ir::Expr**>& out) {
  switch (expr->expr_kind) {
    case ir::ExprKind::kConstant:
    case ir::ExprKind::kVar:
    case ir::ExprKind::kGlobal:
    case ir::ExprKind::kOp:
    case ir::ExprKind::kConstructor: return;
    case ir::ExprKind::kTuple:
      for (ir::Expr*& field : ir::Cast<ir::Tuple>(expr)->fields) out.push_back(&field);
      return;
    case ir::ExprKind::kProject: out.push_back(&ir::Cast<ir::Project>(expr)->tuple); return;
    case ir::ExprKind::kFunction: out.push_back(&ir::Cast<ir::Function>(expr)->body); return;
    case ir::ExprKind::kCall:
      out.push_back(&ir::Cast<ir::Call>(expr)->callee);
      for (ir::Expr*& arg : ir::Cast<ir::Call>(expr)->args) out.push_back(&arg);
      return;
    case ir::ExprKind::kLet:
      out.push_back(&ir::Cast<ir::Let>(expr)->value);
      out.push_back(&ir::Cast<ir::Let>(expr)->body);
      return;
    case ir::ExprKind::kIf:
      out.push_back(&ir::Cast<ir::If>(expr)->condition);
      out.push_back(&ir::Cast<ir::If>(expr)->then_branch);
      out.push_back(&ir::Cast<ir::If>(expr)->else_branch);
      return;
    case ir::ExprKind::kMatch:
      out.push_back(&ir::Cast<ir::Match>(expr)->value);
      for (ir::Clause& clause : ir::Cast<ir::Match>(expr)->clauses) out.push_back(&clause.body);
      return;
    case ir::ExprKind::kRefCreate: out.push_back(&ir::Cast<ir::RefCreate>(expr)->value); return;
    case ir::ExprKind::kRefRead: out.push_back(&ir::Cast<ir::RefRead>(expr)->ref); return;
    case ir::ExprKind::kRefWrite:
      out.push_back(&ir::Cast<ir::RefWrite>(expr)->ref);
      out.push_back(&ir::Cast<ir::RefWrite>(expr)->value);
      return;
  }
}

}  // namespace rvm::driver
