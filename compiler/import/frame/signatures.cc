#include "compiler/import/frame/signatures.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "base/utf8.h"

namespace rvm::importing {
namespace {

constexpr std::string_view kServing = "serving_default";

}  // namespace

absl::StatusOr<std::vector<size_t>> ChooseSignatures(std::span<const std::string_view> names,
                                                     std::span<const std::string> chosen, std::string_view model) {
  auto list = [&] {
    std::vector<std::string> texts;
    for (std::string_view name : names) texts.push_back(ReadableText(name));
    return absl::StrCat(texts.size() > 1 ? "the signatures `" : "the signature `", absl::StrJoin(texts, "`, `"), "`");
  };
  auto find = [&](std::string_view name) -> std::optional<size_t> {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names.begin()));
  };
  std::vector<size_t> numbers;
  for (const std::string& name : chosen) {
    const std::optional<size_t> number = find(name);
    if (!number) {
      return absl::InvalidArgumentError(absl::StrCat(Abseil(model), " has no signature `", name, "`; it has ", list()));
    }
    if (std::ranges::find(numbers, *number) != numbers.end()) {
      return absl::InvalidArgumentError(absl::StrCat("signature `", name, "` is chosen twice"));
    }
    numbers.push_back(*number);
  }
  if (!numbers.empty()) return numbers;
  const std::optional<size_t> serving = names.size() == 1 ? 0 : find(kServing);
  if (serving) return std::vector{*serving};
  return absl::InvalidArgumentError(absl::StrCat(Abseil(model), " has ", list(), ", and none is `", Abseil(kServing),
                                                 "`; choose by --signature NAME (`signature` in Python)"));
}

}  // namespace rvm::importing
