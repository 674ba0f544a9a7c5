// The predecessor's binary form of a tensor, found in metadata sections (in base64) and in `.params` files:
// little-endian u64 0xDD5E40F096B4A13F, u64 0, i32 device type (1: host), i32 device, i32 rank, u8 code, u8 bits,
// u16 lanes, i64 extents[rank], i64 bytes, the elements.
#ifndef RVM_BASE_TENSOR_BLOB_H_
#define RVM_BASE_TENSOR_BLOB_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "base/literal.h"

namespace rvm {

// Parses the tensor at the beginning of `bytes` and removes it from `bytes`. Returns kInvalidArgument if it is
// malformed, and kUnimplemented if it is well-formed but of an unsupported dtype; the latter is removed as well.
absl::StatusOr<Literal> TakeTensorBlob(std::span<const std::byte>& bytes);

// Like that, for bytes that hold exactly one tensor.
absl::StatusOr<Literal> DecodeTensorBlob(std::span<const std::byte> bytes);

// A `.params` file: u64 0xF7E58D4F05049CB7, u64 0, u64 count and the names (u64 length, characters), u64 count and the
// tensors.
struct TensorList {
  std::map<std::string, Literal, std::less<>> tensors;
  std::map<std::string, std::string, std::less<>> unreadable;  // why, by name
};
bool StartsTensorList(std::span<const std::byte> bytes);
absl::StatusOr<TensorList> DecodeTensorList(std::span<const std::byte> bytes);

}  // namespace rvm

#endif  // RVM_BASE_TENSOR_BLOB_H_
