// DarkNet models as Relay programs: a configuration (`.cfg`), whose weights `options.files` reads. See
// compiler/import/onnx/import.h, whose conventions hold here, too.
#ifndef RVM_COMPILER_IMPORT_DARKNET_IMPORT_H_
#define RVM_COMPILER_IMPORT_DARKNET_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::darknet {

using importing::Bytes;
using importing::ImportedModel;
using importing::ImportOptions;

// `bytes` must outlive the call, no more. Weights share memory with the file of weights where somebody owns it.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::darknet

#endif  // RVM_COMPILER_IMPORT_DARKNET_IMPORT_H_
