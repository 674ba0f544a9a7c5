// relayvm inspect --memory.
#ifndef RVM_TOOLS_RELAYVM_INSPECT_MEMORY_H_
#define RVM_TOOLS_RELAYVM_INSPECT_MEMORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "serialization/verifier.h"

namespace rvm::tools {

// Prints the memory that each entry needs. `dims`: values of extents that the types leave open, "n=128,x.0=3".
absl::Status PrintMemory(const VerifiedExecutable& executable, const std::vector<std::string>& dims);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_INSPECT_MEMORY_H_
