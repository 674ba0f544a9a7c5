// The cast of ONNX, which saturates float8.
#ifndef RVM_COMPILER_IMPORT_ONNX_SATURATED_CAST_H_
#define RVM_COMPILER_IMPORT_ONNX_SATURATED_CAST_H_

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// Casts x; to float8, values beyond its range become NaN if the attribute `saturate` is 0.
Operand CastSaturated(NodeContext& c, Operand x, DataType dtype);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_SATURATED_CAST_H_
