#include "compiler/import/checkpoint/settings.h"

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::checkpoint {
void Settings::Unsupported(std::string_view name, std::string_view saw, std::string_view expected) {
  refusals_.Add(file_, absl::StrCat("`", Abseil(name), "`"),
                absl::UnimplementedError(absl::StrCat("saw `", Abseil(saw), "`; expected ", Abseil(expected))));
}

void Settings::Malformed(std::string_view name, std::string_view why) {
  refusals_.Add(file_, absl::StrCat("`", Abseil(name), "`"), absl::InvalidArgumentError(Abseil(why)));
}

int64_t Settings::Count(std::string_view name, std::optional<int64_t> otherwise, int64_t most) {
  Setting setting = lookup_(name);
  if (const auto* number = std::get_if<int64_t>(&setting); number != nullptr && *number > 0 && *number <= most) {
    return *number;
  }
  const bool is_missing = std::holds_alternative<std::monostate>(setting);
  if (is_missing && otherwise && *otherwise <= most) return *otherwise;
  Malformed(name, is_missing && !otherwise ? "it is missing" : absl::StrCat("expected a number from 1 to ", most));
  return 0;
}

double Settings::Number(std::string_view name, double otherwise) {
  Setting setting = lookup_(name);
  if (const auto* integer = std::get_if<int64_t>(&setting)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&setting);
  if (number != nullptr && std::isfinite(*number)) return *number;
  if (!std::holds_alternative<std::monostate>(setting)) Malformed(name, "expected a finite number");
  return otherwise;
}

bool Settings::Flag(std::string_view name, bool otherwise) {
  Setting setting = lookup_(name);
  if (const auto* flag = std::get_if<bool>(&setting)) return *flag;
  if (!std::holds_alternative<std::monostate>(setting)) Malformed(name, "expected true or false");
  return otherwise;
}

std::string Settings::Text(std::string_view name, std::string_view otherwise) {
  Setting setting = lookup_(name);
  if (const auto* text = std::get_if<std::string>(&setting)) return *text;
  if (!std::holds_alternative<std::monostate>(setting)) Malformed(name, "expected a text");
  return std::string(otherwise);
}

}  // namespace rvm::checkpoint
