// The memory that the entries of an executable need: `relayvm inspect --memory`.
#ifndef RVM_TOOLS_RELAYVM_MEMORY_TEXT_H_
#define RVM_TOOLS_RELAYVM_MEMORY_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "serialization/verifier.h"
#include "vm/link/device_program.h"

namespace rvm::tools {

// Returns the memory that each entry needs. `dims`: values of extents that the types leave open, "n=128,x.0=3".
// `device`: which kernels run on a device; null: none.
absl::StatusOr<std::string> MemoryText(const VerifiedExecutable& executable, const std::vector<std::string>& dims,
                                       const vm::DeviceProgram* device);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_MEMORY_TEXT_H_
