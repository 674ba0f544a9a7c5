#include "compiler/import/tflite/importer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/blocks/complex.h"
#include "compiler/import/tflite/quantised.h"

namespace rvm::tflite {
namespace {

constexpr int64_t kMaxCopies = 16;  // of the bytes of a file as constants
constexpr int kMaxDepth = 32;       // of graphs that call graphs

const OperatorRow* FindRow(std::span<const OperatorRow> rows, std::string_view name) {
  for (const OperatorRow& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const OperatorRow* FindOperator(std::string_view name) {
  if (name.starts_with(kFlex)) name = kFlex;
#define RVM_TFLITE_FAMILY(family) \
  if (const OperatorRow* row = FindRow(family##Operators(), name)) return row;
#include "compiler/import/tflite/families.def"
#undef RVM_TFLITE_FAMILY
  return nullptr;
}

const OperatorRow* FindQuantised(std::string_view name) {
  const OperatorRow* row = FindRow(QuantisedOperators(), name);
  return row != nullptr ? row : FindRow(QuantisedLayerOperators(), name);
}

absl::Status Unsupported(std::string why) { return absl::UnimplementedError(std::move(why)); }

// Returns whether the elements are integers that stand for floats. Those of int32 are sums, and biases of layers.
bool IsQuantised(const Tensor& tensor) {
  const std::optional<DataType> dtype = ToDataType(tensor.type);
  return !tensor.scales.empty() && dtype && dtype->is_integral() && dtype->bits <= 16;
}

// Returns whether a node computes with quantised tensors, not only with such constants.
bool HasQuantised(const Node& node, const Graph& graph) {
  auto any = [&](const std::vector<int32_t>& numbers, bool of_inputs) {
    return std::ranges::any_of(numbers, [&](int32_t number) {
      if (number < 0) return false;
      const Tensor& tensor = graph.tensors[static_cast<size_t>(number)];
      return IsQuantised(tensor) && (!of_inputs || tensor.data.empty());
    });
  };
  return any(node.inputs, true) || any(node.outputs, false);
}

}  // namespace

// ---- nodes

NodeContext::NodeContext(Importer& importer, Scope& scope, const Node& node, const OperatorRow& row, Operands inputs)
    : NodeInputs(importer.emit_, std::move(inputs)), importer_(importer), scope_(scope), node_(node), row_(row) {}

const Tensor* NodeContext::Input(size_t i) {
  if (i < node_.inputs.size() && node_.inputs[i] >= 0) {
    return &scope_.graph->tensors[static_cast<size_t>(node_.inputs[i])];
  }
  Fail(absl::StrCat("input ", i, " is missing"));
  return nullptr;
}

const Tensor* NodeContext::Output(size_t i) {
  if (i < node_.outputs.size() && node_.outputs[i] >= 0) {
    return &scope_.graph->tensors[static_cast<size_t>(node_.outputs[i])];
  }
  Fail(absl::StrCat("output ", i, " is missing"));
  return nullptr;
}

DataType NodeContext::OutputDType(size_t i) {
  const Tensor* tensor = Output(i);
  if (tensor == nullptr) return kFloat32;
  if (std::optional<DataType> dtype = ToDataType(tensor->type)) return *dtype;
  Unsupported(absl::StrCat(TypeName(tensor->type), ", which Relay has not"));
  return kFloat32;
}

Operand NodeContext::Activated(Operand x, int field) { return Activation(x, options().Number<int8_t>(field, 0)); }

Operand NodeContext::Activation(Operand x, int kind) {
  auto clip = [&](double least, double greatest) { return Op("clip", {x}, {{"a_min", least}, {"a_max", greatest}}); };
  if (kind == 0) return x;
  if (kind == 1) return Op("nn.relu", {x});
  if (kind == 2) return clip(-1, 1);
  if (kind == 3) return clip(0, 6);
  if (kind == 4) return Op("tanh", {x});
  return Unsupported(absl::StrCat("the activation ", kind));
}

Operands NodeContext::Body(size_t graph, const Operands& inputs) { return importer_.Body(graph, inputs); }

void NodeContext::Assign(size_t i, Operand value) {
  const Tensor* tensor = Input(i);
  if (tensor == nullptr || failed()) return;
  auto found = importer_.tensor_variables_.find(tensor);
  if (importer_.depth_ > 0) {
    Unsupported("a tensor that keeps its value between runs, inside of a loop or branch");
    return;
  }
  if (found == importer_.tensor_variables_.end()) {
    Fail(absl::StrCat("input ", i, " is no tensor that keeps its value between runs"));
    return;
  }
  importer_.variables_[found->second].value = value;
  scope_.values[node_.inputs[i]] = value;
}

Operand NodeContext::Key() {
  if (importer_.depth_ > 0) return Unsupported("random numbers inside of a loop or branch");
  return importer_.SplitKey(*this);
}

// ---- values

std::string Importer::Label(const Node& node, const Scope& scope) const {
  for (int32_t output : node.outputs) {
    if (output < 0) continue;
    return absl::StrCat("`", Abseil(ReadableText(scope.graph->tensors[static_cast<size_t>(output)].name)), "`");
  }
  return "a node without outputs";
}

absl::StatusOr<Operand> Importer::Constant(const Tensor& tensor) {
  if (auto found = constants_.find(&tensor); found != constants_.end()) return found->second;
  const std::tuple key(tensor.data.data(), tensor.type, tensor.shape);
  const bool may_share = !tensor.data.empty() && !tensor.sparsity;
  const auto shared = may_share ? shared_constants_.find(key) : shared_constants_.end();
  if (shared != shared_constants_.end()) return constants_[&tensor] = shared->second;
  RVM_ASSIGN_OR_RETURN(Operand value, NewConstant(tensor));
  if (may_share) shared_constants_.emplace(key, value);
  return constants_[&tensor] = value;
}

absl::StatusOr<Operand> Importer::NewConstant(const Tensor& tensor) {
  const std::optional<DataType> dtype = ToDataType(tensor.type);
  if (!dtype) return Unsupported(absl::StrCat(TypeName(tensor.type), ", which Relay has not"));
  Shape shape(tensor.shape.begin(), tensor.shape.end());
  int64_t size = dtype->bytes();
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError("a constant has an extent that is not a number");
    }
  }
  const int64_t stored = tensor.type == kInt4 ? size / 2 + size % 2 : size;
  if (!tensor.sparsity && stored != static_cast<int64_t>(tensor.data.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant has ", tensor.data.size(), " bytes; its shape has ", stored));
  }
  if (__builtin_sub_overflow(constant_budget_, size, &constant_budget_) || constant_budget_ < 0) {
    return absl::InvalidArgumentError("tensors share the bytes of constants too often");
  }
  if (tensor.sparsity) {
    if (tensor.type == kInt4) return Unsupported("a sparse constant of 4 bits");
    RVM_ASSIGN_OR_RETURN(std::vector<uint8_t> dense, Densified(*tensor.sparsity, shape, dtype->bytes(), tensor.data));
    return emit_.Constant(Literal::FromBytes(*dtype, shape, std::as_bytes(std::span(dense))), std::string(tensor.name));
  }
  std::vector<int8_t> wide;
  if (tensor.type == kInt4) {
    // The lower half of a byte comes first.
    for (int64_t i = 0; i < size; ++i) {
      const int code = tensor.data[static_cast<size_t>(i / 2)] >> (i % 2 == 0 ? 0 : 4) & 15;
      wide.push_back(static_cast<int8_t>((code ^ 8) - 8));
    }
  }
  const auto bytes = tensor.type == kInt4 ? std::as_bytes(std::span(wide)) : std::as_bytes(tensor.data);
  Operand value = emit_.Constant(Literal::FromBytes(*dtype, shape, bytes), std::string(tensor.name));
  if (tensor.type == kInt4) value->stored_bits = 4;
  return value;
}

Operand Importer::Dequantised(Operand value, const Tensor& tensor) {
  if (emit_.failed() || value->is_placeholder) return value;
  Steps steps(emit_);
  const auto count = static_cast<int64_t>(tensor.scales.size()), rank = emit_.RankOf(value);
  const bool is_along = count > 1;
  if (is_along && (tensor.axis < 0 || tensor.axis >= rank || emit_.ExtentOf(value, tensor.axis) != Dim(count))) {
    return steps.Fail(absl::StrCat("a tensor has ", count, " scales, which fit none of its axes"));
  }
  Dims around(static_cast<size_t>(is_along ? rank : 0), Dim(1));
  if (is_along) around[static_cast<size_t>(tensor.axis)] = count;
  Operand scale = emit_.Constant(Literal::FromValues<float>(kFloat32, {count}, tensor.scales));
  const bool is_centred = std::ranges::all_of(tensor.zero_points, [](int64_t zero) { return zero == 0; });
  if (!is_centred) {
    Operand zero = steps.Cast(steps.Reshape(emit_.Vector(tensor.zero_points), around), kInt32);
    value = steps.Sub(steps.Cast(value, kInt32), zero);
  }
  return steps.Mul(steps.Cast(value, kFloat32), steps.Reshape(scale, around));
}

Operand Importer::Value(int32_t number, Scope& scope) {
  if (number < 0) return nullptr;
  if (auto it = scope.values.find(number); it != scope.values.end()) return it->second;
  const Tensor& tensor = scope.graph->tensors[static_cast<size_t>(number)];
  const bool is_empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
  if (tensor.is_variable || (tensor.data.empty() && !is_empty)) {
    emit_.Fail(
        tensor.is_variable
            ? Unsupported("a tensor that keeps its value between runs, inside of a loop or branch")
            : absl::InvalidArgumentError(absl::StrCat("its input `", Abseil(tensor.name), "` has no value before it")));
    return nullptr;
  }
  absl::StatusOr<Operand> constant = Constant(tensor);
  if (!constant.ok()) {
    emit_.Fail(constant.status());
    return nullptr;
  }
  return scope.values[number] = *constant;
}

// ---- conversion

Operands Importer::ThroughFloats(const Node& node, const OperatorRow& row, Scope& scope, Operands inputs) {
  NodeContext context(*this, scope, node, row, std::move(inputs));
  Operands results = row.convert(context);
  for (size_t i = 0; i < results.size() && i < node.outputs.size(); ++i) {
    if (node.outputs[i] < 0 || results[i] == nullptr || emit_.failed()) continue;
    const Tensor& tensor = scope.graph->tensors[static_cast<size_t>(node.outputs[i])];
    if (IsQuantised(tensor) && emit_.DTypeOf(results[i]).is_float()) {
      results[i] = Quantised(context, results[i], tensor);
    }
  }
  return results;
}

Operands Importer::Convert(const Node& node, Scope& scope) {
  const OperatorRow *row = FindOperator(node.op), *quantised = FindQuantised(node.op);
  if (row == nullptr && quantised == nullptr) {
    emit_.Fail(Unsupported("this operator is not supported"));
    return {};
  }
  Operands inputs;
  for (int32_t input : node.inputs) {
    inputs.push_back(Value(input, scope));
    if (emit_.failed() || (inputs.back() != nullptr && inputs.back()->is_placeholder)) return {};
  }
  if (importing::HasComplex(inputs) && (row == nullptr || !row->takes_complex)) {
    Steps steps(emit_);
    if (row == nullptr || !row->moves) return {steps.Unsupported("complex numbers")};
    return importing::ByParts(steps, inputs, [&](Operands parts) {
      NodeContext context(*this, scope, node, *row, std::move(parts));
      return row->convert(context);
    });
  }
  const bool computes = HasQuantised(node, *scope.graph);
  if (quantised != nullptr && (computes || row == nullptr)) {
    NodeContext context(*this, scope, node, *quantised, std::move(inputs));
    return quantised->convert(context);
  }
  if (!row->moves || !computes) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == nullptr) continue;
      const Tensor& tensor = scope.graph->tensors[static_cast<size_t>(node.inputs[i])];
      if (IsQuantised(tensor)) inputs[i] = Dequantised(inputs[i], tensor);
    }
    if (emit_.failed()) return {};
    return ThroughFloats(node, *row, scope, std::move(inputs));
  }
  NodeContext context(*this, scope, node, *row, std::move(inputs));
  return row->convert(context);
}

void Importer::ImportNode(const Node& node, Scope& scope) {
  auto refuse = [&](const absl::Status& status) { refusals_.Add(node.op, Label(node, scope), status); };
  Operands results;
  if (Spend(refuse, "bodies of loops")) {
    ir::Span outer =
        EnterOrigin([&] { return absl::StrCat(node.op, " node of ", Label(node, scope), " of ", options_.name); });
    results = WithStack([&] { return Convert(node, scope); });
    LeaveOrigin(outer);
    const absl::Status status = emit_.TakeStatus();
    if (!status.ok()) {
      refuse(status);
      results.clear();
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] < 0) continue;
    scope.values[node.outputs[i]] = i < results.size() && results[i] != nullptr ? results[i] : emit_.Placeholder();
  }
}

