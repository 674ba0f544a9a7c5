// Finds sums of products and chooses their register tiles.
#ifndef RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_
#define RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_

#include <optional>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// How tensors[0] of the nest is computed in register tiles; nullopt if it is no sum of products, or tiles do not pay.
std::optional<Tile> PlanTile(const Schedule& schedule, const LoopNest& nest);

// The nest that copies the vector factor of `nest` into panels in workspace; sets tile->panels.
// REQUIRES: the tile reads panels that are not a constant input.
LoopNest MakePanels(Schedule& schedule, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_
