// Divides loops of a known, low count into runs that whole vectors cover.
#ifndef RVM_KERNELS_SCHEDULE_VECTOR_RUNS_H_
#define RVM_KERNELS_SCHEDULE_VECTOR_RUNS_H_

#include <cstdint>
#include <vector>

namespace rvm::schedule {

struct VectorRun {
  int64_t first, end;
};

// Returns a run of whole vectors of so many lanes, then runs of powers of two: 29 iterations by 8 lanes are 24, 4 and
// 1. LLVM makes each of them vectors without masks and without a scalar remainder.
std::vector<VectorRun> VectorRuns(int64_t count, int64_t lanes);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_VECTOR_RUNS_H_
