// How soon runs end after Machine::Cancel: until Invoke has returned, with all memory given back. In time of the
// processor that runs them, so that other work on the machine does not count.
#ifndef RVM_TESTS_LIMITS_STOP_LATENCY_H_
#define RVM_TESTS_LIMITS_STOP_LATENCY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "vm/machine.h"

namespace rvm::limits {

// Returns the processor time of the calling thread, in milliseconds.
double ProcessorTime();

// Who ends a run: a thread that calls Machine::Cancel, or the hook of polls, which the run calls every 50 ms.
enum class StoppedBy : uint8_t { kCancel, kHook };

// Runs `main` and cancels it when it has had `ms`. Returns how many milliseconds more it took; nothing if it was over
// before, or if the thread that cancels was interrupted meanwhile; or another error of the run.
absl::StatusOr<std::optional<double>> StopAfter(vm::Machine& machine, const std::vector<Value>& args, double ms,
                                                StoppedBy stopped_by = StoppedBy::kCancel);

// While there is one, malloc keeps what is freed, so that later runs need not wait for the system to clear pages or to
// take them back.
class KeptMemory {
 public:
  KeptMemory();
  ~KeptMemory();
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
};

struct LongStops {
  double whole = 0;        // milliseconds that a run takes
  bool is_longer = false;  // than was waited for
  std::vector<double> latencies;
};
// The latencies of `count` runs, sorted: cancelled at moments spread over the time that a run takes, or over
// `longest_ms` if that is less. Runs before that take the memory that the last ones need.
absl::StatusOr<LongStops> StopLongRuns(const std::shared_ptr<const vm::Program>& program,
                                       const std::vector<Value>& args, double longest_ms, int count);

// A program whose time goes into control flow, with an argument for which it takes longer than any stop.
struct LongControl {
  const char* name;
  int64_t size;
  const char* text;  // null: that of benchmarks/vm/NAME.relay
};
std::vector<LongControl> LongControls();

// Compiles the program, with machine code for its functions. Reads its file relative to the current folder.
absl::StatusOr<std::shared_ptr<const vm::Program>> CompileLongControl(const LongControl& control);

// The latencies of `count` stopped runs, sorted: at moments spread over the first milliseconds.
absl::StatusOr<std::vector<double>> StopLatencies(const std::shared_ptr<const vm::Program>& program,
                                                  const std::vector<Value>& args, bool runs_bytecode, int count,
                                                  StoppedBy stopped_by = StoppedBy::kCancel);

}  // namespace rvm::limits

#endif  // RVM_TESTS_LIMITS_STOP_LATENCY_H_
