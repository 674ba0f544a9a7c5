// Running an executable from the command line: shared by `relayvm run` and `relayvm-run`.
#ifndef RVM_TOOLS_RUN_COMMAND_H_
#define RVM_TOOLS_RUN_COMMAND_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/value.h"
#include "tools/arguments.h"
#include "tools/options.h"
#include "vm/machine.h"

namespace rvm::tools {

struct RunOptions {
  std::string entry = "main";
  ArgumentTexts args;
  std::string args_file;  // of many calls; empty: none
  int64_t lanes = 0;      // calls of args_file that run together; 0: not given
  std::string out;        // .npy file for a tensor result; empty: print the value
  int64_t repeat = 1;     // more than 1: also report times
  bool stats = false;     // report the memory of the run
  vm::LoadOptions load = {.allow_native = true};
  vm::MachineOptions machine;
};

inline constexpr OptionSpec kControlOption = {
    "--control", "native|bytecode",
    "functions as machine code, or as bytecode alone; compiled files have machine code at -O2 if functions loop"};
// Reads that option; nothing if it is not given.
absl::StatusOr<std::optional<bool>> WantsNative(const Options& options);

// Options of every tool that runs a program.
std::span<const OptionSpec> RunOptionSpecs();
// Reads those options. The first positional argument is left to the caller; the others are values.
absl::StatusOr<RunOptions> ReadRunOptions(const Options& options);

// Adds to a status of Machine::Invoke the option that changes the limit that was reached, if any.
absl::StatusOr<Value> Invoke(vm::Machine& machine, const std::string& entry, std::span<const Value> args);

// For results that are one tensor.
absl::Status WriteNpy(const Value& value, const std::string& path);

// Returns the arguments of the call that the options describe, for tools that make one.
absl::StatusOr<std::vector<Value>> ReadOneCall(const Executable& executable, const RunOptions& options,
                                               std::ostream* prints = nullptr);

// Reads the arguments, invokes, prints or writes the result; of each line of --args-file, if there is one.
absl::Status RunProgram(std::shared_ptr<const vm::Program> program, const RunOptions& options, std::ostream& out);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RUN_COMMAND_H_
