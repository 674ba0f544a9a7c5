#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/promotion.h"

namespace rvm::torch {

NodeContext::NodeContext(Importer& importer, const Node& node, Scope& scope, const OperatorRow& row,
                         std::string_view overload)
    : Steps(importer.emit_), importer_(importer), node_(node), scope_(scope), row_(row), overload_(overload) {}

// ---- arguments

Operand NodeContext::In(const Argument& argument) {
  Operand value = importer_.Value(argument, scope_);
  // Numbers of a graph are tensors of rank 0 here; they take part in arithmetic as Python's numbers do.
  if (argument.kind != ArgumentKind::kTensor) {
    numbers_.insert(value);
    numbers_.insert(value->fields.begin(), value->fields.end());
  }
  return value;
}

Operand NodeContext::In(std::string_view name) {
  if (const Argument* argument = Find(name)) return In(*argument);
  return Fail(absl::StrCat("its argument `", Abseil(name), "` is missing"));
}

Operands NodeContext::List(std::string_view name) {
  const Argument* argument = Find(name);
  if (argument == nullptr || argument->kind != ArgumentKind::kList) {
    Fail(absl::StrCat("its argument `", Abseil(name), "` is no list"));
    return {};
  }
  Operands all;
  for (const Argument& element : argument->list) {
    all.push_back(element.kind == ArgumentKind::kNone ? nullptr : In(element));
  }
  return all;
}

int64_t NodeContext::Int(std::string_view name, int64_t otherwise) {
  const Argument* argument = Find(name);
  if (argument == nullptr) return otherwise;
  if (argument->kind == ArgumentKind::kInt || argument->kind == ArgumentKind::kBool) return argument->integer;
  if (std::optional<Dim> extent = Extent(*argument); extent && extent->is_const()) return extent->constant();
  if (!failed()) Unsupported(absl::StrCat("its `", Abseil(name), "` is known only when the model runs"));
  return otherwise;
}

bool NodeContext::Bool(std::string_view name, bool otherwise) { return Int(name, otherwise ? 1 : 0) != 0; }

double NodeContext::Float(std::string_view name, double otherwise) {
  const Argument* argument = Find(name);
  if (argument == nullptr) return otherwise;
  if (argument->kind == ArgumentKind::kFloat) return argument->number;
  return static_cast<double>(Int(name, 0));
}

std::string NodeContext::Text(std::string_view name, std::string_view otherwise) {
  const Argument* argument = Find(name);
  return argument != nullptr && argument->kind == ArgumentKind::kString ? argument->text : std::string(otherwise);
}

std::vector<int64_t> NodeContext::Ints(std::string_view name) {
  const Argument* argument = Find(name);
  if (argument == nullptr) return {};
  if (argument->kind != ArgumentKind::kList) return {Int(name, 0)};
  std::optional<Dims> extents = Extents(name);
  std::vector<int64_t> values;
  for (const Dim& extent : extents.value_or(Dims())) {
    if (extent.is_const()) values.push_back(extent.constant());
  }
  if (!failed() && values.size() != argument->list.size()) {
    Unsupported(absl::StrCat("its `", Abseil(name), "` is known only when the model runs"));
  }
  return values;
}

DataType NodeContext::DType(std::string_view name, DataType otherwise) {
  const Argument* argument = Find(name);
  if (argument == nullptr || argument->kind != ArgumentKind::kDType) return otherwise;
  if (std::optional<DataType> dtype = ToDataType(argument->integer)) return *dtype;
  Unsupported(absl::StrCat("dtype ", ScalarTypeName(argument->integer), ", which Relay has not"));
  return otherwise;
}

// ---- extents

std::optional<Dim> NodeContext::Extent(const Argument& argument) {
  if (argument.kind == ArgumentKind::kInt) return Dim(argument.integer);
  std::optional<Dims> symbols = argument.IsValue() ? Symbols(In(argument)) : std::nullopt;
  return symbols && symbols->size() == 1 ? std::optional((*symbols)[0]) : std::nullopt;
}

std::optional<Dims> NodeContext::Extents(std::string_view name) {
  const Argument* argument = Find(name);
  if (argument == nullptr || argument->kind != ArgumentKind::kList) return std::nullopt;
  Dims extents;
  for (const Argument& element : argument->list) {
    std::optional<Dim> extent = Extent(element);
    if (!extent) return std::nullopt;
    extents.push_back(*extent);
  }
  return extents;
}

Operand NodeContext::Vector(std::string_view name) {
  if (std::optional<Dims> extents = Extents(name)) return emit().FromDims(*extents);
  Operands scalars;
  for (Operand element : List(name)) {
    if (element != nullptr) scalars.push_back(Cast(element, kInt64));
  }
  return failed() ? emit().Placeholder() : Op("stack", {emit().Tuple(scalars)}, {{"axis", 0}});
}

// ---- dtypes

DataType NodeContext::Promoted(std::span<const Operand> operands) {
  Promotion promotion;
  for (Operand operand : operands) {
    promotion.Add(DTypeOf(operand), numbers_.contains(operand) ? OperandRank::kNumber
                                    : RankOf(operand) == 0     ? OperandRank::kScalar
                                                               : OperandRank::kTensor);
  }
  return promotion.Result();
}

void NodeContext::Promote(std::vector<Operand*> operands) {
  std::vector<Operand> values;
  for (Operand* operand : operands) values.push_back(*operand);
  DataType dtype = Promoted(values);
  for (Operand* operand : operands) *operand = Cast(*operand, dtype);
}

Operand NodeContext::Floating(Operand x) {
  return DTypeOf(x).is_float() ? (numbers_.contains(x) ? Cast(x, kFloat32) : x) : Cast(x, kFloat32);
}

std::optional<DataType> NodeContext::OutputDType(size_t i) const {
  if (i >= node_.outputs.size()) return std::nullopt;
  auto found = scope_.graph->tensors.find(node_.outputs[i].text);
  return found == scope_.graph->tensors.end() ? std::nullopt : ToDataType(found->second.scalar_type);
}

std::optional<DataType> NodeContext::OutputPartDType(size_t i) const {
  return i < node_.outputs.size() ? PartDTypeOf(*scope_.graph, node_.outputs[i].text) : std::nullopt;
}

bool NodeContext::IsDense(std::string_view name) const {
  const Argument* argument = Find(name);
  auto found = argument == nullptr ? scope_.graph->tensors.end() : scope_.graph->tensors.find(argument->text);
  if (found == scope_.graph->tensors.end()) return false;
  return found->second.offset.number == 0 && found->second.IsContiguous();
}

bool NodeContext::WantsOutput(size_t i) const {
  return i < node_.outputs.size() && scope_.used.contains(node_.outputs[i].text);
}

void NodeContext::Assert(Operand condition, std::string what) {
  if (failed() || (condition->constant && condition->constant->IntAt(0) != 0)) return;
  importer_.assertions_.push_back({condition, std::move(what)});
}

// ---- complex numbers

std::vector<size_t> NodeContext::ComplexInputs() {
  std::vector<size_t> complex;
  size_t count = 0;
  auto look = [&](const Argument& argument) {
    const bool is_number = argument.kind == ArgumentKind::kComplex;
    if (!is_number && argument.kind != ArgumentKind::kTensor) return;
    auto found = is_number ? scope_.values.end() : scope_.values.find(scope_.Canonical(argument.text));
    if (is_number || (found != scope_.values.end() && IsComplex(found->second))) complex.push_back(count);
    ++count;
  };
  for (const auto& [name, argument] : node_.inputs) {
    look(argument);
    for (const Argument& element : argument.list) look(element);
  }
  return complex;
}

Operands NodeContext::ByReals(const std::function<Operand(Operand, size_t)>& real, bool drops_numbers) {
  Node other = node_;
  size_t count = 0;
  auto replace = [&](Argument& argument) {
    const bool is_tensor = argument.kind == ArgumentKind::kTensor || argument.kind == ArgumentKind::kComplex;
    if (!is_tensor) return;
    Operand part = real(In(argument), count);
    argument = {.kind = ArgumentKind::kTensor, .text = absl::StrCat("(argument ", count++, ")")};
    scope_.values[argument.text] = part;
  };
  for (auto& [name, argument] : other.inputs) {
    const bool is_number = argument.kind == ArgumentKind::kInt || argument.kind == ArgumentKind::kFloat;
    if (drops_numbers && is_number && (name == "self" || name == "other")) argument = {.kind = ArgumentKind::kInt};
    replace(argument);
    for (Argument& element : argument.list) replace(element);
  }
  if (failed()) return {};
  const OperatorRow* row = FindRow(other);
  NodeContext context(importer_, other, scope_, *row, overload_);
  return row->convert(context);
}

// ---- subgraphs

const Argument* NodeContext::Positional(size_t position) const {
  return position < node_.inputs.size() ? &node_.inputs[position].second : nullptr;
}

const Graph* NodeContext::GraphArg(size_t position) {
  const Argument* argument = Positional(position);
  if (argument != nullptr && argument->kind == ArgumentKind::kGraph) return argument->graph;
  Fail(absl::StrCat("its argument ", position, " is no graph"));
  return nullptr;
}

Operands NodeContext::Values(size_t position) {
  const Argument* argument = Positional(position);
  Operands values;
  if (argument == nullptr || argument->kind != ArgumentKind::kList) return values;
  for (const Argument& element : argument->list) values.push_back(In(element));
  return values;
}

Operands NodeContext::Body(const Graph& graph, const Operands& inputs, bool is_block) {
  return importer_.Body(graph, inputs, is_block);
}

}  // namespace rvm::torch
