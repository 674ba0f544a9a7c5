#include "compiler/ops/families/ordering.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

namespace {

// The dtype by whose bits floats are ordered.
DataType Wide(DataType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

// The greatest integer of as many bits: no key of a number is as great, and keys of float32 differ in 32 bits, with
// NaN.
Expr LastKey(DataType dtype) {
  bool is_double = Wide(dtype) == kFloat64;
  return te::Index(is_double ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max());
}

// The bits of positive floats, as integers, increase with their values; those of negative floats decrease.
Expr FloatKey(const Expr& x) {
  DataType wide = Wide(x.dtype());
  Expr zero = te::FloatConst(wide, 0);
  Expr value = te::Cast(wide, x);
  value = te::Select(Equal(value, zero), zero, value);
  Expr bits = te::Cast(kInt64, te::Bitcast(wide == kFloat64 ? kInt64 : kInt32, value));
  Expr flipped = te::Binary(BinaryOp::kXor, bits, LastKey(wide));  // all bits but the sign
  return te::Select(Less(bits, te::Index(0)), flipped, bits);
}

}  // namespace

Expr SortKey(const Expr& x, bool ascend) {
  DataType dtype = x.dtype();
  Expr key = dtype.is_float() ? FloatKey(x) : te::Cast(kInt64, x);
  if (dtype == kUInt64) key = te::Binary(BinaryOp::kXor, key, te::Index(std::numeric_limits<int64_t>::min()));
  if (dtype.is_float()) key = te::Select(te::Unary(UnaryOp::kIsNan, x), LastKey(dtype), key);
  return ascend ? key : te::Unary(UnaryOp::kBitwiseNot, key);
}

Expr ScoreKey(const Expr& score) {
  Expr key = SortKey(score, /*ascend=*/false);
  return score.dtype().is_float() ? te::Select(te::Unary(UnaryOp::kIsNan, score), LastKey(score.dtype()), key) : key;
}

// The axis is the last one of the sorted tensor, so that each line is a row.
Order::Order(const Dims& dims, size_t axis, const Dim& first, const Key& key) : axis_(axis) {
  Dims rows = dims;
  rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(axis));
  rows.push_back(dims[axis]);
  rows_ = te::OrderTensor("order", rows, first, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end() - 1);
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), i.back());
    return key(at);
  });
}

Expr Order::Row(int64_t row, std::span<const Expr> at) const {
  std::vector<Expr> indices(at.begin(), at.end());
  indices.erase(indices.begin() + static_cast<std::ptrdiff_t>(axis_));
  indices.push_back(te::Index(row));
  indices.push_back(at[axis_]);
  return rows_(indices);
}

Tensor Running(const Dims& dims, size_t axis, const Expr& initial,
               const std::function<Expr(std::span<const Expr>, const Expr&)>& value) {
  return te::ScanTensor("running", initial.dtype(), dims, [&](std::span<const Expr> i, const Tensor& self) {
    Expr before = self(With(i, axis, i[axis] - te::Index(1)));
    return value(i, te::Select(Equal(i[axis], te::Index(0)), initial, before));
  });
}

Places::Places(const Dim& size, const std::function<Expr(const Expr&)>& holds) : size_(size) {
  next_ = Running({size}, 0, te::DimValue(size), [&](std::span<const Expr> i, const Expr& before) {
    Expr place = te::DimValue(size) - te::Index(1) - i[0];
    return te::Select(holds(place), place, before);
  });
}

Expr Places::NextAt(const Expr& from) const {
  Expr size = te::DimValue(size_);
  return te::Select(Less(from, size), next_({size - te::Index(1) - from}), size);
}

Tensor Places::First(const Dim& count) const {
  return Running({count}, 0, te::Index(-1),
                 [&](std::span<const Expr>, const Expr& before) { return NextAt(before + te::Index(1)); });
}

}  // namespace rvm::ops
