#include "compiler/passes/flatten_params.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/eliminate_dead_code.h"
#include "compiler/passes/fold_constant.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/tails.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// Parameters of a function with flattened ones. Each is copied at every call.
constexpr size_t kMaxParams = 16;
// How deep tuples in tuples are flattened.
constexpr int kMaxRounds = 6;

// Whether the function would check the extents of a parameter of this type when it is entered.
bool HasNamedExtent(const ir::Type* type) {
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims()) return false;
  return std::any_of(tensor->shape.dims.begin(), tensor->shape.dims.end(),
                     [](const Dim& dim) { return !dim.is_const() && !dim.is_any(); });
}

const ir::TupleType* FlattenableType(const ir::Type* type) {
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr || std::any_of(tuple->fields.begin(), tuple->fields.end(), HasNamedExtent)) return nullptr;
  return tuple;
}

// What is done with a parameter.
struct Param {
  size_t uses = 0;
  size_t taken_apart = 0;
  size_t returned = 0;                                         // by itself or in a tuple
  std::vector<std::pair<std::string_view, size_t>> passed_on;  // to which parameter of which function
  bool is_flat = false;
  bool is_wanted = false;  // somebody takes a field
};

// Which parameters are flattened: the largest set whose members are only taken apart or passed on within the set.
class Plan {
 public:
  Plan(const ir::Module& module, const std::vector<std::string>& entries) {
    CallGraph graph(module);
    for (size_t i : graph.callees_first()) {
      const ir::GlobalFunction& global = module.functions[i];
      order_.push_back(global.name);
      bool is_entry = std::find(entries.begin(), entries.end(), global.name) != entries.end();
      AddFunction(global, !is_entry, graph.is_recursive(i));
    }
    FindWanted();
    while (Shrink()) {
    }
  }

  bool IsFlat(std::string_view function, size_t param) const {
    auto found = functions_.find(function);
    return found != functions_.end() && found->second[param].is_flat;
  }
  bool HasFlat(std::string_view function) const {
    auto found = functions_.find(function);
    return found != functions_.end() &&
           std::any_of(found->second.begin(), found->second.end(), [](const Param& param) { return param.is_flat; });
  }
  bool empty() const {
    return std::none_of(functions_.begin(), functions_.end(), [&](const auto& entry) { return HasFlat(entry.first); });
  }

 private:
  void AddFunction(const ir::GlobalFunction& global, bool may_change, bool is_recursive);
  void CountUses(const ir::Function& function, bool is_recursive, std::vector<Param>& params);
  void FindWanted();
  bool Shrink();

  absl::flat_hash_map<std::string_view, std::vector<Param>> functions_;
  std::vector<std::string_view> order_;  // callees first: from there the news come
};

void Plan::AddFunction(const ir::GlobalFunction& global, bool may_change, bool is_recursive) {
  std::vector<Param>& params = functions_[global.name];
  const ir::Function& function = *global.function;
  params.resize(function.params.size());
  size_t total = params.size();
  for (size_t i = 0; may_change && i < params.size(); ++i) {
    const ir::TupleType* tuple = FlattenableType(function.params[i]->type);
    if (tuple == nullptr || total - 1 + tuple->fields.size() > kMaxParams) continue;
    total += tuple->fields.size() - 1;
    params[i].is_flat = true;
    params[i].is_wanted = tuple->fields.empty();
  }
  CountUses(function, is_recursive, params);
}

