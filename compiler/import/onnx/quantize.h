// Integers with a scale and a zero point as floats, and back.
#ifndef RVM_COMPILER_IMPORT_ONNX_QUANTIZE_H_
#define RVM_COMPILER_IMPORT_ONNX_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// Returns the nearest number that `dtype` has to x + zero_point; null: 0.
Operand Saturate(NodeContext& c, Operand x, Operand zero_point, DataType dtype);

// Input `i` in float32, whose scale and zero point are the next two inputs, one number each; a zero point that is left
// out is 0.
Operand Dequantised(NodeContext& c, size_t i);
// x as integers of `dtype`. Input `scale` is the scale, and the next one the zero point.
Operand Requantised(NodeContext& c, Operand x, size_t scale, DataType dtype);

// x in uint8, as DynamicQuantizeLinear has it.
struct DynamicForm {
  Operand values, scale, zero_point;
};
DynamicForm QuantisedDynamically(NodeContext& c, Operand x);

// Returns a zero point of x, input number `zero_point`, as it broadcasts with x; null if there is none. `axis`: the one
// of a vector of zero points.
Operand ZeroPoint(NodeContext& c, Operand x, size_t zero_point, int64_t axis);
// Returns a scale of the factor x of a product with `other`, as it broadcasts with the product. `axis`: the one of x
// that a vector of scales is for.
Operand ScaleOfProduct(NodeContext& c, Operand scale, Operand x, int64_t axis, Operand other);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_QUANTIZE_H_
