// The elements of tensors as C++ types, and what else base/data_type.def says of each dtype.
#ifndef RVM_BASE_ELEMENT_H_
#define RVM_BASE_ELEMENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/check.h"
#include "base/data_type.h"

namespace rvm {

// Elements that are no C++ type: they convert to the type that they compute in, and From converts back.
struct Bool {
  uint8_t byte;
  operator int64_t() const { return byte != 0; }
  static Bool From(int64_t value) { return {value != 0}; }
};
struct Half {
  uint16_t bits;
  operator float() const { return HalfToFloat(bits); }
  static Half From(float value) { return {FloatToHalf(value)}; }
};
struct BFloat {
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
#undef RVM_DTYPE
    default: RVM_UNREACHABLE("no tensor has this dtype");
  }
}

struct DataTypeInfo {
  DataType dtype;
  std::string_view name, suffix, npy, safetensors;
  int fraction_bits;
};

// The rows of base/data_type.def, in order.
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
