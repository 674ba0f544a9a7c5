// Merging of two neighbouring axes that walk through a plane which every tensor that is read or written has.
#ifndef RVM_KERNELS_SCHEDULE_MERGE_AXES_H_
#define RVM_KERNELS_SCHEDULE_MERGE_AXES_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// Puts `merged`, of the extent of both, for two axes in the expressions `roots`, if these use them only in
// `(first * extent + outer) * extent + inner`; `first`, which may be left out, may be another in each. Empty if
// nothing uses the axes; nullopt if something uses them otherwise.
std::optional<te::Rewrite> MergeOfAxes(te::ExprPool& pool, const te::IndexVar& outer, const te::IndexVar& inner,
                                       const te::IndexVar& merged, const std::vector<te::Expr>& roots);

// Returns the nest with axes `outer` and `outer + 1` as one, if all its expressions allow it: `first` is, for example,
// a channel of the image and one of the result of a 1x1 convolution.
std::optional<LoopNest> WithMergedAxes(te::ExprPool& pool, const LoopNest& nest, size_t outer);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_MERGE_AXES_H_
