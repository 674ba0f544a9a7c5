#include "compiler/import/stablehlo/bytecode.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::stablehlo {

static_assert(std::endian::native == std::endian::little, "bytecode is little-endian");

uint8_t Cursor::Byte() {
  const Bytes one = Take(1);
  return one.empty() ? 0 : one[0];
}

Bytes Cursor::Take(uint64_t count) {
  if (count > rest() || failed()) {
    Fail(absl::StrCat("saw ", rest(), " bytes before the end of this part; expected ", count));
    at_ = end_;
    return {};
  }
  const Bytes bytes = file_.subspan(at_, count);
  at_ += count;
  return bytes;
}

uint64_t Cursor::Number() {
  const uint8_t first = Byte();
  if ((first & 1) != 0) return first >> 1;
  uint64_t value = 0;
  if (failed()) return 0;
  const int others = first == 0 ? 8 : std::countr_zero(first);
  const Bytes bytes = Take(static_cast<uint64_t>(others));
  if (bytes.empty()) return 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return first == 0 ? value : ((value << 8) | first) >> (others + 1);
}

int64_t Cursor::Signed() {
  const uint64_t number = Number();
  return static_cast<int64_t>((number >> 1) ^ (~(number & 1) + 1));
}

Cursor::Flagged Cursor::WithFlag() {
  const uint64_t number = Number();
  return {number >> 1, (number & 1) != 0};
}

uint64_t Cursor::Count() {
  const uint64_t count = Number();
  if (count <= rest()) return count;
  Fail(absl::StrCat("saw a list of ", count, " elements, and ", rest(), " bytes before the end of this part"));
  return 0;
}

uint64_t Cursor::Index(uint64_t size, std::string_view what) {
  const uint64_t at = offset(), index = Number();
  if (index < size) return index;
  mistake_->Note(at, absl::StrCat("saw ", Abseil(what), " number ", index, " of a list of ", size));
  return 0;
}

std::string_view Cursor::Text() {
  const std::string_view all(reinterpret_cast<const char*>(file_.data()) + at_, failed() ? 0 : rest());
  const size_t size = all.find('\0');
  if (size == std::string_view::npos) {
    Fail("saw a text without its end");
    return "";
  }
  at_ += size + 1;
  return all.substr(0, size);
}

Cursor Cursor::Section(uint8_t& id) {
  const uint8_t first = Byte();
  const uint64_t size = Number();
  id = first & 0x7f;
  if ((first & 0x80) != 0) {
    const uint64_t alignment = Number();
    if (!std::has_single_bit(alignment)) Fail(absl::StrCat("saw an alignment of ", alignment, " bytes"));
    while (!failed() && at_ % alignment != 0) Byte();
  }
  const uint64_t begin = at_;
  Take(size);
  return Cursor(file_, failed() ? at_ : begin, at_, mistake_);
}

}  // namespace rvm::stablehlo
