// Nests of a GPU that one launch runs with the elements of a row in registers: norms, softmax, and products of a matrix
// and a vector with what combines their results.
#ifndef RVM_KERNELS_SCHEDULE_ROW_TEAMS_H_
#define RVM_KERNELS_SCHEDULE_ROW_TEAMS_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/schedule/schedule.h"

namespace rvm::schedule {

struct RowTeamPlan {
  RowTeam team;
  // In place of the `replaced` nests from the first on. They share their variables, so that equal expressions of
  // different nests are one node. A reduction may have become several, of slices of its results.
  std::vector<LoopNest> nests;
  size_t replaced = 0;
};

// Returns a plan for as many nests as possible from nest `first` on, at most `most`; nullopt if they have no rows of a
// known size that are reduced. Call after the form of each nest is decided.
std::optional<RowTeamPlan> PlanRowTeam(Schedule& schedule, size_t first, size_t most);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_ROW_TEAMS_H_
