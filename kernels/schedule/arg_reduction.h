// Where the greatest or least element is, as two reductions that vectorise: the extreme, then the first place (or the
// last) that holds it. Not of values that rounding may make different in the two.
#ifndef RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_
#define RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_

#include "kernels/te/tensor.h"

namespace rvm::schedule {

te::Computation SplitArgReductions(const te::Computation& computation);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_
