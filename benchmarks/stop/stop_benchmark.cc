// How soon a run ends after Machine::Cancel, in the middle of one long operator: the worst of several runs, stopped at
// moments spread over the time that the whole takes; and how long giving the memory back to the system takes then. In
// time of the processor that runs it, so that other work on the machine does not count. The table is Markdown.
//
//   stop_benchmark [NAME]...    all operators of tests/limits, or those whose names begin so
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>

#include "tests/limits/long_operators.h"
#include "vm/profiler/profiler.h"

namespace rvm::limits {
namespace {

constexpr int kRuns = 10;
constexpr int64_t kLongestMs = 1500;  // what takes longer is not waited for

struct Latency {
  double whole = 0, worst = 0, cleanup = 0;  // milliseconds
  bool is_longer = false;                    // than was waited for
  absl::Status error;
};

double ProcessorTime(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Notes how long a run takes to end that is stopped when it has had `ms`. Nothing if it was over before.
absl::Status StopAfter(vm::Machine& machine, vm::Profiler& profiler, const std::vector<Value>& args, double ms,
                       Latency& latency) {
  profiler.Clear();
  clockid_t clock;
  pthread_getcpuclockid(pthread_self(), &clock);
  double stop = ProcessorTime(clock) + ms, cancelled = 0;
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done && ProcessorTime(clock) < stop) std::this_thread::sleep_for(std::chrono::microseconds(200));
    machine.Cancel();
    cancelled = ProcessorTime(clock);
  });
  absl::Status status = machine.Invoke("main", args).status();
  double end = ProcessorTime(clock);
  done = true;
  other.join();
  if (status.code() != absl::StatusCode::kCancelled) return status;
  double cleanup = profiler.Snapshot().phases[static_cast<size_t>(vm::ProfilePhase::kCleanup)].ns / 1e6;
  latency.worst = std::max(latency.worst, end - cancelled - cleanup);
  latency.cleanup = std::max(latency.cleanup, cleanup);
  return absl::OkStatus();
}

Latency Measure(const LongOperator& op, const std::string& target, const std::vector<Value>& args) {
  Latency result;
  auto program = CompileLongOperator(op, target);
  if (!program.ok()) return {.error = program.status()};
  auto limited = vm::Machine::Create(*program, {.time_limit_ms = kLongestMs});
  vm::Profiler profiler;
  auto machine = vm::Machine::Create(*program, {.profiler = &profiler});
  if (!limited.ok() || !machine.ok()) return {.error = absl::InternalError("no machine")};
  double begin = ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
  absl::Status status = (*limited)->Invoke("main", args).status();
  result.whole = ProcessorTime(CLOCK_THREAD_CPUTIME_ID) - begin;
  result.is_longer = status.code() == absl::StatusCode::kDeadlineExceeded;
  if (!status.ok() && !result.is_longer) result.error = status;
  for (int i = 0; i < kRuns && result.error.ok(); ++i) {
    result.error = StopAfter(**machine, profiler, args, result.whole * 0.9 * (i + 0.5) / kRuns, result);
  }
  return result;
}

void PrintRow(const LongOperator& op) {
  std::vector<Value> args = MakeArguments(op);
  std::printf("| %s |", op.name);
  for (const char* target : {"host", "portable"}) {
    Latency latency = Measure(op, target, args);
    if (!latency.error.ok()) {
      std::printf(" %s | | |", latency.error.ToString().c_str());
    } else {
      std::printf(" %s%.0f | %.2f | %.0f |", latency.is_longer ? "> " : "", latency.whole, latency.worst,
                  latency.cleanup);
    }
    std::fflush(stdout);
  }
  std::printf("\n");
}

int Main(int argc, char** argv) {
  std::printf(
      "| Operator | machine code, ms | worst stop | memory given back | recipe, ms | worst stop | memory given back "
      "|\n");
  std::printf("|---|---:|---:|---:|---:|---:|---:|\n");
  for (const LongOperator& op : LongOperators()) {
    bool wanted = argc < 2 || std::any_of(
                                  argv + 1, argv + argc,
                                  [&](std::string_view name) { return std::string_view(op.name).starts_with(name); });
    if (wanted) PrintRow(op);
  }
  return 0;
}

}  // namespace
}  // namespace rvm::limits

int main(int argc, char** argv) { return rvm::limits::Main(argc, argv); }
