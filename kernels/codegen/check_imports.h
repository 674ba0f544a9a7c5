// Checks that the loader can resolve every symbol of an object.
#ifndef RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
#define RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace rvm::codegen {

// Returns kInternal naming the undefined symbols of a relocatable object that neither kernels/abi/imports.def nor
// `more` lists. The loader would refuse such an object.
absl::Status CheckImports(std::span<const uint8_t> object, std::span<const std::string_view> more = {});

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_CHECK_IMPORTS_H_
