// Removes lets that no result depends on.
//
// Takes a specialised module, in A-normal form or not. Removes lets whose variable is unused and whose value is pure,
// and functions that are unreachable from the entries. Everything is pure except a write to a reference, a `match?`, a
// check of a declared extent, and a call of a function, which may not return. An operator call is removed even if it
// would fail on the extents of its arguments.
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/stack_guard.h"
#include "compiler/ops/families/extent.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

bool IsEffect(const Expr* expr) {
  if (expr->expr_kind == ExprKind::kRefWrite) return true;
  if (const auto* match = DynCast<ir::Match>(expr)) return !match->is_complete;
  const auto* call = DynCast<ir::Call>(expr);
  if (call == nullptr) return false;
  if (ops::IsCheckExtent(*call) || ops::IsCheckAtLeast(*call)) return true;
  ExprKind callee = call->callee->expr_kind;
  return callee != ExprKind::kOp && callee != ExprKind::kConstructor && !ir::IsPrimitive(call->callee);
}

// The values of lets that have an effect when they are evaluated.
class EffectAnalysis {
 public:
  explicit EffectAnalysis(const Expr* body) { HasEffect(body); }
  bool IsPure(const Expr* value) const { return !impure_.contains(value); }

 private:
  bool HasEffect(const Expr* expr) {
    return WithStack([&] { return HasEffectOnThisStack(expr); });
  }

  bool HasEffectOnThisStack(const Expr* expr) {
    bool result = false;
    while (const auto* let = DynCast<ir::Let>(expr)) {
      if (HasEffect(let->value)) {
        impure_.insert(let->value);
        result = true;
      }
      expr = let->body;
    }
    if (const auto* function = DynCast<ir::Function>(expr)) {
      HasEffect(function->body);  // when it is called
      return result;
    }
    result = result || IsEffect(expr);
    std::vector<const Expr*> children;
    ir::PushChildren(expr, children);
    for (const Expr* child : children) result = HasEffect(child) || result;
    return result;
  }

  absl::flat_hash_set<const Expr*> impure_;
};

// Visits each chain of lets backwards, so that uses come before definitions.
class DeadCode : public Rewriter {
 public:
  DeadCode(ir::Arena& arena, const EffectAnalysis& effects) : Rewriter(arena), effects_(effects) {}

  Expr* Rewrite(Expr* expr) override {
    return WithStack([&] { return RewriteChain(expr); });
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) used_.insert(use->var);
    return RewriteChildren(expr);
  }

 private:
  Expr* RewriteChain(Expr* expr) {
    std::vector<const ir::Let*> lets;
    while (const auto* let = DynCast<ir::Let>(expr)) {
      lets.push_back(let);
      expr = let->body;
    }
    Expr* body = RewriteNode(expr);
    for (auto it = lets.rbegin(); it != lets.rend(); ++it) {
      const ir::Let& let = **it;
      if (!used_.contains(let.var) && effects_.IsPure(let.value)) continue;
      body = MakeLets(arena_, {{let.var, Rewrite(let.value), let.span}}, body);
    }
    return body;
  }

  const EffectAnalysis& effects_;
  absl::flat_hash_set<const ir::Var*> used_;
};

absl::StatusOr<ir::Module> EliminateDeadCode(const ir::Module& module, PassContext& context) {
  ir::Module result = MapFunctions(module, [&](const ir::GlobalFunction& global) {
    EffectAnalysis effects(global.function->body);
    return DeadCode(*module.arena, effects).Rewrite(global.function->body);
  });
  return DropUnreachable(result, context.entries);
}

}  // namespace

const Pass kEliminateDeadCode = {.name = "eliminate_dead_code",
                                 .summary = "nothing that no result depends on",
                                 .run = EliminateDeadCode,
                                 .keeps_effect_order = true};

}  // namespace rvm::passes
