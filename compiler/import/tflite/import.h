// TensorFlow Lite models as Relay programs. See compiler/import/onnx/import.h, whose conventions hold here, too.
#ifndef RVM_COMPILER_IMPORT_TFLITE_IMPORT_H_
#define RVM_COMPILER_IMPORT_TFLITE_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::tflite {

using importing::Bytes;
using importing::ImportedModel;
using importing::ImportOptions;

// `bytes` must outlive the call, no more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_IMPORT_H_
