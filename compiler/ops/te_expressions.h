// te expressions and tensors that several operators build their computations from.
#ifndef RVM_COMPILER_OPS_TE_EXPRESSIONS_H_
#define RVM_COMPILER_OPS_TE_EXPRESSIONS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

// The vocabulary of computations.
using te::BinaryOp;
using te::Expr;
using te::ReduceOp;
using te::Tensor;
using te::UnaryOp;
using Indices = std::span<const Expr>;

// `axis` in [-rank, rank), checked by the relation, as [0, rank).
size_t Normal(int64_t axis, size_t rank);

// Returns the dtype in which `dtype` is summed: float32 for float16 and bfloat16.
DataType Accumulator(DataType dtype);
// Returns the dtype in which `count` elements of `dtype` are summed: float64 for more than 1024 floats, or an unknown
// number of them, so that the error of a float32 sum does not grow with its length.
DataType SumAccumulator(DataType dtype, const Dim& count);
te::Tensor CastTensor(const te::Tensor& tensor, DataType dtype);

// Conversions between indices and the row-major number of an element.
te::Expr FlatIndex(std::span<const te::Expr> indices, const Dims& dims);
std::vector<te::Expr> Unflatten(te::Expr flat, const Dims& dims);
te::Expr AtFlat(const te::Tensor& tensor, te::Expr flat);
Dim Volume(const Dims& dims);

// Compute of a reshape, and the OpDef of one.
std::vector<te::Tensor> ComputeReshape(const ComputeContext& context);
constexpr OpDef View(std::string_view name, std::string_view summary, std::span<const Input> inputs,
                     std::span<const AttrSpec> attrs, TypeRelation relation) {
  return {.name = name,
          .summary = summary,
          .inputs = inputs,
          .attrs = attrs,
          .type_relation = relation,
          .fusion = FusionClass::kInjective,
          .compute = ComputeReshape,
          .is_reshape = true};
}

// `indices` with the one of `axis` replaced.
std::vector<te::Expr> With(std::span<const te::Expr> indices, size_t axis, te::Expr index);

// 0 <= index < extent.
te::Expr InRange(const te::Expr& index, const Dim& extent);
te::Expr And(te::Expr a, te::Expr b);
te::Expr Equal(te::Expr a, te::Expr b);
te::Expr Less(te::Expr a, te::Expr b);
// indices[at], where negative values count from the end of `extent`.
te::Expr FromEnd(const te::Tensor& indices, std::span<const te::Expr> at, const Dim& extent);
// `index` clamped to [0, extent - 1].
te::Expr Clamp(const te::Expr& index, const Dim& extent);
// `index`, at most one extent out of range, mirrored at the edges, then clamped. `edge` is 1 if the edge element is
// repeated, else 0.
te::Expr Mirrored(const te::Expr& index, const Dim& extent, int64_t edge);
// `value`, or zero if `extent` is 0. For values whose reads are out of bounds if `extent` is 0. Emits no test if the
// extent is a nonzero constant.
te::Expr UnlessEmpty(const Dim& extent, te::Expr value);

// Returns the nearest integer, halves away from zero. UnaryOp::kRound rounds halves to even.
te::Expr RoundHalfAway(const te::Expr& x);

// Returns the least and the greatest value of a dtype (infinities for floats).
te::Expr Lowest(DataType dtype);
te::Expr Highest(DataType dtype);

// Reduces `body` over indices of `extents` to a tensor of `dims`.
te::Tensor ReduceOver(
    te::ReduceOp op, DataType dtype, const Dims& dims, const Dims& extents,
    const std::function<te::Expr(std::span<const te::Expr> outer, std::span<const te::Expr> inner)>& body);

// Reduces `body` along one axis of `dims`, whose extent becomes 1.
te::Tensor ReduceAxis(te::ReduceOp op, DataType dtype, const Dims& dims, size_t axis,
                      const std::function<te::Expr(std::span<const te::Expr>)>& body);
// `tensor` at `indices`, with 0 for `axis`.
te::Expr AtZero(const te::Tensor& tensor, std::span<const te::Expr> indices, size_t axis);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_TE_EXPRESSIONS_H_
