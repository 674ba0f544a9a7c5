#include "compiler/import/torch/promotion.h"

#include <algorithm>

namespace rvm::torch {
namespace {

// Truths, integers, floats.
int Category(DataType dtype) { return dtype.is_bool() ? 0 : dtype.is_float() ? 2 : 1; }

DataType PromoteIntegers(DataType a, DataType b) {
  if (a.is_uint() == b.is_uint()) return a.bits > b.bits ? a : b;
  DataType with_sign = a.is_uint() ? b : a, without = a.is_uint() ? a : b;
  if (with_sign.bits > without.bits) return with_sign;
  return without.bits == 8 ? kInt16 : without.bits == 16 ? kInt32 : kInt64;
}

}  // namespace

DataType Promote(DataType a, DataType b) {
  if (a == b) return a;
  if (Category(a) != Category(b)) return Category(a) > Category(b) ? a : b;
  if (Category(a) == 1) return PromoteIntegers(a, b);
  if (a.bits == b.bits) return kFloat32;  // float16 and bfloat16
  return a.bits > b.bits ? a : b;
}

void Promotion::Add(DataType dtype, OperandRank rank) {
  // Python's floats are of the default dtype.
  if (rank == OperandRank::kNumber && dtype.is_float()) dtype = kFloat32;
  std::optional<DataType>& known = ranks_[static_cast<size_t>(rank)];
  known = known ? Promote(*known, dtype) : dtype;
}

DataType Promotion::Result() const {
  std::optional<DataType> result;
  for (size_t i = 3; i-- > 0;) {
    if (!ranks_[i]) continue;
    if (!result) {
      result = ranks_[i];
    } else if (Category(*ranks_[i]) > Category(*result)) {
      result = ranks_[i];
    }
  }
  return result.value_or(kFloat32);
}

}  // namespace rvm::torch
