#include "tools/relayvm/watched_run.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/status_macros.h"
#include "base/value.h"
#include "tools/run_command.h"
#include "vm/machine.h"
#include "vm/profiler/profiler.h"

namespace rvm::tools {
namespace {

double Nanoseconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double, std::nano>(time).count();
}

}  // namespace

absl::StatusOr<WatchedRun> RunWatched(const ProgramToRun& loaded, int64_t max_trace_events) {
  const RunOptions& run = loaded.run;
  vm::Profiler profiler(max_trace_events);
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> plain, vm::Machine::Create(loaded.program, run.machine));
  vm::MachineOptions watched_options = run.machine;
  watched_options.profiler = &profiler;
  RVM_ASSIGN_OR_RETURN(std::unique_ptr<vm::Machine> machine, vm::Machine::Create(loaded.program, watched_options));
  RVM_ASSIGN_OR_RETURN(std::vector<Value> args, ReadOneCall(loaded.program->executable(), run));
  WatchedRun watched;
  RVM_RETURN_IF_ERROR(Invoke(*plain, run.entry, args).status());
  RVM_ASSIGN_OR_RETURN(Value result, Invoke(*machine, run.entry, args));
  if (!run.out.empty()) RVM_RETURN_IF_ERROR(WriteNpy(result, run.out));
  for (int64_t i = 0; i < run.repeat; ++i) {
    auto began = std::chrono::steady_clock::now();
    RVM_RETURN_IF_ERROR(Invoke(*plain, run.entry, args).status());
    watched.plain_ns = std::min(watched.plain_ns, Nanoseconds(std::chrono::steady_clock::now() - began));
    profiler.Clear();
    began = std::chrono::steady_clock::now();
    RVM_RETURN_IF_ERROR(Invoke(*machine, run.entry, args).status());
    double ns = Nanoseconds(std::chrono::steady_clock::now() - began);
    if (ns >= watched.watched_ns) continue;
    watched.watched_ns = ns;
    watched.profile = profiler.Snapshot();
    watched.trace = profiler.Trace();
    watched.dropped_trace_events = profiler.dropped_trace_events();
  }
  watched.peak_bytes = machine->stats().peak_bytes;
  return watched;
}

vm::ProfileReport ReportOf(const ProgramToRun& loaded, const WatchedRun& watched) {
  return {.path = loaded.path,
          .entry = loaded.run.entry,
          .executable = loaded.program->executable(),
          .profile = watched.profile,
          .runs = loaded.run.repeat,
          .peak_bytes = watched.peak_bytes,
          .plain_ns = watched.plain_ns,
          .watched_ns = watched.watched_ns};
}

}  // namespace rvm::tools