void Importer::ImportNodes(Scope& scope) {
  for (const Node& node : scope.graph->nodes) ImportNode(node, scope);
}

Operands Importer::Body(size_t graph, const Operands& inputs) {
  if (graph >= model_.graphs.size() || model_.graphs[graph].inputs.size() != inputs.size() || depth_ == kMaxDepth) {
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat(
        "graph ", graph, " is missing, has another number of inputs than ", inputs.size(), ", or calls itself")));
    return {};
  }
  Scope scope{.graph = &model_.graphs[graph], .values = {}};
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[scope.graph->inputs[i]] = inputs[i];
  ++depth_;
  ImportNodes(scope);
  --depth_;
  Operands outputs;
  for (int32_t number : scope.graph->outputs) {
    outputs.push_back(Value(number, scope));
    if (outputs.back() == nullptr) outputs.back() = emit_.Placeholder();
  }
  return outputs;
}

// ---- the model

Importer::Importer(const Model& model, const ImportOptions& options, size_t size)
    : Frame(options), model_(model), constant_budget_(kMaxCopies * static_cast<int64_t>(size)) {
  for (const Graph& graph : model_.graphs) {
    for (const Node& node : graph.nodes) CountNode(node.op);
  }
}

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ChooseEntries());
  RVM_RETURN_IF_ERROR(CheckInputs());
  FindVariables();
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  for (const Entry& entry : entries_) RVM_RETURN_IF_ERROR(ImportEntry(entry, result));
  DefineInitialState();
  RVM_RETURN_IF_ERROR(Finish(result));
  for (const Entry& entry : entries_) NameEntry(entry, result);
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  Buffer buffer(bytes);
  RVM_ASSIGN_OR_RETURN(Model model, ReadModel(buffer));
  absl::StatusOr<ImportedModel> result = Importer(model, options, bytes.size()).Import();
  if (result.ok() && buffer.is_malformed)
    return absl::InvalidArgumentError("an offset of the file leads outside of it");
  return result;
}

}  // namespace rvm::tflite
