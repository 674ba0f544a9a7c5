#include "compiler/import/tflite/flexbuffer.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace rvm::tflite {
namespace {

// Types of values: the upper 6 bits of a byte, whose lower 2 are the width of what it holds.
enum : int {
  kInt = 1,
  kUInt = 2,
  kFloat = 3,
  kText = 5,
  kIndirectInt = 6,
  kIndirectUInt = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kVector = 10,
  kBool = 26
};

class Reader {
 public:
  explicit Reader(importing::Bytes bytes) : bytes_(bytes) {}

  bool failed() const { return failed_; }
  uint64_t size() const { return bytes_.size(); }

  uint64_t UInt(uint64_t at, uint64_t width) {
    uint64_t value = 0;
    if (Holds(at, width)) std::memcpy(&value, bytes_.data() + at, width);
    return value;
  }
  int64_t Int(uint64_t at, uint64_t width) {
    const int unused = 64 - 8 * static_cast<int>(width);
    return static_cast<int64_t>(UInt(at, width) << unused) >> unused;
  }
  double Float(uint64_t at, uint64_t width) {
    float narrow = 0;
    double wide = 0;
    if (width == 4 && Holds(at, 4)) std::memcpy(&narrow, bytes_.data() + at, 4);
    if (width == 8 && Holds(at, 8)) std::memcpy(&wide, bytes_.data() + at, 8);
    return width == 8 ? wide : static_cast<double>(narrow);
  }
  // Offsets lead backwards.
  uint64_t Follow(uint64_t at, uint64_t width) {
    const uint64_t offset = UInt(at, width);
    if (offset <= at) return at - offset;
    failed_ = true;
    return 0;
  }
  // A text: its length is before it.
  importing::Bytes Text(uint64_t at, uint64_t width) {
    const uint64_t length = at >= width ? UInt(at - width, width) : 0;
    if (at < width || at > bytes_.size() || bytes_.size() - at < length) failed_ = true;
    return failed_ ? importing::Bytes() : bytes_.subspan(at, length);
  }
  std::string Key(uint64_t at) {
    constexpr size_t kMaxKey = 256;
    std::string key;
    while (Holds(at, 1) && bytes_[at] != 0) {
      if (key.size() == kMaxKey) failed_ = true;
      key += static_cast<char>(bytes_[at++]);
    }
    return key;
  }
  std::optional<double> Number(uint64_t at, uint64_t width, int packed) {
    const int type = packed >> 2;
    const uint64_t own = uint64_t{1} << (packed & 3);
    if (type == kIndirectInt || type == kIndirectUInt || type == kIndirectFloat) {
      at = Follow(at, width);
      width = own;
    }
    if (type == kInt || type == kIndirectInt) return static_cast<double>(Int(at, width));
    if (type == kUInt || type == kBool || type == kIndirectUInt) return static_cast<double>(UInt(at, width));
    if (type == kFloat || type == kIndirectFloat) return Float(at, width);
    return std::nullopt;
  }

 private:
  bool Holds(uint64_t at, uint64_t width) {
    if (at > bytes_.size() || bytes_.size() - at < width || width > 8) failed_ = true;
    return !failed_;
  }

  importing::Bytes bytes_;
  bool failed_ = false;
};

// The values of a map or of a vector: where they begin, and the width of each. Behind them is a type for each.
struct Values {
  uint64_t at, width, count;

  int TypeOf(Reader& reader, uint64_t i) const { return static_cast<int>(reader.UInt(at + count * width + i, 1)); }
};

// Returns the values of the root; nullopt if it has another type. The last byte is the width of the root, which is
// before its type. Before the values is their number.
std::optional<Values> RootValues(Reader& reader, importing::Bytes bytes, int type) {
  if (bytes.size() < 3) return std::nullopt;
  const uint64_t root_width = bytes[bytes.size() - 1];
  const int packed = bytes[bytes.size() - 2];
  if (packed >> 2 != type || root_width > 8 || bytes.size() < 2 + root_width) return std::nullopt;
  const uint64_t at = reader.Follow(bytes.size() - 2 - root_width, root_width), width = uint64_t{1} << (packed & 3);
  if (reader.failed() || at < width) return std::nullopt;
  const uint64_t count = reader.UInt(at - width, width);
  return reader.failed() || count > reader.size() ? std::nullopt : std::optional(Values{at, width, count});
}

}  // namespace

// Before the number of a map's values are, backwards: the width of the keys, and where these are.
std::optional<NumberMap> ReadNumberMap(importing::Bytes bytes) {
  Reader reader(bytes);
  const std::optional<Values> root = RootValues(reader, bytes, kMap);
  if (!root || root->at < 3 * root->width) return std::nullopt;
  const auto [values, width, count] = *root;
  const uint64_t key_width = reader.UInt(values - 2 * width, width), keys = reader.Follow(values - 3 * width, width);
  if (key_width > 8) return std::nullopt;
  NumberMap numbers;
  for (uint64_t i = 0; i < count && !reader.failed(); ++i) {
    const int type = root->TypeOf(reader, i);
    const std::string key = reader.Key(reader.Follow(keys + i * key_width, key_width));
    if (std::optional<double> number = reader.Number(values + i * width, width, type)) numbers[key] = *number;
  }
  return reader.failed() ? std::nullopt : std::optional(numbers);
}

std::optional<std::vector<importing::Bytes>> ReadTexts(importing::Bytes bytes) {
  Reader reader(bytes);
  const std::optional<Values> root = RootValues(reader, bytes, kVector);
  if (!root) return std::nullopt;
  std::vector<importing::Bytes> texts;
  for (uint64_t i = 0; i < root->count && !reader.failed(); ++i) {
    const int type = root->TypeOf(reader, i);
    if (type >> 2 != kText) return std::nullopt;
    texts.push_back(reader.Text(reader.Follow(root->at + i * root->width, root->width), uint64_t{1} << (type & 3)));
  }
  return reader.failed() ? std::nullopt : std::optional(texts);
}

}  // namespace rvm::tflite
