// Writes to tensors that share memory. Values never change: a tensor gets another value, and so do the tensors that it
// is a view of, and all their other views.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {
namespace {

constexpr const char* kSharedMemory =
    "a write to memory that is used under other names, too; save `exported.run_decompositions()` instead";

// The name of a written value while the tensor that it is a part of is computed.
constexpr const char* kWritten = "(written)";
// The name of a part of a complex tensor meanwhile.
constexpr const char* kPart = "(part)";

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

Argument Named(std::string name) { return {.kind = ArgumentKind::kTensor, .text = std::move(name)}; }

// Returns the node by which another operator takes the same arguments, and the written value as `src`.
Node WithSource(const Node& node, std::string_view op) {
  Node other = node;
  other.target = "torch.ops.aten." + std::string(op) + ".default";
  other.inputs.emplace_back("src", Named(kWritten));
  return other;
}

// Returns the node with the written value in place of the tensor that it views.
Node OfWritten(const Node& node) {
  Node other = node;
  other.inputs[0].second = Named(kWritten);
  return other;
}

// Operators that copy where they must.
bool MayCopy(std::string_view op) {
  return IsOneOf(op, {"reshape", "reshape_as", "ravel", "flatten", "contiguous", "to", "type_as"});
}

// Returns the numbers; nullopt if one of them is an expression.
std::optional<Shape> NumbersOf(const std::vector<TensorMeta::Extent>& extents) {
  Shape numbers;
  for (const TensorMeta::Extent& extent : extents) {
    if (!extent.number) return std::nullopt;
    numbers.push_back(*extent.number);
  }
  return numbers;
}

// Returns whether there are strides with which the elements of a tensor, in their order, have another shape of as many
// elements: axes whose elements lie one behind another are one run, which may be divided in any way.
bool HasStrides(const Shape& sizes, const Shape& strides, const Shape& to) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return true;
  size_t at = to.size();
  // Unsigned: a malformed file may have any numbers.
  auto number = [](int64_t extent) { return static_cast<uint64_t>(extent); };
  uint64_t run = 1, step = strides.empty() ? 1 : number(strides.back());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    run *= number(sizes[axis]);
    const bool goes_on = axis > 0 && (sizes[axis - 1] == 1 || number(strides[axis - 1]) == run * step);
    if (goes_on) continue;
    uint64_t divided = 1;
    while (at > 0 && (divided < run || to[at - 1] == 1)) divided *= number(to[--at]);
    if (divided != run) return false;
    if (axis > 0) step = number(strides[axis - 1]);
    run = 1;
  }
  return true;
}

// Returns the value of a tensor of which the parts along an axis are known, where `part` is `value`.
Operand Joined(NodeContext& c, Operands parts, size_t part, Operand value, bool is_unbound) {
  if (c.failed() || part >= parts.size()) return nullptr;
  parts[part] = value;
  const int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(value) + (is_unbound ? 1 : 0));
  for (Operand& each : parts) each = is_unbound ? c.Unsqueeze(each, {axis}) : each;
  return c.Op("concatenate", {c.emit().Tuple(parts)}, {{"axis", axis}});
}

}  // namespace

Memory MemoryOf(const Node& node, const Graph& graph) {
  const OperatorRow* row = FindRow(node);
  if (row == nullptr || !MayCopy(row->name)) return Memory::kShared;
  const std::vector<const Argument*> outputs = OutputsOf(node);
  auto from = graph.tensors.find(node.inputs[0].second.text);
  auto to = outputs.size() == 1 ? graph.tensors.find(outputs[0]->text) : graph.tensors.end();
  if (from == graph.tensors.end() || to == graph.tensors.end()) return Memory::kUnknown;
  const TensorMeta &source = from->second, &result = to->second;
  if (source.scalar_type != result.scalar_type) return Memory::kCopied;
  const std::optional<Shape> sizes = NumbersOf(source.sizes), strides = NumbersOf(source.strides),
                             shape = NumbersOf(result.sizes);
  if (!sizes || !strides || !shape || sizes->size() != strides->size()) return Memory::kUnknown;
  if (IsOneOf(row->name, {"to", "type_as"})) return Memory::kUnknown;
  const bool is_shared = row->name == "contiguous" ? source.IsContiguous() : HasStrides(*sizes, *strides, *shape);
  return is_shared ? Memory::kShared : Memory::kCopied;
}

void Importer::CheckWrite(const Node& node, Scope& scope) {
  const Argument* target = node.inputs.empty() ? nullptr : &node.inputs[0].second;
  if (target == nullptr || target->kind != ArgumentKind::kTensor) {
    emit_.Fail(absl::UnimplementedError("a write to something that is no tensor"));
    return;
  }
  const std::string written = scope.Canonical(target->text), root = scope.Root(target->text);
  const bool is_input = std::any_of(scope.graph->inputs.begin(), scope.graph->inputs.end(),
                                    [&](const Argument& input) { return input.text == root; });
  // A body has values of its own: a write to the tensors of its caller would be lost.
  const bool is_lost = scope.graph == program_.graph ? !mutated_.contains(root) : root != written;
  if (is_input && is_lost) emit_.Fail(absl::UnimplementedError(kSharedMemory));
}

