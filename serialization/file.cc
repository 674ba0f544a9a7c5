#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/decoder.h"

namespace rvm {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status FileError(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " `", path, "`"));
}

}  // namespace

absl::StatusOr<MappedFile> MapFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return FileError("open", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("`", path, "` is not a regular file"));
  size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return MappedFile{};
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return FileError("map", path);
  MappedFile mapped;
  mapped.bytes = {static_cast<const uint8_t*>(address), size};
  mapped.owner = {address, [size](const void* p) { munmap(const_cast<void*>(p), size); }};
  return mapped;
}

absl::StatusOr<Executable> DecodeFile(const std::string& path, bool check_constants) {
  RVM_ASSIGN_OR_RETURN(MappedFile file, MapFile(path));
  return Decode(file.bytes, {.owner = file.owner, .check_constants = check_constants});
}

}  // namespace rvm
