// Does the loader provide everything that an object needs?
#ifndef RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
#define RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace rvm::codegen {

// kInternal naming each undefined symbol of a relocatable object that kernels/abi/imports.def does not list: a loader
// would refuse the object.
absl::Status CheckImports(std::span<const uint8_t> object);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
