#include "kernels/schedule/vector_runs.h"

#include <bit>

namespace rvm::schedule {

std::vector<VectorRun> VectorRuns(int64_t count, int64_t lanes) {
  std::vector<VectorRun> runs;
  for (int64_t first = 0; first < count; first = runs.back().end) {
    const int64_t rest = count - first;
    const auto part = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(rest)));
    runs.push_back({first, first + (rest < lanes ? part : rest - rest % lanes)});
  }
  return runs;
}

}  // namespace rvm::schedule
