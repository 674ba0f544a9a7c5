// Tables of a FlatBuffers file, read in place. Each offset is checked where it is followed; what lies outside of the
// bytes reads as absent, and the file is marked as malformed.
#ifndef RVM_COMPILER_IMPORT_FLATBUFFER_H_
#define RVM_COMPILER_IMPORT_FLATBUFFER_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/file_bytes.h"

namespace rvm::importing::flatbuffer {

static_assert(std::endian::native == std::endian::little, "FlatBuffers are little-endian");

// The bytes of a file, and whether an offset has left them.
struct Buffer {
  explicit Buffer(Bytes all) : bytes(all), budget(kMaxReads * all.size()) {}

  // Vectors may overlap, so that a small file could claim very many elements: this bounds them.
  static constexpr uint64_t kMaxReads = 64;
  Bytes bytes;
  uint64_t budget;  // bytes of vectors that may still be read
  bool is_malformed = false;

  // Returns zero if the number lies outside.
  template <typename T>
  T Read(uint64_t at) {
    T value{};
    if (at > bytes.size() || bytes.size() - at < sizeof(T)) {
      is_malformed = true;
      return value;
    }
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    return value;
  }
  // Follows the offset at `at`, which counts from there.
  uint64_t Follow(uint64_t at) { return at + Read<uint32_t>(at); }
};

// A table. Fields are numbered as the schema lists them; a field that the table leaves out has its default.
class Table {
 public:
  Table() = default;
  Table(Buffer* buffer, uint64_t at) : buffer_(buffer), at_(at) {}

  explicit operator bool() const { return buffer_ != nullptr; }
  template <typename T>
  T Number(int field, T otherwise) const {
    const std::optional<uint64_t> place = Place(field);
    return place ? buffer_->Read<T>(*place) : otherwise;
  }
  std::string_view Text(int field) const {
    const Bytes bytes = Elements(field, 1);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Table Child(int field) const {
    const std::optional<uint64_t> place = Place(field);
    return place ? Table(buffer_, buffer_->Follow(*place)) : Table();
  }
  std::vector<Table> Children(int field) const;
  std::vector<std::string_view> Texts(int field) const;
  template <typename T>
  std::vector<T> Numbers(int field) const {
    const Bytes bytes = Elements(field, sizeof(T));
    std::vector<T> numbers(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
  }
  // Returns the bytes of a vector of elements of `size` bytes; empty if there is none.
  Bytes Elements(int field, uint64_t size) const;

 private:
  std::optional<uint64_t> Place(int field) const;
  // Returns where the elements of a vector of offsets point to.
  std::vector<uint64_t> Offsets(int field) const;
  // Returns the bytes of the vector at `at`.
  Bytes ElementsAt(uint64_t at, uint64_t size) const;

  Buffer* buffer_ = nullptr;
  uint64_t at_ = 0;
};

}  // namespace rvm::importing::flatbuffer

#endif  // RVM_COMPILER_IMPORT_FLATBUFFER_H_
