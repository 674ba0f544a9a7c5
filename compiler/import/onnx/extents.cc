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
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx {

Dim Importer::DimOf(const Dimension& dimension, std::string_view input, size_t axis) {
  return InputExtent(input, axis, dimension.value ? absl::StrCat(*dimension.value) : std::string(dimension.param));
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
    } else if (!claim.value && IsExtentName(claim.param)) {
      dim = NamedExtent(claim.param);
    } else if (!claim.value) {
      dim = ExtentOfExpression(claim.param);
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
