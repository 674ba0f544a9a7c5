// relayvm profile: time and memory of a program by function, kernel and instruction.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "tools/relayvm/compile_options.h"
#include "tools/relayvm/import.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/verb.h"
#include "vm/profiler/profile_report.h"
#include "vm/profiler/profiler.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--json", "FILE", "also write everything as JSON"},
    {"--trace", "FILE", "also write a time line for chrome://tracing or ui.perfetto.dev"},
    {"--trace-events", "N", "calls, returns and kernels that the time line keeps, from the first (1000000)"},
    kParamsOption,
    kLevelOption,
    kFreezeOption,
    kShapeOption,
    kTargetOption,
};

struct Watched {
  double plain_ns = std::numeric_limits<double>::infinity();  // of the fastest run that nobody watched
  double watched_ns = std::numeric_limits<double>::infinity();
  // Of the fastest profiled run, which was disturbed least by other processes.
  vm::Profile profile;
  std::vector<vm::TraceEvent> trace;
  int64_t dropped_trace_events = 0;
};

double Nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

// Alternates between both machines, so that both see the same load.
absl::StatusOr<Watched> RunInTurn(vm::Machine& plain, vm::Machine& machine, vm::Profiler& profiler,
                                  const RunOptions& run) {
  RVM_ASSIGN_OR_RETURN(std::vector<Value> args, ReadArguments(plain.program().executable(), run.entry, run.args));
  Watched watched;
  // The first runs are warm-up.
  RVM_RETURN_IF_ERROR(Invoke(plain, run.entry, args).status());
  RVM_ASSIGN_OR_RETURN(Value result, Invoke(machine, run.entry, args));
  if (!run.out.empty()) RVM_RETURN_IF_ERROR(WriteNpy(result, run.out));
  for (int64_t i = 0; i < run.repeat; ++i) {
    auto began = std::chrono::steady_clock::now();
    RVM_RETURN_IF_ERROR(Invoke(plain, run.entry, args).status());
    watched.plain_ns = std::min(watched.plain_ns, Nanoseconds(std::chrono::steady_clock::now() - began));
    profiler.Clear();
    began = std::chrono::steady_clock::now();
    RVM_RETURN_IF_ERROR(Invoke(machine, run.entry, args).status());
    double ns = Nanoseconds(std::chrono::steady_clock::now() - began);
    if (ns >= watched.watched_ns) continue;
    watched.watched_ns = ns;
    watched.profile = profiler.Snapshot();
    watched.trace = profiler.Trace();
    watched.dropped_trace_events = profiler.dropped_trace_events();
  }
  return watched;
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(JoinOptions(kOptions, RunOptionSpecs()), args));
  RVM_ASSIGN_OR_RETURN(int64_t trace_events, options.Integer("--trace-events", 1, 1'000'000));
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  const RunOptions& run = loaded.run;
  vm::Profiler profiler(options.Has("--trace") ? trace_events : 0);
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> plain, vm::Machine::Create(loaded.program, run.machine));
  vm::MachineOptions watched_options = run.machine;
  watched_options.profiler = &profiler;
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(loaded.program, watched_options));
  RVM_ASSIGN_OR_RETURN(Watched watched, RunInTurn(*plain, *machine, profiler, run));

  const Executable& executable = loaded.program->executable();
  vm::ProfileReport report = {.path = loaded.path,
                              .entry = run.entry,
                              .executable = executable,
                              .profile = watched.profile,
                              .runs = run.repeat,
                              .peak_bytes = machine->stats().peak_bytes,
                              .plain_ns = watched.plain_ns,
                              .watched_ns = watched.watched_ns};
  std::cout << vm::ProfileTables(report);
  if (options.Has("--json")) RVM_RETURN_IF_ERROR(ReplaceFile(options.Value("--json"), vm::ProfileJson(report)));
  if (options.Has("--trace")) {
    std::string trace = vm::ChromeTrace(executable, watched.profile, watched.trace);
    RVM_RETURN_IF_ERROR(ReplaceFile(options.Value("--trace"), trace));
    if (int64_t dropped = watched.dropped_trace_events; dropped > 0) {
      std::cerr << "the time line leaves out " << dropped << " events; `--trace-events` raises the limit\n";
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Verb kProfileVerb = {
    .name = "profile",
    .summary = "run a program and show where time and memory go",
    .usage = "FILE.rvm|FILE.relay|FILE.onnx [options] VALUE...",
    .options = kOptions,
    .more = R"(
Runs the program unwatched and watched in turn, --repeat times each, and shows the fastest watched run. Counts are
exact, and the same in each run. Times leave out the profiler's own work, but a watched instruction still takes some
nanoseconds more than it would: read them as shares. `beside the kernels` compares with the unwatched run instead.

Examples:
  relayvm profile fib.relay 20
  relayvm profile model.rvm --repeat 20 --trace trace.json @image.npy
)",
    .run = Run,
    .run_options = true,
};

}  // namespace rvm::tools
