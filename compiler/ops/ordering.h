// Computations in an order: sorted keys, running values, the places where something holds.
#ifndef RVM_COMPILER_OPS_ORDERING_H_
#define RVM_COMPILER_OPS_ORDERING_H_

#include <functional>
#include <span>
#include <vector>

#include "kernels/te/tensor.h"

namespace rvm::ops {

// An int64 that orders like x: equal for equal numbers, for 0 and -0, and for all NaNs, which come last either way.
te::Expr SortKey(const te::Expr& x, bool ascend);

// The lines of a tensor along one axis in the order of their keys; equal keys keep their order.
class Order {
 public:
  Order(const Dims& dims, size_t axis, const std::function<te::Expr(std::span<const te::Expr> at)>& key);

  // The key, and the place along the axis where it stood, that is the at[axis]-th in order.
  te::Expr KeyAt(std::span<const te::Expr> at) const { return Row(0, at); }
  te::Expr PlaceAt(std::span<const te::Expr> at) const { return Row(1, at); }

 private:
  te::Expr Row(int64_t row, std::span<const te::Expr> at) const;

  te::Tensor rows_;
  size_t axis_;
};

// Elements computed one after the other along `axis`: `value` gets the one before, and `initial` at the first.
te::Tensor Running(const Dims& dims, size_t axis, const te::Expr& initial,
                   const std::function<te::Expr(std::span<const te::Expr> at, const te::Expr& before)>& value);

// The places of [0, size) where a condition holds.
class Places {
 public:
  Places(const Dim& size, const std::function<te::Expr(const te::Expr& place)>& holds);

  // The first of them at `from`, which is not negative, or behind; `size` if there is none.
  te::Expr NextAt(const te::Expr& from) const;
  // The first `count` of them in ascending order, then `size`.
  te::Tensor First(const Dim& count) const;

 private:
  Dim size_;
  te::Tensor next_;  // for each place, the last one first
};

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_ORDERING_H_
