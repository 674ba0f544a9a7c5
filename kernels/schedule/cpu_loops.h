// Decisions about the loops of nests on a CPU that depend on the whole schedule: which conditions stand around the
// innermost loop, which stores bypass the caches, and how much work a nest is.
#ifndef RVM_KERNELS_SCHEDULE_CPU_LOOPS_H_
#define RVM_KERNELS_SCHEDULE_CPU_LOOPS_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Sets LoopNest::{unswitched, streamed, work} of all nests. REQUIRES: the schedule is complete otherwise.
void PlanLoops(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_CPU_LOOPS_H_
