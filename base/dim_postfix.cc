#include "base/dim_postfix.h"

#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace rvm {
namespace {

constexpr std::array<std::pair<DimKind, std::string_view>, 8> kOperators = {{
    {DimKind::kAdd, "+"},
    {DimKind::kSub, "-"},
    {DimKind::kMul, "*"},
    {DimKind::kFloorDiv, "/"},
    {DimKind::kFloorMod, "mod"},
    {DimKind::kMin, "min"},
    {DimKind::kMax, "max"},
    {DimKind::kBroadcast, "broadcast"},
}};

bool Append(const Dim& dim, std::string& text) {
  std::string word;
  if (dim.is_const()) {
    word = absl::StrCat(dim.constant());
  } else if (dim.kind() == DimKind::kVar) {
    word = absl::StrCat("s", dim.id());
  } else if (dim.is_binary()) {
    if (!Append(dim.lhs(), text) || !Append(dim.rhs(), text)) return false;
    for (const auto& [kind, name] : kOperators) {
      if (kind == dim.kind()) word = std::string(name);
    }
  }
  if (word.empty()) return false;
  absl::StrAppend(&text, text.empty() ? "" : " ", word);
  return true;
}

std::optional<int64_t> Leaf(absl::string_view word, std::span<const int64_t> variables) {
  int64_t number = 0;
  if (absl::SimpleAtoi(word, &number)) return number;
  size_t id = 0;
  bool is_variable = word.size() > 1 && word[0] == 's' && absl::SimpleAtoi(word.substr(1), &id);
  return is_variable && id < variables.size() ? std::optional<int64_t>(variables[id]) : std::nullopt;
}

}  // namespace

std::optional<std::string> DimToPostfix(const Dim& dim) {
  std::string text;
  return Append(dim, text) ? std::optional<std::string>(text) : std::nullopt;
}

std::optional<int64_t> EvaluatePostfix(std::string_view text, std::span<const int64_t> variables) {
  std::vector<int64_t> stack;
  for (absl::string_view word : absl::StrSplit(absl::string_view(text.data(), text.size()), ' ')) {
    const std::pair<DimKind, std::string_view>* found = nullptr;
    for (const auto& entry : kOperators) {
      if (absl::string_view(entry.second.data(), entry.second.size()) == word) found = &entry;
    }
    if (found == nullptr) {
      std::optional<int64_t> value = Leaf(word, variables);
      if (!value) return std::nullopt;
      stack.push_back(*value);
      continue;
    }
    if (stack.size() < 2) return std::nullopt;
    int64_t b = stack.back(), a = stack[stack.size() - 2];
    if (OverflowsBinaryDim(found->first, a, b)) return std::nullopt;
    stack.pop_back();
    stack.back() = EvaluateBinaryDim(found->first, a, b);
  }
  return stack.size() == 1 ? std::optional<int64_t>(stack[0]) : std::nullopt;
}

}  // namespace rvm
