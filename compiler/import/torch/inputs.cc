// The inputs of an exported program: parameters with symbolic extents, weights, state. checks.cc has their checks.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/status_macros.h"
#include "compiler/import/given_inputs.h"
#include "compiler/import/torch/expression.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::optional<Dim> Importer::DimOfExpression(std::string_view text) {
  return ParseExtent(text, [&](std::string_view symbol) -> std::optional<Dim> {
    auto found = dims_.find(Abseil(symbol));
    if (found == dims_.end() || found->second.is_any()) return std::nullopt;
    return found->second;
  });
}

Dim Importer::DimOf(const TensorMeta::Extent& extent, std::string_view input, size_t axis) {
  if (options_.all_extents_unknown) return Dim::Any();
  if (auto shape = options_.shapes.find(input); shape != options_.shapes.end()) {
    const std::string& text = shape->second[axis];
    if (IsNumber(text)) return Dim(std::stoll(text));
    if (text.empty() || text == "?") return Dim::Any();
    if (std::string_view symbol = PlainSymbol(extent.expression); !symbol.empty()) return dims_[Abseil(symbol)];
    return emit_.NameDim(text);
  }
  if (extent.number) return Dim(*extent.number);
  return DimOfExpression(extent.expression).value_or(Dim::Any());
}

