// Boxes (batch, boxes, ...): how much they overlap, and those for which a condition holds.
#ifndef RVM_COMPILER_OPS_BOXES_H_
#define RVM_COMPILER_OPS_BOXES_H_

#include <functional>

#include "compiler/ops/ordering.h"
#include "kernels/te/tensor.h"

namespace rvm::ops {

// The coordinates of a box: least of axis 0, least of axis 1, greatest of axis 0, greatest of axis 1.
using Corners = std::function<te::Expr(size_t which)>;

// The area that two boxes share divided by the area that they cover; 0 if they cover none. `unit` is added to each
// length: 1 for boxes of whole pixels, whose last ones belong to them.
te::Expr Overlap(const Corners& a, const Corners& b, const te::Expr& unit);

using BoxCondition = std::function<te::Expr(const te::Expr& batch, const te::Expr& box)>;

// For each batch, of `dims[0]`, how many of its `dims[1]` boxes a condition holds for.
te::Tensor CountWhere(const Dims& dims, const BoxCondition& holds);
// The boxes for which a condition holds before the others.
Order OrderWhere(const Dims& dims, const BoxCondition& holds);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_BOXES_H_
