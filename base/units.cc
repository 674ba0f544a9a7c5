#include "base/units.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rvm {
namespace {

std::string ThreeDigits(double value) {
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f", decimals, value);
}

// Returns `value` in the greatest unit of which it has at least one; each unit is 1000 of the one before.
std::string InUnits(double value, std::span<const char* const> units) {
  size_t unit = 0;
  while (unit + 1 < units.size() && value >= 999.5) {
    value /= 1000;
    ++unit;
  }
  return absl::StrCat(ThreeDigits(value), " ", units[unit]);
}

}  // namespace

std::string DurationText(double ns) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  if (!std::isfinite(ns)) return "-";
  return ns <= 0 ? "0 ns" : InUnits(ns, kUnits);
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  return bytes < 1000 ? absl::StrCat(bytes, " B") : InUnits(static_cast<double>(bytes), kUnits);
}

std::string RateText(double per_second, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T"};
  return std::isfinite(per_second) && per_second > 0 ? absl::StrCat(InUnits(per_second, kPrefixes), unit) : "-";
}

}  // namespace rvm
