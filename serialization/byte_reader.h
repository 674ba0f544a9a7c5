// ByteReader: reads little-endian values from a part of a file. The first error
// sticks: from then on every read gives zeros and every count is zero, so
// that decoding loops need no checks of their own and end soon.
#ifndef RVM_SERIALIZATION_BYTE_READER_H_
#define RVM_SERIALIZATION_BYTE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"

namespace rvm {

// "at offset 0x1c of the file (types): saw kind 9, expected 0 to 5"
inline absl::Status FormatError(uint64_t offset, std::string_view part, std::string_view saw,
                                std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("at offset 0x", absl::Hex(offset), " (", Abseil(part), "): saw ",
                                                 Abseil(saw), ", expected ", Abseil(expected)));
}

class ByteReader {
 public:
  // `bytes` lie at `offset` in the file; `part` names them in messages.
  ByteReader(std::span<const uint8_t> bytes, uint64_t offset, std::string_view part)
      : bytes_(bytes), base_(offset), part_(part) {}

  uint8_t U8() { return static_cast<uint8_t>(Little(1)); }
  uint16_t U16() { return static_cast<uint16_t>(Little(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Little(4)); }
  uint64_t U64() { return Little(8); }
  int64_t I64() { return static_cast<int64_t>(Little(8)); }

  // Returns a number in as few bytes as it takes: seven bits in each, the lowest first; the high bit says that more
  // follow.
  uint32_t Varint() {
    uint64_t at = offset();
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 35; shift += 7) {
      uint8_t byte = U8();
      value |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) != 0) continue;
      if ((byte == 0 && shift > 0) || value > 0xffffffff) break;
      return static_cast<uint32_t>(value);
    }
    if (ok()) Fail(at, "another number", "one below 2^32 in as few bytes as it takes");
    return 0;
  }

  // A count of things that take at least `least_bytes` each: never more than can follow.
  uint32_t Count(uint32_t least_bytes) {
    uint64_t at = offset();
    uint64_t count = U32();
    if (count * least_bytes <= left()) return static_cast<uint32_t>(count);
    Fail(at, absl::StrCat("a count of ", count),
         absl::StrCat("at most ", left() / least_bytes, " in the ", left(), " bytes left"));
    return 0;
  }

  // `what` is at most `max`.
  uint64_t AtMost(uint64_t max, uint64_t value, uint64_t at, std::string_view what) {
    if (value <= max) return value;
    Fail(at, absl::StrCat(Abseil(what), " ", value), absl::StrCat("0 to ", max));
    return 0;
  }
  bool Bool(std::string_view what) {
    uint64_t at = offset();
    return AtMost(1, U8(), at, what) != 0;
  }

  std::span<const uint8_t> Bytes(uint64_t size) {
    if (!Need(size)) return {};
    std::span<const uint8_t> result = bytes_.subspan(position_, size);
    position_ += size;
    return result;
  }

  void Fail(uint64_t at, std::string_view saw, std::string_view expected) {
    if (status_.ok()) status_ = FormatError(at, part_, saw, expected);
    position_ = bytes_.size();
  }

  uint64_t offset() const { return base_ + position_; }
  uint64_t left() const { return bytes_.size() - position_; }
  bool ok() const { return status_.ok(); }
  // OK if nothing failed and nothing is left.
  absl::Status Finish() {
    if (status_.ok() && left() > 0) Fail(offset(), absl::StrCat(left(), " more bytes"), "the end of the section");
    return status_;
  }

 private:
  bool Need(uint64_t size) {
    if (size <= left()) return true;
    Fail(offset(), absl::StrCat(left(), " bytes left"), absl::StrCat(size));
    return false;
  }
  uint64_t Little(uint64_t size) {
    if (!Need(size)) return 0;
    uint64_t value = 0;
    for (uint64_t i = 0; i < size; ++i) value |= uint64_t{bytes_[position_ + i]} << (8 * i);
    position_ += size;
    return value;
  }

  std::span<const uint8_t> bytes_;
  uint64_t base_;
  std::string_view part_;
  uint64_t position_ = 0;
  absl::Status status_;
};

}  // namespace rvm

#endif  // RVM_SERIALIZATION_BYTE_READER_H_
