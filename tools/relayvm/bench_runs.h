// Runs of a program that are measured: in machines of their own, or together in a batch.
#ifndef RVM_TOOLS_RELAYVM_BENCH_RUNS_H_
#define RVM_TOOLS_RELAYVM_BENCH_RUNS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "tools/relayvm/load_program.h"

namespace rvm::tools {

struct BenchPlan {
  int64_t warmup = 10;
  int64_t runs = 100;
  double seconds = 0;  // more than 0: instead of `runs`
  int64_t instances = 1;
  int64_t lanes = 0;  // more than 0: runs are requests of one batch
  double rate = 0;    // requests that arrive in a second, at random; 0: another one when one ends
};

using BenchArgs = std::vector<Value>;

// Measurements of one machine, or of a batch: nanoseconds, and the index of the arguments.
struct BenchSample {
  double ns;
  size_t args;
};
struct BenchInstance {
  using Clock = std::chrono::steady_clock;
  std::vector<BenchSample> samples;
  absl::Status status;
  int64_t peak_bytes = 0;
  Clock::time_point began, ended;
};
struct BenchMeasured {
  std::vector<BenchInstance> instances;
  double seconds = 0;  // from the first begin to the last end
};

// Runs `plan.instances` machines, each on a thread of its own, on the lines of arguments in turn.
absl::StatusOr<BenchMeasured> MeasureMachines(const ProgramToRun& loaded, const std::vector<BenchArgs>& lines,
                                              const BenchPlan& plan);
// Runs requests in `plan.lanes` lanes. The time of one counts from when it arrives: with a rate, at random times that
// do not depend on how fast others are (a Poisson process), in the same order each time; otherwise when another one
// ends.
absl::StatusOr<BenchMeasured> MeasureBatch(const ProgramToRun& loaded, const std::vector<BenchArgs>& lines,
                                           const BenchPlan& plan);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_BENCH_RUNS_H_
