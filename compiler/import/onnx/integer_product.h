// Products of matrices of bytes with zero points.
#ifndef RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_
#define RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_

#include <cstdint>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// Sums in int32 of (a - zero_a) * (b - zero_b). Zero points broadcast with their matrices, and are the same along the
// axis that is summed over; null: 0. Of constant bytes b the sums are those of a * b, less what the zero points add to
// them, so that the kernel multiplies what is stored; other matrices are centred first.
Operand IntegerProduct(NodeContext& c, Operand a, Operand zero_a, Operand b, Operand zero_b);

// Element `index` of the first axis of a constant, a constant; of anything else a slice.
Operand ElementOfConstant(NodeContext& c, Operand x, int64_t index);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_INTEGER_PRODUCT_H_
