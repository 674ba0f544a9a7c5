// Files of models, whatever their format.
//
//   importing::ImportOptions options;
//   RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, importing::ImportFile("model.pt2", options));
#ifndef RVM_COMPILER_IMPORT_IMPORT_FILE_H_
#define RVM_COMPILER_IMPORT_IMPORT_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::importing {

// Whether the name is that of a model's file: .onnx, .pt2 or .tflite.
bool IsModelPath(std::string_view path);
// The path without that ending.
std::string_view ModelStem(std::string_view path);
// The model at `path`, by its ending: see onnx::ImportFile and torch::ImportFile.
absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_IMPORT_FILE_H_
