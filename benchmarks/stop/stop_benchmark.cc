// How soon a run ends after Machine::Cancel, in the middle of one long operator or of work on a big structure: the
// worst of several runs, stopped at moments spread over the time that the whole takes. What counts is when Invoke has
// returned, with all memory given back. In time of the processor that runs it, so that other work on the machine does
// not count. The tables are Markdown.
//
//   stop_benchmark [NAME]...    all operators of tests/limits and all structures, or those whose names begin so
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/limits/long_operators.h"
#include "vm/machine.h"

namespace rvm::limits {
namespace {

constexpr int kRuns = 10;
constexpr int64_t kLongestMs = 1500;  // what takes longer is not waited for

struct Latency {
  double whole = 0, worst = 0;  // milliseconds
  bool is_longer = false;       // than was waited for
  absl::Status error;
};

double ProcessorTime(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Notes how long a run takes to end that is stopped when it has had `ms`. Nothing if it was over before.
absl::Status StopAfter(vm::Machine& machine, const std::vector<Value>& args, double ms, Latency& latency) {
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
  latency.worst = std::max(latency.worst, end - cancelled);
  return absl::OkStatus();
}

Latency Measure(const absl::StatusOr<std::shared_ptr<const vm::Program>>& program, const std::vector<Value>& args) {
  Latency result;
  if (!program.ok()) return {.error = program.status()};
  auto limited = vm::Machine::Create(*program, {.time_limit_ms = kLongestMs});
  auto machine = vm::Machine::Create(*program, {});
  if (!limited.ok() || !machine.ok()) return {.error = absl::InternalError("no machine")};
  double begin = ProcessorTime(CLOCK_THREAD_CPUTIME_ID);
  absl::Status status = (*limited)->Invoke("main", args).status();
  result.whole = ProcessorTime(CLOCK_THREAD_CPUTIME_ID) - begin;
  result.is_longer = status.code() == absl::StatusCode::kDeadlineExceeded;
  if (!status.ok() && !result.is_longer) result.error = status;
  for (int i = 0; i < kRuns && result.error.ok(); ++i) {
    result.error = StopAfter(**machine, args, result.whole * 0.9 * (i + 0.5) / kRuns, result);
  }
  return result;
}

void Print(const Latency& latency) {
  if (!latency.error.ok()) {
    std::printf(" %s | |", latency.error.ToString().c_str());
  } else {
    std::printf(" %s%.0f | %.2f |", latency.is_longer ? "> " : "", latency.whole, latency.worst);
  }
  std::fflush(stdout);
}

// ---- structures: a program whose `main` takes one number

struct Structure {
  const char* name;
  int32_t size;
  const char* program;
};

constexpr Structure kStructures[] = {
    {"a list grows", 50'000'000, R"(
def @grow(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @grow(%n - 1, Cons(%n, %l)) } }
def @main(%n: int32) -> int32 { match (@grow(%n, Nil)) { Nil => 0, Cons(%x, _) => %x } })"},
    {"lists are dropped", 10'000'000, R"(
def @grow(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @grow(%n - 1, Cons(%n, %l)) } }
def @again(%rounds: int32, %n: int32) -> int32 {
  if (%rounds == 0) { 0 } else { match (@grow(%n, Nil)) { Nil => 0, Cons(%x, _) => @again(%rounds - %x, %n) } }
}
def @main(%n: int32) -> int32 { @again(4, %n) })"},
    {"cycles are looked for", 5'000'000, R"(
type Chain { Link(ref(Chain), Chain), End, }
def @grow(%n: int32, %c: Chain) -> Chain {
  if (%n == 0) { %c } else {
    let %r = ref(End);
    let %_ = %r := %c;
    @grow(%n - 1, Link(%r, %c))
  }
}
def @main(%n: int32) -> int32 { match (@grow(%n, End)) { End => 0, Link(_, _) => 1 } })"},
    {"calls are nested", 30'000'000, R"(
def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { @main(%n - 1) + 1 } })"},
    {"a list is given out", 1'000'000, R"(
def @grow(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @grow(%n - 1, Cons(%n, %l)) } }
def @main(%n: int32) -> List[int32] { @grow(%n, Nil) })"},
};

// Returns true if an argument is a prefix of `name`, or if there are no arguments.
bool IsWanted(std::string_view name, int argc, char** argv) {
  return argc < 2 ||
         std::any_of(argv + 1, argv + argc, [&](std::string_view begin) { return name.starts_with(begin); });
}

int Main(int argc, char** argv) {
  std::printf("| Operator | machine code, ms | worst stop | recipe, ms | worst stop |\n|---|---:|---:|---:|---:|\n");
  for (const LongOperator& op : LongOperators()) {
    if (!IsWanted(op.name, argc, argv)) continue;
    std::vector<Value> args = MakeArguments(op);
    std::printf("| %s |", op.name);
    for (const char* target : {"host", "portable"}) Print(Measure(CompileLongOperator(op, target), args));
    std::printf("\n");
  }
  std::printf("\n| Structure | ms | worst stop |\n|---|---:|---:|\n");
  for (const Structure& structure : kStructures) {
    if (!IsWanted(structure.name, argc, argv)) continue;
    std::printf("| %s |", structure.name);
    std::vector<Value> args = {Value::Tensor(Literal::Scalar(kInt32, structure.size))};
    Print(Measure(CompileText(structure.program, "portable", {"main"}), args));
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace rvm::limits

int main(int argc, char** argv) { return rvm::limits::Main(argc, argv); }
