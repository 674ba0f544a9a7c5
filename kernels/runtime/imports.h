// The functions that kernels may call (kernels/abi/imports.def).
#ifndef RVM_KERNELS_RUNTIME_IMPORTS_H_
#define RVM_KERNELS_RUNTIME_IMPORTS_H_

#include <string_view>

namespace rvm::runtime {

// The address of the function, or null if kernels may not call it.
const void* FindImport(std::string_view symbol);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_IMPORTS_H_
