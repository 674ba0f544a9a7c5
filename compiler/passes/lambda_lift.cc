// Makes global functions of local ones.
//
// Takes a specialised module. A function literal bound by a let that is only ever called becomes
// a global function, with the variables it captured as parameters in front of its own, and its
// calls pass them. So local loops need no closure and call themselves directly.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/bytecode/liveness.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

struct Lifted {
  std::string name;
  std::vector<ir::Var*> captures;
  const ir::FuncType* type = nullptr;  // with the captures
};

class Lifter : public Rewriter {
 public:
  Lifter(ir::Arena& arena, const ir::GlobalFunction& global, absl::flat_hash_set<std::string>& names,
         std::vector<ir::GlobalFunction>& functions)
      : Rewriter(arena), global_(global), names_(names), functions_(functions) {
    FindLiftable();
  }

  bool has_work() const { return !lifted_.empty(); }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    auto found = lifted_.find(let.var);
    if (found == lifted_.end()) return Rewriter::RewriteLet(let, chain);
    const Lifted& lifted = found->second;
    const auto* literal = Cast<ir::Function>(let.value);
    std::vector<ir::Var*> params = lifted.captures;
    params.insert(params.end(), literal->params.begin(), literal->params.end());
    std::vector<const ir::TypeParam*> type_params = global_.function->type_params;
    type_params.insert(type_params.end(), literal->type_params.begin(), literal->type_params.end());
    auto* function = arena_.New<ir::Function>(type_params, std::move(params), literal->result_annotation,
                                              Rewrite(literal->body), literal->span);
    function->attrs = literal->attrs;
    function->type = arena_.New<ir::FuncType>(std::move(type_params), lifted.type->params, lifted.type->result);
    // Its captures are bound outside too: here they become variables of their own.
    functions_.push_back({lifted.name, Copier(arena_).Copy(*function), let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    const auto* call = DynCast<ir::Call>(expr);
    const auto* callee = call == nullptr ? nullptr : DynCast<ir::VarExpr>(call->callee);
    auto found = callee == nullptr ? lifted_.end() : lifted_.find(callee->var);
    if (found == lifted_.end()) return RewriteChildren(expr);
    const Lifted& lifted = found->second;
    auto* global = arena_.New<ir::GlobalExpr>(lifted.name, callee->span);
    global->type = lifted.type;
    std::vector<Expr*> args;
    for (ir::Var* capture : lifted.captures) args.push_back(NewUse(arena_, capture, call->span));
    for (Expr* arg : call->args) args.push_back(Rewrite(arg));
    return Typed(arena_.New<ir::Call>(global, std::move(args), call->attrs, call->span), call);
  }

 private:
  void FindLiftable() {
    std::vector<const ir::Let*> candidates;  // each behind those it can refer to
    absl::flat_hash_map<const ir::Var*, size_t> uses, calls;
    ForEachExpr(global_.function->body, [&](const Expr* expr) {
      if (const auto* use = DynCast<ir::VarExpr>(expr)) ++uses[use->var];
      const auto* call = DynCast<ir::Call>(expr);
      if (call != nullptr && call->callee->expr_kind == ExprKind::kVar) ++calls[Cast<ir::VarExpr>(call->callee)->var];
      const auto* let = DynCast<ir::Let>(expr);
      if (let != nullptr && let->value->expr_kind == ExprKind::kFunction && !bytecode::IsPrimitive(let->value) &&
          ir::TypesEqual(let->var->type, let->value->type)) {
        candidates.push_back(let);
      }
      return true;
    });
    for (const ir::Let* let : candidates) {
      size_t num_calls = calls[let->var];
      if (num_calls > 0 && uses[let->var] == num_calls) Lift(*let);
    }
  }

  void Lift(const ir::Let& let) {
    const auto* function = Cast<ir::Function>(let.value);
    Lifted lifted;
    absl::flat_hash_set<const ir::Var*> known;
    auto capture = [&](ir::Var* var) {
      if (known.insert(var).second) lifted.captures.push_back(var);
    };
    for (ir::Var* var : analysis::FreeVars(function)) {
      if (var == let.var) continue;
      auto callee = lifted_.find(var);
      if (callee == lifted_.end()) {
        capture(var);
      } else {
        // To call it, what it captures must be here too.
        for (ir::Var* needed : callee->second.captures) capture(needed);
      }
    }
    lifted.name = UniqueName(let.var->name);
    std::vector<const ir::Type*> params;
    for (const ir::Var* var : lifted.captures) params.push_back(var->type);
    const ir::FuncType& type = TypeOf(*function);
    params.insert(params.end(), type.params.begin(), type.params.end());
    lifted.type = arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::move(params), type.result);
    lifted_[let.var] = std::move(lifted);
  }

  std::string UniqueName(const std::string& local) {
    std::string base = absl::StrCat(global_.name, ".", local), name = base;
    for (int i = 1; !names_.insert(name).second; ++i) name = absl::StrCat(base, "_", i);
    return name;
  }

  const ir::GlobalFunction& global_;
  absl::flat_hash_set<std::string>& names_;
  std::vector<ir::GlobalFunction>& functions_;
  absl::flat_hash_map<const ir::Var*, Lifted> lifted_;
};

absl::StatusOr<ir::Module> LambdaLift(const ir::Module& module, PassContext&) {
  absl::flat_hash_set<std::string> names;
  for (const ir::GlobalFunction& global : module.functions) names.insert(global.name);
  std::vector<ir::GlobalFunction> functions, lifted;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back(global);
    Lifter lifter(*module.arena, global, names, lifted);
    if (!lifter.has_work()) continue;
    auto* function = module.arena->New<ir::Function>(*global.function);
    function->body = lifter.Rewrite(function->body);
    functions.back().function = function;
  }
  functions.insert(functions.end(), lifted.begin(), lifted.end());
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kLambdaLift = {.name = "lambda_lift",
                          .summary = "local functions that are only called become global functions",
                          .run = LambdaLift,
                          .keeps_effect_order = true};

}  // namespace rvm::passes
