// WireReader: the fields of one protobuf message, in the order in which they stand.
//
// Reads in place and never past the end. A message that is cut off or malformed ends early: ok() is false then.
//
//   WireReader reader(bytes);
//   Field field;
//   while (reader.Next(field)) ...
//   if (!reader.ok()) ...
#ifndef RVM_COMPILER_IMPORT_WIRE_READER_H_
#define RVM_COMPILER_IMPORT_WIRE_READER_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/import/file_bytes.h"

namespace rvm::importing {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;  // kVarint, kFixed64, kFixed32
  Bytes bytes;         // kBytes

  bool Is(uint32_t wanted, WireType wanted_type) const { return number == wanted && type == wanted_type; }
  int64_t AsInt() const { return static_cast<int64_t>(value); }
  float AsFloat() const;  // of a kFixed32
  std::string_view AsText() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

class WireReader {
 public:
  explicit WireReader(Bytes message) : rest_(message) {}

  // False at the end and where the message is malformed.
  bool Next(Field& field);
  bool ok() const { return ok_; }

 private:
  bool Varint(uint64_t& value);
  bool Fixed(size_t size, uint64_t& value);

  Bytes rest_;
  bool ok_ = true;
};

// The elements of a repeated number, packed or not: calls `add(uint64_t)` for each, with `size` 0 for varints and else
// the bytes of a fixed-width number. False if the field is malformed.
template <typename Add>
bool ForEachNumber(const Field& field, size_t size, const Add& add) {
  if (field.type != WireType::kBytes) {
    add(field.value);
    return true;
  }
  // A packed field is the numbers without keys.
  Bytes rest = field.bytes;
  while (!rest.empty()) {
    uint64_t value = 0;
    if (size != 0) {
      if (rest.size() < size) return false;
      for (size_t i = 0; i < size; ++i) value |= uint64_t{rest[i]} << (8 * i);
      rest = rest.subspan(size);
    } else {
      size_t used = 0;
      for (bool more = true; more; ++used) {
        if (used == 10 || used == rest.size()) return false;
        value |= uint64_t{rest[used] & 0x7fu} << (7 * used);
        more = (rest[used] & 0x80) != 0;
      }
      rest = rest.subspan(used);
    }
    add(value);
  }
  return true;
}

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_WIRE_READER_H_
