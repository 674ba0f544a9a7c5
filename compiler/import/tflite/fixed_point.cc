#include "compiler/import/tflite/fixed_point.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compiler/import/tflite/quantised.h"

namespace rvm::tflite {
namespace {

template <typename T>
T Saturated(int64_t x) {
  return static_cast<T>(std::clamp<int64_t>(x, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// Returns the upper half of 2 * a * b, halves up.
int16_t HighProduct(int16_t a, int16_t b) { return Saturated<int16_t>((int64_t{a} * b + (1 << 14)) >> 15); }
int32_t HighProduct(int32_t a, int32_t b) { return Saturated<int32_t>((int64_t{a} * b + (int64_t{1} << 30)) >> 31); }

// x / 2^shift, halves away from 0.
int64_t RoundingShift(int64_t x, int shift) {
  return shift == 0 ? x : (x + (int64_t{1} << (shift - 1)) - (x < 0 ? 1 : 0)) >> shift;
}

// Returns a significand of 31 bits as one of 15.
int16_t Halved(const Factor& factor) {
  constexpr int64_t kHalf = 1 << 15;
  return Saturated<int16_t>((int64_t{factor.significand} + kHalf) >> 16);
}

// exp(x) for x from -1/4 to 0, all in steps of 2^-31: a Taylor series around -1/8.
int32_t PowerNearZero(int32_t a) {
  constexpr int32_t kCentre = 1895147668, kThird = 715827883;  // exp(-1/8), 1/3
  const int32_t x = a + (1 << 28), x2 = HighProduct(x, x), x3 = HighProduct(x2, x), x4 = HighProduct(x2, x2);
  const auto cubic = static_cast<int32_t>(RoundingShift(x4, 2) + x3);
  const auto rest = static_cast<int32_t>(RoundingShift(HighProduct(cubic, kThird) + int64_t{x2}, 1));
  return kCentre + HighProduct(kCentre, x + rest);
}

// exp(x) for a negative x in steps of 2^-26.
int32_t Power(int32_t x) {
  constexpr int kBits = 26;  // behind the point
  if (x == 0) return std::numeric_limits<int32_t>::max();
  constexpr int32_t kQuarter = 1 << (kBits - 2);
  const int32_t part = (x & (kQuarter - 1)) - kQuarter;
  int32_t result = PowerNearZero(static_cast<int32_t>(int64_t{part} << 5));
  const int32_t remainder = part - x;  // a multiple of 1/4
  for (int exponent = -2; exponent < 5; ++exponent) {
    if ((remainder & (1 << (kBits + exponent))) == 0) continue;
    const double factor = std::exp(-std::pow(2.0, exponent));
    result = HighProduct(result, static_cast<int32_t>(std::round(factor * 0x1p31)));
  }
  return result;
}

}  // namespace

HardSwishFactors HardSwishFactorsOf(float input_scale, float output_scale) {
  const float fine = (1.0f / 128.0f) * input_scale;
  const Factor output = FactorOf(static_cast<double>(fine / output_scale));
  const Factor gate = FactorOf(static_cast<double>(fine / (3.0f / 32768.0f)));
  return {Halved(output), Halved(gate), output.exponent, gate.exponent};
}

int64_t HardSwishOf(int32_t x, const HardSwishFactors& factors) {
  const auto fine = static_cast<int16_t>(x * (1 << 7));
  const int16_t scaled = HighProduct(fine, factors.output);
  // The gate in steps of 2^-15 of 3; of a shift to the left, all but one bit come first.
  const int shift = factors.gate_exponent;
  int16_t gate = shift > 0 ? Saturated<int16_t>(int64_t{fine} << std::min(shift - 1, 31)) : fine;
  gate = HighProduct(gate, factors.gate);
  if (shift > 0) gate = Saturated<int16_t>(int64_t{gate} * 2);
  if (shift < 0) gate = static_cast<int16_t>(RoundingShift(gate, -shift));
  gate = static_cast<int16_t>((gate + (1 << 15)) >> 1);
  const int32_t product = int32_t{gate} * scaled / (1 << 15);
  const int below = std::max(-factors.output_exponent, 0);
  return RoundingShift(product, below);
}

int32_t SoftmaxPower(int32_t difference, double scale) {
  constexpr int kIntegerBits = 5, kBits = 31 - kIntegerBits;
  const Factor factor = FactorOf(std::min(scale * std::ldexp(1.0, kBits), 0x1p31 - 1));
  const int shift = std::clamp(factor.exponent, 0, 31);
  const double radius =
      std::floor((std::ldexp(1.0, kIntegerBits) - 1) * std::ldexp(1.0, kBits) / std::ldexp(1.0, shift));
  if (difference < -radius) return 0;
  const int64_t product = (int64_t{difference} << shift) * factor.significand;
  return Power(Saturated<int32_t>((product + (int64_t{1} << 30)) >> 31));
}

}  // namespace rvm::tflite
