#include "compiler/import/stablehlo/importer.h"

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
#include "compiler/import/blocks/complex.h"
#include "compiler/import/stablehlo/linalg.h"

namespace rvm::stablehlo {
namespace {

const OperatorRow* FindRow(std::span<const OperatorRow> family, std::string_view name) {
  const auto row = std::ranges::find(family, name, &OperatorRow::name);
  return row == family.end() ? nullptr : &*row;
}

std::string Label(const Operation& op) {
  if (op.location.empty()) return absl::StrCat("at offset ", op.offset);
  return absl::StrCat("`", Abseil(ReadableText(op.location.substr(0, 200))), "`");
}

std::string TextOf(const Type& type) {
  std::string text = absl::StrCat(type.name, "[");
  for (size_t i = 0; i < type.shape.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", type.shape[i] < 0 ? "?" : absl::StrCat(type.shape[i]));
  }
  return text + "]";
}

}  // namespace

const OperatorRow* FindOperator(std::string_view name, bool is_complex) {
  if (is_complex) return FindRow(ComplexOperators(), name);
  for (std::span<const OperatorRow> family :
       {ControlOperators(), ElementwiseOperators(), IndexOperators(), LinalgOperators(), OrderOperators(),
        ProductOperators(), ReduceOperators(), ShapeOperators(), WindowOperators()}) {
    if (const OperatorRow* row = FindRow(family, name)) return row;
  }
  return nullptr;
}

Importer::Importer(const Module& module, const Exported& exported, const ImportOptions& options)
    : Frame(options),
      module_(module),
      exported_(exported),
      main_(module.FindFunction("main")->regions[0]),
      values_(static_cast<size_t>(module.num_values()), nullptr) {
  for (const Operation* function : module.functions()) CountOperations(function->regions[0]);
}

void Importer::CountOperations(const Block& block) {
  for (const Operation& op : block.operations) {
    if (op.name != "return") CountNode(op.name);
    for (const Block& region : op.regions) WithStack([&] { CountOperations(region); });
  }
}

// ---- operations

Operands Importer::Convert(const Operation& op) {
  if (op.has_unknown_properties) {
    emit_.Fail(absl::UnimplementedError("a version of this operator whose properties are not known"));
    return {};
  }
  for (const Type* type : op.types) {
    if (type->kind == Type::Kind::kTensor && type->dtype) continue;
    emit_.Fail(absl::UnimplementedError(absl::StrCat(type->name, ", which Relay does not have")));
    return {};
  }
  Operands inputs;
  for (int32_t number : op.operands) {
    inputs.push_back(values_[static_cast<size_t>(number)]);
    if (inputs.back() != nullptr && !inputs.back()->is_placeholder) continue;
    if (inputs.back() == nullptr) emit_.Fail(absl::InvalidArgumentError("an operand has no value before it"));
    return {};
  }
  const bool is_complex = importing::HasComplex(inputs) || std::ranges::any_of(op.types, &Type::is_complex);
  const OperatorRow* row = FindOperator(op.name, is_complex);
  if (row == nullptr) {
    const bool is_known = is_complex && FindOperator(op.name, false) != nullptr;
    emit_.Fail(absl::UnimplementedError(is_known ? "complex numbers" : "this operator is not supported"));
    return {};
  }
  if (on_tensors_ && row->lanes == Lanes::kNone) {
    emit_.Fail(absl::UnimplementedError("this operator in a body that is computed for all elements at once"));
    return {};
  }
  NodeContext context(*this, op, *row, std::move(inputs));
  Operands results = row->convert(context);
  if (results.size() != op.types.size() && !emit_.failed()) {
    for (Operand result : results) {
      if (result == nullptr || result->is_placeholder) return {};
    }
    emit_.Fail(absl::InvalidArgumentError(
        absl::StrCat("it has ", op.types.size(), " results in the file; expected ", results.size())));
  }
  return results;
}

Operand Importer::Checked(Operand result, const Type& type, size_t number) {
  if (result == nullptr || result->is_placeholder || emit_.failed()) return result;
  if (importing::IsComplex(result) != type.is_complex) {
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat("its result ", number, " is of type ", TextOf(type),
                                                       " in the file, and computed as ",
                                                       type.is_complex ? "real" : "complex", " numbers")));
    return result;
  }
  if (type.is_complex) {
    Steps steps(emit_);
    Type part = type;
    part.is_complex = false;
    Operand re = Checked(importing::PartOf(steps, result, false), part, number);
    Operand im = Checked(importing::PartOf(steps, result, true), part, number);
    const bool is_same = re == emit_.Field(result, 0) && im == emit_.Field(result, 1);
    return is_same || emit_.failed() ? result : importing::MakeComplex(steps, re, im);
  }
  const Dims& dims = emit_.DimsOf(result);
  bool fits = emit_.DTypeOf(result) == *type.dtype, changes = false;
  Dims known = dims;
  if (!on_tensors_) {
    fits = fits && dims.size() == type.shape.size();
    for (size_t i = 0; fits && i < dims.size(); ++i) {
      if (type.shape[i] < 0) continue;
      fits = !dims[i].is_const() || dims[i].constant() == type.shape[i];
      changes = changes || !dims[i].is_const();
      known[i] = type.shape[i];
    }
  }
  if (!fits) {
    emit_.Fail(absl::InvalidArgumentError(absl::StrCat("its result ", number, " is of type ", TextOf(type),
                                                       " in the file, and computed as `",
                                                       ir::TypeToString(result->type), "`")));
    return result;
  }
  return changes ? emit_.Retyped(result, emit_.TensorType(known, *type.dtype)) : result;
}

