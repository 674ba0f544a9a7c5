// Command-line options, declared in one table per verb: parsing, help and suggestions read it.
#ifndef RVM_TOOLS_RELAYVM_OPTIONS_H_
#define RVM_TOOLS_RELAYVM_OPTIONS_H_

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::tools {

struct OptionSpec {
  std::string_view name;   // "--params", "-o", "-O"
  std::string_view value;  // "FILE"; empty: a switch
  std::string_view help;
  // The value follows without a space (`-O2`).
  bool attached = false;
};

// What was given. Options may stand anywhere; `--name=value` and `--name value` are the same.
class Options {
 public:
  bool Has(std::string_view name) const { return values_.contains(name); }
  // The last one given, or `otherwise`.
  std::string Value(std::string_view name, std::string_view otherwise = "") const;
  std::vector<std::string> Values(std::string_view name) const;
  // What is no option, in order.
  const std::vector<std::string>& positional() const { return positional_; }

 private:
  friend absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args,
                                              bool keep_unknown);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positional_;
};

// An argument that starts with `-` is an option unless it is a number; after `--` none is.
// Unknown ones are errors with a suggestion, or, with `keep_unknown`, stay among the positional (as does `--`).
absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args,
                                     bool keep_unknown = false);

// Two columns: `  -o FILE   what it means`.
std::string OptionsHelp(std::span<const OptionSpec> specs);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_OPTIONS_H_
