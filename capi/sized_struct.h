// Structs of the C interface that begin with `struct_size`: a caller that was built with an older header knows fewer
// fields, one with a newer header more.
#ifndef RVM_CAPI_SIZED_STRUCT_H_
#define RVM_CAPI_SIZED_STRUCT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::capi {

// kInvalidArgument if `size` cannot be the size of the struct `type`. No version of a struct has fewer than 8 bytes.
inline absl::Status CheckStructSize(uint32_t size, std::string_view type) {
  if (size >= 2 * sizeof(uint32_t)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`struct_size` of ", Abseil(type), " is ", size, "; expected sizeof(", Abseil(type), ")"));
}

// Copies the fields that the caller knows to `read`, and sets all others to 0. `given` may be null: the caller knows
// none.
template <typename T>
absl::Status ReadStruct(const T* given, std::string_view type, T& read) {
  read = {};
  if (given == nullptr) return absl::OkStatus();
  absl::Status status = CheckStructSize(given->struct_size, type);
  if (status.ok()) std::memcpy(&read, given, std::min<size_t>(given->struct_size, sizeof(T)));
  return status;
}

// Copies the fields that the caller knows. REQUIRES: CheckStructSize(out->struct_size).
template <typename T>
void WriteStruct(const T& all, T* out) {
  uint32_t size = out->struct_size;
  std::memcpy(out, &all, std::min<size_t>(size, sizeof(T)));
  out->struct_size = size;
}

}  // namespace rvm::capi

#endif  // RVM_CAPI_SIZED_STRUCT_H_
