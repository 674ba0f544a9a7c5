#include "compiler/ops/te_expressions.h"

#include <cstdint>
#include <limits>
#include <utility>

namespace rvm::ops {

size_t Normal(int64_t axis, size_t rank) {
  return static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
}

DataType Accumulator(DataType dtype) { return dtype.is_small_float() ? kFloat32 : dtype; }

DataType SumAccumulator(DataType dtype, const Dim& count) {
  constexpr int64_t kMaxInFloat32 = 1024;
  bool is_short = count.is_const() && count.constant() <= kMaxInFloat32;
  return dtype.is_float() && !is_short ? kFloat64 : Accumulator(dtype);
}

Tensor CastTensor(const Tensor& tensor, DataType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  return te::ComputeTensor("cast", dtype, tensor.dims(),
                           [&](std::span<const Expr> i) { return te::Cast(dtype, tensor(i)); });
}

Expr FlatIndex(std::span<const Expr> indices, const Dims& dims) {
  Expr flat = te::Index(0);
  for (size_t axis = 0; axis < dims.size(); ++axis) flat = flat * te::DimValue(dims[axis]) + indices[axis];
  return flat;
}

std::vector<Expr> Unflatten(Expr flat, const Dims& dims) {
  std::vector<Expr> indices(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    Expr extent = te::DimValue(dims[axis]);
    indices[axis] = axis == 0 ? flat : te::Binary(BinaryOp::kFloorMod, flat, extent);
    if (axis > 0) flat = te::Binary(BinaryOp::kFloorDivide, flat, extent);
  }
  return indices;
}

Expr AtFlat(const Tensor& tensor, Expr flat) { return tensor(Unflatten(std::move(flat), tensor.dims())); }

std::vector<Tensor> ComputeReshape(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("reshape", out.dtype, out.dims,
                            [&](std::span<const Expr> i) { return AtFlat(data, FlatIndex(i, out.dims)); })};
}

Dim Volume(const Dims& dims) {
  // The constants come last, as one, so that quotients of volumes simplify.
  Dim volume = 1, constant = 1;
  for (const Dim& dim : dims) (dim.is_const() ? constant : volume) = (dim.is_const() ? constant : volume) * dim;
  return volume * constant;
}

std::vector<Expr> With(std::span<const Expr> indices, size_t axis, Expr index) {
  std::vector<Expr> result(indices.begin(), indices.end());
  result[axis] = std::move(index);
  return result;
}

Expr And(Expr a, Expr b) { return te::Binary(BinaryOp::kAnd, std::move(a), std::move(b)); }
Expr Equal(Expr a, Expr b) { return te::Binary(BinaryOp::kEqual, std::move(a), std::move(b)); }
Expr Less(Expr a, Expr b) { return te::Binary(BinaryOp::kLess, std::move(a), std::move(b)); }

Expr FromEnd(const Tensor& indices, std::span<const Expr> at, const Dim& extent) {
  Expr index = te::Cast(kInt64, indices(at));
  return te::Select(Less(index, te::Index(0)), index + te::DimValue(extent), index);
}

Expr InRange(const Expr& index, const Dim& extent) {
  return And(te::Binary(BinaryOp::kGreaterEqual, index, te::Index(0)), Less(index, te::DimValue(extent)));
}

Expr Clamp(const Expr& index, const Dim& extent) {
  bool is_byte = index->kind == te::ExprKind::kCast && index->operands[0].dtype() == kUInt8;
  if (is_byte && extent.is_const() && extent.constant() > std::numeric_limits<uint8_t>::max()) return index;
  Expr last = te::DimValue(extent) - te::Index(1);
  return te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, index, last), te::Index(0));
}

Expr Mirrored(const Expr& index, const Dim& extent, int64_t edge) {
  Expr last = te::DimValue(extent) - te::Index(1);
  Expr inner = te::Select(Less(index, te::Index(0)), te::Index(-edge) - index, index);
  return Clamp(te::Select(Less(last, inner), last + last + te::Index(edge) - inner, inner), extent);
}

Expr UnlessEmpty(const Dim& extent, Expr value) {
  if (extent.is_const() && extent.constant() > 0) return value;
  DataType dtype = value.dtype();
  return te::Select(Less(te::Index(0), te::DimValue(extent)), std::move(value), te::Const(dtype, 0));
}

// Adds the greatest number below one half: halves reach the next integer, and nothing below them does. A result of zero
// has the sign of x.
Expr RoundHalfAway(const Expr& x) {
  DataType dtype = x.dtype();
  if (!dtype.is_float()) return x;
  DataType wide = Accumulator(dtype);
  Expr value = te::Cast(wide, x), zero = te::Const(wide, 0);
  Expr half = te::FloatConst(wide, wide == kFloat64 ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2);
  Expr rounded = te::Unary(te::UnaryOp::kTrunc, te::Select(Less(value, zero), value - half, value + half));
  return te::Cast(dtype, te::Select(Equal(rounded, zero), value * zero, rounded));
}

Expr Lowest(DataType dtype) {
  if (dtype.is_float()) return te::FloatConst(dtype, -std::numeric_limits<double>::infinity());
  if (!dtype.is_int()) return te::IntConst(dtype, 0);
  return te::IntConst(dtype, std::numeric_limits<int64_t>::min() >> (64 - dtype.bits));
}

Expr Highest(DataType dtype) {
  if (dtype.is_float()) return te::FloatConst(dtype, std::numeric_limits<double>::infinity());
  if (dtype.is_bool()) return te::IntConst(dtype, 1);
  if (!dtype.is_int()) return te::IntConst(dtype, static_cast<int64_t>(~uint64_t{0} >> (64 - dtype.bits)));
  return te::IntConst(dtype, std::numeric_limits<int64_t>::max() >> (64 - dtype.bits));
}

Tensor ReduceOver(te::ReduceOp op, DataType dtype, const Dims& dims, const Dims& extents,
                  const std::function<Expr(std::span<const Expr>, std::span<const Expr>)>& body) {
  return te::ComputeTensor("reduce", dtype, dims, [&](std::span<const Expr> outer) {
    return te::Reduce(op, extents, [&](std::span<const Expr> inner) { return body(outer, inner); });
  });
}

Tensor ReduceAxis(te::ReduceOp op, DataType dtype, const Dims& dims, size_t axis,
                  const std::function<Expr(std::span<const Expr>)>& body) {
  Dims kept = dims;
  kept[axis] = 1;
  return ReduceOver(op, dtype, kept, {dims[axis]}, [&](std::span<const Expr> outer, std::span<const Expr> inner) {
    return body(With(outer, axis, inner[0]));
  });
}

Expr AtZero(const Tensor& tensor, std::span<const Expr> indices, size_t axis) {
  return tensor(With(indices, axis, te::Index(0)));
}

}  // namespace rvm::ops
