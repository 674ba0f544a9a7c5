// Limits of an executable: the one list, for the compiler, the verifier and the decoder, so that no file is written
// that would be refused when it is loaded.
#ifndef RVM_SERIALIZATION_LIMITS_H_
#define RVM_SERIALIZATION_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "serialization/executable.h"

namespace rvm::limits {

// Operands hold layouts, tags, fields and registers in 16 bits, and the VM reserves one layout.
inline constexpr size_t kMaxLayouts = 0xffff;
inline constexpr size_t kMaxConstructors = 0xffff;
inline constexpr size_t kMaxFields = 0xffff;
inline constexpr size_t kMaxRegisters = 0xffff;

// Deepest dim expression and the most nodes in one, so that no file can exhaust the host stack.
inline constexpr int kMaxDimDepth = 256;
inline constexpr int kMaxDimNodes = 4096;

}  // namespace rvm::limits

namespace rvm {

// kResourceExhausted: "kernel `add` has an extent whose formula is larger than 4096 terms; ...". Limits of tensors
// (kMaxRank, kMaxTensorBytes) are rules of types, which the verifier checks.
absl::Status CheckLimits(const Executable& executable);

}  // namespace rvm

#endif  // RVM_SERIALIZATION_LIMITS_H_
