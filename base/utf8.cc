#include "base/utf8.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace rvm {

size_t Utf8CharacterSize(std::string_view text) {
  if (text.empty()) return 0;
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return 1;
  size_t size = (byte(0) >> 5) == 0x6 ? 2 : (byte(0) >> 4) == 0xe ? 3 : (byte(0) >> 3) == 0x1e ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  uint32_t code_point = byte(0) & (0x7f >> size);
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kMin[] = {0, 0, 0x80, 0x800, 0x10000};  // of that size: others have a shorter form
  bool is_surrogate = code_point >= 0xd800 && code_point < 0xe000;
  return code_point < kMin[size] || code_point > 0x10ffff || is_surrogate ? 0 : size;
}

std::string ReadableText(std::string_view text) {
  std::string readable;
  for (size_t i = 0; i < text.size();) {
    size_t size = Utf8CharacterSize(text.substr(i));
    auto byte = static_cast<uint8_t>(text[i]);
    bool is_control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
    if (size == 0 || is_control) {
      absl::StrAppend(&readable, "\\x", absl::Hex(byte, absl::kZeroPad2));
      ++i;
      continue;
    }
    readable += text.substr(i, size);
    i += size;
  }
  return readable;
}

}  // namespace rvm
