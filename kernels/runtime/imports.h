// The only functions that kernels may call.
#ifndef RVM_KERNELS_RUNTIME_IMPORTS_H_
#define RVM_KERNELS_RUNTIME_IMPORTS_H_

#include <string_view>

namespace rvm::runtime {

// Null if kernels may not call a function of that name.
const void* FindImport(std::string_view name);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_IMPORTS_H_
