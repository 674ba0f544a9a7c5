#include "compiler/passes/layouts/append_layouts.h"

#include <algorithm>
#include <utility>

#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

constexpr size_t kNoSlot = static_cast<size_t>(-1);
// Smallest extent of the last axis of what is arranged: readers then still find vectors of neighbours.
constexpr int64_t kMinRow = 8;

// Returns the axis along which `call` appends to its first operand, if that copies the operand where the joined axis
// stays behind others; -1 otherwise.
int64_t AppendedAxis(const ir::Call& call) {
  const ops::OpDef* op = ir::OpCallee(&call);
  if (op == nullptr || op->name != "concatenate") return -1;
  const auto* parts = DynCast<ir::Tuple>(call.args[0]);
  const ir::TensorType* result = TensorOf(&call);
  const ir::TensorType* first = parts == nullptr || parts->fields.size() < 2 ? nullptr : TensorOf(parts->fields[0]);
  if (result == nullptr || first == nullptr) return -1;
  const Dims& dims = result->shape.dims;
  auto axis = static_cast<size_t>(JoinedAxis(call));
  if (axis + 1 >= dims.size() || first->shape.dims[axis].is_const()) return -1;
  if (dims.back().is_const() && dims.back().constant() < kMinRow) return -1;
  bool is_inner = std::any_of(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis),
                              [](const Dim& dim) { return dim != Dim(1); });
  return is_inner ? static_cast<int64_t>(axis) : -1;
}

// The strongly connected components of a graph, by Tarjan's algorithm without recursion.
class Components {
 public:
  Components(size_t num_nodes, const std::vector<std::vector<size_t>>& targets)
      : targets_(targets), order_(num_nodes), low_(num_nodes), component_(num_nodes, kNoSlot) {
    for (size_t node = 0; node < num_nodes; ++node) {
      if (order_[node] == 0) Search(node);
    }
  }
  const std::vector<size_t>& component_of() const { return component_; }
  const std::vector<std::vector<size_t>>& members() const { return members_; }

 private:
  struct Frame {
    size_t node, next;
  };

  void Enter(size_t node, std::vector<Frame>& frames) {
    order_[node] = low_[node] = ++count_;
    open_.push_back(node);
    frames.push_back({node, 0});
  }

  void Search(size_t root) {
    std::vector<Frame> frames;
    Enter(root, frames);
    while (!frames.empty()) {
      Frame& frame = frames.back();
      const size_t node = frame.node;
      if (frame.next < targets_[node].size()) {
        size_t target = targets_[node][frame.next++];
        if (order_[target] == 0) {
          Enter(target, frames);
        } else if (component_[target] == kNoSlot) {
          low_[node] = std::min(low_[node], order_[target]);
        }
        continue;
      }
      if (low_[node] == order_[node]) Close(node);
      frames.pop_back();
      if (!frames.empty()) low_[frames.back().node] = std::min(low_[frames.back().node], low_[node]);
    }
  }

  void Close(size_t root) {
    members_.emplace_back();
    size_t node = kNoSlot;
    do {
      node = open_.back();
      open_.pop_back();
      component_[node] = members_.size() - 1;
      members_.back().push_back(node);
    } while (node != root);
  }

  const std::vector<std::vector<size_t>>& targets_;
  std::vector<size_t> order_, low_;  // 0: not yet reached
  std::vector<size_t> component_;
  std::vector<std::vector<size_t>> members_;
  std::vector<size_t> open_;
  size_t count_ = 0;
};

}  // namespace

size_t NumLeaves(const ir::Type* type) {
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return 1;
  return WithStack([&] {
    size_t count = 0;
    for (const ir::Type* field : tuple->fields) count += NumLeaves(field);
    return count;
  });
}

const ir::Type* Arranged(ir::Arena& arena, const ir::Type* type, const Layout& layout) {
  if (std::all_of(layout.begin(), layout.end(), [](int64_t axis) { return axis == 0; })) return type;
  if (const auto* tensor = DynCast<ir::TensorType>(type)) {
    Dims dims = tensor->shape.dims;
    std::rotate(dims.begin(), dims.begin() + layout[0], dims.begin() + layout[0] + 1);
    return ir::MakeTensorType(arena, std::move(dims), tensor->dtype.dtype);
  }
  return WithStack([&] {
    std::vector<const ir::Type*> fields;
    auto next = layout.begin();
    for (const ir::Type* field : DynCast<ir::TupleType>(type)->fields) {
      auto end = next + static_cast<std::ptrdiff_t>(NumLeaves(field));
      fields.push_back(Arranged(arena, field, Layout(next, end)));
      next = end;
    }
    return arena.New<ir::TupleType>(std::move(fields));
  });
}

