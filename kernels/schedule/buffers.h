// Assigns memory to the tensors of a schedule.
#ifndef RVM_KERNELS_SCHEDULE_BUFFERS_H_
#define RVM_KERNELS_SCHEDULE_BUFFERS_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Allocates workspace for the stored tensors that are not outputs.
void PlanWorkspace(Schedule& schedule);
// Finds the outputs that may reuse the memory of inputs.
void FindReuses(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BUFFERS_H_
