// The program that `run`, `profile` and `bench` run: an executable, or source compiled on the spot.
#ifndef RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_
#define RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_

#include <memory>
#include <string>

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

// From the options of running and of compile_options.h, and the positional arguments: a path that ends in .relay,
// .onnx or .json or names an executable, then values.
absl::StatusOr<ProgramToRun> LoadProgramToRun(const Options& options);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_LOAD_PROGRAM_H_
