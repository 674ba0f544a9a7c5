#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace rvm {
namespace {

absl::Status Failure(const char* verb, const std::string& path, int error) {
  absl::StatusCode code = error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kUnavailable;
  return absl::Status(code, absl::StrCat("cannot ", verb, " `", path, "`: ", std::strerror(error)));
}

// 0, or the errno of what failed.
int WriteAll(int file, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failure("read", path, errno);
  std::string text;
  struct stat info;
  size_t chunk = size_t{1} << 16;
  if (::fstat(file, &info) == 0 && info.st_size > 0) chunk = static_cast<size_t>(info.st_size) + 1;
  size_t used = 0;
  int error = 0;
  // The size is a hint only: pipes have none, and files grow.
  while (true) {
    if (text.size() - used < chunk / 2 + 1) text.resize(used + chunk);
    ssize_t count = ::read(file, text.data() + used, text.size() - used);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) error = errno;
    if (count <= 0) break;
    used += static_cast<size_t>(count);
  }
  ::close(file);
  if (error != 0) return Failure("read", path, error);
  text.resize(used);
  return text;
}

absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes) {
  struct stat info;
  // What is no regular file (/dev/stdout) cannot be replaced, only written to.
  bool replace = ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  std::string target = replace ? absl::StrCat(path, ".", ::getpid(), ".part") : path;
  int file = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return Failure("write", path, errno);
  int error = WriteAll(file, bytes);
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && replace && std::rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  if (replace) ::unlink(target.c_str());
  return Failure("write", path, error);
}

absl::Status ReplaceFile(const std::string& path, std::string_view text) {
  return ReplaceFile(path, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace rvm
