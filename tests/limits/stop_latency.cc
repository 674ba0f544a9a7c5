#include "tests/limits/stop_latency.h"

#include <malloc.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "tests/limits/long_operators.h"

namespace rvm::limits {
namespace {

double TimeOf(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

}  // namespace

double ProcessorTime() { return TimeOf(CLOCK_THREAD_CPUTIME_ID); }

absl::StatusOr<std::optional<double>> StopAfter(vm::Machine& machine, const std::vector<Value>& args, double ms,
                                                StoppedBy stopped_by) {
  constexpr double kInterrupted = 0.02;
  clockid_t clock;
  pthread_getcpuclockid(pthread_self(), &clock);
  double stop = TimeOf(clock) + ms, before = 0, after = 0;
  std::atomic<bool> done = false, is_unwanted = false;
  vm::RunOptions options;
  if (stopped_by == StoppedBy::kHook) {
    options.poll = [](void* context) { return static_cast<std::atomic<bool>*>(context)->load() ? 1 : 0; };
    options.poll_context = &is_unwanted;
  }
  std::thread other([&] {
    while (!done && TimeOf(clock) < stop) std::this_thread::sleep_for(std::chrono::microseconds(100));
    before = TimeOf(clock);
    stopped_by == StoppedBy::kHook ? is_unwanted.store(true) : machine.Cancel();
    after = TimeOf(clock);
  });
  absl::Status status = machine.Invoke("main", args, options).status();
  double end = TimeOf(clock);
  done = true;
  other.join();
  if (!status.ok() && status.code() != absl::StatusCode::kCancelled) return status;
  if (status.ok() || after - before > kInterrupted) return std::nullopt;
  return end - before;
}

KeptMemory::KeptMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}
KeptMemory::~KeptMemory() {
  mallopt(M_MMAP_MAX, 65536);  // the values that malloc begins with
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  malloc_trim(0);
}

absl::StatusOr<LongStops> StopLongRuns(const std::shared_ptr<const vm::Program>& program,
                                       const std::vector<Value>& args, double longest_ms, int count) {
  constexpr int kRunsBefore = 3;
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(program, {}));
  LongStops stops;
  for (int i = 0; i < kRunsBefore; ++i) {
    double begin = ProcessorTime();
    absl::Status status = machine->Invoke("main", args, {.time_limit_ms = longest_ms}).status();
    stops.whole = ProcessorTime() - begin;
    stops.is_longer = status.code() == absl::StatusCode::kDeadlineExceeded;
    if (!status.ok() && !stops.is_longer) return status;
  }
  for (int i = 0; i < count; ++i) {
    RVM_ASSIGN_OR_RETURN(std::optional<double> latency,
                         StopAfter(*machine, args, stops.whole * 0.9 * (i + 0.5) / count));
    if (latency.has_value()) stops.latencies.push_back(*latency);
  }
  std::sort(stops.latencies.begin(), stops.latencies.end());
  return stops;
}

std::vector<LongControl> LongControls() {
  return {
      {"fib", 60, nullptr},
      {"counter", int64_t{1} << 60, nullptr},
      {"sieve", 30'000, nullptr},
      {"nbody", int64_t{1} << 60, nullptr},
      {"ackermann", 12, nullptr},
      {"binary_trees", 18, nullptr},
      {"a loop of small kernels", int64_t{1} << 60, R"(#[version = "0.0.5"]
def @loop(%n: int64, %x: Tensor[(4), float32]) -> float32 {
  if (%n == 0i64) { sum(%x) } else { @loop(%n - 1i64, %x * 0.5f + ones(shape=[4], dtype="float32")) }
}
def @main(%n: int64) -> float32 { @loop(%n, zeros(shape=[4], dtype="float32")) })"},
      {"a long kernel", 1, R"(#[version = "0.0.5"]
def @main(%n: int64) -> float32 {
  let %a = full(cast(%n, dtype="float32"), shape=[2048, 2048], dtype="float32");
  sum(nn.matmul(nn.matmul(%a, %a), nn.matmul(%a, %a)))
})"},
  };
}

absl::StatusOr<std::shared_ptr<const vm::Program>> CompileLongControl(const LongControl& control) {
  std::string text;
  if (control.text != nullptr) {
    text = control.text;
  } else {
    RVM_ASSIGN_OR_RETURN(text, ReadFile(absl::StrCat("benchmarks/vm/", control.name, ".relay")));
  }
  return CompileText(text, "host", {"main"}, /*native_control=*/true);
}

absl::StatusOr<std::vector<double>> StopLatencies(const std::shared_ptr<const vm::Program>& program,
                                                  const std::vector<Value>& args, bool runs_bytecode, int count,
                                                  StoppedBy stopped_by) {
  constexpr double kFirst = 0.5, kSpread = 3;  // milliseconds
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine,
                       vm::Machine::Create(program, {.runs_bytecode = runs_bytecode}));
  std::vector<double> latencies;
  for (int i = 0; static_cast<int>(latencies.size()) < count; ++i) {
    if (i == 20 * count) return absl::InternalError("runs end before they are cancelled");
    double ms = kFirst + kSpread * (i % count) / count;
    RVM_ASSIGN_OR_RETURN(std::optional<double> latency, StopAfter(*machine, args, ms, stopped_by));
    if (latency.has_value()) latencies.push_back(*latency);
  }
  std::sort(latencies.begin(), latencies.end());
  return latencies;
}

}  // namespace rvm::limits
