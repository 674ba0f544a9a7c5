#include "base/data_type.h"

#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace rvm {
namespace {

struct Prefix {
  std::string_view text;
  TypeCode code;
};
constexpr std::array<Prefix, 4> kPrefixes = {
    {{"uint", TypeCode::kUInt}, {"int", TypeCode::kInt}, {"bfloat", TypeCode::kBFloat}, {"float", TypeCode::kFloat}}};

// The predecessor also writes `int`, `uint` and `float` for 32 bits, and `uint1` for bool.
constexpr int kDefaultWidth = 32;

bool WidthExists(TypeCode code, int bits) {
  switch (code) {
    case TypeCode::kBool: return bits == 1;
    case TypeCode::kInt:
    case TypeCode::kUInt: return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case TypeCode::kFloat: return bits == 16 || bits == 32 || bits == 64;
    case TypeCode::kBFloat: return bits == 16;
  }
  return false;
}

// Digits only: no sign, no blanks, no leading zero.
std::optional<int> ParseWidth(std::string_view text) {
  int value = 0;
  if (text.empty() || text.size() > 4 || text[0] == '0') return std::nullopt;
  for (char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  return value;
}

}  // namespace

std::string DataType::ToString() const {
  std::string text;
  switch (code) {
    case TypeCode::kBool: text = "bool"; break;
    case TypeCode::kInt: text = absl::StrCat("int", static_cast<int>(bits)); break;
    case TypeCode::kUInt: text = absl::StrCat("uint", static_cast<int>(bits)); break;
    case TypeCode::kFloat: text = absl::StrCat("float", static_cast<int>(bits)); break;
    case TypeCode::kBFloat: text = absl::StrCat("bfloat", static_cast<int>(bits)); break;
  }
  if (lanes != 1) absl::StrAppend(&text, "x", lanes);
  return text;
}

std::optional<DataType> ParseDataType(std::string_view text) {
  DataType dtype;
  size_t x = text.find('x');
  std::string_view base = text.substr(0, x);
  if (x != std::string_view::npos) {
    std::optional<int> lanes = ParseWidth(text.substr(x + 1));
    if (!lanes || *lanes < 2) return std::nullopt;
    dtype.lanes = static_cast<uint16_t>(*lanes);
  }
  if (base == "bool") {
    dtype.code = TypeCode::kBool;
    dtype.bits = 1;
    return dtype;
  }
  for (const Prefix& prefix : kPrefixes) {
    if (!base.starts_with(prefix.text)) continue;
    std::string_view width = base.substr(prefix.text.size());
    std::optional<int> bits = ParseWidth(width);
    if (width.empty() && WidthExists(prefix.code, kDefaultWidth)) bits = kDefaultWidth;
    if (prefix.code == TypeCode::kUInt && bits == 1) {
      dtype.code = TypeCode::kBool;
      dtype.bits = 1;
      return dtype;
    }
    if (!bits || !WidthExists(prefix.code, *bits)) return std::nullopt;
    dtype.code = prefix.code;
    dtype.bits = static_cast<uint8_t>(*bits);
    return dtype;
  }
  return std::nullopt;
}

bool IsStorable(DataType dtype) { return dtype.lanes == 1 && WidthExists(dtype.code, dtype.bits); }

uint16_t FloatToHalf(float value) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  uint32_t sign = (f >> 16) & 0x8000u;
  uint32_t magnitude = f & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // to infinity
  if (magnitude < 0x38800000u) {  // subnormal half: let float addition round
    float scaled = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(scaled) - 0x3f000000u));
  }
  uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

float HalfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  float subnormal = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

uint16_t FloatToBFloat16(float value) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((f >> 16) | 0x40u);
  return static_cast<uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace rvm
