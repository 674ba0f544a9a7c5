// Sums that all units, or some tiles, make up to a position of the depth before any of them goes on.
#ifndef RVM_KERNELS_SCHEDULE_DEPTH_BLOCKS_H_
#define RVM_KERNELS_SCHEDULE_DEPTH_BLOCKS_H_

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Decides whether the nest, which has a tile, runs in blocks of the depth, and sets Tile::depth_block. With vectors in
// place, it is a product of few rows, as of attention with values whose tokens lie one behind the other, each with all
// heads: it then reads memory from its beginning to its end. With panels, it is a product that is too deep for a panel
// to stay in the second-level cache from one tile of rows to the next.
void PlanDepthBlocks(const Schedule& schedule, LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_DEPTH_BLOCKS_H_
