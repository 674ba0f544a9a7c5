// Running an executable from the command line: shared by `relayvm run` and `relayvm-run`.
#ifndef RVM_TOOLS_RUN_COMMAND_H_
#define RVM_TOOLS_RUN_COMMAND_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "vm/machine.h"

namespace rvm::tools {

struct RunOptions {
  std::string entry = "main";
  std::vector<std::string> args;  // Relay values, or @file.npy
  std::string out;                // .npy file for a tensor result; empty: print the value
  int64_t repeat = 1;             // more than 1: also report times
  bool stats = false;             // report the memory of the run
  vm::LoadOptions load = {.allow_native = true};
  vm::MachineOptions machine;
};

// Takes the flags that RunOptions has from `args`; what is left, in order, goes to `rest`:
// the path of the executable first, then the values. A value may begin with `-`
// if a digit follows; after `--` all are values.
absl::StatusOr<RunOptions> ParseRunOptions(std::span<const std::string> args, std::vector<std::string>& rest);

// A whole number that is at least `least`; `flag` is for the message.
absl::StatusOr<int64_t> ReadInteger(const std::string& flag, const std::string& text, int64_t least);

// The values that `texts` are for the parameters of `entry`. None if there is no such entry: Machine::Invoke says so.
absl::StatusOr<std::vector<Value>> ReadArgs(const Executable& executable, const std::string& entry,
                                            const std::vector<std::string>& texts);

// Of a result that is one tensor.
absl::Status WriteNpy(const Value& value, const std::string& path);

// The part of --help on those flags and on how values are written.
std::string_view RunOptionsHelp();

// Reads the arguments, invokes, prints or writes the result.
absl::Status RunProgram(std::shared_ptr<const vm::Program> program, const RunOptions& options, std::ostream& out);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RUN_COMMAND_H_
