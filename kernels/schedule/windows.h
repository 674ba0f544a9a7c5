// Folds over windows that slide along rows, as poolings are, in two steps.
#ifndef RVM_KERNELS_SCHEDULE_WINDOWS_H_
#define RVM_KERNELS_SCHEDULE_WINDOWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/te/expr_pool.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// A fold over windows that slide along the last axis of a nest, which is computed in two steps: first a row of the
// places that windows cover, each folded over all axes of the reduction but the last; then, for each window, the places
// of that row in it. A place is shared by all windows that overlap there, and vectors of the first step lie side by
// side in memory whatever the stride is.
struct Windows {
  // Positions of a variable that have a value: from each of `begins` on, and below each of `ends`. Elsewhere the value
  // is the identity of the fold.
  struct Limits {
    te::IndexVar variable;
    std::vector<te::Expr> begins = {}, ends = {};
  };

  // Distance of the places of the first and the last step of a window.
  int64_t reach() const { return (steps - 1) * dilation; }

  te::IndexVar place;  // window * stride + step * dilation, where a window is a position of the nest's last axis
  int64_t stride = 1, dilation = 1;
  int64_t steps = 1;           // the extent of the last axis of the reduction
  te::Expr value;              // at a place, and at a position of the other axes of the reduction
  std::vector<Limits> limits;  // of the place, then of each other axis of the reduction
};

// Returns nullopt if the reduction of a nest over `axes`, or of a tensor with these, is no such fold.
std::optional<Windows> FindWindows(te::ExprPool& pool, const std::vector<te::IndexVar>& axes,
                                   const te::ExprNode& reduce);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_WINDOWS_H_
