// Ranges of an axis on which comparisons of positions have one value, and minima and maxima are one of their operands:
// in a concatenation its parts, in a padded tensor the border and the inside. A loop for each range has no condition,
// and needs none for its reads to be safe.
#ifndef RVM_KERNELS_SCHEDULE_AXIS_RANGES_H_
#define RVM_KERNELS_SCHEDULE_AXIS_RANGES_H_

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Sets `ranges` of the nest where its extents are known and the loops do not become too many. Ranges with nothing left
// to decide are one.
void PlanAxisRanges(LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_AXIS_RANGES_H_
