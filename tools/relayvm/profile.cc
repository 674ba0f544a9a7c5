// relayvm profile: time and memory of a program by function, kernel and instruction.
#include <cstdint>
#include <iostream>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "tools/flame_graph.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/verb.h"
#include "tools/relayvm/watched_run.h"
#include "vm/profiler/profile_report.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--json", "FILE", "also write everything as JSON"},
    {"--trace", "FILE", "also write a time line for chrome://tracing or ui.perfetto.dev"},
    {"--flame", "FILE", "also draw a flame graph into FILE.svg, or write its stacks to FILE.folded"},
    {"--trace-events", "N", "calls, returns and kernels that time line and flame graph keep, from the first (1000000)"},
};

absl::Status CheckFlamePath(const std::string& path) {
  if (path.empty() || path.ends_with(".svg") || path.ends_with(".folded")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("saw `--flame ", path, "`; expected a file that ends in .svg or .folded"));
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(WithProgramOptions(kOptions), args));
  RVM_ASSIGN_OR_RETURN(int64_t trace_events, options.Integer("--trace-events", 1, 1'000'000));
  std::string flame_path = options.Value("--flame");
  RVM_RETURN_IF_ERROR(CheckFlamePath(flame_path));
  bool has_trace = options.Has("--trace") || !flame_path.empty();
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  RVM_ASSIGN_OR_RETURN(WatchedRun watched, RunWatched(loaded, has_trace ? trace_events : 0));
  vm::ProfileReport report = ReportOf(loaded, watched);
  std::cout << vm::ProfileTables(report);
  if (options.Has("--json")) RVM_RETURN_IF_ERROR(ReplaceFile(options.Value("--json"), vm::ProfileJson(report)));
  if (options.Has("--trace")) {
    std::string trace = vm::ChromeTrace(report.executable, watched.profile, watched.trace);
    RVM_RETURN_IF_ERROR(ReplaceFile(options.Value("--trace"), trace));
  }
  if (!flame_path.empty()) {
    FlameFrame root = FoldTrace(report.executable, watched.trace);
    RVM_RETURN_IF_ERROR(
        ReplaceFile(flame_path, flame_path.ends_with(".svg") ? FlameGraphSvg(root) : FoldedStacks(root)));
  }
  if (int64_t dropped = watched.dropped_trace_events; has_trace && dropped > 0) {
    std::cerr << "the time line leaves out " << dropped << " events; `--trace-events` raises the limit\n";
  }
  return absl::OkStatus();
}

}  // namespace

const Verb kProfileVerb = {
    .name = "profile",
    .summary = "run a program and show where time and memory go",
    .usage = "FILE.rvm|FILE.relay|" RVM_MODEL_FILES " [options] VALUE...",
    .options = kOptions,
    .more = R"(
Runs the program unwatched and watched in turn, --repeat times each, and shows the fastest watched run. Counts are
exact, and the same in each run. Times leave out the profiler's own work, but a watched instruction still takes some
nanoseconds more than it would: read them as shares. `beside the kernels` compares with the unwatched run instead.

Examples:
  relayvm profile fib.relay 20
  relayvm profile model.rvm --repeat 20 --trace trace.json --flame flame.svg @image.npy
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
