#include "compiler/import/tflite/importer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace rvm::tflite {
namespace {

constexpr int64_t kMaxCopies = 16;  // of the bytes of a file as constants

const OperatorRow* FindRow(std::string_view name) {
  for (std::span<const OperatorRow> family : {ElementwiseOperators(), LayerOperators(), ShapeOperators()}) {
    for (const OperatorRow& row : family) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

absl::Status Unsupported(std::string why) { return absl::UnimplementedError(std::move(why)); }

}  // namespace

// ---- nodes

Operand NodeContext::In(size_t i) { return Has(i) ? inputs_[i] : Fail(absl::StrCat("input ", i, " is missing")); }

const Tensor* NodeContext::Output(size_t i) {
  if (i < node_.outputs.size() && node_.outputs[i] >= 0) return &graph_.tensors[static_cast<size_t>(node_.outputs[i])];
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

std::vector<int64_t> NodeContext::Ints(size_t i, std::string_view what) {
  Operand x = In(i);
  if (failed()) return {};
  return Constants(x, what).value_or(std::vector<int64_t>());
}

int64_t NodeContext::Int(size_t i, std::string_view what) {
  const std::vector<int64_t> values = Ints(i, what);
  if (values.size() == 1) return values[0];
  if (!failed()) Fail(absl::StrCat("its ", Abseil(what), " is not one number"));
  return 0;
}

Operand NodeContext::Activated(Operand x, int field) {
  const int kind = options().Number<int8_t>(field, 0);
  auto clip = [&](double least, double greatest) { return Op("clip", {x}, {{"a_min", least}, {"a_max", greatest}}); };
  if (kind == 0) return x;
  if (kind == 1) return Op("nn.relu", {x});
  if (kind == 2) return clip(-1, 1);
  if (kind == 3) return clip(0, 6);
  if (kind == 4) return Op("tanh", {x});
  return Unsupported(absl::StrCat("the fused activation ", kind));
}

std::string Importer::Label(const Node& node) const {
  for (int32_t output : node.outputs) {
    if (output < 0) continue;
    return absl::StrCat("`", Abseil(ReadableText(graph_.tensors[static_cast<size_t>(output)].name)), "`");
  }
  return "a node without outputs";
}

absl::StatusOr<Operand> Importer::Constant(const Tensor& tensor) {
  const std::optional<DataType> dtype = ToDataType(tensor.type);
  if (!dtype) return Unsupported(absl::StrCat(TypeName(tensor.type), ", which Relay has not"));
  Shape shape(tensor.shape.begin(), tensor.shape.end());
  int64_t size = dtype->bytes();
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, extent, &size)) {
      return absl::InvalidArgumentError("a constant has an extent that is not a number");
    }
  }
  if (size != static_cast<int64_t>(tensor.data.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a constant has ", tensor.data.size(), " bytes; its shape has ", size));
  }
  if (__builtin_sub_overflow(constant_budget_, size, &constant_budget_) || constant_budget_ < 0) {
    return absl::InvalidArgumentError("tensors share the bytes of constants too often");
  }
  Operand value =
      emit_.Constant(Literal::FromBytes(*dtype, shape, std::as_bytes(tensor.data)), std::string(tensor.name));
  if (tensor.scales.empty() || !dtype->is_integral() || *dtype == kInt32) return value;
  // Weights of 8 bits that an operator on floats reads: their numbers are those of floats.
  Steps steps(emit_);
  const auto count = static_cast<int64_t>(tensor.scales.size());
  const int64_t rank = static_cast<int64_t>(shape.size());
  const bool is_along = count > 1;
  if (is_along && (tensor.axis < 0 || tensor.axis >= rank || shape[static_cast<size_t>(tensor.axis)] != count)) {
    return absl::InvalidArgumentError(absl::StrCat("a constant has ", count, " scales, which fit none of its axes"));
  }
  Dims around(static_cast<size_t>(is_along ? rank : 0), Dim(1));
  if (is_along) around[static_cast<size_t>(tensor.axis)] = count;
  Operand scale = emit_.Constant(Literal::FromValues<float>(kFloat32, {count}, tensor.scales));
  Operand zero = steps.Cast(emit_.Vector(tensor.zero_points), kFloat32);
  return steps.Mul(steps.Sub(steps.Cast(value, kFloat32), steps.Reshape(zero, around)), steps.Reshape(scale, around));
}

Operand Importer::Value(int32_t number) {
  if (number < 0) return nullptr;
  if (auto it = values_.find(number); it != values_.end()) return it->second;
  const Tensor& tensor = graph_.tensors[static_cast<size_t>(number)];
  const bool is_empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
  if (tensor.is_variable || (tensor.data.empty() && !is_empty)) {
    emit_.Fail(tensor.is_variable ? Unsupported("variables, which keep their value between runs")
                                  : absl::InvalidArgumentError(
                                        absl::StrCat("its input `", Abseil(tensor.name), "` has no value before it")));
    return nullptr;
  }
  absl::StatusOr<Operand> constant = Constant(tensor);
  if (!constant.ok()) {
    emit_.Fail(constant.status());
    return nullptr;
  }
  return values_[number] = *constant;
}

Operands Importer::Convert(const Node& node) {
  const OperatorRow* row = FindRow(node.op);
  if (row == nullptr) {
    emit_.Fail(Unsupported("this operator is not supported"));
    return {};
  }
  Operands inputs;
  for (int32_t input : node.inputs) {
    inputs.push_back(Value(input));
    if (emit_.failed() || (inputs.back() != nullptr && inputs.back()->is_placeholder)) return {};
  }
  for (const auto& numbers : {node.inputs, node.outputs}) {
    for (int32_t number : numbers) {
      if (number < 0) continue;
      const Tensor& tensor = graph_.tensors[static_cast<size_t>(number)];
      const bool is_integral = ToDataType(tensor.type).value_or(kFloat32).is_integral();
      if (tensor.scales.empty() || !is_integral || !tensor.data.empty() || node.op == "QUANTIZE" ||
          node.op == "DEQUANTIZE")
        continue;
      emit_.Fail(Unsupported("quantised activations; convert the model with floats"));
      return {};
    }
  }
  NodeContext context(emit_, graph_, node, *row, std::move(inputs));
  return row->convert(context);
}

void Importer::ImportNode(const Node& node) {
  ir::Span outer = EnterOrigin([&] { return absl::StrCat(node.op, " node of ", Label(node), " of ", options_.name); });
  Operands results = WithStack([&] { return Convert(node); });
  LeaveOrigin(outer);
  const absl::Status status = emit_.TakeStatus();
  if (!status.ok()) {
    refusals_.Add(node.op, Label(node), status);
    results.clear();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] < 0) continue;
    values_[node.outputs[i]] = i < results.size() && results[i] != nullptr ? results[i] : emit_.Placeholder();
  }
}

