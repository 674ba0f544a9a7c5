#include "compiler/passes/specialize/endless_params.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/stack_guard.h"
#include "compiler/ir/match_types.h"
#include "compiler/ir/type_parts.h"
#include "compiler/ir/walk.h"

namespace rvm::passes {
namespace {

using ir::DynCast;
using ir::Type;
using ir::TypeArg;
using ir::TypeParam;

class ParamVisitor {
 public:
  ParamVisitor(const TypeParamSet& skip, absl::FunctionRef<void(const TypeParam*, bool)> visit)
      : skip_(skip), visit_(visit) {}

  void Visit(const Type* type, bool is_inside) {
    if (const auto* param = DynCast<ir::ParamType>(type)) return visit_(param->param, is_inside);
    // Nodes are shared.
    if (type->type_kind == ir::TypeKind::kTensor || !visited_.insert(type).second) return;
    WithStack([&] { VisitParts(type); });
  }

 private:
  void VisitParts(const Type* type) {
    const auto* adt = DynCast<ir::AdtType>(type);
    if (adt == nullptr) return ir::ForEachPart(type, [&](const Type* part) { Visit(part, true); });
    for (size_t i = 0; i < adt->args.size(); ++i) {
      bool is_type = adt->args[i].kind == ir::Kind::kType;
      if (is_type && !skip_.contains(adt->adt->type_params[i])) Visit(adt->args[i].type, true);
    }
  }

  const TypeParamSet& skip_;
  absl::FunctionRef<void(const TypeParam*, bool)> visit_;
  absl::flat_hash_set<const Type*> visited_;
};

// An edge from one parameter to another: the argument of the second is, or contains, the argument of the first.
class ParamGraph {
 public:
  explicit ParamGraph(const TypeParamSet& skip) : skip_(skip) {}

  void AddUse(const TypeParam* param, const TypeArg& arg) {
    if (param->kind != ir::Kind::kType || arg.kind != ir::Kind::kType) return;
    ForEachTypeParam(arg.type, skip_,
                     [&](const TypeParam* from, bool is_inside) { nodes_[from].edges.push_back({param, is_inside}); });
  }

  void AddUses(const std::vector<const TypeParam*>& params, const std::vector<TypeArg>& args) {
    for (size_t i = 0; i < args.size(); ++i) AddUse(params[i], args[i]);
  }

  // Uses of ADTs in a type.
  void AddUsesIn(const Type* type) {
    if (const auto* adt = DynCast<ir::AdtType>(type)) AddUses(adt->adt->type_params, adt->args);
    WithStack([&] { ir::ForEachPart(type, [&](const Type* part) { AddUsesIn(part); }); });
  }

  // Returns the parameters on a cycle with a growing edge.
  TypeParamSet Endless() {
    std::vector<const TypeParam*> starts;
    for (const auto& [param, node] : nodes_) starts.push_back(param);
    for (const TypeParam* param : starts) {
      if (nodes_[param].order == 0) FindComponents(param);
    }
    absl::flat_hash_set<size_t> growing;
    for (const auto& [param, node] : nodes_) {
      for (const Edge& edge : node.edges) {
        if (edge.grows && nodes_.at(edge.to).component == node.component) growing.insert(node.component);
      }
    }
    TypeParamSet result;
    for (const auto& [param, node] : nodes_) {
      if (growing.contains(node.component)) result.insert(param);
    }
    return result;
  }

 private:
  struct Edge {
    const TypeParam* to;
    bool grows;
  };
  struct Node {
    std::vector<Edge> edges;
    size_t order = 0;      // of the visit; 0: not yet visited
    size_t lowest = 0;     // order of the first node of the stack that it reaches
    size_t component = 0;  // 0: still on the stack
  };

  // Strongly connected components, as Tarjan finds them.
  void FindComponents(const TypeParam* param) {
    size_t order = ++num_visited_;
    nodes_[param].order = nodes_[param].lowest = order;
    open_.push_back(param);
    std::vector<Edge> edges = nodes_[param].edges;
    for (const Edge& edge : edges) {
      if (nodes_[edge.to].order == 0) WithStack([&] { FindComponents(edge.to); });
      const Node& to = nodes_[edge.to];
      if (to.component == 0) nodes_[param].lowest = std::min(nodes_[param].lowest, to.lowest);
    }
    if (nodes_[param].lowest != order) return;
    const TypeParam* member = nullptr;
    while (member != param) {
      member = open_.back();
      open_.pop_back();
      nodes_[member].component = order;
    }
  }

  const TypeParamSet& skip_;
  absl::flat_hash_map<const TypeParam*, Node> nodes_;
  std::vector<const TypeParam*> open_;
  size_t num_visited_ = 0;
};

using Sources = absl::flat_hash_map<std::string_view, const ir::Function*>;

const ir::FuncType* AsGeneric(const Type* type) {
  const auto* func = DynCast<ir::FuncType>(type);
  return func == nullptr || func->type_params.empty() ? nullptr : func;
}

void AddUsesIn(const ir::Expr* body, const Sources& sources, ParamGraph& graph) {
  ir::ForEachExpr(body, [&](const ir::Expr* expr) {
    if (const auto* global = DynCast<ir::GlobalExpr>(expr)) {
      graph.AddUses(sources.at(global->name)->type_params, global->type_args);
    } else if (const auto* use = DynCast<ir::VarExpr>(expr); use != nullptr && AsGeneric(use->var->type) != nullptr) {
      const std::vector<const TypeParam*>& params = AsGeneric(use->var->type)->type_params;
      absl::flat_hash_map<const TypeParam*, TypeArg> found;
      if (!ir::MatchTypes(use->var->type, use->type, params, found)) return true;
      for (const auto& [param, arg] : found) graph.AddUse(param, arg);
    } else if (const auto* let = DynCast<ir::Let>(expr); let != nullptr && AsGeneric(let->var->type) != nullptr) {
      // The type parameters of a declared type correspond to those of the function.
      const auto* function = DynCast<ir::Function>(let->value);
      const std::vector<const TypeParam*>& declared = AsGeneric(let->var->type)->type_params;
      if (function == nullptr || function->type_params.size() != declared.size()) return true;
      for (size_t i = 0; i < declared.size(); ++i) {
        if (declared[i]->kind != ir::Kind::kType || function->type_params[i] == declared[i]) continue;
        ir::ParamType from(declared[i]), to(function->type_params[i]);
        graph.AddUse(function->type_params[i], {.type = &from});
        graph.AddUse(declared[i], {.type = &to});
      }
    }
    return true;
  });
}

}  // namespace

void ForEachTypeParam(const Type* type, const TypeParamSet& skip,
                      absl::FunctionRef<void(const TypeParam*, bool is_inside)> visit) {
  ParamVisitor(skip, visit).Visit(type, false);
}

TypeParamSet FindEndlessParams(const ir::Module& module) {
  TypeParamSet none;
  ParamGraph types(none);
  for (const ir::AdtDef* adt : module.adts) {
    for (const ir::Constructor* constructor : adt->constructors) {
      for (const Type* field : constructor->fields) types.AddUsesIn(field);
    }
  }
  TypeParamSet result = types.Endless();
  // Arguments of endless parameters of types are erased, so they do not make a type grow.
  ParamGraph functions(result);
  Sources sources;
  for (const ir::GlobalFunction& global : module.functions) sources[global.name] = global.function;
  for (const ir::GlobalFunction& global : module.functions) AddUsesIn(global.function->body, sources, functions);
  TypeParamSet of_functions = functions.Endless();
  result.insert(of_functions.begin(), of_functions.end());
  return result;
}

}  // namespace rvm::passes
