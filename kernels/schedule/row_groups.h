// Groups of nests that run together, some rows at a time, so that what one of them reads or writes is still in a cache
// when the next one needs it: softmax and the norms pass over memory once or twice. On a GPU they are one launch.
#ifndef RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_
#define RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Divides the nests among groups; a group of one nest is run as a whole. Call after the form of each nest is decided.
void PlanRowGroups(Schedule& schedule);

// Returns true if `offset` addresses the row of `tensor` selected by `axis`.
bool IsInRow(te::ExprPool& pool, const te::Expr& offset, const te::Tensor& tensor, const te::IndexVar& axis);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_
