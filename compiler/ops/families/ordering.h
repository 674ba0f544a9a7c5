// Sorting, prefix scans, and the positions at which a condition holds.
#ifndef RVM_COMPILER_OPS_FAMILIES_ORDERING_H_
#define RVM_COMPILER_OPS_FAMILIES_ORDERING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/te/tensor.h"

namespace rvm::ops {

// Returns an int64 that orders like x. Equal for equal numbers, for 0 and -0, and for all NaNs, which are above all
// numbers.
te::Expr SortKey(const te::Expr& x, bool ascend);
// An int64 that orders from the greatest to the least, with NaN last: a score that is no number is the worst.
te::Expr ScoreKey(const te::Expr& score);

// The elements of a tensor along one axis in the order of their keys. The sort is stable.
class Order {
 public:
  using Key = std::function<te::Expr(std::span<const te::Expr> at)>;
  Order(const Dims& dims, size_t axis, const Key& key) : Order(dims, axis, dims[axis], key) {}
  // Only the first `first` may be read, which is cheaper than to sort all. REQUIRES: 0 <= first <= dims[axis].
  Order(const Dims& dims, size_t axis, const Dim& first, const Key& key);

  // Returns the key that is at[axis]-th in order, and its original position along the axis.
  te::Expr KeyAt(std::span<const te::Expr> at) const { return Row(0, at); }
  te::Expr PlaceAt(std::span<const te::Expr> at) const { return Row(1, at); }

 private:
  te::Expr Row(int64_t row, std::span<const te::Expr> at) const;

  te::Tensor rows_;
  size_t axis_;
};

// Returns a scan along `axis`: `value` is passed the previous element, `initial` for the first.
te::Tensor Running(const Dims& dims, size_t axis, const te::Expr& initial,
                   const std::function<te::Expr(std::span<const te::Expr> at, const te::Expr& before)>& value);

// The positions in [0, size) at which a condition holds.
class Places {
 public:
  Places(const Dim& size, const std::function<te::Expr(const te::Expr& place)>& holds);

  // Returns the first of them that is at least `from`, or `size`. REQUIRES: from >= 0.
  te::Expr NextAt(const te::Expr& from) const;
  // The first `count` of them in ascending order, padded with `size`.
  te::Tensor First(const Dim& count) const;

 private:
  Dim size_;
  te::Tensor next_;  // next_[i] is NextAt(size - 1 - i)
};

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_ORDERING_H_
