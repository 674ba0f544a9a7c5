#include "compiler/import/onnx/importer.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace rvm::onnx {
namespace {

constexpr int64_t kNewestOpset = 27;
constexpr int kMaxCallDepth = 64;

// Returns the newest meaning of an operator that is not newer than `opset`.
const OperatorRow* FindRow(std::string_view name, int64_t opset) {
  const OperatorRow* found = nullptr;
  for (std::span<const OperatorRow> family : OperatorFamilies()) {
    for (const OperatorRow& row : family) {
      if (row.name == name && row.since <= opset && (found == nullptr || row.since >= found->since)) found = &row;
    }
  }
  return found;
}

int64_t OpsetOf(std::string_view domain, const Scope& scope, const Model& model) {
  const Scope* nearest = &scope;
  while (nearest != nullptr && nearest->operator_sets.empty()) nearest = nearest->outer;
  for (const OperatorSet& set : nearest == nullptr ? model.operator_sets : nearest->operator_sets) {
    if (set.domain == domain) return set.version;
  }
  return 1;
}

std::string NodeLabel(const Node& node) {
  if (!node.name.empty()) return absl::StrCat("`", Abseil(node.name), "`");
  for (std::string_view output : node.outputs) {
    if (!output.empty()) return absl::StrCat("the node of `", Abseil(output), "`");
  }
  return "a node without a name";
}

absl::Status UnknownOperator() { return absl::UnimplementedError("this operator is not supported"); }

absl::Status UndefinedInput(std::string_view name) {
  return absl::InvalidArgumentError(
      absl::StrCat("its input `", Abseil(name), "` is undefined; expected a name that stands before it"));
}

std::string OperatorLabel(const Node& node) {
  return node.domain.empty() ? std::string(node.op_type) : absl::StrCat(Abseil(node.domain), ".", Abseil(node.op_type));
}

}  // namespace

Operand Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
    if (auto it = scope->values.find(name); it != scope->values.end()) return it->second;
  }
  return nullptr;
}

bool Scope::Defines(std::string_view name) const {
  const Scope* scope = this;
  while (scope != nullptr && !scope->values.contains(name)) scope = scope->outer;
  return scope != nullptr;
}

Importer::Importer(const Model& model, const ImportOptions& options) : Frame(options), model_(model) {
  auto count = [&](std::span<const Node> nodes) {
    for (const Node& node : nodes) CountNode(OperatorLabel(node));
  };
  for (const Graph& graph : model.graphs) count(graph.nodes);
  for (const Function& function : model.functions) count(function.nodes);
}

// ---- inputs

