#include "compiler/text/base64.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace rvm::text {
namespace {

// Returns the six bits of a character, or -1.
int Bits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

absl::StatusOr<std::vector<std::byte>> DecodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) {
    return absl::InvalidArgumentError(absl::StrCat("base64 of ", text.size(), " characters; expected a multiple of 4"));
  }
  size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / 4 * 3);
  uint32_t group = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    bool is_padding = i >= text.size() - padding;
    int bits = is_padding ? 0 : Bits(text[i]);
    if (bits < 0) return absl::InvalidArgumentError(absl::StrCat("character ", i, " is not a base64 character"));
    group = group << 6 | static_cast<uint32_t>(bits);
    if (i % 4 != 3) continue;
    for (int shift : {16, 8, 0}) bytes.push_back(static_cast<std::byte>(group >> shift & 0xff));
    group = 0;
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace rvm::text
