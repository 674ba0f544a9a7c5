// Builds the loop nests of a computation, independent of the target.
#ifndef RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
#define RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_

#include "absl/status/status.h"
#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Sets symbols, values, pool, tensors, nests, updates, and the buffers of the outputs. Returns kInvalidArgument if an
// extent is not determined by the inputs. REQUIRES: the schedule has a computation, constant inputs and a target.
absl::Status BuildNests(Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
