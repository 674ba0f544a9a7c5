// How soon runs end after Machine::Cancel: until Invoke has returned, with all memory given back. In time of the
// processor that runs them, so that other work on the machine does not count.
#ifndef RVM_TESTS_LIMITS_STOP_LATENCY_H_
#define RVM_TESTS_LIMITS_STOP_LATENCY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "vm/machine.h"

namespace rvm::limits {

// Milliseconds of the processor of the calling thread.
double ProcessorTime();

// Runs `main` and cancels it when it has had `ms`. Returns how many milliseconds more it took; nothing if it was over
// before, or if the thread that cancels was interrupted meanwhile; or another error of the run.
absl::StatusOr<std::optional<double>> StopAfter(vm::Machine& machine, const std::vector<Value>& args, double ms);

// A program whose time goes into control flow, with an argument for which it takes longer than any stop.
struct LongControl {
  const char* name;
  int64_t size;
  const char* text;  // null: that of benchmarks/vm/NAME.relay
};
std::vector<LongControl> LongControls();

// Its machine code has functions, too. Looks for files from the current folder.
absl::StatusOr<std::shared_ptr<const vm::Program>> CompileLongControl(const LongControl& control);

// The latencies of `count` cancelled runs, sorted: at moments spread over the first milliseconds.
absl::StatusOr<std::vector<double>> StopLatencies(const std::shared_ptr<const vm::Program>& program,
                                                  const std::vector<Value>& args, bool runs_bytecode, int count);

}  // namespace rvm::limits

#endif  // RVM_TESTS_LIMITS_STOP_LATENCY_H_
