// The elements of tensors as C++ types, and what else base/data_type.def says of each dtype.
#ifndef RVM_BASE_ELEMENT_H_
#define RVM_BASE_ELEMENT_H_

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "base/data_type.h"

namespace rvm {

// A float of a sign, an exponent and a fraction, at most 16 bits in all, with subnormals. Like in IEEE 754, the
// greatest exponent is that of infinity and NaN if `has_infinity`. Otherwise only the encoding with all bits of
// exponent and fraction set is a NaN, and values that are too large, also infinity, are rounded to the greatest value.
struct FloatFormat {
  int exponent_bits, fraction_bits;
  bool has_infinity;

  constexpr int bits() const { return 1 + exponent_bits + fraction_bits; }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr uint32_t sign() const { return 1u << (bits() - 1); }
  // Returns the least encoding of an infinity or a NaN, without the sign.
  constexpr uint32_t first_special() const { return has_infinity ? sign() - (1u << fraction_bits) : sign() - 1; }
  constexpr uint32_t nan() const { return has_infinity ? first_special() | 1u << (fraction_bits - 1) : sign() - 1; }
  // Returns the encoding of values that are too large.
  constexpr uint32_t overflow() const { return has_infinity ? first_special() : first_special() - 1; }

  // For conversions, as the bits of a float32 or its value: what to subtract from the exponent; the least normal value;
  // a value whose unit in the last place is the least subnormal; the factor for exponents without their bias.
  constexpr uint32_t rebias() const { return static_cast<uint32_t>(127 - bias()) << 23; }
  constexpr uint32_t least_normal() const { return rebias() + (1u << 23); }
  constexpr float subnormal_rounder() const { return PowerOf2(24 - bias() - fraction_bits); }
  constexpr float scale() const { return PowerOf2(127 - bias()); }

 private:
  static constexpr float PowerOf2(int e) { return std::bit_cast<float>(static_cast<uint32_t>(e + 127) << 23); }
};
uint32_t FloatToBits(float value, const FloatFormat& format);  // rounds to nearest even
float BitsToFloat(uint32_t bits, const FloatFormat& format);

// Elements that are not C++ types: they convert to the type that they compute in, and From converts back.
struct Bool {
  uint8_t byte;
  operator int64_t() const { return byte != 0; }
  static Bool From(int64_t value) { return {value != 0}; }
};
template <typename Bits, int exponent_bits, int fraction_bits, bool has_infinity>
struct SmallFloat {
  static constexpr FloatFormat kFormat = {exponent_bits, fraction_bits, has_infinity};
  Bits bits;
  operator float() const { return BitsToFloat(bits, kFormat); }
  static SmallFloat From(float value) { return {static_cast<Bits>(FloatToBits(value, kFormat))}; }
};
#define RVM_SMALL_FLOAT(Element, Bits, exponent, fraction, has_infinity) \
  using Element = SmallFloat<Bits, exponent, fraction, has_infinity>;
#include "base/data_type.def"
struct BFloat {
  static constexpr FloatFormat kFormat = {8, 7, true};
  uint16_t bits;
  operator float() const { return BFloat16ToFloat(bits); }
  static BFloat From(float value) { return {FloatToBFloat16(value)}; }
};

// The type that an element computes in: float, double or int64_t.
template <typename E>
using LaneOf = std::conditional_t<
    std::is_same_v<E, double>, double,
    std::conditional_t<std::is_convertible_v<E, float> && !std::is_integral_v<E> && !std::is_same_v<E, Bool>, float,
                       int64_t>>;

// Calls `f` with a value of the C++ type of elements of `dtype`. REQUIRES: IsStorable(dtype).
template <typename F>
auto WithElement(DataType dtype, F&& f) {
  switch (static_cast<int>(dtype.code) << 8 | dtype.bits) {
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) \
  case static_cast<int>(TypeCode::k##Code) << 8 | width: return f(Element{});
#include "base/data_type.def"
    default: RVM_UNREACHABLE("no tensor has this dtype");
  }
}

struct DataTypeInfo {
  DataType dtype;
  std::string_view name, suffix, npy, safetensors;
  int fraction_bits;
  std::optional<FloatFormat> format;  // of a float below 32 bits
};

// Returns the rows of base/data_type.def, in order.
std::span<const DataTypeInfo> DataTypeTable();
// Null if no tensor has this dtype.
const DataTypeInfo* FindDataType(DataType dtype);

// A dtype that a literal may be written with, by its suffix: those of the table and `i`, `f`, `bf`.
struct LiteralSuffix {
  std::string_view text;
  DataType dtype;
};
std::span<const LiteralSuffix> LiteralSuffixes();
// Removes the longest suffix that ends `text`; nullopt if none does.
std::optional<DataType> TakeLiteralSuffix(std::string_view& text);

}  // namespace rvm

#endif  // RVM_BASE_ELEMENT_H_
