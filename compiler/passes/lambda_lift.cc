// Lifts local functions that are only called to global ones, so that loops are direct calls.
//
// Takes a specialised module. A let-bound function literal that is only called becomes a global function. The
// variables that it captures become parameters in front of its own, and its calls pass them. Local loops then need no
// closure and are direct calls.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/analysis/free_vars.h"
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
    ir::Function* function =
        At(literal->span)
            .Function(std::move(type_params), std::move(params), lifted.type->result, Rewrite(literal->body));
    function->result_annotation = literal->result_annotation;
    function->attrs = literal->attrs;
    // The captures are also bound outside; the copy binds fresh variables.
    functions_.push_back({lifted.name, Copier(arena_).Copy(*function), let.span});
  }

  Expr* RewriteNode(Expr* expr) override {
    auto found = lifted_.find(ir::VarCallee(expr));
    if (found == lifted_.end()) return RewriteChildren(expr);
    const Lifted& lifted = found->second;
    const auto* call = Cast<ir::Call>(expr);
    const ir::Builder at = At(call->span);
    std::vector<Expr*> args;
    for (ir::Var* capture : lifted.captures) args.push_back(at.Use(capture));
    for (Expr* arg : call->args) args.push_back(Rewrite(arg));
    Expr* callee = At(call->callee->span).Global(lifted.name, lifted.type);
    return at.Call(callee, std::move(args), call->attrs, call->type);
  }

 private:
  void FindLiftable() {
    std::vector<const ir::Let*> candidates;  // after those that they can refer to
    ForEachExpr(global_.function->body, [&](const Expr* expr) {
      const auto* let = DynCast<ir::Let>(expr);
      if (let != nullptr && let->value->expr_kind == ExprKind::kFunction && !ir::IsPrimitive(let->value) &&
          ir::TypesEqual(let->var->type, let->value->type)) {
        candidates.push_back(let);
      }
      return true;
    });
    UseCounts uses;
    CountUses(global_.function->body, uses);
    for (const ir::Let* let : candidates) {
      const VarUses& count = uses[let->var];
      if (count.calls > 0 && count.all == count.calls) Lift(*let);
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
        // To call it, its captures are needed here as well.
        for (ir::Var* needed : callee->second.captures) capture(needed);
      }
    }
    lifted.name = UniqueName(let.var->name);
    std::vector<const ir::Type*> params = ir::TypesOf(lifted.captures);
    const ir::FuncType& type = TypeOf(*function);
    params.insert(params.end(), type.params.begin(), type.params.end());
    lifted.type = ir::MakeFuncType(arena_, std::move(params), type.result);
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
