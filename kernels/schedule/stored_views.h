// Matmuls whose results are stored transposed.
#ifndef RVM_KERNELS_SCHEDULE_STORED_VIEWS_H_
#define RVM_KERNELS_SCHEDULE_STORED_VIEWS_H_

#include "kernels/te/expr_pool.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// Replaces a view of a sum of products, as a transposition is, by that sum at the places of the view, if nothing else
// reads the sum. What is computed from the sum position by position moves along. The rows and the columns of the
// product stay axes of the result, and the last axis of the result is one of them.
te::Computation StoreViewsOfProducts(const te::Computation& computation, te::ExprPool& pool);

// Returns the tensor whose elements `tensor` has, in the same order in memory, as a reshape has; null if there is none.
te::Tensor BaseInSamePlace(const te::Tensor& tensor, te::ExprPool& pool);

// Returns whether the elements of the tensor are those of another one, at places that are sums of multiples of its
// indices. It costs a reader nothing to read these places itself.
bool IsStridedView(const te::Tensor& tensor, te::ExprPool& pool);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_STORED_VIEWS_H_
