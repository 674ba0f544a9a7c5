// Executable -> the bytes of a `.rvm` file (README.md). The same executable
// gives the same bytes, always.
#ifndef RVM_SERIALIZATION_ENCODER_H_
#define RVM_SERIALIZATION_ENCODER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/executable.h"

namespace rvm {

// REQUIRES: an executable that Verify accepts: it is within all limits (limits.h), so Decode takes the bytes.
std::vector<uint8_t> Encode(const Executable& executable);

// Likewise, into a file, which it replaces atomically, without a copy of the constants and the code. Gives the size of
// the file.
absl::StatusOr<uint64_t> EncodeFile(const Executable& executable, const std::string& path);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_ENCODER_H_
