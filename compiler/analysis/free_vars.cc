#include "compiler/analysis/free_vars.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace rvm::analysis {
namespace {

using ir::Expr;
using ir::ExprKind;
using ir::Var;

// Walks a tree in evaluation order on a stack of its own.
class UseCollector {
 public:
  void Collect(const ir::Function* function) {
    Push(function);
    while (!pending_.empty()) {
      const Expr* expr = pending_.back();
      pending_.pop_back();
      Visit(expr);
    }
  }

  std::vector<Var*> TakeFree() {
    std::erase_if(uses_, [&](Var* var) { return bound_.contains(var); });
    return std::move(uses_);
  }

 private:
  void Push(const Expr* expr) { pending_.push_back(expr); }
  // The first of `exprs` is visited first.
  void PushAll(const std::vector<Expr*>& exprs) { pending_.insert(pending_.end(), exprs.rbegin(), exprs.rend()); }

  void BindPattern(const ir::Pattern* pattern) {
    std::vector<const ir::Pattern*> patterns = {pattern};
    while (!patterns.empty()) {
      const ir::Pattern* next = patterns.back();
      patterns.pop_back();
      if (next->var != nullptr) bound_.insert(next->var);
      patterns.insert(patterns.end(), next->fields.begin(), next->fields.end());
    }
  }

  void Visit(const Expr* expr) {
    switch (expr->expr_kind) {
      case ExprKind::kConstant:
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor: break;
      case ExprKind::kVar: {
        Var* var = ir::Cast<ir::VarExpr>(expr)->var;
        if (seen_.insert(var).second) uses_.push_back(var);
        break;
      }
      case ExprKind::kTuple: PushAll(ir::Cast<ir::Tuple>(expr)->fields); break;
      case ExprKind::kProject: Push(ir::Cast<ir::Project>(expr)->tuple); break;
      case ExprKind::kFunction: {
        const auto* function = ir::Cast<ir::Function>(expr);
        bound_.insert(function->params.begin(), function->params.end());
        Push(function->body);
        break;
      }
      case ExprKind::kCall: {
        const auto* call = ir::Cast<ir::Call>(expr);
        PushAll(call->args);
        Push(call->callee);
        break;
      }
      case ExprKind::kLet: {
        const auto* let = ir::Cast<ir::Let>(expr);
        bound_.insert(let->var);
        Push(let->body);
        Push(let->value);
        break;
      }
      case ExprKind::kIf: {
        const auto* conditional = ir::Cast<ir::If>(expr);
        Push(conditional->else_branch);
        Push(conditional->then_branch);
        Push(conditional->condition);
        break;
      }
      case ExprKind::kMatch: {
        const auto* match = ir::Cast<ir::Match>(expr);
        for (auto clause = match->clauses.rbegin(); clause != match->clauses.rend(); ++clause) {
          BindPattern(clause->pattern);
          Push(clause->body);
        }
        Push(match->value);
        break;
      }
      case ExprKind::kRefCreate: Push(ir::Cast<ir::RefCreate>(expr)->value); break;
      case ExprKind::kRefRead: Push(ir::Cast<ir::RefRead>(expr)->ref); break;
      case ExprKind::kRefWrite:
        Push(ir::Cast<ir::RefWrite>(expr)->value);
        Push(ir::Cast<ir::RefWrite>(expr)->ref);
        break;
    }
  }

  std::vector<const Expr*> pending_;
  std::vector<Var*> uses_;  // in order, each once
  absl::flat_hash_set<const Var*> seen_;
  absl::flat_hash_set<const Var*> bound_;
};

}  // namespace

std::vector<Var*> FreeVars(const ir::Function* function) {
  UseCollector collector;
  collector.Collect(function);
  return collector.TakeFree();
}

}  // namespace rvm::analysis
