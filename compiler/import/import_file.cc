#include "compiler/import/import_file.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/tflite/import.h"
#include "compiler/import/torch/import.h"

namespace rvm::importing {
namespace {

struct Format {
  std::string_view ending;
  absl::StatusOr<ImportedModel> (*import)(const std::string& path, ImportOptions options);
};
constexpr Format kFormats[] = {
    {".onnx", onnx::ImportFile}, {".pt2", torch::ImportFile}, {".tflite", tflite::ImportFile}};

const Format* FindFormat(std::string_view path) {
  for (const Format& format : kFormats) {
    if (path.ends_with(format.ending)) return &format;
  }
  return nullptr;
}

}  // namespace

bool IsModelPath(std::string_view path) { return FindFormat(path) != nullptr; }

std::string_view ModelStem(std::string_view path) {
  const Format* format = FindFormat(path);
  return format == nullptr ? path : path.substr(0, path.size() - format->ending.size());
}

absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options) {
  if (const Format* format = FindFormat(path)) return format->import(path, std::move(options));
  return absl::InvalidArgumentError(absl::StrCat("`", path, "` is no model; expected an .onnx, .pt2 or .tflite file"));
}

}  // namespace rvm::importing
