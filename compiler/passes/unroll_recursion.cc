// Puts the body of a small recursive function in place of the calls that it makes of itself, once.
//
// Takes and returns A-normal form. Half of the calls of a function that calls itself twice end the recursion at once;
// a copy of the body in place of the call makes those a branch. Tail calls stay: they are jumps.
//
//   def @f(%n) { if (%n < 2) { 1 } else { let %m = %n - 1; let %a = @f(%m); let %k = %n - %a; @f(%k) } }
//
// becomes
//
//   def @f(%n) {
//     if (%n < 2) { 1 } else {
//       let %m = %n - 1;
//       let %a = if (%m < 2) { 1 } else { let %m1 = %m - 1; let %a1 = @f(%m1); let %k1 = %m - %a1; @f(%k1) };
//       let %k = %n - %a;
//       @f(%k)
//     }
//   }
//
// A function qualifies if it calls itself at least twice on some path, has no kernels, and has parameters and a result
// of exactly the types that the calls give, because then a call checks no extents. A function that calls itself once
// on each path gains nothing: its frame grows more than calls are saved. Nor does a call whose copy would go on to call
// the function in any case, as `@ack(%m, %n - 1)` does where `%m` is not 0: its tail calls are jumps, and those of a
// copy are calls. Effects keep their order. A copied call costs no fuel and no stack.
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;

// Nodes of a function that is copied, and copies of it.
constexpr size_t kMaxNodes = 80;
constexpr size_t kMaxCopies = 2;

const ir::Call* CallOf(const Expr* expr, std::string_view function) {
  const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
  return callee != nullptr && callee->name == function ? Cast<ir::Call>(expr) : nullptr;
}

// Finds whether a copy of a function in place of one of its calls of itself can end without a call of the function.
class CopyEnds {
 public:
  CopyEnds(const ir::GlobalFunction& global, const ir::Call& call) : global_(global), call_(call) {
    for (size_t i = 0; i < call.args.size(); ++i) {
      const auto* use = DynCast<ir::VarExpr>(call.args[i]);
      if (use != nullptr && use->var == global.function->params[i]) same_.insert(use->var);
    }
  }

  bool Can() { return CanEnd(global_.function->body); }

 private:
  bool CanEnd(const Expr* block) {
    return WithStack([&] {
      for (; const auto* let = DynCast<ir::Let>(block); block = let->body) {
        if (!StepCanEnd(let->value)) return false;
        if (ir::OpCallee(let->value) != nullptr && IsSame(let->value)) same_.insert(let->var);
      }
      return StepCanEnd(block);
    });
  }

  bool StepCanEnd(const Expr* step) {
    if (CallOf(step, global_.name) != nullptr) return false;
    if (const auto* branch = DynCast<ir::If>(step)) {
      return OneCanEnd(branch->condition, {branch->then_branch, branch->else_branch});
    }
    if (const auto* match = DynCast<ir::Match>(step)) {
      std::vector<const Expr*> bodies;
      for (const ir::Clause& clause : match->clauses) bodies.push_back(clause.body);
      return OneCanEnd(match->value, bodies);
    }
    return true;
  }

  // A branch on what the call passes on is taken as it was on the way to the call.
  bool OneCanEnd(const Expr* condition, const std::vector<const Expr*>& blocks) {
    const bool is_same = IsSame(condition);
    auto holds_call = [&](const Expr* block) { return Contains(block, &call_); };
    const bool is_taken = is_same && std::ranges::any_of(blocks, holds_call);
    return std::ranges::any_of(blocks,
                               [&](const Expr* block) { return (!is_taken || holds_call(block)) && CanEnd(block); });
  }

  // Returns true if the value is the same in the copy: it depends on nothing but parameters that the call passes on.
  bool IsSame(const Expr* value) const {
    bool is_same = true;
    ir::ForEachExpr(value, [&](const Expr* expr) {
      const auto* use = DynCast<ir::VarExpr>(expr);
      is_same = is_same && (use == nullptr || same_.contains(use->var));
      return is_same;
    });
    return is_same;
  }

  static bool Contains(const Expr* block, const Expr* part) {
    bool is_found = false;
    ir::ForEachExpr(block, [&](const Expr* expr) {
      is_found = is_found || expr == part;
      return !is_found;
    });
    return is_found;
  }

