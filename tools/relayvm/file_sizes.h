// What the bytes of an executable file are: `relayvm inspect --sizes`.
#ifndef RVM_TOOLS_RELAYVM_FILE_SIZES_H_
#define RVM_TOOLS_RELAYVM_FILE_SIZES_H_

#include <cstdint>
#include <span>
#include <string>

#include "serialization/executable.h"

namespace rvm::tools {

// Tables of sections, functions, constants and kernels, the biggest first. `executable` is what the file has.
std::string FileSizesText(std::span<const uint8_t> file, const Executable& executable);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_FILE_SIZES_H_