void Importer::ImportOperation(const Operation& op) {
  const ir::Span outer =
      EnterOrigin([&] { return absl::StrCat(Abseil(op.name), " ", Label(op), " of ", options_.name); });
  Operands results = WithStack([&] { return Convert(op); });
  results.resize(op.results.size(), nullptr);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = Checked(results[i], *op.types[i], i);
    const bool is_missing = results[i] == nullptr || emit_.failed();
    values_[static_cast<size_t>(op.results[i])] = is_missing ? emit_.Placeholder() : results[i];
  }
  LeaveOrigin(outer);
  const absl::Status status = emit_.TakeStatus();
  if (!status.ok() && refused_.insert(&op).second) refusals_.Add(op.name, Label(op), status);
  if (!status.ok()) {
    for (int32_t number : op.results) values_[static_cast<size_t>(number)] = emit_.Placeholder();
  }
}

Operands Importer::Run(const Block& block, const Operands& arguments) {
  if (block.arguments.size() != arguments.size()) {
    emit_.Fail(absl::InvalidArgumentError(
        absl::StrCat("a body has ", block.arguments.size(), " arguments; expected ", arguments.size())));
    return {};
  }
  for (size_t i = 0; i < arguments.size(); ++i) values_[static_cast<size_t>(block.arguments[i])] = arguments[i];
  for (const Operation& op : block.operations) {
    if (op.name == "return") {
      Operands results;
      for (int32_t number : op.operands) {
        Operand value = values_[static_cast<size_t>(number)];
        results.push_back(value == nullptr ? emit_.Placeholder() : value);
      }
      return results;
    }
    const auto refuse = [&](const absl::Status& status) { refusals_.Add(op.name, Label(op), status); };
    if (!Spend(refuse, "functions and bodies of loops")) break;
    ImportOperation(op);
  }
  return Operands(block.operations.empty() ? 0 : block.operations.back().operands.size(), emit_.Placeholder());
}

// ---- the program

Operand Importer::Argument(size_t i, Operand given) {
  Steps steps(emit_);
  return main_.types[i]->is_complex ? importing::FromPairs(steps, given) : given;
}

Operands Importer::CheckConditions(Operands results) {
  Steps steps(emit_);
  for (const Condition& condition : conditions_) {
    if (results.empty() || results[0]->is_placeholder || condition.holds->is_placeholder) break;
    Operand holds = steps.Cast(condition.holds, kInt64);
    results[0] = steps.Op("check_at_least", {results[0], holds, steps.Integer(1)}, {{"what", condition.message}});
  }
  return results;
}

void Importer::NoteOutputs(ImportedModel& result) const {
  const Operation& main = *module_.FindFunction("main");
  const Attribute* attributes = main.Find("res_attrs");
  const size_t count = main_.operations.empty() ? 0 : main_.operations.back().operands.size();
  for (size_t i = 0; i < count; ++i) {
    const bool has_attributes = attributes != nullptr && i < attributes->elements.size();
    const Attribute* info = has_attributes ? attributes->elements[i]->Find("jax.result_info") : nullptr;
    const bool has_name = info != nullptr && !info->text.empty();
    result.outputs.push_back(has_name ? std::string(info->text) : absl::StrCat("result", i));
  }
}

absl::StatusOr<ImportedModel> Importer::ImportModel() {
  RVM_RETURN_IF_ERROR(ReadInputs());
  EnterOrigin([&] { return options_.name; });
  ImportedModel result;
  DefineMain([&](const Operands& params) {
    Operands arguments(main_.arguments.size(), nullptr);
    for (size_t i = 0; i < params.size(); ++i) {
      const std::string& name = input_names_[param_inputs_[i]];
      params[i]->name = name;
      arguments[param_inputs_[i]] = Argument(param_inputs_[i], params[i]);
      result.inputs.push_back(name);
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (arguments[i] == nullptr) arguments[i] = values_[static_cast<size_t>(main_.arguments[i])];
    }
    Operands results = Run(main_, arguments);
    Steps steps(emit_);
    for (Operand& result : results) result = importing::IsComplex(result) ? importing::ToPairs(steps, result) : result;
    results = CheckConditions(std::move(results));
    const absl::Status status = emit_.TakeStatus();
    if (!status.ok()) refusals_.Add("main", "the function", status);
    return results;
  });
  RVM_RETURN_IF_ERROR(Finish(result));
  NoteOutputs(result);
  NameResults(result);
  return result;
}

absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options) {
  RVM_ASSIGN_OR_RETURN(const Exported exported, ReadExported(bytes));
  RVM_ASSIGN_OR_RETURN(const Module module, Module::Read(exported.artifact));
  return Importer(module, exported, options).Import();
}

}  // namespace rvm::stablehlo
