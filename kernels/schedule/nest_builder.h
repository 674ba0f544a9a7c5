// From a computation to loop nests, for any target.
#ifndef RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
#define RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_

#include "absl/status/status.h"
#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Fills in symbols, values, pool, tensors, nests, and the buffers of the outputs.
// kInvalidArgument if an extent does not follow from the inputs.
absl::Status BuildNests(const te::Computation& computation, Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_NEST_BUILDER_H_
