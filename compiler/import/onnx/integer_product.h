// Matmuls of bytes with zero points.
#ifndef RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_
#define RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_

#include <cstdint>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// Sums in int32 of (a - zero_a) * (b - zero_b). Zero points broadcast with their matrices, and are the same along the
// axis that is summed over; null: 0. Of constant bytes b the sums are those of a * b, less what the zero points add to
// them, so that the kernel multiplies what is stored; other matrices are centred first.
Operand IntegerProduct(NodeContext& c, Operand a, Operand zero_a, Operand b, Operand zero_b);

// Returns the convolution of the node, of x - zero_x with kernels weight - zero_weight, in int32. Zero points are one
// for all, or of the kernels one for each, and may be null. Constant kernels of bytes without a zero point are
// multiplied by x as it is stored, which is padded with its zero point.
Operand IntegerConv(NodeContext& c, Operand x, Operand zero_x, Operand weight, Operand zero_weight);

// Returns the product of two float tensors that were dequantised, in integers and scaled; null if one of them was not,
// or integers do not hold the sums. `transposes_b`: b is a matrix, a constant, and its transpose is multiplied.
Operand QuantisedProduct(NodeContext& c, Operand a, Operand b, bool transposes_b = false);
// Returns the convolution of the node's first two inputs, likewise.
Operand QuantisedConv(NodeContext& c);

// Returns a scale or zero point, as it broadcasts with x: one for all; along `axis` of x, one per element or, if
// `block` is not 0, per block; or a tensor of the rank of x.
Operand Spread(NodeContext& c, Operand parameter, Operand x, int64_t axis, int64_t block);
// x, less its zero point, for sums in int32: differences of bytes fit int16. zero_point: as it broadcasts with x, or
// null.
Operand Centred(NodeContext& c, Operand x, Operand zero_point);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_
