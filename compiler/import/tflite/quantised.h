// Integers that stand for floats, as TensorFlow Lite computes with them: sums of products in int32, rescaled by factors
// of 31 bits and an exponent. The results have the bits of its reference kernels.
#ifndef RVM_COMPILER_IMPORT_TFLITE_QUANTISED_H_
#define RVM_COMPILER_IMPORT_TFLITE_QUANTISED_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {

// The form of a tensor with one scale: (integers - zero_point) * scale.
struct Form {
  DataType dtype = kInt8;
  float scale = 1;
  int64_t zero_point = 0;
};
// A mistake where the tensor is missing, is not quantised, or has a scale for each channel.
Form InputForm(NodeContext& c, size_t i);
Form OutputForm(NodeContext& c, size_t i = 0);

// Returns the nearest integer, halves away from 0; a number beyond all codes for what is far beyond them.
int64_t Rounded(float x);

struct Range {
  int64_t least = 0, greatest = 0;
};
Range RangeOf(DataType dtype);
// Returns the integers that the fused activation of that field of the options leaves of a result.
Range ActivatedRange(NodeContext& c, int field, const Form& form);

// significand / 2^31 * 2^exponent, with a significand from 2^30 to 2^31 - 1, or 0.
struct Factor {
  int32_t significand = 0;
  int exponent = 0;
};
Factor FactorOf(double real);

// How a product with a factor becomes an integer.
enum class Rounding {
  kTwice,    // after the significand, halves up, and after the exponent, halves away from 0
  kOnce,     // after both, halves up
  kReduced,  // of int64, by a significand of 15 bits, halves up
};

// Returns the product of x, of int32, or of int64 for kReduced, and a factor: one for all, or one for each channel,
// which are along the last axis. The result is int32.
Operand Rescale(Steps& c, Operand x, std::span<const Factor> factors, Rounding rounding = Rounding::kTwice);
// Returns integers of int32 plus the zero point, within `range`, in the dtype of the form.
Operand Narrow(Steps& c, Operand x, const Form& form, Range range);
Operand Narrow(Steps& c, Operand x, const Form& form);

// Returns x - zero_point in int32.
Operand Centred(Steps& c, Operand x, int64_t zero_point);
// Returns the floats that x stands for, and integers for floats.
Operand Dequantised(Steps& c, Operand x, const Form& form);
Operand Quantised(NodeContext& c, Operand x, const Tensor& tensor);

// Returns f(x) for each element of x, integers of 8 bits, whose values are computed now. `out` is of the results.
Operand Lookup(Steps& c, Operand x, DataType out, absl::FunctionRef<int64_t(int64_t x)> f);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_QUANTISED_H_
