// Copies of the factors of a register tile, in the form in which it reads them.
#ifndef RVM_KERNELS_SCHEDULE_FACTOR_COPIES_H_
#define RVM_KERNELS_SCHEDULE_FACTOR_COPIES_H_

#include <optional>
#include <vector>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Returns the nest that copies the vector factor of `nest` into panels in workspace; sets tile->panels.
// REQUIRES: the tile reads panels that are not a constant input.
LoopNest MakePanels(Schedule& schedule, LoopNest& nest);

// Returns the nest that copies the broadcast factor of `nest` into panels of rows in workspace, where that pays; sets
// tile->row_panels and the factor. It pays where many columns are multiplied by what is copied, and where either each
// step of a deep tile would read other lines of memory, or the factor is converted from float16 or bfloat16.
std::optional<LoopNest> MakeRowPanels(Schedule& schedule, LoopNest& nest);

// Pairs of bytes that many vectors are multiplied by are read from int16, in which a pair is one load. `planned`: the
// nests that run before `nest`; one of them stores the factor so if nothing else reads it, otherwise one that copies it
// is added, for all nests that follow.
// REQUIRES: schedule.nests are as they were built, without the changes that planning makes.
void WidenBroadcast(Schedule& schedule, std::vector<LoopNest>& planned, LoopNest& nest);

// Makes the broadcast factor of `nest` a read of its constant in the layout that tile->packed_rows states, if it does.
void PackRows(Schedule& schedule, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_FACTOR_COPIES_H_
