#include "compiler/passes/return_fields.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/fold_constant.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/tails.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// Fields of a result. Each is copied at every return.
constexpr size_t kMaxFields = 8;

const ir::GlobalExpr* GlobalCallee(const Expr* expr) {
  const auto* call = DynCast<ir::Call>(expr);
  return call == nullptr ? nullptr : DynCast<ir::GlobalExpr>(call->callee);
}

// The functions that return fields: the largest set of which no member gives a result that is not in its hands.
class Plan {
 public:
  Plan(const ir::Module& module, const std::vector<std::string>& entries) {
    CallGraph graph(module);
    for (size_t i : graph.callees_first()) AddFunction(module.functions[i], entries);
    while (Shrink()) {
    }
    for (const ir::GlobalFunction& global : module.functions) FindWanted(global.function->body);
    // It goes both ways.
    while (SpreadWanted()) std::reverse(order_.begin(), order_.end());
  }

  bool Has(std::string_view function) const {
    auto found = functions_.find(function);
    return found != functions_.end() && found->second.returns_fields && found->second.is_wanted;
  }
  bool empty() const {
    return std::none_of(functions_.begin(), functions_.end(), [&](const auto& entry) { return Has(entry.first); });
  }

 private:
  struct Function {
    const ir::Type* result;
    bool returns_fields = false;
    bool is_wanted = false;  // somebody takes the result apart
    std::vector<std::string_view> tail_callees;
  };

  void AddFunction(const ir::GlobalFunction& global, const std::vector<std::string>& entries);
  void FindWanted(const Expr* body);
  void Want(const Expr* tuple, const absl::flat_hash_map<const ir::Var*, std::string_view>& results);
  bool Shrink();
  bool SpreadWanted();

  absl::flat_hash_map<std::string_view, Function> functions_;
  std::vector<std::string_view> order_;  // callees first: from there the news come
};

void Plan::AddFunction(const ir::GlobalFunction& global, const std::vector<std::string>& entries) {
  Function& function = functions_[global.name];
  order_.push_back(global.name);
  function.result = TypeOf(*global.function).result;
  const auto* tuple = DynCast<ir::TupleType>(function.result);
  if (tuple == nullptr || tuple->fields.empty() || tuple->fields.size() > kMaxFields) return;
  if (std::find(entries.begin(), entries.end(), global.name) != entries.end()) return;
  bool makes_tuple = false, has_other = false;
  ForEachTail(global.function->body, [&](const Expr* expr) {
    if (const ir::GlobalExpr* callee = GlobalCallee(expr)) {
      function.tail_callees.push_back(callee->name);
      makes_tuple |= callee->name != global.name;
    } else {
      makes_tuple |= expr->expr_kind == ExprKind::kTuple;
      has_other |= expr->expr_kind != ExprKind::kTuple && expr->expr_kind != ExprKind::kVar;
    }
  });
  function.returns_fields = makes_tuple && !has_other;
}

// A tail call has to stay one.
bool Plan::Shrink() {
  bool changed = false;
  for (std::string_view name : order_) {
    Function& function = functions_.at(name);
    if (!function.returns_fields) continue;
    for (std::string_view callee : function.tail_callees) {
      const Function& other = functions_.at(callee);
      function.returns_fields &= other.returns_fields && ir::TypesEqual(other.result, function.result);
    }
    changed |= !function.returns_fields;
  }
  return changed;
}

void Plan::FindWanted(const Expr* body) {
  absl::flat_hash_map<const ir::Var*, std::string_view> results;
  ir::ForEachExpr(body, [&](const Expr* expr) {
    const auto* let = DynCast<ir::Let>(expr);
    const ir::GlobalExpr* callee = let == nullptr ? nullptr : GlobalCallee(let->value);
    if (callee != nullptr) results[let->var] = callee->name;
    if (const auto* project = DynCast<ir::Project>(expr)) Want(project->tuple, results);
    const auto* match = DynCast<ir::Match>(expr);
    if (match != nullptr && LooksAtFieldsOnly(*match)) Want(match->value, results);
    const auto* call = DynCast<ir::Call>(expr);
    const auto* op = call == nullptr ? nullptr : DynCast<ir::OpExpr>(call->callee);
    for (size_t i = 0; op != nullptr && i < call->args.size(); ++i) {
      if (op->op->inputs[i].is_tuple) Want(call->args[i], results);
    }
    return true;
  });
}

void Plan::Want(const Expr* tuple, const absl::flat_hash_map<const ir::Var*, std::string_view>& results) {
  if (const ir::GlobalExpr* callee = GlobalCallee(tuple)) functions_.at(callee->name).is_wanted = true;
  const auto* use = DynCast<ir::VarExpr>(tuple);
  auto found = use == nullptr ? results.end() : results.find(use->var);
  if (found != results.end()) functions_.at(found->second).is_wanted = true;
}

// Functions that call each other in tail position return alike.
bool Plan::SpreadWanted() {
  bool changed = false;
  for (std::string_view name : order_) {
    Function& function = functions_.at(name);
    if (!function.returns_fields) continue;
    for (std::string_view callee : function.tail_callees) {
      Function& other = functions_.at(callee);
      if (function.is_wanted == other.is_wanted) continue;
      function.is_wanted = other.is_wanted = changed = true;
    }
  }
  return changed;
}

// Gives names to the fields of the results of one function's calls.
class FieldNamer : public Rewriter {
 public:
  FieldNamer(ir::Arena& arena, const Plan& plan) : Rewriter(arena), plan_(plan) {}

  ir::Function* NameFields(const ir::GlobalFunction& global) {
    if (plan_.Has(global.name)) {
      ForEachTail(global.function->body, [&](const Expr* expr) { tails_.insert(expr); });
    }
    auto* function = arena_.New<ir::Function>(*global.function);
    function->body = Rewrite(function->body);
    return function;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    const ir::GlobalExpr* callee = GlobalCallee(expr);
    if (callee == nullptr || !plan_.Has(callee->name) || tails_.contains(expr)) return RewriteChildren(expr);
    std::vector<Binding> chain = {{NewVar(arena_, "t", expr->type, expr->span), RewriteChildren(expr), expr->span}};
    ir::Var* result = chain[0].var;
    std::vector<Expr*> fields;
    for (const ir::Type* type : DynCast<ir::TupleType>(expr->type)->fields) {
      auto* project =
          arena_.New<ir::Project>(NewUse(arena_, result, expr->span), static_cast<uint32_t>(fields.size()), expr->span);
      project->type = type;
      chain.push_back({NewVar(arena_, "t", type, expr->span), project, expr->span});
      fields.push_back(NewUse(arena_, chain.back().var, expr->span));
    }
    return MakeLets(arena_, chain, Typed(arena_.New<ir::Tuple>(std::move(fields), expr->span), expr));
  }

 private:
  const Plan& plan_;
  absl::flat_hash_set<const Expr*> tails_;  // that return fields themselves
};

}  // namespace

ir::Module ReturnFields(const ir::Module& module, const std::vector<std::string>& entries) {
  Plan plan(module, entries);
  if (plan.empty()) return module;
  std::vector<ir::GlobalFunction> functions = module.functions;
  for (ir::GlobalFunction& global : functions) {
    global.function = FieldNamer(*module.arena, plan).NameFields(global);
    global.returns_fields = plan.Has(global.name);
  }
  return EliminateDeadCode(FoldConstant(WithFunctions(module, std::move(functions))), entries);
}

}  // namespace rvm::passes
