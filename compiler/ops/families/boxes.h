// Overlap and selection of boxes (batch, boxes, ...).
#ifndef RVM_COMPILER_OPS_FAMILIES_BOXES_H_
#define RVM_COMPILER_OPS_FAMILIES_BOXES_H_

#include <functional>
#include <span>

#include "compiler/ops/families/ordering.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

// The coordinates of a box: minimum of axis 0, minimum of axis 1, maximum of axis 0, maximum of axis 1.
using Corners = std::function<te::Expr(size_t which)>;

// Intersection over union of two boxes; 0 if the union is empty. `unit` is added to each length: 1 if the maxima are
// pixels that belong to the box, else 0.
te::Expr Overlap(const Corners& a, const Corners& b, const te::Expr& unit);

using BoxCondition = std::function<te::Expr(const te::Expr& batch, const te::Expr& box)>;

// For each of the `dims[0]` batches, the number of its `dims[1]` boxes for which a condition holds.
te::Tensor CountWhere(const Dims& dims, const BoxCondition& holds);
// Returns a stable order of the boxes of each batch: first those for which a condition holds.
Order OrderWhere(const Dims& dims, const BoxCondition& holds);

// Non-maximum suppression of rows of boxes in the order of their scores: for each box 0 if it is kept, that is, if it
// conflicts with no better box that is kept.
te::Tensor Conflicts(
    const Dims& dims,
    const std::function<te::Expr(std::span<const te::Expr> lane, const te::Expr& box, const te::Expr& better)>& holds);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_BOXES_H_
