// TensorFlow's SavedModels and frozen graphs as Relay programs. See compiler/import/onnx/import.h, whose conventions
// hold here, too.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_IMPORT_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::tensorflow {

using importing::Bytes;
using importing::ImportedModel;
using importing::ImportOptions;

// `bytes` are a saved_model.pb, whose variables `options.files` gives, or a GraphDef. They must outlive the call, no
// more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_IMPORT_H_
