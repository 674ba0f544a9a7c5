// Where the tensors of a schedule lie.
#ifndef RVM_KERNELS_SCHEDULE_BUFFERS_H_
#define RVM_KERNELS_SCHEDULE_BUFFERS_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Gives the stored tensors that are no outputs a place in workspace.
void PlanWorkspace(Schedule& schedule);
// Which outputs may lie where inputs lie.
void FindReuses(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BUFFERS_H_
