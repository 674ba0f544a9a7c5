// Extents that a model names, and the shapes that it claims for intermediate values.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/extent_expression.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Dim Importer::DimOf(const Dimension& dimension, std::string_view input, size_t axis) {
  std::string text = dimension.value ? absl::StrCat(*dimension.value) : std::string(dimension.param);
  if (auto shape = options_.shapes.find(input); shape != options_.shapes.end()) {
    if (axis < shape->second.size()) text = shape->second[axis];
  }
  if (options_.all_extents_unknown) return Dim::Any();
  if (text.empty() || text == "?" || text[0] == '-') return Dim::Any();
  if (IsNumber(text)) return Dim(std::stoll(text));
  std::optional<Dim> dim = ExpressionOf(text);
  return dim ? *dim : NamedExtent(text);
}

Dim Importer::NamedExtent(std::string_view name) {
  auto [it, is_new] = dims_.try_emplace(std::string(name));
  if (is_new) it->second = emit_.NameDim(name);
  return it->second;
}

// Names that no input has as an extent have no value when the program runs.
std::optional<Dim> Importer::ExpressionOf(std::string_view text) {
  return importing::ParseExtentExpression(text, [&](std::string_view name) {
    return extent_names_.contains(Abseil(name)) ? std::optional(NamedExtent(name)) : std::nullopt;
  });
}

void Importer::NoteExtentNames(std::string_view input, const std::vector<Dimension>& dims) {
  if (auto given = options_.shapes.find(input); given != options_.shapes.end()) {
    extent_names_.insert(given->second.begin(), given->second.end());
    return;
  }
  for (const Dimension& dim : dims) {
    if (!dim.value && !dim.param.empty()) extent_names_.emplace(dim.param);
  }
}

void Importer::ReadClaims() {
  // They are those of the model's own inputs.
  if (options_.all_extents_unknown || !options_.shapes.empty()) return;
  for (const ValueInfo& value : model_.graph->values) {
    if (value.type.form == TypeForm::kTensor && value.type.wrappers.empty()) claims_[value.name] = &value;
  }
}

Operand Importer::WithClaimedExtents(std::string_view name, Operand operand) {
  auto found = claims_.find(name);
  const auto* tensor = ir::DynCast<ir::TensorType>(operand->type);
  if (found == claims_.end() || tensor == nullptr || operand->is_placeholder) return operand;
  const std::vector<Dimension>& claimed = found->second->type.shape;
  Dims dims = tensor->shape.dims;
  if (claimed.size() != dims.size()) return operand;
  auto is_named = [&](const Dim& leaf) { return leaf.kind() == DimKind::kVar && emit_.IsNamed(leaf); };
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    if (IsArithmeticOf(dims[axis], is_named)) continue;
    const Dimension& claim = claimed[axis];
    std::optional<Dim> dim;
    if (claim.value && *claim.value >= 0) {
      dim = Dim(*claim.value);
    } else if (!claim.value && extent_names_.contains(Abseil(claim.param))) {
      dim = NamedExtent(claim.param);
    } else if (!claim.value) {
      dim = ExpressionOf(claim.param);
    }
    if (!dim) continue;
    dims[axis] = *dim;
    std::string what =
        absl::StrCat("axis ", axis, " of `", Abseil(name), "`, which the model says is ", dim->ToString());
    operand = emit_.OpAs(dims, "check_extent", {operand, emit_.FromDim(*dim)},
                         {{"axis", static_cast<int64_t>(axis)}, {"what", what}});
  }
  return operand;
}

}  // namespace rvm::onnx
