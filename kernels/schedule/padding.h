// Moves the bounds tests of sliding windows out of reductions.
#ifndef RVM_KERNELS_SCHEDULE_PADDING_H_
#define RVM_KERNELS_SCHEDULE_PADDING_H_

#include "kernels/te/tensor.h"

namespace rvm::schedule {

// A window that hangs over the edge reads `inside ? data[i * stride + k - pad] : zero`, a branch for each element of
// each window. Here such reads become plain reads of a padded copy of the data, a tensor of its own.
te::Computation HoistPadding(const te::Computation& computation);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_PADDING_H_
