// Finds the parameters that the functions of a text of PTX use.
#ifndef RVM_VM_DEVICE_PTX_PARAMS_H_
#define RVM_VM_DEVICE_PTX_PARAMS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace rvm::device {

// For each function of LLVM's text, by its name, the numbers of the parameters that are declared and never named again,
// in increasing order; a function without any may be missing. Whoever launches the function may pass anything for them.
absl::flat_hash_map<std::string, std::vector<size_t>> UnusedParams(std::string_view ptx);

}  // namespace rvm::device

#endif  // RVM_VM_DEVICE_PTX_PARAMS_H_
