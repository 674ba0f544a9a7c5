// Finds sums of products and chooses their register tiles.
#ifndef RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_
#define RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_

#include <cstdint>
#include <optional>

#include "base/data_type.h"
#include "kernels/schedule/schedule.h"
#include "kernels/schedule/target.h"

namespace rvm::schedule {

// A last step of fewer than four bytes wastes little of a run of the depth that is so long.
inline constexpr int64_t kMinDepthOfBytes = 16;

// The greatest height of a tile, if there are registers for it.
inline constexpr int64_t kMaxTileRows = 14;

// Returns the operand that a factor of a product widens to int32 and that fits 16 bits; null if it widens nothing.
te::Expr NarrowFactor(const te::Expr& factor);

// How many positions of the depth a tile takes in one step for factors of these integer types (Tile::depth_step), where
// they lie side by side: four of bytes, if the machine multiplies them, else two.
int64_t DepthStep(const Target& target, DataType a, DataType b);

// Returns the register tiles for tensors[0] of the nest; nullopt if it is not a sum of products, or if tiles are not
// profitable.
std::optional<Tile> PlanTile(const Schedule& schedule, const LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_TILE_PLANNER_H_
