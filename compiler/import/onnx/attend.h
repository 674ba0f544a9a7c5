// Attention of several heads, as the operators of com.microsoft have it.
#ifndef RVM_COMPILER_IMPORT_ONNX_ATTEND_H_
#define RVM_COMPILER_IMPORT_ONNX_ATTEND_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {

// (batch, steps, heads * size) as (batch, steps, heads, size).
Operand HeadsOf(NodeContext& c, Operand x, int64_t heads);
// (batch, steps, heads, size) as (batch, heads, steps, size), or the other way round.
Operand HeadsOutside(NodeContext& c, Operand x);
// (batch, heads, steps, size) as (batch, steps, heads * size).
Operand JoinHeads(NodeContext& c, Operand x);

// x, (batch, steps, heads, size), with the first elements of each head rotated by angles whose cosine and sine are
// (batch, steps, half), batch maybe 1: as many elements as both have together.
Operand Rotated(NodeContext& c, Operand x, Operand cosine, Operand sine, bool interleaved);

// x / sqrt(the mean of x * x + epsilon) * weight over the axes from `axis` on, and 1 / that root.
struct RootMeanSquare {
  Operand y, inverse;
};
RootMeanSquare NormaliseByRoot(NodeContext& c, Operand input, Operand weight, int64_t axis, double epsilon);

struct AttendOptions {
  double scale = 0;  // of products; 0: 1 / sqrt(size)
  double softcap = 0;
  Operand bias = nullptr;  // added to products
  Operand sink = nullptr;  // by head: a further product, of a key without a value
};
// The values that queries attend to: all are (batch, heads, steps, size). Heads of queries may be a multiple of those
// of keys and values.
Operand Attend(NodeContext& c, Operand query, Operand key, Operand value, const AttendOptions& options);

// 0 where `condition` holds, else `otherwise`.
Operand BiasWhere(NodeContext& c, Operand condition, double otherwise);
// The bias of input `mask` for keys: lengths (batch), or (batch, keys) or (batch, steps, keys) with 0 for keys that are
// hidden; null if it is left out.
Operand KeyMask(NodeContext& c, size_t mask, const Dim& batch, const Dim& keys);
// The bias that hides keys behind the step of a query, which is `past` for the first one.
Operand CausalMask(NodeContext& c, const Dim& steps, const Dim& keys, const Dim& past);

// Attention to itself of what was projected to queries, keys and values side by side, by the node's attributes:
// the output and (2, batch, heads, keys, size), the keys and values. `mask`, `past`: the numbers of these inputs.
Operands AttendToProjection(NodeContext& c, Operand projected, size_t mask, size_t past, Operand bias);

}  // namespace rvm::onnx::convert

#endif  // RVM_COMPILER_IMPORT_ONNX_ATTEND_H_
