// Base64 (RFC 4648, section 4): bytes as text.
#ifndef RVM_COMPILER_TEXT_BASE64_H_
#define RVM_COMPILER_TEXT_BASE64_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace rvm::text {

// Strict: groups of four characters, `=` only at the end, no blanks. Returns kInvalidArgument with the position of the
// first wrong character.
absl::StatusOr<std::vector<std::byte>> DecodeBase64(std::string_view text);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_BASE64_H_
