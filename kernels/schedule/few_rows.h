// Products of few rows, as those of a decoder's step are: what would be copied for a tile is read in place.
#ifndef RVM_KERNELS_SCHEDULE_FEW_ROWS_H_
#define RVM_KERNELS_SCHEDULE_FEW_ROWS_H_

#include <optional>
#include <vector>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Returns the nest with LoopNest::direct as its value, if a tile can read its vectors in place there; nullopt
// otherwise.
std::optional<LoopNest> ReadDirectly(Schedule& schedule, const LoopNest& nest);

// Returns the nest, which has no tile, with LoopNest::direct as its value, if its sums run along rows in memory there;
// nullopt otherwise. A product of one row with keys is such a sum.
std::optional<LoopNest> SumDirectly(Schedule& schedule, const LoopNest& nest);

// Returns the nest with LoopNest::direct as its value, if it has one, and with a tile of dot products alone, if these
// are faster than a copy of the columns, such as the tokens of a cache, and than a constant that is packed; nullopt
// otherwise.
std::optional<LoopNest> DotsDirectly(Schedule& schedule, const LoopNest& nest);

// Returns a tile of dot products alone for a product whose rows are few and known, and whose factors both run along the
// depth in memory; nullopt if it is another one.
std::optional<Tile> PlanDots(const Schedule& schedule, const LoopNest& nest);

// Decides whether the tile of the nest takes calls with few rows apart, and sets Tile::few.
void PlanFewRows(const Target& target, LoopNest& nest);

// Drops copies that no nest reads any more, and limits those that only tiles with more rows read.
void LimitCopies(const Schedule& schedule, std::vector<LoopNest>& nests);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_FEW_ROWS_H_
