// Files of models, whatever their format.
//
//   importing::ImportOptions options;
//   RVM_ASSIGN_OR_RETURN(importing::ImportedModel model, importing::ImportFile("model.pt2", options));
#ifndef RVM_COMPILER_IMPORT_IMPORT_FILE_H_
#define RVM_COMPILER_IMPORT_IMPORT_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/file_bytes.h"
#include "compiler/import/import_options.h"

namespace rvm::importing {

// A format of models, with one ending of its files.
struct Format {
  std::string_view name;    // "onnx"
  std::string_view ending;  // of its files: ".onnx"; "config.json": their whole name
  // Imports the bytes of a model, which must outlive the call, no more. REQUIRES, for weights without a graph
  // (checkpoint/import.h): `options.sources` is not null.
  absl::StatusOr<ImportedModel> (*import)(const FileBytes& file, const ImportOptions& options);
  // Whether the weights are a file of their own, the one that such a model asks `options.files` for.
  bool has_weights_file = false;
  bool has_signatures = false;    // among which ImportOptions may choose
  bool is_weights_alone = false;  // without a graph: ImportOptions chooses the dtypes of caches and activations
};

// Returns the format with that name, or with files of that ending; null if there is none. A folder has the format of
// the saved_model.pb or the config.json in it.
const Format* FindFormat(std::string_view name);
const Format* FormatOfPath(std::string_view path);
// Lists all formats, or the endings of their files, as messages do: "onnx, torch or tflite".
std::string FormatNames();
std::string ModelEndings();
// Returns the error for a path that has the ending of no format.
absl::Status NoModel(std::string_view path);

// Reads the name of a dtype of caches: float16, bfloat16 or float32.
absl::StatusOr<DataType> ReadCacheDType(std::string_view name);
// Reads the name of a dtype of activations: int8 or float32.
absl::StatusOr<DataType> ReadActivationDType(std::string_view name);

// Makes `weights` the file of weights, in place of the one beside the model. REQUIRES: the format has one.
void UseWeights(FileBytes weights, ImportOptions& options);

// Returns true if the path is that of a model: of a file, or of a folder with a saved_model.pb or a config.json.
bool IsModelPath(std::string_view path);
// Returns the path without the ending of its format, or without a `/` at the end.
std::string_view ModelStem(std::string_view path);

// Imports the bytes of a model, as `format.import` does. kInvalidArgument: the options have what the format has not.
absl::StatusOr<ImportedModel> ImportBytes(const Format& format, const FileBytes& file, const ImportOptions& options);
// Imports the file at `path`, which becomes the model's name. Files of external data are read from beside it or below,
// unless `options.files` is set. Weights share memory with a file where they lie as kernels want them; others are
// copied, and their pages of the file released. kNotFound: a file cannot be read.
absl::StatusOr<ImportedModel> ImportFile(const Format& format, const std::string& path, ImportOptions options);
// Imports it in the format that its ending names.
absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_IMPORT_FILE_H_
