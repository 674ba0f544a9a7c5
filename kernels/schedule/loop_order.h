// The order of loops.
#ifndef RVM_KERNELS_SCHEDULE_LOOP_ORDER_H_
#define RVM_KERNELS_SCHEDULE_LOOP_ORDER_H_

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Moves axes next to the innermost one along which the nest reads the same lines of memory again: the same elements, or
// those between the elements that it reads, if what it reads in the meantime does not fit the caches. REQUIRES: the
// positions of the nest may run in any order.
void OrderAxes(te::ExprPool& pool, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_LOOP_ORDER_H_
