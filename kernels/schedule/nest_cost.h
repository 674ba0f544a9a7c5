// The cost of nests on a CPU, in additions: estimates, from which loops take how often they poll, whether stores bypass
// the caches, and how many threads share a nest.
#ifndef RVM_KERNELS_SCHEDULE_NEST_COST_H_
#define RVM_KERNELS_SCHEDULE_NEST_COST_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "base/dim.h"
#include "kernels/schedule/loop_nest.h"

namespace rvm::schedule {

// A cost of loops whose extents are unknown.
inline constexpr int64_t kUnknownCost = std::numeric_limits<int64_t>::max();

// Returns the cost of `count` iterations of `cost` each.
int64_t CostOfIterations(int64_t cost, const Dim& count);
// Returns the time of computing `roots`, with reads: one that misses the caches takes as long as some tens.
int64_t CostOf(const std::vector<te::Expr>& roots);
// Returns the cost of one iteration of a reduced axis, of `columns` side by side.
int64_t CostOfReduceIteration(const te::ExprNode& reduce, size_t axis, int64_t columns);
// Returns the cost of one position of all axes, with its reduction.
int64_t CostOfPosition(const LoopNest& nest);
// Returns the cost of one iteration of an axis.
int64_t CostOfIteration(const LoopNest& nest, size_t axis);
// Returns the work by which the runtime decides how many threads share a nest: operations, without reads and addresses.
Dim WorkOf(const LoopNest& nest);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_NEST_COST_H_
