// If, Loop and Scan; sequences as lists, optional values as Option.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/loops.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

using importing::Rolled;
using importing::Step;

bool IsTrue(Operand operand) { return operand->constant && operand->constant->IntAt(0) != 0; }

Operands If(NodeContext& c) {
  Operand condition = c.Scalar(c.In(0));
  const Graph *then_graph = c.GraphAttr("then_branch"), *else_graph = c.GraphAttr("else_branch");
  if (c.failed()) return {};
  if (condition->constant) return c.Body(IsTrue(condition) ? *then_graph : *else_graph, {});
  return Branch(c, condition, [&] { return c.Body(*then_graph, {}); }, [&] { return c.Body(*else_graph, {}); });
}

Operands Loop(NodeContext& c) {
  const Graph* graph = c.GraphAttr("body");
  if (graph == nullptr) return {};
  Operand limit = c.Has(0) ? c.Cast(c.Scalar(c.In(0)), kInt64) : nullptr;
  Operand condition = c.Has(1) ? c.Scalar(c.In(1)) : nullptr;
  if (condition != nullptr && IsTrue(condition)) condition = nullptr;
  Operands state;
  for (size_t i = 2; i < c.num_inputs(); ++i) state.push_back(c.In(i));
  size_t size = state.size();
  if (graph->outputs.size() < size + 1) return {c.Fail("its body gives fewer outputs than it has states")};
  auto body = [&](Operand index, const Operands& own) -> Step {
    Operands inputs = {index, c.emit().Constant(Literal::ScalarInt(kBool, 1))};
    inputs.insert(inputs.end(), own.begin(), own.end());
    Operands outputs = c.Body(*graph, inputs);
    Step step;
    if (!outputs[0]->is_placeholder) {
      Operand goes_on = c.Scalar(outputs[0]);
      step.condition = IsTrue(goes_on) ? nullptr : goes_on;
    }
    step.state.assign(outputs.begin() + 1, outputs.begin() + 1 + static_cast<ptrdiff_t>(size));
    step.rows = WithFirstAxis(c, Operands(outputs.begin() + 1 + static_cast<ptrdiff_t>(size), outputs.end()));
    return step;
  };
  Rolled rolled = Roll(c, limit, condition, state, body);
  Operands results = rolled.state;
  for (size_t i = 0; i < rolled.lists.size(); ++i) results.push_back(StackRows(c, rolled, i));
  return results;
}

Operands ScanGraph(NodeContext& c) {
  const Graph* graph = c.GraphAttr("body");
  int64_t scanned = c.Int("num_scan_inputs", 0), total = static_cast<int64_t>(c.num_inputs());
  if (graph == nullptr || scanned < 1 || scanned > total)
    return {c.failed() ? nullptr : c.Fail("`num_scan_inputs` does not fit")};
  size_t size = static_cast<size_t>(total - scanned);
  if (graph->outputs.size() < size) return {c.Fail("its body gives fewer outputs than it has states")};
  auto read = [&](std::string_view name, size_t count) {
    std::vector<int64_t> values = c.Ints(name);
    values.resize(count, 0);
    return values;
  };
  size_t row_count = graph->outputs.size() - size;
  std::vector<int64_t> axes = read("scan_input_axes", static_cast<size_t>(scanned));
  std::vector<int64_t> backwards = read("scan_input_directions", static_cast<size_t>(scanned));
  std::vector<int64_t> row_axes = read("scan_output_axes", row_count),
                       row_backwards = read("scan_output_directions", row_count);
  Operands state, sources;
  for (size_t i = 0; i < size; ++i) state.push_back(c.In(i));
  for (size_t i = 0; i < static_cast<size_t>(scanned); ++i) {
    Operand source = c.In(size + i);
    axes[i] = c.Axis(axes[i], c.RankOf(source));
    sources.push_back(backwards[i] != 0 ? c.Op("reverse", {source}, {{"axis", axes[i]}}) : source);
  }
  if (c.failed()) return {};
  Operand limit = c.emit().FromDim(c.ExtentOf(sources[0], axes[0]));
  auto body = [&](Operand index, const Operands& own) -> Step {
    Operands inputs = own;
    for (size_t i = 0; i < sources.size(); ++i)
      inputs.push_back(c.Op("take", {sources[i], index}, {{"axis", axes[i]}}));
    Operands outputs = c.Body(*graph, inputs);
    Step step;
    step.state.assign(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(size));
    step.rows = WithFirstAxis(c, Operands(outputs.begin() + static_cast<ptrdiff_t>(size), outputs.end()));
    return step;
  };
  Rolled rolled = Roll(c, limit, nullptr, state, body);
  Operands results = rolled.state;
  for (size_t i = 0; i < rolled.lists.size(); ++i) {
    Operand rows = StackRows(c, rolled, i);
    if (c.failed() || rows->is_placeholder) return {};
    if (row_backwards[i] != 0) rows = c.Op("reverse", {rows}, {{"axis", 0}});
    int64_t rank = c.RankOf(rows), axis = c.Axis(row_axes[i], rank);
    std::vector<int64_t> order;
    for (int64_t k = 1; k < rank; ++k) order.push_back(k);
    order.insert(order.begin() + axis, 0);
    results.push_back(c.Transpose(rows, order));
  }
  return results;
}

