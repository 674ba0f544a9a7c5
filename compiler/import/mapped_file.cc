#include "compiler/import/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/git_lfs.h"

namespace rvm::importing {

absl::StatusOr<FileBytes> MapFile(const std::string& path) {
  auto failed = [&](absl::string_view what) {
    return absl::NotFoundError(absl::StrCat("cannot ", what, " `", path, "`: ", strerror(errno)));
  };
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return failed("read");
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file);
    return absl::InvalidArgumentError(absl::StrCat("`", path, "` is not a file"));
  }
  size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) {
    close(file);
    return FileBytes{};
  }
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (data == MAP_FAILED) return failed("map");
  std::shared_ptr<const void> owner(data, [size](const void* at) { munmap(const_cast<void*>(at), size); });
  Bytes bytes(static_cast<const uint8_t*>(data), size);
  if (IsGitLfsPointer(bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("`", path, "`: ", kGitLfsPointerMessage));
  }
  return FileBytes{bytes, std::move(owner)};
}

void ReleasePages(Bytes part) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace rvm::importing
