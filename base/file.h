// Reads and writes whole files.
#ifndef RVM_BASE_FILE_H_
#define RVM_BASE_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rvm {

// kNotFound or another code with the system's reason: "cannot read `x`: No such file or directory".
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces the file atomically: a reader sees either the old bytes or the new ones.
absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes);
absl::Status ReplaceFile(const std::string& path, std::string_view text);

}  // namespace rvm

#endif  // RVM_BASE_FILE_H_
