#include "base/data_type.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/element.h"

namespace rvm {
namespace {

template <typename Element>
constexpr std::optional<FloatFormat> FormatOf() {
  if constexpr (requires { Element::kFormat; }) return Element::kFormat;
  return std::nullopt;
}

constexpr DataTypeInfo kTable[] = {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) \
  {k##Name, text, suffix, npy, safetensors, fraction, FormatOf<Element>()},
#include "base/data_type.def"
};

// bool has none: its row is skipped.
constexpr LiteralSuffix kLiteralSuffixes[] = {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) {suffix, k##Name},
#include "base/data_type.def"
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
    return true;
  }
  return false;
}

uint32_t FloatToBits(float value, const FloatFormat& format) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  uint32_t sign = f >> 31 << (format.bits() - 1);
  uint32_t magnitude = f & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | format.nan();
  if (magnitude < format.least_normal()) {  // float addition rounds to a multiple of the least subnormal
    float scaled = std::bit_cast<float>(magnitude) + format.subnormal_rounder();
    return sign | (std::bit_cast<uint32_t>(scaled) - std::bit_cast<uint32_t>(format.subnormal_rounder()));
  }
  int shift = 23 - format.fraction_bits;
  uint32_t odd = (magnitude >> shift) & 1u;
  uint32_t rounded = (magnitude - format.rebias() + (1u << (shift - 1)) - 1 + odd) >> shift;
  return sign | std::min(rounded, format.overflow());
}

float BitsToFloat(uint32_t bits, const FloatFormat& format) {
  uint32_t sign = (bits & format.sign()) << (32 - format.bits());
  uint32_t magnitude = bits & (format.sign() - 1);
  uint32_t moved = magnitude << (23 - format.fraction_bits);
  if (magnitude >= format.first_special()) return std::bit_cast<float>(sign | 0x7f800000u | moved);
  // Multiplying corrects the bias of the exponent, also for subnormals.
  float value = std::bit_cast<float>(moved) * format.scale();
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

uint16_t FloatToBFloat16(float value) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((f >> 16) | 0x40u);
  return static_cast<uint16_t>((f + 0x7fffu + ((f >> 16) & 1u)) >> 16);
}

float BFloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace rvm
