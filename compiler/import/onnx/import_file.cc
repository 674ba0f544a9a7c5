#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "compiler/import/onnx/import.h"

namespace rvm::onnx {
namespace {

// The file at `path` in memory. Only the pages that are read take memory.
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
  return FileBytes{{static_cast<const uint8_t*>(data), size}, std::move(owner)};
}

// The whole pages of `part` of a mapped file are given back; the system reads them again when they are used.
void ReleasePages(Bytes part) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

// Files of external data lie beside the model or below.
ExternalFiles FilesBeside(const std::string& model) {
  size_t slash = model.rfind('/');
  std::string folder = slash == std::string::npos ? "" : model.substr(0, slash + 1);
  auto files = std::make_shared<std::map<std::string, FileBytes>>();
  return [folder, files](std::string_view location) -> absl::StatusOr<FileBytes> {
    std::string name(location);
    for (absl::string_view part : absl::StrSplit(name, '/')) {
      if (part != ".." && !name.empty() && name[0] != '/') continue;
      return absl::InvalidArgumentError(
          absl::StrCat("external data at `", name, "`; expected a file beside the model or below"));
    }
    if (auto it = files->find(name); it != files->end()) return it->second;
    RVM_ASSIGN_OR_RETURN(FileBytes file, MapFile(absl::StrCat(folder, name)));
    files->emplace(std::move(name), file);
    return file;
  };
}

}  // namespace

absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options) {
  RVM_ASSIGN_OR_RETURN(FileBytes file, MapFile(path));
  options.name = path;
  if (options.files == nullptr) options.files = FilesBeside(path);
  options.release = ReleasePages;
  absl::StatusOr<ImportedModel> model = Import(file.bytes, options);
  if (model.ok()) return model;
  return absl::Status(model.status().code(), absl::StrCat(path, ": cannot be imported\n", model.status().message()));
}

}  // namespace rvm::onnx
