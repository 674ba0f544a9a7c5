// Keras models as Relay programs: `.keras` files and the older `.h5`. See compiler/import/onnx/import.h, whose
// conventions hold here, too.
#ifndef RVM_COMPILER_IMPORT_KERAS_IMPORT_H_
#define RVM_COMPILER_IMPORT_KERAS_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::keras {

using importing::FileBytes;
using importing::ImportedModel;
using importing::ImportOptions;

// Weights share memory with the file where somebody owns it.
absl::StatusOr<ImportedModel> Import(const FileBytes& file, const ImportOptions& options);

}  // namespace rvm::keras

#endif  // RVM_COMPILER_IMPORT_KERAS_IMPORT_H_
