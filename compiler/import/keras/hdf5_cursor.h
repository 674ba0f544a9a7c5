// Cursor: reads little-endian numbers of a range of bytes. Behind the end all numbers are 0, and ok() is false.
#ifndef RVM_COMPILER_IMPORT_KERAS_HDF5_CURSOR_H_
#define RVM_COMPILER_IMPORT_KERAS_HDF5_CURSOR_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/file_bytes.h"

namespace rvm::hdf5 {

using importing::Bytes;

// The address of what does not exist.
inline constexpr uint64_t kUndefined = ~uint64_t{0};

inline absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its HDF5 data are malformed: ", Abseil(what)));
}
inline absl::Status NotRead(std::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("its HDF5 data have ", Abseil(what), ", which is not read; write the file with h5py's defaults"));
}

class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}
  // The bytes of `file` from `address` on.
  Cursor(Bytes file, uint64_t address) : is_ok_(address <= file.size()) {
    if (is_ok_) bytes_ = file.subspan(static_cast<size_t>(address));
  }

  bool ok() const { return is_ok_; }
  uint64_t remaining() const { return bytes_.size(); }

  // Takes the next `size` bytes; none if there are fewer.
  Bytes Take(uint64_t size) {
    is_ok_ = is_ok_ && size <= bytes_.size();
    if (!is_ok_) return {};
    const Bytes taken = bytes_.first(static_cast<size_t>(size));
    bytes_ = bytes_.subspan(static_cast<size_t>(size));
    return taken;
  }
  void Skip(uint64_t size) { Take(size); }
  uint64_t Number(int size) {
    uint64_t number = 0;
    const Bytes taken = Take(static_cast<uint64_t>(size));
    for (size_t i = taken.size(); i-- > 0;) number = number << 8 | taken[i];
    return number;
  }
  uint8_t Byte() { return static_cast<uint8_t>(Number(1)); }
  // Consumes `text` if it comes next.
  bool Consume(std::string_view text) {
    const Bytes next = Take(text.size());
    return is_ok_ && std::equal(next.begin(), next.end(), text.begin(),
                                [](uint8_t byte, char c) { return byte == static_cast<uint8_t>(c); });
  }
  // Takes the text up to a zero byte, and that.
  std::string Text() {
    const auto end = std::find(bytes_.begin(), bytes_.end(), 0);
    is_ok_ = is_ok_ && end != bytes_.end();
    if (!is_ok_) return "";
    std::string text(bytes_.begin(), end);
    bytes_ = bytes_.subspan(text.size() + 1);
    return text;
  }

 private:
  Bytes bytes_;
  bool is_ok_ = true;
};

}  // namespace rvm::hdf5

#endif  // RVM_COMPILER_IMPORT_KERAS_HDF5_CURSOR_H_
