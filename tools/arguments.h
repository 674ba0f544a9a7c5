// The arguments of a call as people give them: on the command line, in files, on standard input.
#ifndef RVM_TOOLS_ARGUMENTS_H_
#define RVM_TOOLS_ARGUMENTS_H_

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

// The part of --help on how values are written.
std::string_view ValuesHelp();

// The values that `texts` are for parameters of these types. REQUIRES: a text per type, unless they are in a file.
absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& types, std::span<const TypeId> params,
                                                 const ArgumentTexts& texts);

// Of a call of `entry`, with as many values as it has parameters. None if there is no such entry: Machine::Invoke
// says so.
absl::StatusOr<std::vector<Value>> ReadArguments(const Executable& executable, const std::string& entry,
                                                 const ArgumentTexts& texts);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_ARGUMENTS_H_
