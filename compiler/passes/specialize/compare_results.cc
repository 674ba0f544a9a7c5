#include "compiler/passes/specialize/compare_results.h"

namespace rvm::passes {

DimEquality CompareResults(const ir::Type* own, const ir::Type* claimed) {
  DimEquality result = DimEquality::kEqual;
  auto add = [&](DimEquality part) {
    bool worse = part == DimEquality::kDifferent || result == DimEquality::kEqual;
    result = worse ? part : result;
  };
  const auto* tuple = ir::DynCast<ir::TupleType>(own);
  const auto* claimed_tuple = ir::DynCast<ir::TupleType>(claimed);
  if (tuple != nullptr && claimed_tuple != nullptr && tuple->fields.size() == claimed_tuple->fields.size()) {
    for (size_t i = 0; i < tuple->fields.size(); ++i) add(CompareResults(tuple->fields[i], claimed_tuple->fields[i]));
    return result;
  }
  if (ir::TypesEqual(own, claimed)) return DimEquality::kEqual;
  const auto* tensor = ir::DynCast<ir::TensorType>(own);
  const auto* place = ir::DynCast<ir::TensorType>(claimed);
  if (tensor == nullptr || place == nullptr || tensor->dtype != place->dtype || !tensor->shape.is_dims() ||
      !place->shape.is_dims() || tensor->shape.dims.size() != place->shape.dims.size()) {
    return DimEquality::kDifferent;
  }
  for (size_t i = 0; i < tensor->shape.dims.size(); ++i) {
    const Dim& dim = place->shape.dims[i];
    add(dim.is_any() ? DimEquality::kEqual : CompareDims(tensor->shape.dims[i], dim));
  }
  return result;
}

}  // namespace rvm::passes