int64_t JoinedAxis(const ir::Call& call) {
  int64_t axis = call.attrs.GetInt("axis");
  return axis < 0 ? axis + static_cast<int64_t>(TensorOf(&call)->shape.dims.size()) : axis;
}

AppendLayouts::AppendLayouts(const ir::Module& module) {
  for (const ir::GlobalFunction& global : module.functions) {
    functions_[global.name] = &global;
    results_[global.name] = NewSlots(TypeOf(*global.function).result);
  }
  for (const ir::GlobalFunction& global : module.functions) Visit(global.function->body, results_.at(global.name));
  axes_.resize(types_.size());
  if (num_appends_ > 0) Solve();
}

Layout AppendLayouts::LayoutAt(size_t slot, const ir::Type* type) const {
  auto first = axes_.begin() + static_cast<std::ptrdiff_t>(slot);
  return {first, first + static_cast<std::ptrdiff_t>(NumLeaves(type))};
}

Layout AppendLayouts::OfVar(const ir::Var& var) const {
  auto found = slots_.find(&var);
  return found == slots_.end() ? Layout(NumLeaves(var.type)) : LayoutAt(found->second, var.type);
}

Layout AppendLayouts::OfParam(std::string_view function, size_t param) const {
  return OfVar(*functions_.at(function)->function->params[param]);
}

Layout AppendLayouts::OfResult(std::string_view function) const {
  return LayoutAt(results_.at(function), TypeOf(*functions_.at(function)->function).result);
}

bool AppendLayouts::ChangesSignature(std::string_view function) const {
  auto found = functions_.find(function);
  if (found == functions_.end()) return false;
  auto is_arranged = [](const Layout& layout) {
    return std::any_of(layout.begin(), layout.end(), [](int64_t axis) { return axis != 0; });
  };
  const std::vector<ir::Var*>& params = found->second->function->params;
  return is_arranged(OfResult(function)) ||
         std::any_of(params.begin(), params.end(), [&](const ir::Var* param) { return is_arranged(OfVar(*param)); });
}

size_t AppendLayouts::NewSlots(const ir::Type* type) {
  size_t first = types_.size();
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) {
    types_.push_back(type);
  } else {
    WithStack([&] {
      for (const ir::Type* field : tuple->fields) NewSlots(field);
    });
  }
  return first;
}

size_t AppendLayouts::SlotsOf(const ir::Var& var) {
  auto [slot, is_new] = slots_.try_emplace(&var, types_.size());
  if (is_new) NewSlots(var.type);
  return slot->second;
}

void AppendLayouts::Connect(size_t from, size_t to, const ir::Type* type) {
  size_t count = to == kNoSlot ? 0 : NumLeaves(type);
  for (size_t i = 0; i < count; ++i) edges_.push_back({from + i, to + i, -1});
}

void AppendLayouts::Alias(size_t from, size_t to, const ir::Type* type) {
  Connect(from, to, type);
  for (size_t i = 0; i < NumLeaves(type); ++i) aliases_.push_back({from + i, to + i, -1});
}

// Visits a block whose value flows to the slots from `to` on, unless that is kNoSlot.
void AppendLayouts::Visit(const Expr* expr, size_t to) {
  WithStack([&] {
    for (; const auto* let = DynCast<ir::Let>(expr); expr = let->body) VisitStep(let->value, SlotsOf(*let->var));
    VisitStep(expr, to);
  });
}

void AppendLayouts::VisitStep(const Expr* expr, size_t to) {
  if (const auto* use = DynCast<ir::VarExpr>(expr)) {
    Connect(SlotsOf(*use->var), to, expr->type);
  } else if (const auto* tuple = DynCast<ir::Tuple>(expr)) {
    for (const Expr* field : tuple->fields) {
      VisitStep(field, to);
      if (to != kNoSlot) to += NumLeaves(field->type);
    }
  } else if (const auto* project = DynCast<ir::Project>(expr)) {
    const auto* source = DynCast<ir::VarExpr>(project->tuple);
    if (source == nullptr) return;
    size_t from = SlotsOf(*source->var);
    const auto& fields = DynCast<ir::TupleType>(project->tuple->type)->fields;
    for (uint32_t i = 0; i < project->index; ++i) from += NumLeaves(fields[i]);
    Connect(from, to, expr->type);
  } else if (const auto* branch = DynCast<ir::If>(expr)) {
    Visit(branch->then_branch, to);
    Visit(branch->else_branch, to);
  } else if (const auto* match = DynCast<ir::Match>(expr)) {
    for (const ir::Clause& clause : match->clauses) {
      BindPattern(*clause.pattern, match->value);
      Visit(clause.body, to);
    }
  } else if (const auto* function = DynCast<ir::Function>(expr)) {
    Visit(function->body, kNoSlot);
  } else if (const auto* call = DynCast<ir::Call>(expr)) {
    VisitCall(*call, to);
  }
}

