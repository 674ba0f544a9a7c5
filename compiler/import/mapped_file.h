// Files in memory, of which only the pages that are read take memory.
#ifndef RVM_COMPILER_IMPORT_MAPPED_FILE_H_
#define RVM_COMPILER_IMPORT_MAPPED_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"

namespace rvm::importing {

// Maps the file at `path`. kNotFound with the system's reason; kInvalidArgument where it is no file, or a pointer of
// Git LFS.
absl::StatusOr<FileBytes> MapFile(const std::string& path);

// The whole pages of `part` of a mapped file are given back; the system reads them again when they are used.
void ReleasePages(Bytes part);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_MAPPED_FILE_H_
