// Reads and writes whole files.
#ifndef RVM_BASE_FILE_H_
#define RVM_BASE_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace rvm {

// kNotFound or another code with the system's reason: "cannot read `x`: No such file or directory".
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces a file atomically: a reader sees either the old bytes or the new ones. What is no regular file, such as
// /dev/stdout, is written to. One thread.
class FileWriter {
 public:
  static absl::StatusOr<FileWriter> Open(const std::string& path);
  FileWriter(FileWriter&& other) noexcept;
  ~FileWriter();  // without Finish: the old bytes stay

  // After an error it does nothing.
  void Write(std::span<const uint8_t> bytes);
  // The first error, with the system's reason.
  absl::Status Finish() &&;

 private:
  FileWriter(std::string path, std::string written_to, int file)
      : path_(std::move(path)), written_to_(std::move(written_to)), file_(file) {}

  std::string path_, written_to_;
  int file_;  // -1: closed
  int error_ = 0;
};

// The same, at once.
absl::Status ReplaceFile(const std::string& path, std::span<const uint8_t> bytes);
absl::Status ReplaceFile(const std::string& path, std::string_view text);

}  // namespace rvm

#endif  // RVM_BASE_FILE_H_
