// What the computations of several operators are put together from.
#ifndef RVM_COMPILER_OPS_COMPUTE_HELPERS_H_
#define RVM_COMPILER_OPS_COMPUTE_HELPERS_H_

#include <functional>
#include <span>
#include <vector>

#include "compiler/ops/op_def.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

// `axis` in [-rank, rank), checked by the relation, as [0, rank).
size_t Normal(int64_t axis, size_t rank);

// The dtype sums of `dtype` are made in: float32 for the half types.
DataType Accumulator(DataType dtype);
// The dtype in which `count` elements of `dtype`, or a number of them that is not known, are summed: float64 for floats
// that are more than 1024. Then the error of a float32 sum does not grow with its length.
DataType SumAccumulator(DataType dtype, const Dim& count);
te::Tensor CastTensor(const te::Tensor& tensor, DataType dtype);

// Row-major: the number of an element, and the element of a number.
te::Expr FlatIndex(std::span<const te::Expr> indices, const Dims& dims);
std::vector<te::Expr> Unflatten(te::Expr flat, const Dims& dims);
te::Expr AtFlat(const te::Tensor& tensor, te::Expr flat);
Dim Volume(const Dims& dims);

// The same elements in another shape, of an operator that is that.
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

// `indices` with one of them replaced.
std::vector<te::Expr> With(std::span<const te::Expr> indices, size_t axis, te::Expr index);

// 0 <= index < extent.
te::Expr InRange(const te::Expr& index, const Dim& extent);
te::Expr And(te::Expr a, te::Expr b);
te::Expr Equal(te::Expr a, te::Expr b);
te::Expr Less(te::Expr a, te::Expr b);
// An element of `indices`; negative ones count from the end of `extent`.
te::Expr FromEnd(const te::Tensor& indices, std::span<const te::Expr> at, const Dim& extent);
// `index` moved into [0, extent - 1].
te::Expr Clamp(const te::Expr& index, const Dim& extent);
// `index`, up to one extent outside, mirrored at the edges, which repeat `edge` (0 or 1) times; then clamped.
te::Expr Mirrored(const te::Expr& index, const Dim& extent, int64_t edge);
// `value`, whose reads are in bounds unless `extent` is 0; then zero. No test where the extent is known.
te::Expr UnlessEmpty(const Dim& extent, te::Expr value);

// The nearest integer, halves away from zero; the scalar operation kRound takes them to even numbers.
te::Expr RoundHalfAway(const te::Expr& x);

// The least and the greatest value of a dtype (infinities for floats).
te::Expr Lowest(DataType dtype);
te::Expr Highest(DataType dtype);

// Reduces `body` over indices of `extents` to a tensor of `dims`.
te::Tensor ReduceOver(
    te::ReduceOp op, DataType dtype, const Dims& dims, const Dims& extents,
    const std::function<te::Expr(std::span<const te::Expr> outer, std::span<const te::Expr> inner)>& body);

// Reduces `body` along one axis of `dims`, which keeps extent 1.
te::Tensor ReduceAxis(te::ReduceOp op, DataType dtype, const Dims& dims, size_t axis,
                      const std::function<te::Expr(std::span<const te::Expr>)>& body);
// `tensor` at `indices`, at 0 along `axis`.
te::Expr AtZero(const te::Tensor& tensor, std::span<const te::Expr> indices, size_t axis);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_COMPUTE_HELPERS_H_
