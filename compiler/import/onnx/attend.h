// Masks of attention, as the operators of com.microsoft have them.
#ifndef RVM_COMPILER_IMPORT_ONNX_ATTEND_H_
#define RVM_COMPILER_IMPORT_ONNX_ATTEND_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compiler/import/blocks/attention.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

using importing::Attend;
using importing::AttendOptions;
using importing::BiasWhere;
using importing::HeadsOf;
using importing::HeadsOutside;
using importing::JoinHeads;
using importing::Rotated;

// x / sqrt(the mean of x * x + epsilon) * weight over the axes from `axis` on, and 1 / that root.
struct RootMeanSquare {
  Operand y, inverse;
};
RootMeanSquare NormaliseByRoot(NodeContext& c, Operand input, Operand weight, int64_t axis, double epsilon);

// Returns the bias of input `mask` for keys: lengths (batch), or (batch, keys) or (batch, steps, keys) with 0 for keys
// that are hidden; null if it is left out.
Operand KeyMask(NodeContext& c, size_t mask, const Dim& batch, const Dim& keys);
// Returns the bias that hides keys behind the step of a query, which is `past` for the first one.
Operand CausalMask(NodeContext& c, const Dim& steps, const Dim& keys, const Dim& past);

// Attention to itself of what was projected to queries, keys and values side by side, by the node's attributes:
// the output and (2, batch, heads, keys, size), the keys and values. `mask`, `past`: the numbers of these inputs.
Operands AttendToProjection(NodeContext& c, Operand projected, size_t mask, size_t past, Operand bias);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_ATTEND_H_
