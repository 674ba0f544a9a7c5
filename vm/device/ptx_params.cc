#include "vm/device/ptx_params.h"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

namespace rvm::device {
namespace {

constexpr std::string_view kMark = "_param_";  // between the function's name and the parameter's number

bool IsOfName(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

}  // namespace

absl::flat_hash_map<std::string, std::vector<size_t>> UnusedParams(std::string_view ptx) {
  absl::flat_hash_map<std::string, std::vector<int>> mentions;
  for (size_t at = ptx.find(kMark); at != std::string_view::npos; at = ptx.find(kMark, at + 1)) {
    size_t begin = at, number = 0;
    while (begin > 0 && IsOfName(ptx[begin - 1])) --begin;
    const char *digits = ptx.data() + at + kMark.size(), *end = ptx.data() + ptx.size();
    auto [rest, error] = std::from_chars(digits, end, number);
    if (error != std::errc() || (rest != end && IsOfName(*rest)) || number >= 4096) continue;
    std::vector<int>& counts = mentions[std::string(ptx.substr(begin, at - begin))];
    counts.resize(std::max(counts.size(), number + 1));
    ++counts[number];
  }
  absl::flat_hash_map<std::string, std::vector<size_t>> unused;
  for (const auto& [name, counts] : mentions) {
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 1) unused[name].push_back(i);
    }
  }
  return unused;
}

}  // namespace rvm::device
