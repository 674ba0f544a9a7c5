#include "compiler/passes/tuples/unbox_plan.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/call_graph.h"
#include "compiler/passes/rewriter.h"
#include "compiler/passes/tuples/products.h"
#include "compiler/passes/tuples/tails.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

// Parameters of a function with unboxed ones. Each is copied at every call.
constexpr size_t kMaxParams = 16;
// Fields of a result. Each is copied at every return.
constexpr size_t kMaxFields = 8;

// Returns whether the function would check the extents of a parameter of this type when it is entered. Those of fields
// of products are not checked, so such products stay whole.
bool HasNamedExtent(const ir::Type* type) {
  const auto* tensor = DynCast<ir::TensorType>(type);
  if (tensor == nullptr || !tensor->shape.is_dims()) return false;
  return std::any_of(tensor->shape.dims.begin(), tensor->shape.dims.end(),
                     [](const Dim& dim) { return !dim.is_const() && !dim.is_any(); });
}

// Calls `visit` with each product of which `expr` takes fields.
template <typename F>
void ForEachTakenApart(const Expr* expr, F&& visit) {
  if (const auto* project = DynCast<ir::Project>(expr)) visit(project->tuple);
  const auto* match = DynCast<ir::Match>(expr);
  if (match != nullptr && LooksAtFieldsOnly(*match)) visit(match->value);
  const ops::OpDef* op = ir::OpCallee(expr);
  for (size_t i = 0; op != nullptr && i < ir::Cast<ir::Call>(expr)->args.size(); ++i) {
    if (op->inputs[i].is_tuple) visit(ir::Cast<ir::Call>(expr)->args[i]);
  }
}

}  // namespace

UnboxPlan::UnboxPlan(const ir::Module& module, const std::vector<std::string>& entries) : arena_(*module.arena) {
  CallGraph graph(module);
  for (size_t i : graph.callees_first()) {
    const ir::GlobalFunction& global = module.functions[i];
    signatures_[global.name] = {places_.size(), global.function->params.size(), TypeOf(*global.function).result};
    places_.resize(places_.size() + global.function->params.size() + 1);
  }
  auto may_change = [&](size_t i) {
    return graph.num_calls(i) > 0 ||
           std::find(entries.begin(), entries.end(), module.functions[i].name) == entries.end();
  };
  for (size_t i : graph.callees_first()) {
    if (may_change(i)) AddParams(module.functions[i], graph.is_recursive(i));
  }
  for (const ir::GlobalFunction& global : module.functions) FindMadeParams(global.function->body);
  Solve();
  bool is_done = std::any_of(module.functions.begin(), module.functions.end(),
                             [](const ir::GlobalFunction& global) { return global.returns_fields; });
  if (!empty() || is_done) return;
  for (size_t i : graph.callees_first()) {
    if (may_change(i)) AddResult(module.functions[i]);
    FindWantedResults(module.functions[i].function->body);
  }
  Solve();
}

bool UnboxPlan::IsUnboxed(std::string_view function, size_t param) const {
  auto found = signatures_.find(function);
  return found != signatures_.end() && places_[found->second.first + param].is_unboxed;
}

bool UnboxPlan::ReturnsFields(std::string_view function) const {
  auto found = signatures_.find(function);
  return found != signatures_.end() && places_[found->second.result()].is_unboxed;
}

bool UnboxPlan::ChangesSignature(std::string_view function) const {
  auto found = signatures_.find(function);
  if (found == signatures_.end()) return false;
  for (size_t place = found->second.first; place <= found->second.result(); ++place) {
    if (places_[place].is_unboxed) return true;
  }
  return false;
}

void UnboxPlan::AddParams(const ir::GlobalFunction& global, bool is_recursive) {
  const ir::Function& function = *global.function;
  const size_t first = signatures_.at(global.name).first;
  absl::flat_hash_map<const ir::Var*, size_t> place_of;
  std::vector<size_t> num_uses(function.params.size()), num_allowed(function.params.size());
  size_t total = function.params.size();
  for (size_t i = 0; i < function.params.size(); ++i) {
    place_of[function.params[i]] = i;
    std::optional<Product> product = ProductOf(arena_, function.params[i]->type);
    if (!product || std::any_of(product->fields.begin(), product->fields.end(), HasNamedExtent) ||
        total - 1 + product->fields.size() > kMaxParams) {
      continue;
    }
    total += product->fields.size() - 1;
    Place& place = places_[first + i];
    place.is_unboxed = true;
    place.is_wanted = product->fields.empty();
    place.is_made = product->constructor == nullptr;
  }
  // Calls `visit` with the parameter that `expr` is, if it is one.
  auto with_param = [&](const Expr* expr, auto&& visit) {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? place_of.end() : place_of.find(use->var);
    if (found != place_of.end()) visit(found->second);
  };
  ForEachExpr(function.body, [&](const Expr* expr) {
    with_param(expr, [&](size_t i) { ++num_uses[i]; });
    ForEachTakenApart(expr, [&](const Expr* tuple) {
      with_param(tuple, [&](size_t i) {
        ++num_allowed[i];
        places_[first + i].is_wanted = true;
      });
    });
    const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
    for (size_t k = 0; callee != nullptr && k < ir::Cast<ir::Call>(expr)->args.size(); ++k) {
      with_param(ir::Cast<ir::Call>(expr)->args[k], [&](size_t i) {
        ++num_allowed[i];
        const size_t passed_to = ParamOf(callee->name, k);
        places_[first + i].needs.push_back(passed_to);
        places_[first + i].wanted_by.push_back(passed_to);
        places_[passed_to].made_by.push_back(first + i);
      });
    }
    return true;
  });
  // A loop makes its state anew in each iteration and returns it once, by itself or in a tuple.
  if (is_recursive) {
    ForEachTail(function.body, [&](const Expr* tail) {
      std::vector<const Expr*> parts = {tail};
      while (!parts.empty()) {
        const Expr* part = parts.back();
        parts.pop_back();
        with_param(part, [&](size_t i) { ++num_allowed[i]; });
        if (const std::vector<Expr*>* fields = WrittenFields(part)) {
          parts.insert(parts.end(), fields->begin(), fields->end());
        }
      }
    });
  }
  for (size_t i = 0; i < num_uses.size(); ++i) {
    if (num_uses[i] != num_allowed[i]) places_[first + i].is_unboxed = false;
  }
}

