#include "tools/relayvm/quantize_runs.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "vm/machine.h"

namespace rvm::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Rounds of calls: at least so many, and more up to this time.
constexpr int kMinRounds = 5, kMaxRounds = 400;
constexpr std::chrono::milliseconds kTime{60};
// More other weights leave no cache as it was.
constexpr int64_t kMaxOtherBytes = int64_t{64} << 20;
constexpr size_t kCacheLine = 64;

double NsOf(Clock::duration time) { return std::chrono::duration<double, std::nano>(time).count(); }

// Reads as much memory as other operators of a program do between two calls of one.
class OtherWeights {
 public:
  explicit OtherWeights(std::span<const int64_t> bytes) {
    for (int64_t count : bytes) sizes_.push_back(static_cast<size_t>(std::min(count, kMaxOtherBytes)));
    memory_.resize(*std::max_element(sizes_.begin(), sizes_.end()), 1);
  }
  void Read(size_t program) {
    for (size_t at = 0; at < sizes_[program]; at += kCacheLine) sum_ = sum_ + memory_[at];
  }

 private:
  std::vector<size_t> sizes_;
  std::vector<uint8_t> memory_;
  volatile uint64_t sum_ = 0;
};

absl::StatusOr<std::vector<double>> LeastTimes(driver::QuantizeRuntime::Programs programs,
                                               std::span<const int64_t> others, std::span<const Value> args) {
  std::vector<std::unique_ptr<vm::Machine>> machines;
  for (const auto& executable : programs) {
    RVM_ASSIGN_OR_RETURN(std::shared_ptr<const vm::Program> program,
                         vm::Program::Link(executable, {.allow_native = true}));
    RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(program, {}));
    machines.push_back(std::move(machine));
  }
  std::vector<double> least(machines.size(), std::numeric_limits<double>::max());
  OtherWeights weights(others);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kMaxRounds && (round < kMinRounds || Clock::now() - begin < kTime); ++round) {
    for (size_t i = 0; i < machines.size(); ++i) {
      weights.Read(i);
      const Clock::time_point before = Clock::now();
      RVM_RETURN_IF_ERROR(machines[i]->Invoke("main", args).status());
      least[i] = std::min(least[i], NsOf(Clock::now() - before));
    }
  }
  return least;
}

}  // namespace

driver::QuantizeRuntime RuntimeForQuantizing() { return {.time = LeastTimes}; }

}  // namespace rvm::tools