void Importer::Write(const std::string& name, Operand value, Scope& scope) {
  absl::flat_hash_set<std::string> done;
  std::string written = scope.Canonical(name);
  scope.values[written] = value;
  done.insert(written);
  for (auto view = scope.views.find(written); view != scope.views.end(); view = scope.views.find(written)) {
    value = WithPart(view->second, value, scope);
    if (value == nullptr || emit_.failed()) {
      emit_.Fail(absl::UnimplementedError(kSharedMemory));
      return;
    }
    written = scope.Canonical(view->second.node->inputs[0].second.text);
    scope.values[written] = value;
    done.insert(written);
  }
  for (const Node* node : scope.viewing) {
    const std::vector<const Argument*> outputs = OutputsOf(*node);
    auto is_old = [&](const Argument* output) { return output->IsValue() && !done.contains(output->text); };
    if (scope.Root(node->inputs[0].second.text) != written || std::ranges::none_of(outputs, is_old)) continue;
    const OperatorRow* row = RowOf(*node, scope);
    if (row == nullptr) return;
    NodeContext context(*this, *node, scope, *row, "");
    const Operands results = row->convert(context);
    for (size_t i = 0; i < outputs.size() && i < results.size() && !emit_.failed(); ++i) {
      if (is_old(outputs[i])) scope.values[outputs[i]->text] = Completed(results[i], *outputs[i], scope);
    }
  }
}

// Returns the value of the tensor that is viewed, where the elements of the view are those of `value`. Null if the
// operator may have copied, or repeats elements.
Operand Importer::WithPart(const Scope::View& view, Operand value, Scope& scope) {
  const Node& node = *view.node;
  const OperatorRow& row = *FindRow(node);
  const std::string_view op = row.name;
  NodeContext context(*this, node, scope, row, "");
  Operand whole = context.In(node.inputs[0].second);
  if (IsComplex(whole) != IsComplex(value)) return nullptr;  // one views a part of the other
  if (IsComplex(whole)) {
    Node of_part = node;
    of_part.inputs[0].second = Named(kPart);
    auto with_part = [&](bool is_imaginary) {
      scope.values[kPart] = PartOf(context, whole, is_imaginary);
      return WithPart({&of_part, view.output}, PartOf(context, value, is_imaginary), scope);
    };
    Operand real = with_part(false), imaginary = real == nullptr ? nullptr : with_part(true);
    return imaginary == nullptr ? nullptr : MakeComplex(context, real, imaginary);
  }
  scope.values[kWritten] = value;
  auto by = [&](const Node& other) -> Operand {
    const OperatorRow* inverse = FindRow(other);
    NodeContext c(*this, other, scope, *inverse, "");
    const Operands results = inverse->convert(c);
    return c.failed() || results.empty() ? nullptr : results[0];
  };
  if (!(context.DTypeOf(value) == context.DTypeOf(whole))) return nullptr;
  const bool keeps_order = MayCopy(op) || IsOneOf(op, {"view", "view_as", "unflatten", "squeeze", "unsqueeze", "alias",
                                                       "detach", "positive", "conj", "atleast_1d", "atleast_2d",
                                                       "atleast_3d", "real", "resolve_conj", "resolve_neg"});
  if (keeps_order) {
    if (MemoryOf(node, *scope.graph) != Memory::kShared) return nullptr;
    return context.Reshape(value, context.DimsOf(whole));
  }
  if (IsOneOf(op, {"t", "mT", "numpy_T", "adjoint", "matrix_H", "mH", "transpose", "swapaxes", "swapdims"}))
    return by(OfWritten(node));
  if (op == "permute") {
    const std::vector<int64_t> axes = context.Axes(context.Ints("dims"), context.RankOf(whole));
    std::vector<int64_t> inverse(axes.size());
    for (size_t i = 0; i < axes.size() && !context.failed(); ++i)
      inverse[static_cast<size_t>(axes[i])] = static_cast<int64_t>(i);
    return context.failed() ? nullptr : context.Transpose(value, inverse);
  }
  if (op == "movedim" || op == "moveaxis") {
    Node back = OfWritten(node);
    for (auto& [name, argument] : back.inputs)
      name = name == "source" ? "destination" : name == "destination" ? "source" : name;
    return by(back);
  }
  if (IsOneOf(op, {"select", "slice", "diagonal", "as_strided"}))
    return by(WithSource(node, std::string(op) + "_scatter"));
  const bool is_unbound = op == "unbind";
  if (is_unbound || IsOneOf(op, {"split", "split_with_sizes", "chunk"}))
    return Joined(context, row.convert(context), view.output, value, is_unbound);
  return nullptr;
}

}  // namespace rvm::torch
