#include "compiler/import/darknet/config.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"

namespace rvm::darknet {
namespace {

// Returns the text of a line without spaces, which mean nothing, and without a comment.
std::string Stripped(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::string text;
  std::ranges::copy_if(line, std::back_inserter(text),
                       [](char c) { return !absl::ascii_isspace(static_cast<unsigned char>(c)); });
  return text.starts_with(';') ? "" : text;
}

absl::Status Malformed(int64_t line, std::string_view saw, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ": saw `", ReadableText(saw.substr(0, 40)), "`; expected ", Abseil(expected)));
}

}  // namespace

const std::string* Section::Find(std::string_view name) const {
  auto found = std::ranges::find_if(options, [&](const auto& option) { return option.first == name; });
  return found == options.end() ? nullptr : &found->second;
}

absl::StatusOr<std::vector<Section>> ReadConfig(importing::Bytes bytes) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<Section> sections;
  for (int64_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string text = Stripped(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.empty()) continue;
    if (text[0] == '[') {
      if (text.size() < 3 || text.back() != ']') return Malformed(line, text, "a section such as `[convolutional]`");
      sections.push_back({.kind = text.substr(1, text.size() - 2), .line = line});
      continue;
    }
    const size_t equals = text.find('=');
    if (sections.empty()) return Malformed(line, text, "the section `[net]`");
    if (equals == std::string::npos || equals == 0) return Malformed(line, text, "an option such as `size=3`");
    sections.back().options.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  if (sections.empty()) return absl::InvalidArgumentError("it has no sections; expected `[net]` and a layer each");
  const Section& first = sections[0];
  if (first.kind != "net" && first.kind != "network") {
    return Malformed(first.line, absl::StrCat("[", first.kind, "]"), "the section `[net]`");
  }
  return sections;
}

}  // namespace rvm::darknet
