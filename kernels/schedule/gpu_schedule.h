// Scheduling decisions for a GPU: which nests share the work of a position among threads, and how.
#ifndef RVM_KERNELS_SCHEDULE_GPU_SCHEDULE_H_
#define RVM_KERNELS_SCHEDULE_GPU_SCHEDULE_H_

#include <vector>

#include "base/dim.h"
#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Chooses the form of every nest of `schedule`. REQUIRES: BuildNests was called.
void PlanForGpu(Schedule& schedule);

// Inserts `tail` behind the nest of the launch, which it has the product of.
void InsertTail(Schedule& schedule, const NestGroup& launch, LoopNest tail);

// Returns the blocks that the nest is divided into, if its form is one of blocks.
Dim Blocks(const LoopNest& nest);
Dim Blocks(const RowTeam& team);
// 1 if threads take neighbouring positions, as LoopNest::elements_per_thread says, else 0. Unknown extents decide at
// run time.
Dim TakesNeighbours(const LoopNest& nest);
// Returns the threads that run the nest.
Dim GridThreads(const LoopNest& nest);

// Returns the launches of a device with a grid of work items, in order.
std::vector<NestGroup> Launches(const Schedule& schedule);
Dim GridThreads(const Schedule& schedule, const NestGroup& launch);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_GPU_SCHEDULE_H_
