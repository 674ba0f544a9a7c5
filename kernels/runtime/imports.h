// The functions that kernels may call (kernels/abi/imports.def).
#ifndef RVM_KERNELS_RUNTIME_IMPORTS_H_
#define RVM_KERNELS_RUNTIME_IMPORTS_H_

#include <span>
#include <string_view>

namespace rvm::runtime {

struct Import {
  std::string_view symbol;
  const void* address;
};

// Returns the address of the function, or null if neither kernels may call it nor `more` has it.
const void* FindImport(std::string_view symbol, std::span<const Import> more);

}  // namespace rvm::runtime

#endif  // RVM_KERNELS_RUNTIME_IMPORTS_H_