void Plan::CountUses(const ir::Function& function, bool is_recursive, std::vector<Param>& params) {
  absl::flat_hash_map<const ir::Var*, Param*> by_var;
  for (size_t i = 0; i < params.size(); ++i) by_var[function.params[i]] = &params[i];
  auto param_of = [&](const Expr* expr) -> Param* {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? by_var.end() : by_var.find(use->var);
    return found == by_var.end() ? nullptr : found->second;
  };
  auto take_apart = [&](const Expr* expr) {
    Param* param = param_of(expr);
    if (param == nullptr) return;
    ++param->taken_apart;
    param->is_wanted = true;
  };
  ForEachExpr(function.body, [&](const Expr* expr) {
    if (Param* param = param_of(expr)) ++param->uses;
    if (const auto* project = DynCast<ir::Project>(expr)) take_apart(project->tuple);
    const auto* match = DynCast<ir::Match>(expr);
    if (match != nullptr && LooksAtFieldsOnly(*match)) take_apart(match->value);
    const auto* call = DynCast<ir::Call>(expr);
    if (call == nullptr) return true;
    const auto* op = DynCast<ir::OpExpr>(call->callee);
    const auto* callee = DynCast<ir::GlobalExpr>(call->callee);
    for (size_t i = 0; i < call->args.size(); ++i) {
      if (op != nullptr && op->op->inputs[i].is_tuple) take_apart(call->args[i]);
      Param* param = param_of(call->args[i]);
      if (param != nullptr && callee != nullptr) param->passed_on.push_back({callee->name, i});
    }
    return true;
  });
  if (!is_recursive) return;
  // A loop makes its state anew in each round, and gives it once.
  ForEachTail(function.body, [&](const Expr* expr) {
    std::vector<const Expr*> parts = {expr};
    while (!parts.empty()) {
      const Expr* part = parts.back();
      parts.pop_back();
      if (Param* param = param_of(part)) ++param->returned;
      if (const auto* tuple = DynCast<ir::Tuple>(part))
        parts.insert(parts.end(), tuple->fields.begin(), tuple->fields.end());
    }
  });
}

void Plan::FindWanted() {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::string_view name : order_) {
      for (Param& param : functions_.at(name)) {
        if (param.is_wanted) continue;
        param.is_wanted = std::any_of(param.passed_on.begin(), param.passed_on.end(), [&](const auto& place) {
          return functions_.at(place.first)[place.second].is_wanted;
        });
        changed |= param.is_wanted;
      }
    }
  }
}

bool Plan::Shrink() {
  bool changed = false;
  for (std::string_view name : order_) {
    for (Param& param : functions_.at(name)) {
      if (!param.is_flat) continue;
      auto flat = std::count_if(param.passed_on.begin(), param.passed_on.end(),
                                [&](const auto& place) { return IsFlat(place.first, place.second); });
      param.is_flat = param.is_wanted && param.uses == param.taken_apart + param.returned + static_cast<size_t>(flat);
      changed |= !param.is_flat;
    }
  }
  return changed;
}

// The functions with fields in place of flattened parameters.
class Flattener : public Rewriter {
 public:
  Flattener(ir::Arena& arena, const Plan& plan) : Rewriter(arena), plan_(plan) {}

  ir::Function* Flatten(const ir::GlobalFunction& global) {
    auto* function = arena_.New<ir::Function>(*global.function);
    if (plan_.HasFlat(global.name)) {
      std::vector<ir::Var*> params;
      for (size_t i = 0; i < function->params.size(); ++i) {
        ir::Var* param = function->params[i];
        if (!plan_.IsFlat(global.name, i)) {
          params.push_back(param);
          continue;
        }
        std::vector<ir::Var*>& fields = fields_[param];
        for (const ir::Type* type : DynCast<ir::TupleType>(param->type)->fields) {
          fields.push_back(NewVar(arena_, absl::StrCat(param->name, "_", fields.size()), type, param->span));
          fields.back()->annotation = type;
        }
        params.insert(params.end(), fields.begin(), fields.end());
      }
      function->params = std::move(params);
      function->type = FlatType(TypeOf(*function), global.name);
    }
    function->body = Rewrite(function->body);
    return function;
  }

 protected:
  Expr* RewriteNode(Expr* expr) override {
    if (const auto* use = DynCast<ir::VarExpr>(expr)) {
      auto found = fields_.find(use->var);
      return found == fields_.end() ? RewriteChildren(expr) : TupleOf(found->second, expr);
    }
    const auto* call = DynCast<ir::Call>(expr);
    const auto* callee = call == nullptr ? nullptr : DynCast<ir::GlobalExpr>(call->callee);
    if (callee == nullptr || !plan_.HasFlat(callee->name)) return RewriteChildren(expr);
    return CallWithFields(*call, *callee, RewriteAll(call->args));
  }

