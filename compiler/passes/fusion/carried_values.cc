#include "compiler/passes/fusion/carried_values.h"

#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

CarriedValues::CarriedValues(const ir::Module& module)
    : module_(module), calls_(module), results_(module.functions.size()), reached_(module.functions.size()) {
  do {
    changed_ = false;
    for (function_ = 0; function_ < module.functions.size(); ++function_) {
      Facts result = Visit(module.functions[function_].function->body);
      Add(results_[function_], result);
    }
  } while (changed_);
}

bool CarriedValues::IsCarried(const ir::Var* var) const {
  auto found = facts_.find(var);
  return found != facts_.end() && (found->second & kCarried) != 0;
}

void CarriedValues::Add(Facts& to, Facts facts) {
  changed_ = changed_ || (to | facts) != to;
  to |= facts;
}

bool CarriedValues::IsInCycle(size_t callee) {
  if (!calls_.is_recursive(callee) || !calls_.is_recursive(function_)) return false;
  std::vector<bool>& reached = reached_[callee];
  if (reached.empty()) {
    reached.resize(module_.functions.size());
    std::vector<size_t> rest = {callee};
    while (!rest.empty()) {
      size_t next = rest.back();
      rest.pop_back();
      for (size_t other : calls_.callees(next)) {
        if (reached[other]) continue;
        reached[other] = true;
        rest.push_back(other);
      }
    }
  }
  return reached[function_];
}

CarriedValues::Facts CarriedValues::Visit(const Expr* expr) {
  return WithStack([&] { return VisitOnThisStack(expr); });
}

void CarriedValues::Bind(const ir::Pattern& pattern, Facts facts) {
  if (pattern.var != nullptr) Add(facts_[pattern.var], facts);
  WithStack([&] {
    for (const ir::Pattern* field : pattern.fields) Bind(*field, facts);
  });
}

CarriedValues::Facts CarriedValues::VisitCall(const ir::Call& call) {
  const auto* global = DynCast<ir::GlobalExpr>(call.callee);
  const size_t* callee = global == nullptr ? nullptr : calls_.Find(global->name);
  Facts all = Visit(call.callee);
  if (callee == nullptr) {
    for (const Expr* arg : call.args) all |= Visit(arg);
    const ops::OpDef* op = ir::OpCallee(&call);
    return op != nullptr && op->fusion == ops::FusionClass::kContraction ? all | kProduct : all;
  }
  bool is_in_cycle = IsInCycle(*callee);
  auto passed = [&](Facts facts) -> Facts { return is_in_cycle && (facts & kProduct) != 0 ? facts | kCarried : facts; };
  const ir::Function& function = *module_.functions[*callee].function;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const auto* use = DynCast<ir::VarExpr>(call.args[i]);
    // The same in each step.
    if (use != nullptr && use->var == function.params[i]) continue;
    Facts facts = passed(Visit(call.args[i]));
    Add(facts_[function.params[i]], facts);
  }
  return passed(results_[*callee]);
}

CarriedValues::Facts CarriedValues::VisitOnThisStack(const Expr* expr) {
  Facts all = 0;
  switch (expr->expr_kind) {
    case ExprKind::kConstant:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: return 0;
    case ExprKind::kVar: {
      auto found = facts_.find(Cast<ir::VarExpr>(expr)->var);
      return found == facts_.end() ? 0 : found->second;
    }
    case ExprKind::kTuple:
      for (const Expr* field : Cast<ir::Tuple>(expr)->fields) all |= Visit(field);
      return all;
    case ExprKind::kProject: return Visit(Cast<ir::Project>(expr)->tuple);
    // A call of a closure gives what its body does.
    case ExprKind::kFunction: return Visit(Cast<ir::Function>(expr)->body);
    case ExprKind::kCall: return VisitCall(*Cast<ir::Call>(expr));
    case ExprKind::kLet:
      while (const auto* let = DynCast<ir::Let>(expr)) {
        Facts facts = Visit(let->value);
        Add(facts_[let->var], facts);
        expr = let->body;
      }
      return Visit(expr);
    case ExprKind::kIf: {
      const auto& branch = *Cast<ir::If>(expr);
      Visit(branch.condition);
      all = Visit(branch.then_branch);
      return all | Visit(branch.else_branch);
    }
    case ExprKind::kMatch: {
      const auto& match = *Cast<ir::Match>(expr);
      Facts value = Visit(match.value);
      for (const ir::Clause& clause : match.clauses) {
        Bind(*clause.pattern, value);
        all |= Visit(clause.body);
      }
      return all;
    }
    case ExprKind::kRefCreate: Add(references_, Visit(Cast<ir::RefCreate>(expr)->value)); return 0;
    // A loop may have written it in the iteration before.
    case ExprKind::kRefRead: return references_ == 0 ? 0 : references_ | kCarried;
    case ExprKind::kRefWrite: Add(references_, Visit(Cast<ir::RefWrite>(expr)->value)); return 0;
  }
}

}  // namespace rvm::passes
