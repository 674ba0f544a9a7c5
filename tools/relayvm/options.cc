#include "tools/relayvm/options.h"

#include <algorithm>

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
  std::string_view nearest = NearestName(arg, names);
  std::string message = absl::StrCat("unknown option `", std::string(arg), "`");
  if (!nearest.empty()) absl::StrAppend(&message, "; did you mean `", std::string(nearest), "`?");
  return absl::InvalidArgumentError(message);
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

absl::StatusOr<Options> ParseOptions(std::span<const OptionSpec> specs, std::span<const std::string> args,
                                     bool keep_unknown) {
  Options options;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string_view arg = args[i];
    if (arg == "--") {
      options.positional_.insert(options.positional_.end(),
                                 args.begin() + static_cast<ptrdiff_t>(i + (keep_unknown ? 0 : 1)), args.end());
      break;
    }
    if (!IsOption(arg)) {
      options.positional_.emplace_back(arg);
      continue;
    }
    size_t equals = arg.starts_with("--") ? arg.find('=') : std::string_view::npos;
    const OptionSpec* spec = FindOption(specs, arg.substr(0, equals));
    if (spec == nullptr) {
      if (!keep_unknown) return UnknownOption(specs, arg.substr(0, equals));
      options.positional_.emplace_back(arg);
      continue;
    }
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