// Before opset 9 a batch is the first axis of all inputs: each of its parts is scanned on its own.
Operands BatchedScan(NodeContext& c) {
  const Graph* graph = c.GraphAttr("body");
  int64_t scanned = c.Int("num_scan_inputs", 0), total = static_cast<int64_t>(c.num_inputs()) - 1;
  if (c.Has(0) || c.HasAttr("directions")) return {c.Unsupported("lengths of sequences, or directions, of opset 8")};
  if (graph == nullptr || scanned < 1 || scanned > total) {
    return {c.failed() ? nullptr : c.Fail("`num_scan_inputs` does not fit")};
  }
  size_t size = static_cast<size_t>(total - scanned);
  std::optional<int64_t> batch = c.ExtentOf(c.In(1), 0).AsConst();
  if (!batch || *batch < 1 || *batch > 64) return {c.Unsupported("a batch of opset 8 that is not known, or above 64")};
  if (graph->outputs.size() < size) return {c.Fail("its body gives fewer outputs than it has states")};
  std::vector<Operands> parts(graph->outputs.size());
  for (int64_t b = 0; b < *batch && !c.failed(); ++b) {
    auto part = [&](size_t i) { return c.Squeeze(c.SliceAxis(c.In(i), 0, b, b + 1), {0}); };
    Operands state, sources;
    for (size_t i = 0; i < size; ++i) state.push_back(part(1 + i));
    for (size_t i = size; i < static_cast<size_t>(total); ++i) sources.push_back(part(1 + i));
    if (c.failed()) return {};
    Operand limit = c.emit().FromDim(c.ExtentOf(sources[0], 0));
    Rolled rolled = Roll(c, limit, nullptr, state, [&](Operand index, const Operands& own) -> Step {
      Operands inputs = own;
      for (Operand source : sources) inputs.push_back(c.Op("take", {source, index}, {{"axis", 0}}));
      Operands outputs = c.Body(*graph, inputs);
      auto rows = outputs.begin() + static_cast<ptrdiff_t>(size);
      return {nullptr, Operands(outputs.begin(), rows), WithFirstAxis(c, Operands(rows, outputs.end()))};
    });
    if (c.failed() || rolled.state.size() + rolled.lists.size() != parts.size()) return {};
    for (size_t i = 0; i < parts.size(); ++i) {
      Operand result = i < size ? rolled.state[i] : StackRows(c, rolled, i - size);
      parts[i].push_back(c.failed() || result->is_placeholder ? result : c.Unsqueeze(result, {0}));
    }
  }
  Operands results;
  for (const Operands& part : parts) {
    results.push_back(part.size() == 1 ? part[0] : c.Op("concatenate", {c.emit().Tuple(part)}, {{"axis", 0}}));
  }
  return results;
}

// ---- sequences

Operands SequenceConstruct(NodeContext& c) { return {ListOf(c, c.All())}; }

Operands SequenceEmpty(NodeContext& c) { return {EmptyList(c)}; }

Operands SequenceLength(NodeContext& c) { return {Length(c, c.In(0))}; }

