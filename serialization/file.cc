#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
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

absl::StatusOr<Executable> DecodeFile(const std::string& path, bool check_constants) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (file.get() < 0 || fstat(file.get(), &info) != 0) return FileError("open", path);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("`", path, "` is not a regular file"));
  size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return Decode({});
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return FileError("map", path);
  std::shared_ptr<const void> owner(address, [size](const void* p) { munmap(const_cast<void*>(p), size); });
  return Decode({static_cast<const uint8_t*>(address), size},
                {.owner = std::move(owner), .check_constants = check_constants});
}

absl::Status WriteFile(const std::string& path, std::span<const uint8_t> bytes) {
  std::string temporary = absl::StrCat(path, ".tmp", getpid());
  Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) return FileError("create", temporary);
  while (!bytes.empty()) {
    ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      absl::Status status = FileError("write", temporary);
      unlink(temporary.c_str());
      return status;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    absl::Status status = FileError("write", path);
    unlink(temporary.c_str());
    return status;
  }
  return absl::OkStatus();
}

}  // namespace rvm