  const ir::GlobalFunction& global_;
  const ir::Call& call_;
  absl::flat_hash_set<const ir::Var*> same_;  // have in the copy the values that they have at the call
};

// Returns the call that `let` names, if the body of the function may stand there.
const ir::Call* CopiedCall(const ir::Let& let, const ir::GlobalFunction& global) {
  const ir::Call* call = CallOf(let.value, global.name);
  if (call == nullptr || !ir::TypesEqual(let.var->type, TypeOf(*global.function).result)) return nullptr;
  for (size_t i = 0; i < call->args.size(); ++i) {
    if (!ir::TypesEqual(call->args[i]->type, global.function->params[i]->type)) return nullptr;
  }
  return CopyEnds(global, *call).Can() ? call : nullptr;
}

// The most calls of the function on a path through `block`, counted up to 2.
size_t CallsOnAPath(const Expr* block, const ir::GlobalFunction& global) {
  return WithStack([&] {
    size_t calls = 0;
    auto most_of = [&](const Expr* step) {
      if (CallOf(step, global.name) != nullptr) return size_t{1};
      size_t most = 0;
      if (const auto* branch = DynCast<ir::If>(step)) {
        most = std::max(CallsOnAPath(branch->then_branch, global), CallsOnAPath(branch->else_branch, global));
      } else if (const auto* match = DynCast<ir::Match>(step)) {
        for (const ir::Clause& clause : match->clauses) most = std::max(most, CallsOnAPath(clause.body, global));
      }
      return most;
    };
    for (; const auto* let = DynCast<ir::Let>(block); block = let->body) calls += most_of(let->value);
    return std::min<size_t>(calls + most_of(block), 2);
  });
}

bool Qualifies(const ir::GlobalFunction& global) {
  const ir::Function& function = *global.function;
  if (global.returns_fields || !function.type_params.empty() || CountNodes(function.body, kMaxNodes) > kMaxNodes) {
    return false;
  }
  size_t num_copies = 0;
  bool is_scalar = true;
  ir::ForEachExpr(function.body, [&](const Expr* expr) {
    const auto* let = DynCast<ir::Let>(expr);
    if (let != nullptr && CopiedCall(*let, global) != nullptr) ++num_copies;
    if (ir::OpCallee(expr) != nullptr) is_scalar = is_scalar && ops::SelectScalar(*Cast<ir::Call>(expr)).has_value();
    is_scalar = is_scalar && expr->expr_kind != ir::ExprKind::kFunction;
    return true;
  });
  return is_scalar && num_copies > 0 && num_copies <= kMaxCopies && CallsOnAPath(function.body, global) == 2;
}

// Replaces variables by atoms.
class Substituter : public Rewriter {
 public:
  using Rewriter::Rewriter;

  void Add(const ir::Var* var, Expr* atom) { atoms_[var] = atom; }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? atoms_.end() : atoms_.find(use->var);
    return RewriteChildren(found == atoms_.end() ? expr : found->second);
  }

 private:
  absl::flat_hash_map<const ir::Var*, Expr*> atoms_;
};

class Unroller : public Rewriter {
 public:
  Unroller(ir::Arena& arena, const ir::GlobalFunction& global) : Rewriter(arena), global_(global) {}

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    const ir::Call* call = CopiedCall(let, global_);
    if (call == nullptr) return Rewriter::RewriteLet(let, chain);
    ir::Function* copy = Copier(arena_).Copy(*global_.function);
    Substituter substituter(arena_);
    for (size_t i = 0; i < copy->params.size(); ++i) substituter.Add(copy->params[i], call->args[i]);
    Expr* body = substituter.Rewrite(copy->body);
    for (; const auto* inner = DynCast<ir::Let>(body); body = inner->body) {
      chain.push_back({inner->var, inner->value, inner->span});
    }
    chain.push_back({let.var, body, let.span});
  }

 private:
  const ir::GlobalFunction& global_;
};

absl::StatusOr<ir::Module> UnrollRecursion(const ir::Module& module, PassContext&) {
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    Expr* body = global.function->body;
    return Qualifies(global) ? Unroller(*module.arena, global).Rewrite(body) : body;
  });
}

}  // namespace

const Pass kUnrollRecursion = {.name = "unroll_recursion",
                               .summary = "one level of the recursion of small functions in their own bodies",
                               .run = UnrollRecursion,
                               .needs = Form::kANormal};

}  // namespace rvm::passes
