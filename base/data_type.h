// The base types of tensors, listed in data_type.def, each possibly with several lanes (`float32x4`).
#ifndef RVM_BASE_DATA_TYPE_H_
#define RVM_BASE_DATA_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rvm {

enum class TypeCode : uint8_t {
#define RVM_TYPE_CODE(Name, value) k##Name = value,
#include "base/data_type.def"
};

struct DataType {
  TypeCode code = TypeCode::kFloat;
  uint8_t bits = 32;
  uint16_t lanes = 1;

  constexpr bool operator==(const DataType&) const = default;

  constexpr bool is_bool() const { return code == TypeCode::kBool; }
  constexpr bool is_int() const { return code == TypeCode::kInt; }
  constexpr bool is_uint() const { return code == TypeCode::kUInt; }
  constexpr bool is_integral() const { return is_int() || is_uint() || is_bool(); }
  constexpr bool is_float() const { return code >= TypeCode::kFloat; }
  // Returns whether elements are floats that compute in float32 and are rounded when they are stored.
  constexpr bool is_small_float() const { return is_float() && bits < 32; }
  // Bytes of one element in memory; a bool takes one byte (0 or 1).
  constexpr int64_t bytes() const { return (bits + 7) / 8 * lanes; }
  // "float32", "int8", "bool", "bfloat16", "float32x4".
  std::string ToString() const;

  template <typename H>
  friend H AbslHashValue(H h, DataType t) {
    return H::combine(std::move(h), static_cast<int>(t.code), t.bits, t.lanes);
  }
};

// kBool, kInt8, ..., kBFloat16.
#define RVM_DTYPE(Name, text, Code, width, Element, suffix, npy, safetensors, fraction) \
  inline constexpr DataType k##Name{TypeCode::k##Code, width, 1};
#include "base/data_type.def"

// bool with the lanes of `dtype`: the dtype of a comparison.
constexpr DataType BoolOf(DataType dtype) { return {TypeCode::kBool, 1, dtype.lanes}; }

// Returns the inverse of ToString; also accepts the spellings of the predecessor. nullopt for any other text.
std::optional<DataType> ParseDataType(std::string_view text);

// Returns whether values may have this dtype at run time: it is listed in data_type.def and has one lane.
bool IsStorable(DataType dtype);

// Round to nearest even; bfloat16 is the upper half of a float32.
uint16_t FloatToBFloat16(float value);
float BFloat16ToFloat(uint16_t bits);

}  // namespace rvm

#endif  // RVM_BASE_DATA_TYPE_H_
