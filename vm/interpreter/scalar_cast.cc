#include "vm/interpreter/scalar_cast.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace rvm::vm {
namespace {

DataType Unpack(uint16_t packed) {
  return {static_cast<TypeCode>(packed >> 8), static_cast<uint8_t>(packed & 0xff), 1};
}

Slot Wrap(Slot slot, DataType dtype) {
  if (dtype.is_bool()) return slot & 1;
  int shift = 64 - dtype.bits;
  if (dtype.is_int()) return static_cast<Slot>(static_cast<int64_t>(slot << shift) >> shift);
  return slot << shift >> shift;
}

double ToDouble(Slot slot, DataType dtype) {
  if (dtype.is_float()) return LoadDouble(dtype, &slot);
  return dtype.is_uint() ? static_cast<double>(slot) : static_cast<double>(static_cast<int64_t>(slot));
}

}  // namespace

Slot WrapToDType(Slot slot, uint16_t dtype) { return Wrap(slot, Unpack(dtype)); }

Slot CastScalar(Slot slot, uint16_t from, uint16_t to) {
  DataType source = Unpack(from);
  DataType target = Unpack(to);
  if (!source.is_float() && target.is_bool()) return slot != 0;
  if (!source.is_float() && !target.is_float()) return Wrap(slot, target);
  if (target == kFloat32 && !source.is_float()) {
    // One rounding, not two by way of double.
    float value = source.is_uint() ? static_cast<float>(slot) : static_cast<float>(static_cast<int64_t>(slot));
    return std::bit_cast<uint32_t>(value);
  }
  Slot result = 0;
  StoreDouble(target, &result, ToDouble(slot, source));
  return target.is_float() ? result : Wrap(result, target);
}

Slot LoadScalar(DataType dtype, const void* address) {
  if (!dtype.is_float()) return static_cast<Slot>(LoadInt(dtype, address));
  Slot slot = 0;
  std::memcpy(&slot, address, static_cast<size_t>(dtype.bytes()));
  return slot;
}

// Little-endian: the low bytes are the element in every dtype.
Literal ScalarLiteral(DataType dtype, Slot slot) {
  return Literal::FromBytes(dtype, {}, std::as_bytes(std::span(&slot, 1)).first(static_cast<size_t>(dtype.bytes())));
}

}  // namespace rvm::vm