void AppendLayouts::VisitCall(const ir::Call& call, size_t to) {
  if (const ir::GlobalExpr* callee = ir::GlobalCallee(&call)) {
    const std::vector<ir::Var*>& params = functions_.at(callee->name)->function->params;
    for (size_t i = 0; i < call.args.size(); ++i) VisitStep(call.args[i], SlotsOf(*params[i]));
    Connect(results_.at(callee->name), to, call.type);
    return;
  }
  if (call.callee->expr_kind == ExprKind::kFunction) Visit(Cast<ir::Function>(call.callee)->body, kNoSlot);
  int64_t axis = to == kNoSlot ? -1 : AppendedAxis(call);
  if (axis < 0) return;
  const auto* first = DynCast<ir::VarExpr>(Cast<ir::Tuple>(call.args[0])->fields[0]);
  if (first == nullptr) return;
  edges_.push_back({SlotsOf(*first->var), to, axis});
  ++num_appends_;
}

void AppendLayouts::BindPattern(const ir::Pattern& pattern, const Expr* value) {
  const auto* tuple = DynCast<ir::Tuple>(value);
  if (const auto* use = DynCast<ir::VarExpr>(value)) {
    BindPattern(pattern, value->type, SlotsOf(*use->var));
  } else if (tuple != nullptr && pattern.kind == ir::PatternKind::kTuple) {
    for (size_t i = 0; i < pattern.fields.size(); ++i) BindPattern(*pattern.fields[i], tuple->fields[i]);
  } else if (tuple != nullptr && pattern.kind == ir::PatternKind::kVar) {
    size_t to = SlotsOf(*pattern.var);
    for (const Expr* field : tuple->fields) {
      const auto* use = DynCast<ir::VarExpr>(field);
      if (use != nullptr) Alias(SlotsOf(*use->var), to, field->type);
      to += NumLeaves(field->type);
    }
  }
}

void AppendLayouts::BindPattern(const ir::Pattern& pattern, const ir::Type* type, size_t from) {
  if (pattern.kind == ir::PatternKind::kVar) {
    Alias(from, SlotsOf(*pattern.var), type);
  } else if (pattern.kind == ir::PatternKind::kTuple) {
    WithStack([&] {
      const auto& fields = DynCast<ir::TupleType>(type)->fields;
      for (size_t i = 0; i < fields.size(); ++i) {
        BindPattern(*pattern.fields[i], fields[i], from);
        from += NumLeaves(fields[i]);
      }
    });
  }
}

void AppendLayouts::Solve() {
  std::vector<std::vector<size_t>> targets(types_.size()), edges_from(types_.size());
  for (size_t i = 0; i < edges_.size(); ++i) {
    targets[edges_[i].from].push_back(edges_[i].to);
    edges_from[edges_[i].from].push_back(i);
  }
  Components components(types_.size(), targets);
  for (const std::vector<size_t>& members : components.members()) {
    Arrange(members, edges_from, components.component_of());
  }
  // A variable of a pattern has the layout of what it names.
  for (const Edge& alias : aliases_) axes_[alias.to] = axes_[alias.from];
}

void AppendLayouts::Arrange(const std::vector<size_t>& cycle, const std::vector<std::vector<size_t>>& edges_from,
                            const std::vector<size_t>& cycle_of) {
  int64_t axis = -1;
  size_t rank = 0;
  for (size_t slot : cycle) {
    for (size_t i : edges_from[slot]) {
      const Edge& edge = edges_[i];
      if (edge.axis < 0 || cycle_of[edge.to] != cycle_of[slot]) continue;
      if (axis >= 0 && axis != edge.axis) return;
      axis = edge.axis;
      rank = DynCast<ir::TensorType>(types_[slot])->shape.dims.size();
    }
  }
  bool fits = axis >= 0 && std::all_of(cycle.begin(), cycle.end(), [&](size_t slot) {
                const auto* tensor = DynCast<ir::TensorType>(types_[slot]);
                return tensor != nullptr && tensor->shape.is_dims() && tensor->dtype.is_concrete() &&
                       tensor->shape.dims.size() == rank;
              });
  if (!fits) return;
  for (size_t slot : cycle) axes_[slot] = axis;
  num_arranged_ += cycle.size();
}

}  // namespace rvm::passes
