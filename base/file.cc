#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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

absl::StatusOr<FileWriter> FileWriter::Open(const std::string& path) {
  struct stat info;
  bool replace = ::stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode);
  std::string target = replace ? absl::StrCat(path, ".", ::getpid(), ".part") : path;
  int file = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return Failure("write", path, errno);
  return FileWriter(path, std::move(target), file);
}

FileWriter::FileWriter(FileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      written_to_(std::move(other.written_to_)),
      file_(std::exchange(other.file_, -1)),
      error_(other.error_) {}

FileWriter::~FileWriter() {
  if (file_ < 0) return;
  ::close(file_);
  if (written_to_ != path_) ::unlink(written_to_.c_str());
}

void FileWriter::Write(std::span<const uint8_t> bytes) {
  if (error_ == 0) error_ = WriteAll(file_, bytes);
}

absl::Status FileWriter::Finish() && {
  if (::close(std::exchange(file_, -1)) != 0 && error_ == 0) error_ = errno;
  bool replace = written_to_ != path_;
  if (error_ == 0 && replace && std::rename(written_to_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  if (replace) ::unlink(written_to_.c_str());
  return Failure("write", path_, error_);
}

absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes) {
  RVM_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Open(path));
  file.Write(bytes);
  return std::move(file).Finish();
}

absl::Status ReplaceFile(const std::string& path, std::string_view text) {
  return ReplaceFile(path, std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

}  // namespace rvm
