// Merging of two neighbouring axes of a nest that walk through a plane which every tensor of the nest has.
#ifndef RVM_KERNELS_SCHEDULE_MERGE_AXES_H_
#define RVM_KERNELS_SCHEDULE_MERGE_AXES_H_

#include <cstddef>
#include <optional>

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// The nest with axes `outer` and `outer + 1` as one, where all its expressions use them only in
// `(first * extent + outer) * extent + inner`; `first` may be another in each, such as a channel of the image and one
// of the result of a 1x1 convolution. nullopt if they do not (CollapseAxes merges only if it is one for all).
std::optional<LoopNest> WithMergedAxes(te::ExprPool& pool, const LoopNest& nest, size_t outer);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_MERGE_AXES_H_
