// Arguments of a call: from the command line, from files, from standard input.
#ifndef RVM_TOOLS_ARGUMENTS_H_
#define RVM_TOOLS_ARGUMENTS_H_

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "serialization/executable.h"
#include "tools/options.h"

namespace rvm::tools {

inline constexpr OptionSpec kArgsOption = {"--args", "FILE",
                                           "read all values from a file instead; - is standard input"};

struct ArgumentTexts {
  std::vector<std::string> values;  // one per argument: a Relay value, @FILE or -
  std::string file;                 // of all the values, instead; "-": standard input; empty: none
};

// Returns the section of --help about the syntax of values.
std::string_view ValuesHelp();

// Parses `texts` as values of these types. A parameter that is a function has no text: it prints a line with its
// arguments to `prints` at each call, or nothing if that is null. REQUIRES: one text per other type, unless they come
// from a file.
absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& types, std::span<const TypeId> params,
                                                 const ArgumentTexts& texts, std::ostream* prints);

// Returns the arguments for a call of `entry`, one per parameter. Empty if there is no such entry; Machine::Invoke
// reports that.
absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& executable, const std::string& entry,
                                                 const ArgumentTexts& texts, std::ostream* prints = nullptr);

inline constexpr OptionSpec kArgsFileOption = {
    "--args-file", "FILE",
    "a line of values for each run, as on a command line; empty lines and those with # are none"};

// The arguments for many calls of `entry`: those of each line of a file, written as values are on a command line:
// blanks part them, quotes keep them together; lines that are empty or begin with `#` do not count.
absl::StatusOr<std::vector<std::vector<Value>>> ReadArgumentLines(const Executable& executable,
                                                                  const std::string& entry, const std::string& path,
                                                                  std::ostream* prints = nullptr);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_ARGUMENTS_H_
