// Multiplication of integers by real factors in fixed-point form.
//
// A factor m is `significand` / 2^31 * 2^`exponent` with a significand in [2^30, 2^31), as in gemmlowp.
#ifndef RVM_COMPILER_OPS_FAMILIES_FIXED_POINT_H_
#define RVM_COMPILER_OPS_FAMILIES_FIXED_POINT_H_

#include <cstdint>

#include "kernels/te/tensor.h"

namespace rvm::ops {

enum class FixedPointRounding : uint8_t {
  kUpward,     // halves towards +infinity
  kToNearest,  // halves away from 0
};

// (x * significand) >> right_shift, rounded; all int64. REQUIRES: 1 <= right_shift <= 62 when evaluated.
te::Expr MultiplyAndShift(const te::Expr& x, const te::Expr& significand, const te::Expr& right_shift,
                          FixedPointRounding rounding);

// Factors as fixed-point numbers: `significand` and `right_shift` of MultiplyAndShift, tensors of the factors' shape.
struct FixedPointFactors {
  te::Tensor significand, right_shift;
};
// `factors` is float64. Factors above 2^30 are treated as 2^30, NaN and negative factors as 0.
FixedPointFactors ToFixedPoint(const te::Tensor& factors);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_FIXED_POINT_H_
