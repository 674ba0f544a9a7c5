#include "base/data_type.h"

#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/element.h"

namespace rvm {
namespace {

constexpr DataTypeInfo kTable[] = {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) \
  {k##Name, text, suffix, npy, safetensors, fraction},
#include "base/data_type.def"
#undef RVM_DTYPE
};

// bool has none: its row is skipped.
constexpr LiteralSuffix kLiteralSuffixes[] = {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) {suffix, k##Name},
#include "base/data_type.def"
#undef RVM_DTYPE
    {"i", kInt32}, {"bf", kBFloat16}, {"f", kFloat32}};

// The predecessor also writes `int`, `uint` and `float` for 32 bits, and `uint1` for bool.
constexpr std::pair<std::string_view, DataType> kAliases[] = {
    {"int", kInt32}, {"uint", kUInt32}, {"float", kFloat32}, {"uint1", kBool}};

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

std::span<const DataTypeInfo> DataTypeTable() { return kTable; }

const DataTypeInfo* FindDataType(DataType dtype) {
  for (const DataTypeInfo& info : kTable) {
    if (info.dtype == dtype) return &info;
  }
  return nullptr;
}

std::span<const LiteralSuffix> LiteralSuffixes() { return std::span(kLiteralSuffixes).subspan(1); }

std::optional<DataType> TakeLiteralSuffix(std::string_view& text) {
  const LiteralSuffix* longest = nullptr;
  for (const LiteralSuffix& suffix : LiteralSuffixes()) {
    bool is_longer = longest == nullptr || suffix.text.size() > longest->text.size();
    if (is_longer && text.ends_with(suffix.text)) longest = &suffix;
  }
  if (longest == nullptr) return std::nullopt;
  text.remove_suffix(longest->text.size());
  return longest->dtype;
}

std::string DataType::ToString() const {
  const DataTypeInfo* info = FindDataType({code, bits, 1});
  RVM_CHECK(info != nullptr, "a dtype is in no row of base/data_type.def");
  std::string name(info->name);
  return lanes == 1 ? name : absl::StrCat(name, "x", lanes);
}

std::optional<DataType> ParseDataType(std::string_view text) {
  size_t x = text.find('x');
  std::string_view base = text.substr(0, x);
  std::optional<DataType> dtype;
  for (const DataTypeInfo& info : kTable) {
    if (info.name == base) dtype = info.dtype;
  }
  for (const auto& [name, meant] : kAliases) {
    if (name == base) dtype = meant;
  }
  if (!dtype || x == std::string_view::npos) return dtype;
  std::optional<int> lanes = ParseWidth(text.substr(x + 1));
  if (!lanes || *lanes < 2) return std::nullopt;
  dtype->lanes = static_cast<uint16_t>(*lanes);
  return dtype;
}

bool IsStorable(DataType dtype) {
  if (dtype.lanes != 1) return false;
  switch (static_cast<int>(dtype.code) << 8 | dtype.bits) {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) \
  case static_cast<int>(TypeCode::k##Code) << 8 | width:
#include "base/data_type.def"
#undef RVM_DTYPE
    return true;
  }
  return false;
}

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
