// Rewrites of a computation before it is scheduled.
#ifndef RVM_KERNELS_SCHEDULE_REWRITE_TENSORS_H_
#define RVM_KERNELS_SCHEDULE_REWRITE_TENSORS_H_

#include <functional>

#include "kernels/te/expr_pool.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// Calls `change` with each computed tensor, producers first; its reads are of changed tensors already. `change` returns
// what stands in its place, of the same dtype and extents, or the tensor itself.
te::Computation RewriteTensors(const te::Computation& computation, te::ExprPool& pool,
                               const std::function<te::Tensor(const te::Tensor&)>& change);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_REWRITE_TENSORS_H_
