// relayvm run: runs an executable, or compiles a program and runs it.
#include <cstdint>
#include <iostream>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/model_files.h"
#include "tools/relayvm/value_dump.h"
#include "tools/relayvm/verb.h"
#include "tools/run_command.h"
#include "vm/profiler/profiler.h"

namespace rvm::tools {
namespace {

constexpr OptionSpec kOptions[] = {
    {"--dump-values", "DIR",
     "write each tensor that the run computes to a folder, as .npy, with its place in index.json"},
    {"--dump-limit", "N", "how many of them at most (10000)"},
};

absl::Status RunWithDump(const ProgramToRun& loaded, const std::string& folder, int64_t limit) {
  const RunOptions& run = loaded.run;
  if (!run.args_file.empty() || run.repeat > 1) {
    return absl::InvalidArgumentError("`--dump-values` is for one run; leave `--args-file` and `--repeat` out");
  }
  RVM_ASSIGN_OR_RETURN(ValueDump dump, ValueDump::Create(folder, loaded.program->executable(), limit));
  vm::Profiler profiler;
  profiler.ShowResults(&dump);
  RunOptions watched = run;
  watched.machine.profiler = &profiler;
  // A run that fails leaves what it computed before.
  absl::Status status = RunProgram(loaded.program, watched, std::cout);
  absl::StatusOr<std::string> written = dump.Finish();
  if (written.ok()) std::cerr << "relayvm: note: " << *written << "\n";
  return status.ok() ? written.status() : status;
}

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(WithProgramOptions(kOptions), args));
  RVM_ASSIGN_OR_RETURN(int64_t limit, options.Integer("--dump-limit", 1, 10000));
  if (options.Has("--dump-limit") && !options.Has("--dump-values")) {
    return absl::InvalidArgumentError("`--dump-limit` is for `--dump-values`");
  }
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  if (!options.Has("--dump-values")) return RunProgram(std::move(loaded.program), loaded.run, std::cout);
  return RunWithDump(loaded, options.Value("--dump-values"), limit);
}

}  // namespace

const Verb kRunVerb = {
    .name = "run",
    .summary = "run an executable or a program",
    .usage = "FILE.rvm|FILE.relay|" RVM_MODEL_FILES "|FILE.json [options] VALUE...",
    .options = kOptions,
    .more = R"(
--dump-values writes the results of kernels, in the order of the run, also in loops and functions. Kernels of several
operators have no tensors between them: -O0 compiles a kernel for each.

Examples:
  relayvm run fib.relay 20
  relayvm run model.rvm @image.npy --out scores.npy
  relayvm run model.onnx @image.npy -O0 --dump-values values
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
