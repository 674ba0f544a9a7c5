#include "compiler/import/wire_reader.h"

#include <bit>

namespace rvm::importing {

float Field::AsFloat() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

bool WireReader::Varint(uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
    uint8_t byte = rest_[0];
    rest_ = rest_.subspan(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return ok_ = false;
}

bool WireReader::Fixed(size_t size, uint64_t& value) {
  if (rest_.size() < size) return ok_ = false;
  value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{rest_[i]} << (8 * i);
  rest_ = rest_.subspan(size);
  return true;
}

bool WireReader::Next(Field& field) {
  if (!ok_ || rest_.empty()) return false;
  uint64_t key = 0;
  if (!Varint(key)) return false;
  field = {.number = static_cast<uint32_t>(key >> 3), .type = static_cast<WireType>(key & 7)};
  switch (field.type) {
    case WireType::kVarint: return Varint(field.value);
    case WireType::kFixed64: return Fixed(8, field.value);
    case WireType::kFixed32: return Fixed(4, field.value);
    case WireType::kBytes: {
      uint64_t size = 0;
      if (!Varint(size)) return false;
      if (size > rest_.size()) return ok_ = false;
      field.bytes = rest_.first(size);
      rest_ = rest_.subspan(size);
      return true;
    }
  }
  return ok_ = false;  // groups, which nothing writes any more
}

}  // namespace rvm::importing
