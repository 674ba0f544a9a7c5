// Chooses the outputs that begin as a copy of an input, of which a kernel then writes only some elements.
#ifndef RVM_KERNELS_SCHEDULE_UPDATES_H_
#define RVM_KERNELS_SCHEDULE_UPDATES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kernels/schedule/schedule.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {

// An output made by updates of an input, one after the other in the output's memory.
struct OutputUpdates {
  struct Step {
    te::Tensor tensor;  // has an update; its base is the tensor of the step before, or the input
    te::Tensor values;  // null, or what the positions of the update write, if it must be computed before: it reads the
                        // input, whose memory the output may have
  };
  size_t output = 0;
  int64_t input = 0;
  std::vector<Step> steps;  // in the order in which they run; the last one gives the output
};

// `left_out`: outputs that are computed as a whole.
std::vector<OutputUpdates> FindUpdates(const te::Computation& computation, const absl::flat_hash_set<size_t>& left_out);

// Returns an output of Schedule::updates whose input is still read when its first nest runs, or later; nullopt if there
// is none.
std::optional<size_t> FindLateRead(const Schedule& schedule);

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_UPDATES_H_