 private:
  Expr* TupleOf(const std::vector<ir::Var*>& vars, const Expr* like) {
    std::vector<Expr*> fields;
    for (ir::Var* var : vars) fields.push_back(NewUse(arena_, var, like->span));
    return Typed(arena_.New<ir::Tuple>(std::move(fields), like->span), like);
  }

  const ir::FuncType* FlatType(const ir::FuncType& type, std::string_view name) {
    std::vector<const ir::Type*> params;
    for (size_t i = 0; i < type.params.size(); ++i) {
      const auto* tuple = plan_.IsFlat(name, i) ? DynCast<ir::TupleType>(type.params[i]) : nullptr;
      if (tuple == nullptr) {
        params.push_back(type.params[i]);
      } else {
        params.insert(params.end(), tuple->fields.begin(), tuple->fields.end());
      }
    }
    return arena_.New<ir::FuncType>(type.type_params, std::move(params), type.result, type.constraints);
  }

  Expr* CallWithFields(const ir::Call& call, const ir::GlobalExpr& callee, std::vector<Expr*> args) {
    // Before a tuple that has to be computed first, so have the arguments to its left.
    bool has_unknown = false;
    for (size_t i = 0; i < args.size(); ++i) {
      bool is_known = args[i]->expr_kind == ExprKind::kTuple || args[i]->expr_kind == ExprKind::kVar;
      has_unknown |= plan_.IsFlat(callee.name, i) && !is_known;
    }
    std::vector<Binding> chain;
    std::vector<Expr*> flat;
    auto pass = [&](Expr* arg) { flat.push_back(has_unknown ? Name(arg, chain) : arg); };
    for (size_t i = 0; i < args.size(); ++i) {
      const auto* tuple = DynCast<ir::Tuple>(args[i]);
      if (!plan_.IsFlat(callee.name, i)) {
        pass(args[i]);
      } else if (tuple != nullptr) {
        for (Expr* field : tuple->fields) pass(field);
      } else {
        ir::Var* whole = Cast<ir::VarExpr>(Name(args[i], chain))->var;
        const std::vector<const ir::Type*>& types = DynCast<ir::TupleType>(args[i]->type)->fields;
        for (uint32_t k = 0; k < types.size(); ++k) {
          auto* project = arena_.New<ir::Project>(NewUse(arena_, whole, args[i]->span), k, args[i]->span);
          project->type = types[k];
          flat.push_back(project);
        }
      }
    }
    auto* target = arena_.New<ir::GlobalExpr>(callee);
    target->type = FlatType(*DynCast<ir::FuncType>(callee.type), callee.name);
    return MakeLets(arena_, chain, Typed(arena_.New<ir::Call>(target, std::move(flat), call.attrs, call.span), &call));
  }

  Expr* Name(Expr* expr, std::vector<Binding>& chain) {
    if (expr->expr_kind == ExprKind::kVar || expr->expr_kind == ExprKind::kConstant) return expr;
    chain.push_back({NewVar(arena_, "t", expr->type, expr->span), expr, expr->span});
    return NewUse(arena_, chain.back().var, expr->span);
  }

  const Plan& plan_;
  absl::flat_hash_map<const ir::Var*, std::vector<ir::Var*>> fields_;  // of the parameters that are gone
};

}  // namespace

ir::Module FlattenParams(const ir::Module& module, const std::vector<std::string>& entries) {
  ir::Module current = module;
  for (int round = 0; round < kMaxRounds; ++round) {
    Plan plan(current, entries);
    if (plan.empty()) break;
    std::vector<ir::GlobalFunction> functions = current.functions;
    for (ir::GlobalFunction& global : functions) global.function = Flattener(*module.arena, plan).Flatten(global);
    // Folding takes the fields out of the tuples that now stand for the parameters.
    current = EliminateDeadCode(FoldConstant(WithFunctions(current, std::move(functions))), entries);
  }
  return current;
}

}  // namespace rvm::passes
