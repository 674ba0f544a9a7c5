// The bytes of files that a model is made of.
#ifndef RVM_COMPILER_IMPORT_FILE_BYTES_H_
#define RVM_COMPILER_IMPORT_FILE_BYTES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/literal.h"

namespace rvm::importing {

using Bytes = std::span<const uint8_t>;

// A file's bytes, which `owner` keeps alive.
struct FileBytes {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};
// Returns the elements of a tensor, which share memory with the file where somebody owns it and they are aligned as
// kernels want them. REQUIRES: as many bytes as that shape has.
Literal WrapElements(DataType dtype, Shape shape, FileBytes elements);

// Gives the file at a path relative to the model's. Null where there are none.
using ExternalFiles = std::function<absl::StatusOr<FileBytes>(std::string_view location)>;

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_FILE_BYTES_H_
