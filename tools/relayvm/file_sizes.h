// `relayvm inspect --sizes`: a breakdown of the bytes of an executable file.
#ifndef RVM_TOOLS_RELAYVM_FILE_SIZES_H_
#define RVM_TOOLS_RELAYVM_FILE_SIZES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "serialization/executable.h"

namespace rvm::tools {

// One breakdown: rows that add up to `bytes`, largest first; what no row names comes last, under its own name.
struct SizeTable {
  struct Row {
    std::string name;
    int64_t bytes;
  };
  std::string title;
  std::vector<Row> rows;
  int64_t bytes = 0;
};

// Sections, functions, constants, and kernels per target. `executable` is the decoded file. Empty tables are left out.
std::vector<SizeTable> FileSizes(std::span<const uint8_t> file, const Executable& executable);
std::string FileSizesText(std::span<const uint8_t> file, const Executable& executable);

}  // namespace rvm::tools

#endif  // RVM_TOOLS_RELAYVM_FILE_SIZES_H_
