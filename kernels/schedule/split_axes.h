// Splits axes that a nest divides by constants.
#ifndef RVM_KERNELS_SCHEDULE_SPLIT_AXES_H_
#define RVM_KERNELS_SCHEDULE_SPLIT_AXES_H_

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Splits an axis that the nest divides by a constant, as grouped convolutions divide channels, transposed ones and
// reshapes positions, into the quotient's axis and the remainder's.
void SplitDividedAxes(te::ExprPool& pool, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_SPLIT_AXES_H_
