// relayvm run: runs an executable, or compiles a program and runs it.
#include <iostream>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "tools/relayvm/load_program.h"
#include "tools/relayvm/verb.h"
#include "tools/run_command.h"

namespace rvm::tools {
namespace {

absl::Status Run(std::span<const std::string> args) {
  RVM_ASSIGN_OR_RETURN(Options options, ParseOptions(WithProgramOptions({}), args));
  RVM_ASSIGN_OR_RETURN(ProgramToRun loaded, LoadProgramToRun(options));
  return RunProgram(std::move(loaded.program), loaded.run, std::cout);
}

}  // namespace

const Verb kRunVerb = {
    .name = "run",
    .summary = "run an executable or a program",
    .usage = "FILE.rvm|FILE.relay|FILE.onnx|FILE.pt2|FILE.tflite|FILE.json [options] VALUE...",
    .options = {},
    .more = R"(
Examples:
  relayvm run fib.relay 20
  relayvm run model.rvm @image.npy --out scores.npy
)",
    .run = Run,
    .runs_program = true,
};

}  // namespace rvm::tools
