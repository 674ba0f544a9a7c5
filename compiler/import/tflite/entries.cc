// Entries: the signatures of a model as functions of the program, with their inputs and outputs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/import/blocks/complex.h"
#include "compiler/import/frame/signatures.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {

absl::Status Importer::ChooseEntries() {
  if (model_.signatures.empty()) {
    if (!options_.signatures.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("signature `", options_.signatures[0], "`: the model has no signatures to choose from"));
    }
    entries_.push_back({.name = std::string(kMain)});
    return absl::OkStatus();
  }
  std::vector<std::string_view> names;
  for (const Signature& signature : model_.signatures) names.push_back(signature.name);
  RVM_ASSIGN_OR_RETURN(const std::vector<size_t> numbers,
                       importing::ChooseSignatures(names, options_.signatures, "the model"));
  std::vector<std::string_view> chosen;
  for (size_t number : numbers) chosen.push_back(names[number]);
  const std::vector<std::string> functions = NamesOfEntries(chosen);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Signature& signature = model_.signatures[numbers[i]];
    entries_.push_back({.name = functions[i], .graph = signature.graph, .signature = &signature});
  }
  return absl::OkStatus();
}

std::string_view Importer::NameOf(const Entry& entry, int32_t tensor) const {
  if (entry.signature != nullptr) {
    auto found = entry.signature->names.find(tensor);
    if (found != entry.signature->names.end()) return found->second;
  }
  return GraphOf(entry).tensors[static_cast<size_t>(tensor)].name;
}

// ---- inputs

absl::Status Importer::CheckInputs() {
  std::vector<Input> inputs;
  for (const Entry& entry : entries_) {
    for (int32_t number : GraphOf(entry).inputs) {
      if (number < 0) return absl::InvalidArgumentError("an input of the graph is no tensor");
      inputs.push_back({NameOf(entry, number), GraphOf(entry).tensors[static_cast<size_t>(number)].shape.size()});
    }
  }
  RVM_RETURN_IF_ERROR(CheckGivenInputs(inputs));
  for (const Input& input : inputs) {
    if (!options_.frozen.contains(input.name)) NoteExtentNames(input.name, {});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> Importer::ReadInputs(const Entry& entry) {
  std::vector<int32_t> params;
  for (int32_t number : GraphOf(entry).inputs) {
    const Tensor& tensor = GraphOf(entry).tensors[static_cast<size_t>(number)];
    const std::string_view name = NameOf(entry, number);
    Dims dims;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      dims.push_back(InputExtent(name, i, absl::StrCat(tensor.shape[i])));
    }
    const std::optional<DataType> dtype = ToDataType(tensor.type);
    if (!dtype) {
      refusals_.Add("an input", absl::StrCat("`", Abseil(ReadableText(name)), "`"),
                    absl::UnimplementedError(absl::StrCat(TypeName(tensor.type), ", which Relay has not")));
      constants_[&tensor] = emit_.Placeholder();
      continue;
    }
    RVM_ASSIGN_OR_RETURN(Operand frozen, FrozenInput(name, *dtype, dims));
    if (frozen != nullptr) {
      constants_[&tensor] = frozen;
      continue;
    }
    AddParam(name, emit_.TensorType(std::move(dims), *dtype));
    params.push_back(number);
  }
  return params;
}

void Importer::BindInputs(const Entry& entry, std::span<const int32_t> tensors, const Operands& params, Scope& scope) {
  const Graph& graph = GraphOf(entry);
  for (int32_t number : graph.inputs) {
    auto given = constants_.find(&graph.tensors[static_cast<size_t>(number)]);
    if (given != constants_.end()) scope.values[number] = given->second;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    params[i]->name = std::string(NameOf(entry, tensors[i]));
    scope.values[tensors[i]] = params[i];
  }
  size_t next = tensors.size();
  for (Variable& variable : variables_) variable.value = variable.is_state ? params[next++] : nullptr;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    auto variable = tensor_variables_.find(&graph.tensors[i]);
    if (variable != tensor_variables_.end()) scope.values[static_cast<int32_t>(i)] = variables_[variable->second].value;
  }
}

// ---- outputs

Operands Importer::Outputs(const Entry& entry, Scope& scope) {
  Operands outputs;
  for (int32_t number : GraphOf(entry).outputs) {
    Operand value = Value(number, scope);
    const absl::Status status = emit_.TakeStatus();
    if (value == nullptr) {
      refusals_.Add("an output", absl::StrCat("number ", outputs.size()),
                    status.ok() ? absl::InvalidArgumentError("it is no tensor") : status);
      value = emit_.Placeholder();
    }
    Steps steps(emit_);
    outputs.push_back(importing::IsComplex(value) ? importing::ToPairs(steps, value) : value);
  }
  for (const Variable& variable : variables_) {
    if (variable.is_state) outputs.push_back(variable.value == nullptr ? emit_.Placeholder() : variable.value);
  }
  return outputs;
}

// ---- functions

absl::Status Importer::ImportEntry(const Entry& entry, ImportedModel& result) {
  RVM_ASSIGN_OR_RETURN(const std::vector<int32_t> tensors, ReadInputs(entry));
  AddStateParams();
  AddSeed();
  Scope scope{.graph = &GraphOf(entry), .values = {}};
  DefineEntry(entry.name, [&](const Operands& params) {
    BindInputs(entry, tensors, params, scope);
    ImportNodes(scope);
    return Outputs(entry, scope);
  });
  if (entry.name != kMain) return absl::OkStatus();
  for (int32_t number : tensors) result.inputs.emplace_back(NameOf(entry, number));
  for (const Variable& variable : variables_) {
    if (variable.is_state) result.inputs.push_back(variable.name);
  }
  return absl::OkStatus();
}

void Importer::NameEntry(const Entry& entry, ImportedModel& result) const {
  std::vector<std::string> outputs;
  for (int32_t number : GraphOf(entry).outputs) outputs.emplace_back(number < 0 ? "" : NameOf(entry, number));
  for (const Variable& variable : variables_) {
    if (variable.is_state) outputs.push_back(variable.name);
  }
  NameResults(result, entry.name, outputs);
  if (entry.name == kMain) result.outputs = std::move(outputs);
}

}  // namespace rvm::tflite
