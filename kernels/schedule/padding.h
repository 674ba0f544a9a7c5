// Moves the bounds tests of sliding windows out of reductions.
#ifndef RVM_KERNELS_SCHEDULE_PADDING_H_
#define RVM_KERNELS_SCHEDULE_PADDING_H_

#include "kernels/schedule/target.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// Windows that extend past the edge read `inside ? data[i * stride + k - pad] : zero`, which branches for each element
// of each window. Replaces such reads by unconditional reads of a padded copy of the data. A copy of bytes has columns
// behind the last window, so that the positions of a row of a window are read in whole steps (Tile::whole_steps).
te::Computation HoistPadding(const te::Computation& computation, const Target& target);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_PADDING_H_