// ---- inputs

Importer::Importer(const Model& model, const ImportOptions& options, size_t size)
    : Frame(options), graph_(model.graphs[0]), constant_budget_(kMaxCopies * static_cast<int64_t>(size)) {
  for (const Node& node : graph_.nodes) CountNode(node.op);
}

absl::Status Importer::ReadInputs() {
  std::vector<Input> inputs;
  for (int32_t number : graph_.inputs) {
    if (number < 0) return absl::InvalidArgumentError("an input of the graph is no tensor");
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(number)];
    inputs.push_back({tensor.name, tensor.shape.size()});
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  for (int32_t number : graph_.inputs) {
    const Tensor& tensor = graph_.tensors[static_cast<size_t>(number)];
    Dims dims;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      dims.push_back(InputExtent(tensor.name, i, absl::StrCat(tensor.shape[i])));
    }
    const std::optional<DataType> dtype = ToDataType(tensor.type);
    if (!dtype) {
      refusals_.Add("an input", absl::StrCat("`", Abseil(ReadableText(tensor.name)), "`"),
                    Unsupported(absl::StrCat(TypeName(tensor.type), ", which Relay has not")));
      values_[number] = emit_.Placeholder();
      continue;
    }
    RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(tensor.name, *dtype, dims));
    if (frozen != nullptr) {
      values_[number] = frozen;
      continue;
    }
    AddParam(tensor.name, emit_.TensorType(std::move(dims), *dtype));
    param_inputs_.push_back(number);
  }
  AddSeed();
  return absl::OkStatus();
}

// ---- the program

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ReadInputs());
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string_view name = graph_.tensors[static_cast<size_t>(param_inputs_[i])].name;
      params[i]->name = std::string(name);
      values_[param_inputs_[i]] = params[i];
      result.inputs.emplace_back(name);
    }
    for (const Node& node : graph_.nodes) ImportNode(node);
    Operands outputs;
    for (int32_t number : graph_.outputs) {
      Operand value = Value(number);
      const absl::Status status = emit_.TakeStatus();
      if (value == nullptr) {
        refusals_.Add("an output", absl::StrCat("number ", outputs.size()),
                      status.ok() ? absl::InvalidArgumentError("it is no tensor") : status);
        value = emit_.Placeholder();
      }
      outputs.push_back(value);
      result.outputs.emplace_back(number < 0 ? "" : graph_.tensors[static_cast<size_t>(number)].name);
    }
    return outputs;
  });
  RVM_RETURN_IF_ERROR(Finish(result));
  NameResults(result);
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
