// Finds nests that read along another axis than they store.
#ifndef RVM_KERNELS_SCHEDULE_TRANSPOSITION_H_
#define RVM_KERNELS_SCHEDULE_TRANSPOSITION_H_

#include <cstddef>
#include <optional>

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Returns whether the innermost axis is so short that vectors run along the one outside of it, and interleave.
bool IsInterleaved(const te::IndexVar& innermost);

// Returns the axis along which the reads of the nest are contiguous, if that is not the innermost one.
std::optional<size_t> TransposedAxis(const LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_TRANSPOSITION_H_
