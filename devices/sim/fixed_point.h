// Factors of requantisation in fixed point, as the operators `qnn.*` define them (compiler/ops/families/fixed_point.h).
#ifndef RVM_DEVICES_SIM_FIXED_POINT_H_
#define RVM_DEVICES_SIM_FIXED_POINT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rvm::device {

// A factor: significand / 2^right_shift. 0 <= significand <= 2^31, 1 <= right_shift <= 62.
struct FixedPoint {
  int64_t significand = 0;
  int right_shift = 0;
};

// Factors above 2^30 are 2^30; NaN and factors below 0 are 0.
inline FixedPoint ToFixedPoint(double factor) {
  constexpr int kMinExponent = -31, kMaxExponent = 30;
  double m = factor > 0 ? std::min(factor, static_cast<double>(int64_t{1} << kMaxExponent)) : 0;
  int exponent = m > 0 ? std::clamp(std::ilogb(m) + 1, kMinExponent, kMaxExponent) : kMinExponent;
  return {static_cast<int64_t>(std::round(std::ldexp(m, 31 - exponent))), 31 - exponent};
}

}  // namespace rvm::device

#endif  // RVM_DEVICES_SIM_FIXED_POINT_H_
