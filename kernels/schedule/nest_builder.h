// Builds the loop nests of a computation, independent of the target.
#ifndef RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
#define RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_

#include "absl/status/status.h"
#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Sets symbols, values, pool, tensors, nests, and the buffers of the outputs. Returns kInvalidArgument if an extent is
// not determined by the inputs.
absl::Status BuildNests(const te::Computation& computation, Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
