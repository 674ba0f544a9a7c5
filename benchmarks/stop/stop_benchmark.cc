// How soon a run ends after Machine::Cancel: in control flow, the median, the 99th percentile and the worst of many
// runs, and the worst of some that a hook of polls ends; in the middle of one long operator or of work on a big
// structure, the worst of several runs, stopped at moments spread over the time that the whole takes. What is late in
// new memory, and not in kept memory, waited for the system, which clears a page (2 MB if it is huge) when it is first
// touched and takes memory back. tests/limits/stop_latency.h says what counts. The tables are Markdown.
//
//   stop_benchmark [NAME]...    all, or the operators, structures and programs whose names begin so
//   stop_benchmark --control    control flow
//
// Run it in the root of the tree: it reads benchmarks/vm/*.relay.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/limits/long_operators.h"
#include "tests/limits/stop_latency.h"
#include "vm/machine.h"

namespace rvm::limits {
namespace {

constexpr int kRuns = 10;
constexpr double kLongestMs = 1500;  // what takes longer is not waited for

void Print(const absl::StatusOr<LongStops>& stops) {
  if (!stops.ok()) {
    std::printf(" %s | |", stops.status().ToString().c_str());
  } else {
    double worst = stops->latencies.empty() ? 0 : stops->latencies.back();
    std::printf(" %s%.0f | %.2f |", stops->is_longer ? "> " : "", stops->whole, worst);
  }
  std::fflush(stdout);
}

void PrintOperator(const LongOperator& op) {
  std::vector<Value> args = MakeArguments(op);
  std::printf("| %s |", op.name);
  for (const char* target : {"host", "portable"}) {
    auto program = CompileLongOperator(op, target);
    Print(program.ok() ? StopLongRuns(*program, args, kLongestMs, kRuns) : program.status());
    KeptMemory kept;
    Print(program.ok() ? StopLongRuns(*program, args, kLongestMs, kRuns) : program.status());
  }
  std::printf("\n");
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

// Milliseconds as a row of a table.
void PrintControl(const LongControl& control) {
  constexpr int kStops = 200, kStopsByHook = 20;
  std::printf("| %s |", control.name);
  auto program = CompileLongControl(control);
  std::vector<Value> args = {Value::Tensor(Literal::ScalarInt(kInt64, control.size))};
  for (bool runs_bytecode : {false, true}) {
    auto stops = program.ok() ? StopLatencies(*program, args, runs_bytecode, kStops) : program.status();
    if (!stops.ok()) {
      std::printf(" %s | | |", stops.status().ToString().c_str());
    } else {
      std::printf(" %.3f | %.3f | %.3f |", (*stops)[kStops / 2], (*stops)[kStops * 99 / 100], stops->back());
    }
    std::fflush(stdout);
  }
  auto stops = program.ok() ? StopLatencies(*program, args, false, kStopsByHook, StoppedBy::kHook) : program.status();
  if (stops.ok()) {
    std::printf(" %.1f |\n", stops->back());
  } else {
    std::printf(" %s |\n", stops.status().ToString().c_str());
  }
}

int Main(int argc, char** argv) {
  // `bazel run` starts programs elsewhere.
  const char* root = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  if (root != nullptr && chdir(root) != 0) std::fprintf(stderr, "no folder %s\n", root);
  bool only_control = argc == 2 && std::strcmp(argv[1], "--control") == 0;
  std::printf(
      "| Control flow | machine code, ms: median | 99%% | worst | bytecode, ms: median | 99%% | worst "
      "| by a hook, ms: worst |\n|---|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const LongControl& control : LongControls()) {
    if (only_control || IsWanted(control.name, argc, argv)) PrintControl(control);
  }
  if (only_control) return 0;
  std::printf(
      "\n| Operator | machine code, ms | worst stop | in kept memory, ms | worst stop "
      "| recipe, ms | worst stop | in kept memory, ms | worst stop |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
  for (const LongOperator& op : LongOperators()) {
    if (IsWanted(op.name, argc, argv)) PrintOperator(op);
  }
  std::printf("\n| Structure | ms | worst stop |\n|---|---:|---:|\n");
  for (const Structure& structure : kStructures) {
    if (!IsWanted(structure.name, argc, argv)) continue;
    std::printf("| %s |", structure.name);
    std::vector<Value> args = {Value::Tensor(Literal::Scalar(kInt32, structure.size))};
    auto program = CompileText(structure.program, "portable", {"main"});
    Print(program.ok() ? StopLongRuns(*program, args, kLongestMs, kRuns) : program.status());
    std::printf("\n");
  }
  return 0;
}

}  // namespace
}  // namespace rvm::limits

int main(int argc, char** argv) { return rvm::limits::Main(argc, argv); }
