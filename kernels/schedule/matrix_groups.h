// Groups of a matmul, of what is computed from its rows, and of a product that reads these again, as
// the scores, the weights and the values of attention: they run some rows at a time, so that the rows stay in a cache.
#ifndef RVM_KERNELS_SCHEDULE_MATRIX_GROUPS_H_
#define RVM_KERNELS_SCHEDULE_MATRIX_GROUPS_H_

#include <cstddef>
#include <optional>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

// Returns the group that nest `first` begins; nullopt if it is no such product, or alone. If others may be moved, nests
// between those of the group that need none of them are moved in front of it, and the group begins behind `first`.
std::optional<NestGroup> TakeMatrixGroup(Schedule& schedule, size_t first, bool may_move);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_MATRIX_GROUPS_H_
