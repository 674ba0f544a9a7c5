// Command-line options, declared in tables: parsing, help and suggestions read them.
#ifndef RVM_TOOLS_OPTIONS_H_
#define RVM_TOOLS_OPTIONS_H_

#include <cstdint>
#include <functional>
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

// The parsed command line. Options may appear anywhere; `--name=value` and `--name value` are equivalent.
class Options {
 public:
  bool Has(std::string_view name) const { return values_.contains(name); }
  // The last value given, or `otherwise`.
  std::string Value(std::string_view name, std::string_view otherwise = "") const;
  std::vector<std::string> Values(std::string_view name) const;
  // Positional arguments, in order.
  const std::vector<std::string>& positional() const { return positional_; }

  // Returns the value of a numeric option, or `otherwise` if it was not given. Errors name the option and the expected
  // value.
  absl::StatusOr<int64_t> Integer(std::string_view name, int64_t least, int64_t otherwise) const;
  absl::StatusOr<double> PositiveNumber(std::string_view name, double otherwise) const;
  // "4096", "64M", "1.5G"
  absl::StatusOr<int64_t> Bytes(std::string_view name, int64_t otherwise) const;

 private:
  friend absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args);
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> positional_;
};

// An argument that starts with `-` is an option unless it is `-` or a number; after `--` none is.
// Unknown options are errors with a suggestion.
absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args);

// Returns the union of both tables.
std::vector<OptionSpec> JoinOptions(std::span<const OptionSpec> a, std::span<const OptionSpec> b);

// Two columns: `  -o FILE   what it means`.
std::string OptionsHelp(std::span<const OptionSpec> specs);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_OPTIONS_H_
