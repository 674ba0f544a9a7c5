// The program that `run`, `profile`, `report` and `bench` run: an executable, or source that is compiled first.
#ifndef RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_
#define RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/options.h"
#include "tools/run_command.h"
#include "vm/machine.h"

namespace rvm::tools {

struct ProgramToRun {
  std::string path;
  std::shared_ptr<const vm::Program> program;
  RunOptions run;
};

// Returns the options of a verb that runs a program: its own, those of compiling one, and those of running one.
std::vector<OptionSpec> WithProgramOptions(std::span<const OptionSpec> own);

// Loads or compiles a program as those options say.
absl::StatusOr<std::shared_ptr<const vm::Program>> LoadProgram(const std::string& path, const Options& options,
                                                               const RunOptions& run);

// Reads those options and the positional arguments: the path of a .relay, .onnx,
// .pt2, .json or executable file, then values.
absl::StatusOr<ProgramToRun> LoadProgramToRun(const Options& options);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_
