// Scheduling decisions for a CPU with vectors: the form of each nest, its tiles, and the panels that its tiles read.
#ifndef RVM_KERNELS_SCHEDULE_CPU_SCHEDULE_H_
#define RVM_KERNELS_SCHEDULE_CPU_SCHEDULE_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Chooses the form of every nest of `schedule`, and inserts nests that copy factors into panels.
// REQUIRES: BuildNests was called, and PlanWorkspace was not.
void PlanForCpu(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_CPU_SCHEDULE_H_
