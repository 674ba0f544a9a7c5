// Short axes whose elements are computed at once.
#ifndef RVM_KERNELS_SCHEDULE_UNROLLED_AXES_H_
#define RVM_KERNELS_SCHEDULE_UNROLLED_AXES_H_

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Takes the short axes on whose number the nest's formula depends, such as those of a Winograd transform, out of the
// nest: a position computes all elements along them, in code without branches, if these share most of their work.
// Returns whether there are such axes. REQUIRES: the nest has no reduction, and its positions may run in any order.
bool UnrollAxes(te::ExprPool& pool, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_UNROLLED_AXES_H_