// An extent that `--shape` fixes on one input is fixed on all that have its name.
absl::Status Importer::ReadShapes() {
  std::vector<Input> inputs;
  for (const ValueInfo& input : model_.graph->inputs) {
    inputs.push_back({input.name, input.type.has_shape ? std::optional(input.type.shape.size()) : std::nullopt});
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const ValueInfo& input : model_.graph->inputs) {
    for (size_t i = 0; i < input.type.shape.size(); ++i) {
      const std::string* given = GivenExtent(input.name, i);
      if (given != nullptr && !input.type.shape[i].value) FixExtent(input.type.shape[i].param, *given);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const ir::Type*> Importer::TypeOf(const ValueInfo& value) {
  const TypeInfo& type = value.type;
  auto refuse = [&](std::string why) {
    return absl::UnimplementedError(absl::StrCat("`", Abseil(value.name), "` is ", why));
  };
  if (type.form == TypeForm::kMap || type.form == TypeForm::kOpaque) return refuse("a map or opaque");
  if (type.form == TypeForm::kSparseTensor) return refuse("a sparse tensor");
  if (type.form == TypeForm::kUnknown) {
    return absl::InvalidArgumentError(absl::StrCat("input `", Abseil(value.name), "` has no type"));
  }
  std::optional<DataType> dtype = ToDataType(type.data_type);
  if (!dtype) return refuse(absl::StrCat("of ", UnsupportedDataType(type.data_type)));
  auto given = options_.shapes.find(value.name);
  size_t rank = given != options_.shapes.end() ? given->second.size() : type.shape.size();
  if (!type.has_shape && given == options_.shapes.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input `", Abseil(value.name), "` has no shape; give it one: --shape ", Abseil(value.name), "=EXTENT,..."));
  }
  if (rank > 64)
    return absl::InvalidArgumentError(absl::StrCat("input `", Abseil(value.name), "` has ", rank, " axes"));
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    Dim dim = DimOf(i < type.shape.size() ? type.shape[i] : Dimension{}, value.name, i);
    // The elements of a sequence are tensors of any extents.
    dims.push_back(type.wrappers.empty() || dim.is_const() ? dim : Dim::Any());
  }
  const ir::Type* result = emit_.TensorType(std::move(dims), *dtype);
  for (size_t i = type.wrappers.size(); i-- > 0;) {
    result = type.wrappers[i] == TypeForm::kSequence ? emit_.ListOf(result) : emit_.OptionOf(result);
  }
  return result;
}

absl::StatusOr<Operand> Importer::Frozen(const ValueInfo& input) {
  if (!options_.frozen.contains(input.name)) return nullptr;
  const std::optional<DataType> dtype = ToDataType(input.type.data_type);
  const bool is_tensor = input.type.form == TypeForm::kTensor && input.type.wrappers.empty();
  if (!dtype || !is_tensor || !input.type.has_shape) return FrozenInput(input.name, dtype, std::nullopt);
  Dims dims;
  for (size_t i = 0; i < input.type.shape.size(); ++i) dims.push_back(DimOf(input.type.shape[i], input.name, i));
  return FrozenInput(input.name, dtype, dims);
}

absl::Status Importer::ReadInputs() {
  RVM_RETURN_IF_ERROR(ReadShapes());
  absl::flat_hash_map<std::string_view, bool> given;
  for (const Tensor& tensor : model_.graph->initializers) given[tensor.name] = true;
  for (const SparseTensor& tensor : model_.graph->sparse_initializers) given[tensor.values.name] = true;
  for (const ValueInfo& input : model_.graph->inputs) {
    bool is_tensor = input.type.form == TypeForm::kTensor && input.type.wrappers.empty();
    bool is_param = is_tensor && !options_.frozen.contains(input.name) && !given.contains(input.name);
    if (!is_param) continue;
    std::vector<std::string_view> names;
    for (const Dimension& dim : input.type.shape) {
      if (!dim.value && !dim.param.empty()) names.push_back(dim.param);
    }
    NoteExtentNames(input.name, names);
  }
  for (const ValueInfo& input : model_.graph->inputs) {
    RVM_ASSIGN_OR_RETURN(Operand frozen, Frozen(input));
    if (frozen != nullptr) {
      constants_[input.name] = frozen;
      continue;
    }
    if (given.contains(input.name)) continue;
    absl::StatusOr<const ir::Type*> type = TypeOf(input);
    if (!type.ok()) {
      Refuse(Node{.name = input.name, .op_type = "an input"}, type.status());
      constants_[input.name] = emit_.Placeholder();
      continue;
    }
    AddParam(input.name, *type);
    param_inputs_.push_back(&input);
  }
  AddSeed();
  return absl::OkStatus();
}

void Importer::AddInitializers(const Graph& graph, Scope& scope) {
  auto add = [&](std::string_view name, const absl::StatusOr<Literal>& literal) {
    if (literal.ok()) {
      scope.values[name] = emit_.Constant(*literal, std::string(name));
      return;
    }
    Refuse(Node{.name = name, .op_type = "an initializer"}, literal.status());
    scope.values[name] = emit_.Placeholder();
  };
  for (const Tensor& tensor : graph.initializers) {
    std::optional<PackedDataType> packed = ToPackedDataType(tensor.data_type);
    absl::StatusOr<Operand> constant = packed ? PackedConstant(tensor, *packed) : nullptr;
    if (packed && constant.ok()) {
      scope.values[tensor.name] = *constant;
    } else {
      add(tensor.name, packed ? constant.status() : ReadElements(tensor, options_.files));
    }
    if (options_.release != nullptr) options_.release(tensor.message);
  }
  for (const SparseTensor& tensor : graph.sparse_initializers) {
    add(tensor.values.name, ReadElements(tensor, options_.files));
  }
}

absl::StatusOr<Operand> Importer::PackedConstant(const Tensor& tensor, const PackedDataType& type) {
  RVM_ASSIGN_OR_RETURN(Literal bytes, ReadPackedBytes(tensor, type.bits, options_.files));
  const Shape shape(tensor.dims.begin(), tensor.dims.end());
  const int64_t count = NumElements(shape).value_or(0);
  const bool fills_bytes = !shape.empty() && bytes.rank() == static_cast<int64_t>(shape.size()) &&
                           bytes.shape().back() * (8 / type.bits) == shape.back();
  // 0x88 of 4 bits, 0xAA of 2: the upper bit of each.
  const uint8_t flips = type.dtype.is_uint() ? 0 : type.bits == 4 ? 0x88 : 0xAA;
  std::span<const uint8_t> stored = bytes.values<uint8_t>();
  if (fills_bytes) {
    std::vector<uint8_t> flipped(stored.begin(), stored.end());
    for (uint8_t& byte : flipped) byte ^= flips;
    Operand constant =
        emit_.Constant(Literal::FromValues<uint8_t>(kUInt8, bytes.shape(), flipped), std::string(tensor.name));
    constant->packed = {type.dtype, type.bits};
    return constant;
  }
  std::vector<uint8_t> codes = UnpackBits(bytes, type.bits, count);
  const int sign = type.dtype.is_int() ? 1 << (type.bits - 1) : 0;
  for (uint8_t& code : codes) code = static_cast<uint8_t>((code ^ sign) - sign);
  Operand constant =
      emit_.Constant(Literal::FromBytes(type.dtype, shape, std::as_bytes(std::span(codes))), std::string(tensor.name));
  constant->stored_bits = type.bits;
  return constant;
}

void Importer::AddSubgraphInitializers(const Graph& graph, Scope& scope) {
  if (graph.initializers.empty() && graph.sparse_initializers.empty()) return;
  auto [known, is_new] = initializers_.try_emplace(&graph);
  if (is_new) {
    AddInitializers(graph, scope);
    known->second = scope.values;
    return;
  }
  scope.values.insert(known->second.begin(), known->second.end());
}

// ---- nodes

void Importer::Refuse(const Node& node, const absl::Status& status) {
  refusals_.Add(OperatorLabel(node), NodeLabel(node), status);
}

const Function* Importer::FindFunction(const Node& node) const {
  for (const Function& function : model_.functions) {
    if (function.name == node.op_type && function.domain == node.domain && function.overload == node.overload)
      return &function;
  }
  return nullptr;
}

const OperatorRow* Importer::FindOperator(const Node& node, const Scope& scope) const {
  return FindRow(OperatorLabel(node), OpsetOf(node.domain, scope, model_));
}

Operands Importer::Convert(const Node& node, Scope& scope) {
  if (const Function* function = FindFunction(node)) return CallFunction(*function, node, scope);
  const OperatorRow* row = FindOperator(node, scope);
  if (row == nullptr) {
    emit_.Fail(UnknownOperator());
    Survey(node, scope);
    return {};
  }
  for (std::string_view input : node.inputs) {
    if (input.empty()) continue;
    Operand operand = scope.Find(input);
    if (operand == nullptr && !scope.Defines(input)) {
      emit_.Fail(UndefinedInput(input));
      return {};
    }
    if (operand == nullptr || !operand->is_placeholder) continue;
    Survey(node, scope);
    return {};
  }
  NodeContext context(*this, node, scope, *row, OpsetOf(node.domain, scope, model_));
  return row->convert(context);
}

void Importer::Survey(const Node& node, const Scope& scope) {
  for (const Attribute& attribute : node.attributes) {
    if (attribute.name == "to" || attribute.name == "dtype") {
      int32_t number = static_cast<int32_t>(attribute.Int());
      if (number != 0 && !ToDataType(number)) Refuse(node, absl::UnimplementedError(UnsupportedDataType(number)));
    }
    if (attribute.graph == nullptr) continue;
    for (const Node& inner : attribute.graph->nodes) {
      bool is_known = FindFunction(inner) != nullptr || FindOperator(inner, scope) != nullptr;
      if (!is_known) Refuse(inner, UnknownOperator());
      WithStack([&] { Survey(inner, scope); });
    }
  }
}

std::string Importer::Origin(const Node& node, const Scope& scope) const {
  std::string origin = absl::StrCat(OperatorLabel(node), " node");
  std::string_view named = node.name;
  for (size_t i = 0; named.empty() && i < node.outputs.size(); ++i) named = node.outputs[i];
  if (!named.empty()) absl::StrAppend(&origin, node.name.empty() ? " of `" : " `", Abseil(named), "`");
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    if (at->function != nullptr) absl::StrAppend(&origin, " in function `", Abseil(at->function->name), "`");
    if (at->graph != nullptr && !at->graph->name.empty()) {
      absl::StrAppend(&origin, " in graph `", Abseil(at->graph->name), "`");
    }
  }
  absl::StrAppend(&origin, " of ", options_.name);
  return ReadableText(origin);
}

void Importer::ImportNode(const Node& node, Scope& scope) {
  if (!Spend([&](const absl::Status& status) { Refuse(node, status); }, "functions and loops")) {
    for (std::string_view output : node.outputs) scope.values[output] = emit_.Placeholder();
    return;
  }
  ir::Span outer = EnterOrigin([&] { return Origin(node, scope); });
  Operands results = WithStack([&] { return Convert(node, scope); });
  LeaveOrigin(outer);
  absl::Status status = emit_.TakeStatus();
  if (!status.ok()) {
    Refuse(node, status);
    results.clear();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    Operand result = i < results.size() ? results[i] : nullptr;
    if (result == nullptr && status.ok() && !results.empty()) {
      Refuse(node, absl::UnimplementedError(absl::StrCat("its output ", i, " is not supported")));
    }
    bool is_main = scope.outer == nullptr && scope.function == nullptr;
    if (result != nullptr && is_main) result = WithClaimedExtents(node.outputs[i], result);
    scope.values[node.outputs[i]] = result == nullptr ? emit_.Placeholder() : result;
  }
}

void Importer::ImportNodes(std::span<const Node> nodes, Scope& scope) {
  for (const Node& node : nodes) ImportNode(node, scope);
}

Operand Importer::Output(const ValueInfo& output, const Scope& scope) {
  if (Operand operand = scope.Find(output.name)) {
    if (!operand->packed && operand->stored_bits == 0) return operand;
    Refuse(Node{.name = output.name, .op_type = "an output"},
           absl::UnimplementedError("integers of fewer than 8 bits, which Relay has in constants alone"));
    return emit_.Placeholder();
  }
  Refuse(Node{.name = output.name, .op_type = "an output"},
         absl::InvalidArgumentError("nothing in its graph defines it"));
  return emit_.Placeholder();
}

Operands Importer::Body(const Graph& graph, const Operands& inputs, const Scope& outer) {
  Scope scope;
  scope.outer = &outer;
  scope.graph = &graph;
  AddSubgraphInitializers(graph, scope);
  for (size_t i = 0; i < graph.inputs.size() && i < inputs.size(); ++i) scope.values[graph.inputs[i].name] = inputs[i];
  ++subgraph_depth_;
  ImportNodes(graph.nodes, scope);
  --subgraph_depth_;
  Operands outputs;
  for (const ValueInfo& output : graph.outputs) outputs.push_back(Output(output, scope));
  return outputs;
}

Operands Importer::CallFunction(const Function& function, const Node& node, Scope& outer) {
  if (call_depth_ == kMaxCallDepth) {
    emit_.Fail(absl::InvalidArgumentError(
        absl::StrCat("functions call each other more than ", kMaxCallDepth, " deep, or in a circle")));
    return {};
  }
  Scope scope;
  scope.call = &node;
  scope.call_scope = &outer;
  scope.function = &function;
  scope.operator_sets = function.operator_sets;
  if (node.inputs.size() > function.inputs.size()) {
    emit_.Fail(absl::InvalidArgumentError(
        absl::StrCat("it has ", node.inputs.size(), " inputs; its function has ", function.inputs.size())));
    return {};
  }
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    std::string_view given = i < node.inputs.size() ? node.inputs[i] : "";
    if (!given.empty() && !outer.Defines(given)) {
      emit_.Fail(UndefinedInput(given));
      return {};
    }
    scope.values[function.inputs[i]] = given.empty() ? nullptr : outer.Find(given);
  }
  ++call_depth_;
  ImportNodes(function.nodes, scope);
  --call_depth_;
  Operands outputs;
  for (std::string_view output : function.outputs) {
    Operand operand = scope.Find(output);
    outputs.push_back(operand == nullptr ? emit_.Placeholder() : operand);
  }
  return outputs;
}

// ---- the program

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  int64_t opset = OpsetOf("", Scope(), model_);
  if (opset > kNewestOpset) {
    return absl::UnimplementedError(
        absl::StrCat("the model is of opset ", opset, "; the newest that is known is ", kNewestOpset));
  }
  RVM_RETURN_IF_ERROR(ReadInputs());
  ReadClaims();
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  Scope scope;
  AddInitializers(*model_.graph, scope);
  for (const auto& [name, operand] : constants_) scope.values[name] = operand;
  DefineMain([&](const Operands& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      params[i]->name = std::string(param_inputs_[i]->name);
      scope.values[param_inputs_[i]->name] = params[i];
      result.inputs.emplace_back(param_inputs_[i]->name);
    }
    ImportNodes(model_.graph->nodes, scope);
    Operands outputs;
    for (const ValueInfo& output : model_.graph->outputs) {
      outputs.push_back(Output(output, scope));
      result.outputs.emplace_back(output.name);
    }
    return outputs;
  });
  RVM_RETURN_IF_ERROR(Finish(result));
  NameResults(result);
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(Model model, ReadModel(bytes));
  return Importer(model, options).Import();
}

}  // namespace rvm::onnx
