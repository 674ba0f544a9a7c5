// Divides reductions that have too few results to occupy a GPU.
#ifndef RVM_KERNELS_SCHEDULE_REDUCTION_PARTS_H_
#define RVM_KERNELS_SCHEDULE_REDUCTION_PARTS_H_

#include <cstdint>
#include <optional>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Makes `nest` reduce the results of parts of about `elements` elements each, and returns the nest that computes the
// parts. They and the order in which they are merged depend on the extents alone. Returns nullopt and leaves `nest`
// unchanged for argmin and argmax, for partial results that would be rounded to 16 bits, and for unknown extents.
// REQUIRES: nest.reduction() != nullptr.
std::optional<LoopNest> SplitIntoParts(Schedule& schedule, LoopNest& nest, int64_t elements);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_REDUCTION_PARTS_H_