Operands SequenceAt(NodeContext& c) { return {ElementAt(c, c.In(0), c.In(1))}; }

Operands SequenceInsert(NodeContext& c) {
  Operand list = c.In(0), element = c.In(1);
  return {c.Has(2) ? InsertAt(c, list, c.In(2), element) : Append(c, list, element)};
}

Operands SequenceErase(NodeContext& c) {
  Operand list = c.In(0);
  return {c.Has(1) ? EraseAt(c, list, c.In(1)) : EraseLast(c, list)};
}

Operands ConcatFromSequence(NodeContext& c) {
  Operand list = c.In(0);
  int64_t axis = c.Int("axis", 0);
  if (c.Int("new_axis", 0) == 0) return {Join(c, list, axis, false, /*may_be_empty=*/true)};
  const auto* element = ir::DynCast<ir::TensorType>(c.emit().ElementType(list->type, "List"));
  if (element == nullptr) return {c.Unsupported("a sequence whose elements have no known type")};
  axis = c.Axis(axis, static_cast<int64_t>(element->shape.dims.size()) + 1);
  Operand limit = Length(c, list);
  Rolled rolled = Roll(c, limit, nullptr, {list}, [&](Operand, const Operands& state) -> Step {
    Operand first = ElementAt(c, state[0], c.Integer(0));
    return {nullptr, {Rest(c, state[0])}, {c.Unsqueeze(first, {axis})}};
  });
  return {rolled.lists.empty() ? nullptr : Join(c, rolled.lists[0], axis, true)};
}

Operands SplitToSequence(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("axis", 0), rank);
  bool keeps = c.Has(1) || c.Int("keepdims", 1) != 0;
  Dim extent = c.ExtentOf(x, axis);
  Operand sizes = c.Has(1) ? c.Cast(c.In(1), kInt64) : c.Integer(1);
  if (c.failed()) return {};
  if (c.RankOf(sizes) == 0) {
    // Equal parts, of which the last may be smaller.
    if (sizes->constant && sizes->constant->IntAt(0) < 1) {
      return {c.Fail(absl::StrCat("the size of its parts is ", sizes->constant->IntAt(0)))};
    }
    sizes = importing::CheckAtLeast(c, sizes, sizes, c.Integer(1), "the size of the parts");
    Operand total = c.emit().FromDim(extent);
    Operand limit = c.Op("floor_divide", {c.Sub(c.Add(total, sizes), c.Integer(1)), sizes});
    Operand one = c.emit().Vector({{1}});
    Rolled rolled = Roll(c, limit, nullptr, {}, [&](Operand index, const Operands&) -> Step {
      Operand begin = c.Mul(index, sizes);
      Operand part = c.Op("dyn.strided_slice", {x, c.Reshape(begin, {1}), c.Reshape(c.Add(begin, sizes), {1}), one},
                          {{"axes", ir::AttrValue::List{axis}}});
      return {nullptr, {}, {keeps ? part : c.Op("take", {x, index}, {{"axis", axis}})}};
    });
    return {rolled.lists.empty() ? nullptr : ReverseOnto(c, rolled.lists[0], EmptyList(c))};
  }
  std::optional<Dims> known = c.Symbols(sizes);
  if (!known) {
    Operand checked = importing::CheckSizes(c, x, axis, sizes), one = c.emit().Vector({{1}});
    Operand limit = c.emit().FromDim(c.ExtentOf(sizes, 0));
    Rolled rolled = Roll(c, limit, nullptr, {c.emit().Vector({{0}})}, [&](Operand index, const Operands& own) -> Step {
      Operand end = c.Add(own[0], c.Reshape(c.Op("take", {sizes, index}, {{"axis", 0}}), {1}));
      return {
          nullptr, {end}, {c.Op("dyn.strided_slice", {checked, own[0], end, one}, {{"axes", ir::IntList({{axis}})}})}};
    });
    return {rolled.lists.empty() ? nullptr : ReverseOnto(c, rolled.lists[0], EmptyList(c))};
  }
  x = importing::CheckSizes(c, x, axis, *known);
  if (c.failed()) return {};
  Operands parts;
  Dim begin = 0;
  for (const Dim& size : *known) {
    parts.push_back(c.SliceAxis(x, axis, begin, begin + size));
    begin = begin + size;
  }
  return {ListOf(c, parts)};
}

