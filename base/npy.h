// NumPy's .npy files: one tensor with a header in Python syntax. Format versions 1, 2 and 3.
#ifndef RVM_BASE_NPY_H_
#define RVM_BASE_NPY_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"

namespace rvm {

// Copies the elements; a tensor in Fortran order is rearranged. kInvalidArgument: malformed bytes;
// kUnimplemented: big-endian, or an unsupported dtype (complex, strings, structures).
absl::StatusOr<Literal> DecodeNpy(std::span<const uint8_t> bytes);

// Version 1, C order. .npy has no bfloat16: such tensors are written as float32.
std::vector<uint8_t> EncodeNpy(const Literal& tensor);

}  // namespace rvm

#endif  // RVM_BASE_NPY_H_
