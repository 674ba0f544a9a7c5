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
#include "compiler/import/mapped_file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/tensor_data.h"

namespace rvm::onnx {
namespace {

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
    RVM_ASSIGN_OR_RETURN(FileBytes file, importing::MapFile(absl::StrCat(folder, name)));
    files->emplace(std::move(name), file);
    return file;
  };
}

}  // namespace

absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options) {
  RVM_ASSIGN_OR_RETURN(FileBytes file, importing::MapFile(path));
  options.name = path;
  if (options.files == nullptr) options.files = FilesBeside(path);
  options.release = importing::ReleasePages;
  absl::StatusOr<ImportedModel> model = Import(file.bytes, options);
  if (model.ok()) return model;
  return absl::Status(model.status().code(), absl::StrCat(path, ": cannot be imported\n", model.status().message()));
}

}  // namespace rvm::onnx
