#include "tools/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"

namespace rvm::tools {
namespace {

bool IsOption(std::string_view arg) {
  if (arg.size() < 2 || arg[0] != '-') return false;
  if (arg.starts_with("-inf") || arg.starts_with("-nan")) return false;
  return !absl::ascii_isdigit(static_cast<unsigned char>(arg[1])) && arg[1] != '.';
}

const OptionSpec* FindOption(std::span<const OptionSpec> specs, std::string_view arg) {
  for (const OptionSpec& spec : specs) {
    if (spec.attached ? arg.starts_with(spec.name) && arg.size() > spec.name.size() : arg == spec.name) return &spec;
  }
  return nullptr;
}

absl::Status UnknownOption(std::span<const OptionSpec> specs, std::string_view arg) {
  std::vector<std::string_view> names;
  for (const OptionSpec& spec : specs) names.push_back(spec.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown option `", std::string(arg), "`", DidYouMean(arg, names)));
}

// Returns whether all of `text` is one number.
template <typename Number>
bool ReadWhole(std::string_view text, Number& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status Unexpected(std::string_view name, const std::string& saw, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat("saw `", saw, "` for ", std::string(name), "; expected ", expected));
}

// "-o FILE", "-OLEVEL"
std::string Usage(const OptionSpec& spec) {
  std::string text(spec.name);
  if (!spec.value.empty()) absl::StrAppend(&text, spec.attached ? "" : " ", std::string(spec.value));
  return text;
}

}  // namespace

std::string Options::Value(std::string_view name, std::string_view otherwise) const {
  auto it = values_.find(name);
  return it == values_.end() ? std::string(otherwise) : it->second.back();
}

std::vector<std::string> Options::Values(std::string_view name) const {
  auto it = values_.find(name);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

absl::StatusOr<int64_t> Options::Integer(std::string_view name, int64_t least, int64_t otherwise) const {
  if (!Has(name)) return otherwise;
  std::string text = Value(name);
  int64_t value = 0;
  if (ReadWhole(text, value) && value >= least) return value;
  return Unexpected(name, text, absl::StrCat("a whole number from ", least));
}

absl::StatusOr<double> Options::PositiveNumber(std::string_view name, double otherwise) const {
  if (!Has(name)) return otherwise;
  std::string text = Value(name);
  double value = 0;
  if (ReadWhole(text, value) && std::isfinite(value) && value > 0) return value;
  return Unexpected(name, text, "a number above 0, such as 10 or 0.5");
}

absl::StatusOr<int64_t> Options::Bytes(std::string_view name, int64_t otherwise) const {
  if (!Has(name)) return otherwise;
  std::string text = Value(name);
  size_t unit = text.empty() ? std::string::npos : std::string("KMG").find(text.back());
  bool has_unit = unit != std::string::npos;
  int shift = has_unit ? 10 * static_cast<int>(unit + 1) : 0;
  std::string_view digits = std::string_view(text).substr(0, text.size() - has_unit);
  int64_t whole = 0;
  if (ReadWhole(digits, whole) && whole >= 0 && whole <= std::numeric_limits<int64_t>::max() >> shift) {
    return whole << shift;
  }
  double part = 0;
  if (has_unit && digits.find('.') != std::string_view::npos && ReadWhole(digits, part)) {
    double bytes = std::ldexp(part, shift);
    if (bytes >= 0 && bytes < 0x1p63) return static_cast<int64_t>(bytes);
  }
  return Unexpected(name, text, "a number of bytes, such as 4096, 64M or 2G");
}

absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args) {
  Options options;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view arg = args[i];
    if (arg == "--") {
      options.positional_.insert(options.positional_.end(), args.begin() + static_cast<ptrdiff_t>(i + 1), args.end());
      break;
    }
    if (!IsOption(arg)) {
      options.positional_.emplace_back(arg);
      continue;
    }
    size_t equals = arg.starts_with("--") ? arg.find('=') : std::string_view::npos;
    const OptionSpec* spec = FindOption(specs, arg.substr(0, equals));
    if (spec == nullptr) return UnknownOption(specs, arg.substr(0, equals));
    std::vector<std::string>& values = options.values_[std::string(spec->name)];
    if (spec->attached) {
      values.emplace_back(arg.substr(spec->name.size()));
    } else if (spec->value.empty()) {
      if (equals != std::string_view::npos) {
        return absl::InvalidArgumentError(absl::StrCat("option `", std::string(spec->name), "` takes no value"));
      }
      values.emplace_back();
    } else if (equals != std::string_view::npos) {
      values.emplace_back(arg.substr(equals + 1));
    } else if (i + 1 < args.size()) {
      values.push_back(args[++i]);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("option `", std::string(spec->name), "` needs a value: `", Usage(*spec), "`"));
    }
  }
  return options;
}

std::vector<OptionSpec> JoinOptions(std::span<const OptionSpec> a, std::span<const OptionSpec> b) {
  std::vector<OptionSpec> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

std::string OptionsHelp(std::span<const OptionSpec> specs) {
  size_t width = 0;
  for (const OptionSpec& spec : specs) width = std::max(width, Usage(spec).size());
  std::string text;
  for (const OptionSpec& spec : specs) {
    std::string usage = Usage(spec);
    absl::StrAppend(&text, "  ", usage, std::string(width - usage.size() + 2, ' '), std::string(spec.help), "\n");
  }
  return text;
}

}  // namespace rvm::tools