void UnboxPlan::FindMadeParams(const Expr* body) {
  absl::flat_hash_set<const ir::Var*> written;
  ir::ForEachExpr(body, [&](const Expr* expr) {
    const auto* let = DynCast<ir::Let>(expr);
    if (let != nullptr && ir::ConstructorCallee(let->value) != nullptr) written.insert(let->var);
    const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
    for (size_t i = 0; callee != nullptr && i < ir::Cast<ir::Call>(expr)->args.size(); ++i) {
      const Expr* arg = ir::Cast<ir::Call>(expr)->args[i];
      const auto* use = DynCast<ir::VarExpr>(arg);
      bool is_written = use == nullptr ? WrittenFields(arg) != nullptr : written.contains(use->var);
      if (is_written) places_[ParamOf(callee->name, i)].is_made = true;
    }
    return true;
  });
}

void UnboxPlan::AddResult(const ir::GlobalFunction& global) {
  const ir::Type* result = signatures_.at(global.name).result_type;
  const auto* tuple = DynCast<ir::TupleType>(result);
  if (tuple == nullptr || tuple->fields.empty() || tuple->fields.size() > kMaxFields) return;
  const size_t own = ResultOf(global.name);
  bool makes_tuple = false, has_other = false;
  ForEachTail(global.function->body, [&](const Expr* tail) {
    if (const ir::GlobalExpr* callee = ir::GlobalCallee(tail)) {
      const size_t other = ResultOf(callee->name);
      makes_tuple |= callee->name != global.name;
      has_other |= !ir::TypesEqual(signatures_.at(callee->name).result_type, result);
      places_[own].needs.push_back(other);
      // Functions that tail-call each other return in the same way.
      places_[own].wanted_by.push_back(other);
      places_[other].wanted_by.push_back(own);
    } else {
      makes_tuple |= tail->expr_kind == ExprKind::kTuple;
      has_other |= tail->expr_kind != ExprKind::kTuple && tail->expr_kind != ExprKind::kVar;
    }
  });
  places_[own].is_unboxed = makes_tuple && !has_other;
}

void UnboxPlan::FindWantedResults(const Expr* body) {
  absl::flat_hash_map<const ir::Var*, std::string_view> results;
  ir::ForEachExpr(body, [&](const Expr* expr) {
    const auto* let = DynCast<ir::Let>(expr);
    const ir::GlobalExpr* callee = let == nullptr ? nullptr : ir::GlobalCallee(let->value);
    if (callee != nullptr) results[let->var] = callee->name;
    ForEachTakenApart(expr, [&](const Expr* tuple) {
      if (const ir::GlobalExpr* direct = ir::GlobalCallee(tuple)) places_[ResultOf(direct->name)].is_wanted = true;
      const auto* use = DynCast<ir::VarExpr>(tuple);
      auto found = use == nullptr ? results.end() : results.find(use->var);
      if (found != results.end()) places_[ResultOf(found->second)].is_wanted = true;
    });
    return true;
  });
}

// Each place and each edge is visited once: chains of calls may be long.
template <typename Reaches, typename Reach>
void UnboxPlan::Propagate(std::vector<size_t> Place::* edges, Reaches reaches, Reach reach) {
  std::vector<std::vector<size_t>> reverse(places_.size());
  std::vector<size_t> pending;
  for (size_t i = 0; i < places_.size(); ++i) {
    for (size_t other : places_[i].*edges) reverse[other].push_back(i);
    if (reaches(places_[i])) pending.push_back(i);
  }
  while (!pending.empty()) {
    size_t from = pending.back();
    pending.pop_back();
    for (size_t i : reverse[from]) {
      if (!places_[i].is_unboxed || reaches(places_[i])) continue;
      reach(places_[i]);
      pending.push_back(i);
    }
  }
}

void UnboxPlan::Solve() {
  DropUnsupported();
  Propagate(
      &Place::wanted_by, [](const Place& place) { return place.is_unboxed && place.is_wanted; },
      [](Place& place) { place.is_wanted = true; });
  Propagate(
      &Place::made_by, [](const Place& place) { return place.is_unboxed && place.is_made; },
      [](Place& place) { place.is_made = true; });
  for (Place& place : places_) place.is_unboxed &= place.is_wanted && place.is_made;
  DropUnsupported();
  num_unboxed_ = static_cast<size_t>(
      std::count_if(places_.begin(), places_.end(), [](const Place& place) { return place.is_unboxed; }));
}

void UnboxPlan::DropUnsupported() {
  Propagate(
      &Place::needs, [](const Place& place) { return !place.is_unboxed; },
      [](Place& place) { place.is_unboxed = false; });
}

}  // namespace rvm::passes
