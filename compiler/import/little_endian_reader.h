// LittleEndianReader: reads numbers and parts of a file, one behind the other. The first read beyond the end fails;
// from then on numbers are 0 and parts are empty.
#ifndef RVM_COMPILER_IMPORT_LITTLE_ENDIAN_READER_H_
#define RVM_COMPILER_IMPORT_LITTLE_ENDIAN_READER_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "compiler/import/file_bytes.h"

namespace rvm::importing {

static_assert(std::endian::native == std::endian::little);

class LittleEndianReader {
 public:
  explicit LittleEndianReader(Bytes bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  void Fail() { ok_ = false; }
  // Returns the place of the next read, or of the one that failed.
  size_t position() const { return at_; }
  Bytes rest() const { return bytes_.subspan(at_); }

  Bytes Part(uint64_t size) {
    ok_ = ok_ && size <= bytes_.size() - at_;
    if (!ok_) return {};
    Bytes part = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += part.size();
    return part;
  }

  std::string_view Text(uint64_t size) {
    Bytes part = Part(size);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  template <typename T>
  T Number() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    std::ranges::copy(Part(sizeof(T)), reinterpret_cast<uint8_t*>(&value));
    return value;
  }

  // Returns an unsigned number of `size` bytes, at most 8.
  uint64_t Unsigned(size_t size) {
    uint64_t value = 0;
    std::ranges::copy(Part(size), reinterpret_cast<uint8_t*>(&value));
    return value;
  }

 private:
  Bytes bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_LITTLE_ENDIAN_READER_H_
