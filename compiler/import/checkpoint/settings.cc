#include "compiler/import/checkpoint/settings.h"

#include <cmath>
#include <limits>

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

int64_t Settings::Count(std::string_view name, std::optional<int64_t> otherwise, int64_t most, int64_t least) {
  Setting setting = lookup_(name);
  if (const auto* number = std::get_if<int64_t>(&setting); number != nullptr && *number >= least && *number <= most) {
    return *number;
  }
  const bool is_missing = std::holds_alternative<std::monostate>(setting);
  if (is_missing && otherwise && *otherwise <= most) return *otherwise;
  Malformed(name,
            is_missing && !otherwise ? "it is missing" : absl::StrCat("expected a number from ", least, " to ", most));
  return 0;
}

int64_t Settings::EqualHeads(std::string_view name, int64_t width, int64_t heads) {
  if (width == 0 || heads == 0) return 0;
  const int64_t size = width / heads;
  if (size > 0 && size <= kMaxHeadSize) return size;
  Malformed(name, absl::StrCat("saw ", heads, " heads for states of ", width, " elements; expected ",
                               size == 0 ? "at most as many heads"
                                         : absl::StrCat("heads of at most ", kMaxHeadSize, " elements")));
  return 0;
}

std::optional<double> Settings::Find(std::string_view name) {
  Setting setting = lookup_(name);
  if (std::holds_alternative<std::monostate>(setting)) return std::nullopt;
  if (const auto* integer = std::get_if<int64_t>(&setting)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&setting);
  if (number != nullptr && std::abs(*number) <= static_cast<double>(std::numeric_limits<float>::max())) return *number;
  Malformed(name, "expected a number that is finite in float32");
  return std::nullopt;
}

double Settings::Number(std::string_view name, double otherwise) { return Find(name).value_or(otherwise); }

double Settings::Positive(std::string_view name, double otherwise) {
  std::optional<double> number = Find(name);
  // A number that rounds to 0 in float32 is no divisor, either.
  if (!number || static_cast<float>(*number) > 0) return number.value_or(otherwise);
  Malformed(name, "expected a number above 0");
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
