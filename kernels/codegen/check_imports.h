// Checks that the loader can resolve every symbol of an object.
#ifndef RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
#define RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace rvm::codegen {

// Returns kInternal naming the undefined symbols of a relocatable object that kernels/abi/imports.def does not list.
// The loader would refuse such an object.
absl::Status CheckImports(std::span<const uint8_t> object);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
