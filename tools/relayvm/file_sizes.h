// `relayvm inspect --sizes`: a breakdown of the bytes of an executable file.
#ifndef RVM_TOOLS_RELAYVM_FILE_SIZES_H_
#define RVM_TOOLS_RELAYVM_FILE_SIZES_H_

#include <cstdint>
#include <span>
#include <string>

#include "serialization/executable.h"

namespace rvm::tools {

// Tables of sections, functions, constants and kernels, largest first. `executable` is the decoded file.
std::string FileSizesText(std::span<const uint8_t> file, const Executable& executable);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_FILE_SIZES_H_
