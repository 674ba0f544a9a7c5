// Control flow, and integers of the graph: cond, while_loop, scan, map; extents and their arithmetic.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/loops.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Rolled;
using importing::Step;

// The state keeps its types: torch refuses to export loops that change them.
Operands Kept(NodeContext& c, Operands next, const Operands& state) {
  for (size_t i = 0; i < next.size() && i < state.size(); ++i) {
    if (c.failed() || next[i]->is_placeholder) continue;
    next[i] = c.Cast(next[i], c.DTypeOf(state[i]));
    if (c.RankOf(next[i]) == c.RankOf(state[i])) next[i] = c.emit().Retyped(next[i], state[i]->type);
  }
  return next;
}

Operands Joined(Operands a, const Operands& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Operands Cond(NodeContext& c) {
  const Argument* predicate = c.Positional(0);
  const Graph *then_graph = c.GraphArg(1), *else_graph = c.GraphArg(2);
  Operands inputs = c.Values(3);
  if (c.failed()) return {};
  Operand condition = c.Cast(c.Scalar(c.In(*predicate)), kBool);
  if (condition->constant) return c.Body(condition->constant->IntAt(0) != 0 ? *then_graph : *else_graph, inputs);
  return Branch(c, condition, [&] { return c.Body(*then_graph, inputs); }, [&] { return c.Body(*else_graph, inputs); });
}

Operands WhileLoop(NodeContext& c) {
  const Graph *condition = c.GraphArg(0), *body = c.GraphArg(1);
  Operands state = c.Values(2), others = c.Values(3);
  if (c.failed()) return {};
  auto goes_on = [&](const Operands& own) -> Operand {
    Operands result = c.Body(*condition, Joined(own, others));
    if (c.failed() || result.size() != 1 || result[0]->is_placeholder) return c.emit().Placeholder();
    return c.Cast(c.Scalar(result[0]), kBool);
  };
  Operand first = goes_on(state);
  if (c.failed() || first->is_placeholder) return {};
  Rolled rolled = Roll(c, nullptr, first, state, [&](Operand, const Operands& own) -> Step {
    Operands next = Kept(c, c.Body(*body, Joined(own, others)), own);
    if (c.failed() || next.size() != own.size()) return {nullptr, next, {}};
    return {goes_on(next), next, {}};
  });
  return rolled.state;
}

// Returns a loop over the first axis of `sources`, whose rows are stacked behind the last state.
Operands OverRows(NodeContext& c, const Graph& body, const Operands& state, const Operands& sources,
                  const Operands& others) {
  if (sources.empty()) return {c.Fail("it has nothing to go over")};
  Operand limit = c.emit().FromDim(c.ExtentOf(sources[0], 0));
  if (c.failed()) return {};
  Rolled rolled = Roll(c, limit, nullptr, state, [&](Operand index, const Operands& own) -> Step {
    Operands inputs = own;
    for (Operand source : sources) inputs.push_back(c.Op("take", {source, index}, {{"axis", 0}}));
    Operands outputs = c.Body(body, Joined(inputs, others));
    if (c.failed() || outputs.size() < own.size()) return {nullptr, own, {}};
    auto rows = outputs.begin() + static_cast<ptrdiff_t>(own.size());
    return {nullptr, Kept(c, Operands(outputs.begin(), rows), own), WithFirstAxis(c, Operands(rows, outputs.end()))};
  });
  Operands results = rolled.state;
  for (size_t i = 0; i < rolled.lists.size(); ++i) results.push_back(StackRows(c, rolled, i));
  return results;
}

Operands Scan(NodeContext& c) {
  const Graph* body = c.GraphArg(0);
  return body == nullptr ? Operands() : OverRows(c, *body, c.Values(1), c.Values(2), c.Values(3));
}

Operands Map(NodeContext& c) {
  const Graph* body = c.GraphArg(0);
  return body == nullptr ? Operands() : OverRows(c, *body, {}, c.Values(1), c.Values(2));
}

// Graphs that only say how torch runs them: without gradients, with another precision.
Operands Inlined(NodeContext& c) {
  Operands inputs;
  const Graph* body = nullptr;
  for (const auto& [name, argument] : c.node().inputs) {
    if (argument.kind == ArgumentKind::kGraph) body = argument.graph;
    if (body == nullptr || argument.kind == ArgumentKind::kGraph) continue;
    if (argument.IsValue()) inputs.push_back(c.In(argument));
    for (const Argument& element : argument.list) inputs.push_back(c.In(element));
  }
  return body == nullptr ? Operands{c.Fail("it has no graph")} : c.Body(*body, inputs, false);
}

Operands Nothing(NodeContext&) { return {}; }

// A range of an integer, or a condition with a message.
Operands Assert(NodeContext& c) {
  const Argument* checked = c.Positional(0);
  if (checked == nullptr) return {c.Fail("it has no argument")};
  Operand x = c.Scalar(c.In(*checked));
  std::string message = c.Text("assert_msg", absl::StrCat("`", checked->text, "` is in its range"));
  if (c.row().variant == "condition") {
    c.Assert(c.Cast(x, kBool), message);
    return {};
  }
  if (c.Has("min")) c.Assert(c.Op("greater_equal", {x, c.Cast(c.In("min"), c.DTypeOf(x))}), message);
  if (c.Has("max")) c.Assert(c.Op("less_equal", {x, c.Cast(c.In("max"), c.DTypeOf(x))}), message);
  return {};
}

// ---- integers

Operands SymSize(NodeContext& c) {
  Operand x = c.In("self");
  return {c.emit().FromDim(c.ExtentOf(x, c.Axis(c.Int("dim", 0), c.RankOf(x))))};
}

// The rank: a number that is known, so that a branch on it is none.
Operands Rank(NodeContext& c) { return {c.Integer(c.RankOf(c.In("self")))}; }

Operands SymNumel(NodeContext& c) { return {c.NumElements(c.In("self"))}; }

// Returns the dtype of a number that is made of two.
DataType NumberDType(NodeContext& c, Operand a, Operand b) {
  return c.DTypeOf(a).is_float() || c.DTypeOf(b).is_float() ? kFloat64 : kInt64;
}

Operands SymBinary(NodeContext& c) {
  const Argument *first = c.Positional(0), *second = c.Positional(1);
  if (first == nullptr || second == nullptr) return {c.Fail("it has not two arguments")};
  Operand a = c.In(*first), b = c.In(*second);
  bool divides = c.row().variant == "divide";
  DataType dtype = divides ? kFloat64 : NumberDType(c, a, b);
  bool is_logical = c.row().variant.starts_with("logical");
  if (is_logical) dtype = kBool;
  return {c.Op(c.row().variant, {c.Cast(a, dtype), c.Cast(b, dtype)})};
}

// Returns one of two numbers, by a condition.
Operands SymIte(NodeContext& c) {
  const Argument *condition = c.Positional(0), *first = c.Positional(1), *second = c.Positional(2);
  if (second == nullptr) return {c.Fail("it has not three arguments")};
  Operand a = c.In(*first), b = c.In(*second);
  const DataType dtype = NumberDType(c, a, b);
  return {c.Where(c.Cast(c.In(*condition), kBool), c.Cast(a, dtype), c.Cast(b, dtype))};
}

Operands SymUnary(NodeContext& c) {
  const Argument* argument = c.Positional(0);
  if (argument == nullptr) return {c.Fail("it has no argument")};
  Operand x = c.In(*argument);
  if (c.row().variant == "float") return {c.Cast(x, kFloat64)};
  if (c.row().variant == "int") return {c.Cast(x, kInt64)};
  Operand y = c.Op(c.row().variant, {x});
  return {c.row().variant == "ceil" || c.row().variant == "floor" ? c.Cast(y, kInt64) : y};
}

// Returns the element of a tensor as a number of the graph.
Operands Item(NodeContext& c) {
  Operand x = c.Scalar(c.In("self"));
  DataType dtype = c.DTypeOf(x);
  return {c.Cast(x, dtype.is_bool() ? kBool : dtype.is_float() ? kFloat64 : kInt64)};
}

constexpr OperatorRow kRows[] = {
    {"higher_order.cond", Cond},
    {"higher_order.map_impl", Map},
    {"higher_order.scan", Scan},
    {"higher_order.while_loop", WhileLoop},
    {"higher_order.wrap_with_autocast", Inlined},
    {"higher_order.wrap_with_set_grad_enabled", Inlined},
    {"_assert_async", Assert, "condition"},
    {"_assert_scalar", Assert, "condition"},
    {"_assert_tensor_metadata", Nothing},
    {"sym_constrain_range", Assert, "range"},
    {"sym_constrain_range_for_size", Assert, "range"},
    {"dim", Rank},
    {"sym_numel", SymNumel},
    {"sym_size", SymSize},
    {"_local_scalar_dense", Item},
    {"item", Item},
    {"_operator.add", SymBinary, "add"},
    {"_operator.and_", SymBinary, "logical_and"},
    {"_operator.eq", SymBinary, "equal"},
    {"_operator.floordiv", SymBinary, "floor_divide"},
    {"_operator.ge", SymBinary, "greater_equal"},
    {"_operator.gt", SymBinary, "greater"},
    {"_operator.le", SymBinary, "less_equal"},
    {"_operator.lt", SymBinary, "less"},
    {"_operator.mod", SymBinary, "floor_mod"},
    {"_operator.mul", SymBinary, "multiply"},
    {"_operator.ne", SymBinary, "not_equal"},
    {"_operator.neg", SymUnary, "negative"},
    {"_operator.or_", SymBinary, "logical_or"},
    {"_operator.pow", SymBinary, "power"},
    {"_operator.sub", SymBinary, "subtract"},
    {"_operator.truediv", SymBinary, "divide"},
    {"math.ceil", SymUnary, "ceil"},
    {"math.floor", SymUnary, "floor"},
    {"math.trunc", SymUnary, "int"},
    {"sym_float", SymUnary, "float"},
    {"sym_int", SymUnary, "int"},
    {"sym_ite", SymIte},
    {"sym_max", SymBinary, "maximum"},
    {"sym_min", SymBinary, "minimum"},
    {"sym_not", SymUnary, "logical_not"},
};

}  // namespace

std::span<const OperatorRow> ControlOperators() { return kRows; }

}  // namespace rvm::torch::convert
