// A kernel and its batched variant, which computes several calls of it at once: both schedules are made together.
#ifndef RVM_KERNELS_SCHEDULE_BATCH_PAIR_H_
#define RVM_KERNELS_SCHEDULE_BATCH_PAIR_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/schedule/schedule.h"
#include "kernels/te/batch_axis.h"

namespace rvm::schedule {

// A kernel that arranges an input of a variant into the panels that it reads.
struct ArrangedInput {
  size_t input;
  te::Computation computation;  // its only output is the input in panels
  Schedule schedule;
};

struct BatchPair {
  Schedule kernel, variant;
  std::vector<bool> shared;        // inputs that all calls of a group have in common
  te::BatchedComputation batched;  // that of the variant
  // Whether the variant adds up floats in the order of the kernel, so that a call gives the same bits alone.
  bool has_same_bits = true;
  // Not nullopt: the variant runs a chain of calls, whose shared input `accumulator` is the result of the one before,
  // and adds to it in place (te::AddBatchSum).
  std::optional<size_t> accumulator = std::nullopt;
  // Matrices that are arguments, which are arranged once for several runs of the variant.
  std::vector<ArrangedInput> arranged = {};
};

struct BatchOptions {
  bool always = false;        // makes schedules also where they do not pay, which tests do
  bool reuses_inputs = true;  // results may take the memory of inputs, as those of chains must
};

// Schedules of the computation and of it with a batch axis (te::AddBatchAxis), if running calls together pays: if it
// multiplies few rows, or an unknown number of them, by a matrix of more than kMinBytesToBatch bytes, which is then
// read once for all calls; or if it adds a product or a sum to an input. Both read constants in the same layouts, and
// give the same bits: the sums of a row do not depend on which other rows are computed with it. Exceptions: chains, and
// products with a matrix that is an argument, may add up in another order (has_same_bits); the variant then reads the
// matrix as if it were a constant (arranged). nullopt if it does not pay, or there are no such schedules.
// REQUIRES: as te::AddBatchAxis.
absl::StatusOr<std::optional<BatchPair>> ScheduleBatchPair(const te::Computation& computation,
                                                           const std::vector<bool>& constant_inputs,
                                                           const Target& target, BatchOptions options = {});

inline constexpr int64_t kMinBytesToBatch = 16 * 1024;

}  // namespace rvm::schedule

#endif  // RVM_KERNELS_SCHEDULE_BATCH_PAIR_H_
