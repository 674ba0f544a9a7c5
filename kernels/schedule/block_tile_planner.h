// Plans tiles of sums of products for the blocks of a GPU.
#ifndef RVM_KERNELS_SCHEDULE_BLOCK_TILE_PLANNER_H_
#define RVM_KERNELS_SCHEDULE_BLOCK_TILE_PLANNER_H_

#include <optional>

#include "base/dim.h"
#include "kernels/schedule/loop_nest.h"
#include "kernels/schedule/target.h"

namespace rvm::schedule {

// Returns a matmul or a convolution whose factors are both used often enough to be copied to shared memory;
// nullopt for any other nest.
std::optional<BlockTile> PlanBlockTile(const LoopNest& nest, const Target& target);

// 1 if the product has the rows and columns that make tiles worthwhile, else 0. It may depend on unknown extents.
Dim IsWorthTiles(const LoopNest& nest);

// Returns the lines of a factor, of all tiles.
Dim Lines(const LoopNest& nest, const Staging& side);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BLOCK_TILE_PLANNER_H_
