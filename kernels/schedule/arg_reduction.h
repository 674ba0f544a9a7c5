// Splits an argmax or argmin into two reductions that vectorise: the extreme, then the first (or last) position that
// holds it. Values that rounding may make different in the two are left alone.
#ifndef RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_
#define RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_

#include "kernels/te/tensor.h"

namespace rvm::schedule {

te::Computation SplitArgReductions(const te::Computation& computation);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_ARG_REDUCTION_H_