absl::Status Importer::ReadShapes() {
  auto meta_of = [&](std::string_view name) -> const TensorMeta* {
    auto found = program_.graph->tensors.find(Abseil(name));
    return found == program_.graph->tensors.end() ? nullptr : &found->second;
  };
  std::vector<std::string_view> names;
  for (const InputSpec& input : program_.inputs) {
    if (input.role == InputRole::kUser) names.push_back(input.arg.text);
  }
  auto check = [&](const std::string& name, std::string_view what) {
    if (std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
    return importing::UnknownInput(name, what, names);
  };
  for (const auto& [name, literal] : options_.frozen) RVM_RETURN_IF_ERROR(check(name, "to freeze"));
  for (const auto& [name, shape] : options_.shapes) {
    RVM_RETURN_IF_ERROR(check(name, "to give a shape"));
    RVM_RETURN_IF_ERROR(importing::CheckGivenExtents(name, shape));
    const TensorMeta* meta = meta_of(name);
    if (meta == nullptr || meta->sizes.size() != shape.size()) {
      return absl::InvalidArgumentError(absl::StrCat("input `", name, "` has rank ",
                                                     meta == nullptr ? 0 : meta->sizes.size(),
                                                     "; the shape given to it has rank ", shape.size()));
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      std::string_view symbol = PlainSymbol(meta->sizes[i].expression);
      if (symbol.empty() || shape[i].empty() || shape[i] == "?" || dims_.contains(Abseil(symbol))) continue;
      dims_[Abseil(symbol)] = IsNumber(shape[i]) ? Dim(std::stoll(shape[i])) : emit_.NameDim(shape[i]);
    }
  }
  // A symbol is known where an input has it as an extent, alone.
  for (std::string_view name : names) {
    const TensorMeta* meta = meta_of(name);
    if (meta == nullptr || options_.frozen.contains(name) || options_.all_extents_unknown) continue;
    for (const TensorMeta::Extent& extent : meta->sizes) {
      std::string_view symbol = PlainSymbol(extent.expression);
      if (!symbol.empty() && !dims_.contains(Abseil(symbol))) dims_[Abseil(symbol)] = emit_.NameDim(symbol);
    }
  }
  return absl::OkStatus();
}

Operand Importer::Weight(const InputSpec& input) {
  // Parameters that are tied are the same memory: one weight.
  std::string place = archive_.PlaceOf(input.target);
  auto known = place.empty() ? weight_at_.end() : weight_at_.find(place);
  if (known != weight_at_.end()) return known->second;
  absl::StatusOr<Literal> literal = archive_.Tensor(input.target);
  if (literal.ok()) return weight_at_[place] = emit_.Constant(*std::move(literal), input.target);
  refusals_.Add("a weight", absl::StrCat("`", input.target, "`"), literal.status());
  return emit_.Placeholder();
}

absl::Status Importer::AddParam(const InputSpec& input) {
  const std::string& name = input.arg.text;
  const ir::Type* type = nullptr;
  if (input.arg.kind == ArgumentKind::kSymbol) {
    type = emit_.TensorType({}, kInt64);
  } else {
    auto found = program_.graph->tensors.find(name);
    if (found == program_.graph->tensors.end() || found->second.sizes.size() > 64) {
      return absl::InvalidArgumentError(absl::StrCat("input `", name, "` has no type, or too many axes"));
    }
    const TensorMeta& meta = found->second;
    std::optional<DataType> dtype = ToDataType(meta.scalar_type);
    if (!dtype) {
      return absl::UnimplementedError(
          absl::StrCat("input `", name, "` is of dtype ", ScalarTypeName(meta.scalar_type), ", which Relay has not"));
    }
    Dims dims;
    for (size_t i = 0; i < meta.sizes.size(); ++i) dims.push_back(DimOf(meta.sizes[i], name, i));
    type = emit_.TensorType(std::move(dims), *dtype);
  }
  Frame::AddParam(name, type);
  param_inputs_.push_back(&input);
  return absl::OkStatus();
}

absl::Status Importer::Freeze(const std::string& name, const Literal& value, Scope& scope) {
  auto found = program_.graph->tensors.find(name);
  std::optional<DataType> dtype = kInt64;  // of a symbol, which has no tensor
  Dims dims;
  if (found != program_.graph->tensors.end()) {
    dtype = ToDataType(found->second.scalar_type);
    for (size_t i = 0; i < found->second.sizes.size(); ++i) dims.push_back(DimOf(found->second.sizes[i], name, i));
  }
  RVM_ASSIGN_OR_RETURN(Literal fitting, importing::FitGivenValue(name, value, dtype.value_or(value.dtype()), dims));
  scope.values[name] = emit_.Constant(std::move(fitting), name);
  return absl::OkStatus();
}

void Importer::FindMutations() {
  for (const OutputSpec& output : program_.outputs) {
    for (const InputSpec& input : program_.inputs) {
      bool is_buffer = output.role == OutputRole::kBufferMutation && input.role == InputRole::kBuffer &&
                       input.target == output.target;
      bool is_input = output.role == OutputRole::kInputMutation && input.arg.text == output.target;
      if (is_buffer || is_input) mutated_.insert(input.arg.text);
    }
  }
  for (const Node& node : program_.graph->nodes) {
    if (!Writes(node.target) || node.inputs.empty()) continue;
    for (const InputSpec& input : program_.inputs) {
      bool can_change = input.role == InputRole::kUser || input.role == InputRole::kBuffer;
      if (can_change && input.arg.text == node.inputs[0].second.text) mutated_.insert(input.arg.text);
    }
  }
}

absl::Status Importer::ReadInputs(Scope& scope) {
  RVM_RETURN_IF_ERROR(ReadShapes());
  for (const InputSpec& input : program_.inputs) {
    const std::string& name = input.arg.text;
    switch (input.role) {
      case InputRole::kUser: {
        auto frozen = options_.frozen.find(name);
        if (frozen == options_.frozen.end()) {
          RVM_RETURN_IF_ERROR(AddParam(input));
        } else {
          RVM_RETURN_IF_ERROR(Freeze(name, frozen->second, scope));
        }
        break;
      }
      case InputRole::kBuffer:
        if (mutated_.contains(name)) break;  // a parameter, behind those of the user
        scope.values[name] = Weight(input);
        break;
      case InputRole::kParameter:
      case InputRole::kConstant: scope.values[name] = Weight(input); break;
      case InputRole::kFixed: break;
      case InputRole::kOther:
        return absl::UnimplementedError(
            absl::StrCat("input `", name, "` is of kind `", input.target, "`; expected a tensor"));
    }
  }
  for (const InputSpec& input : program_.inputs) {
    bool is_state = input.role == InputRole::kBuffer && mutated_.contains(input.arg.text);
    if (is_state) RVM_RETURN_IF_ERROR(AddParam(input));
  }
  return absl::OkStatus();
}

}  // namespace rvm::torch
