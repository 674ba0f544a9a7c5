// Groups of nests that run together, some rows at a time, so that what one of them reads or writes is still in a cache
// when the next one needs it: softmax and the norms pass over memory once or twice. On a GPU they are one launch.
#ifndef RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_
#define RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_

#include <optional>
#include <span>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Divides the nests among groups; a group of one nest is run as a whole. Call after the form of each nest is decided.
void PlanRowGroups(Schedule& schedule);

// Returns the elements of one row of the tensor, if its first axes count `rows` rows; nullopt if they do not.
std::optional<Dim> RowSize(const te::Tensor& tensor, const Dim& rows);

// Returns true if `offset` addresses the row of `tensor` that the axes select.
bool IsInRow(te::ExprPool& pool, const te::Expr& offset, const te::Tensor& tensor, std::span<const te::IndexVar> axes);

// Returns whether the nest reads the tensor, as panels too.
bool Reads(const LoopNest& nest, const te::Tensor& tensor);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_ROW_GROUPS_H_