Operands SequenceMap(NodeContext& c) {
  const Graph* graph = c.GraphAttr("body");
  if (graph == nullptr) return {};
  Operands inputs = c.All();
  Operands lists;  // those of the inputs that are sequences are the state
  for (Operand input : inputs) {
    if (c.emit().ElementType(input->type, "List") != nullptr) lists.push_back(input);
  }
  if (c.failed() || lists.empty()) return {};
  Rolled rolled = Roll(c, Length(c, lists[0]), nullptr, lists, [&](Operand, const Operands& state) -> Step {
    Step step;
    Operands args;
    size_t next = 0;
    for (Operand input : inputs) {
      if (c.emit().ElementType(input->type, "List") == nullptr) {
        args.push_back(input);
        continue;
      }
      args.push_back(ElementAt(c, state[next], c.Integer(0)));
      step.state.push_back(Rest(c, state[next]));
      ++next;
    }
    step.rows = c.Body(*graph, args);
    return step;
  });
  Operands results;
  for (Operand list : rolled.lists) results.push_back(ReverseOnto(c, list, EmptyList(c)));
  return results;
}

// ---- optional values

Operands Optional(NodeContext& c) {
  Emitter& emit = c.emit();
  if (!c.Has(0)) return {c.Unsupported("an optional value that is none from the start")};
  const ir::Type* type = emit.OptionOf(c.In(0)->type);
  if (emit.is_dry()) return {emit.Bound(builder::Value(0), type)};
  return {emit.Bound(emit.builder().Call(emit.builder().Constructor("Some"), {emit.Use(c.In(0))}), type)};
}

Operands OptionalHasElement(NodeContext& c) {
  Emitter& emit = c.emit();
  bool is_there = c.num_inputs() > 0 && c.Has(0);
  if (!is_there || emit.ElementType(c.In(0)->type, "Option") == nullptr) {
    return {emit.Constant(Literal::ScalarInt(kBool, is_there))};
  }
  const ir::Type* type = emit.TensorType({}, kBool);
  if (emit.is_dry()) return {emit.Bound(builder::Value(0), type)};
  using builder::Pattern;
  return {emit.Bound(emit.builder().Match(emit.Use(c.In(0)),
                                          {{Pattern::Of("None"), [](builder::Values) { return builder::Value(false); }},
                                           {Pattern::Of("Some", {Pattern::Any()}),
                                            [](builder::Values) { return builder::Value(true); }}}),
                     type)};
}

Operands OptionalGetElement(NodeContext& c) {
  Emitter& emit = c.emit();
  const ir::Type* element = emit.ElementType(c.In(0)->type, "Option");
  if (element == nullptr) return {c.In(0)};
  if (emit.is_dry()) return {emit.Bound(builder::Value(0), element)};
  using builder::Pattern;
  return {emit.Bound(
      emit.builder().Match(emit.Use(c.In(0)),
                           {{Pattern::Of("Some", {Pattern::Var("x")}), [](builder::Values found) { return found[0]; }}},
                           /*partial=*/true),
      element)};
}

constexpr OperatorRow kRows[] = {
    {"ConcatFromSequence", ConcatFromSequence},
    {"If", If},
    {"Loop", Loop},
    {"Optional", Optional},
    {"OptionalGetElement", OptionalGetElement},
    {"OptionalHasElement", OptionalHasElement},
    {"Scan", BatchedScan},
    {"Scan", ScanGraph, "", 9},
    {"SequenceAt", SequenceAt},
    {"SequenceConstruct", SequenceConstruct},
    {"SequenceEmpty", SequenceEmpty},
    {"SequenceErase", SequenceErase},
    {"SequenceInsert", SequenceInsert},
    {"SequenceLength", SequenceLength},
    {"SequenceMap", SequenceMap},
    {"SplitToSequence", SplitToSequence},
};

}  // namespace

std::span<const OperatorRow> ControlOperators() { return kRows; }

}  // namespace rvm::onnx::convert
