// Running a program with the profiler: `relayvm profile` and `relayvm report`.
#ifndef RVM_TOOLS_RELAYVM_WATCHED_RUN_H_
#define RVM_TOOLS_RELAYVM_WATCHED_RUN_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/relayvm/load_program.h"
#include "vm/profiler/profile.h"
#include "vm/profiler/profile_report.h"

namespace rvm::tools {

struct WatchedRun {
  double plain_ns = std::numeric_limits<double>::infinity();  // of the fastest run that nobody watched
  double watched_ns = std::numeric_limits<double>::infinity();
  // Profile of the fastest run, which was disturbed least by other processes.
  vm::Profile profile;
  std::vector<vm::TraceEvent> trace;
  int64_t dropped_trace_events = 0;
  int64_t peak_bytes = 0;
};

// Runs the entry once to warm up and then `loaded.run.repeat` times on a plain and on a profiled machine in turn, so
// that both see the same load. Writes the result to the file of `--out`, if given. `max_trace_events`: that the time
// line keeps.
absl::StatusOr<WatchedRun> RunWatched(const ProgramToRun& loaded, int64_t max_trace_events);

// Refers to both arguments.
vm::ProfileReport ReportOf(const ProgramToRun& loaded, const WatchedRun& watched);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_WATCHED_RUN_H_
