// Functions of single integers in fixed-point arithmetic, with the bits of the reference kernels: the tables of
// quantised operators are made with them.
#ifndef RVM_COMPILER_IMPORT_TFLITE_FIXED_POINT_H_
#define RVM_COMPILER_IMPORT_TFLITE_FIXED_POINT_H_

#include <cstdint>

namespace rvm::tflite {

// Factors of HARD_SWISH: significands of 16 bits, and exponents.
struct HardSwishFactors {
  int16_t output = 0, gate = 0;
  int output_exponent = 0, gate_exponent = 0;
};
HardSwishFactors HardSwishFactorsOf(float input_scale, float output_scale);
// Returns the result, without its zero point, for an input less its own.
int64_t HardSwishOf(int32_t x, const HardSwishFactors& factors);

// Returns exp(difference * scale) in steps of 2^-31, for a difference of at most 0; 0 where it is below all steps.
int32_t SoftmaxPower(int32_t difference, double scale);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_FIXED_POINT_H_
