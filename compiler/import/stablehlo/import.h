// StableHLO programs as Relay programs. See compiler/import/onnx/import.h, whose conventions hold here, too.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_IMPORT_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::stablehlo {

using importing::Bytes;
using importing::ImportedModel;
using importing::ImportOptions;

// `bytes` are a portable artifact, which is MLIR bytecode, or what `jax.export` serialized, which has one. They must
// outlive the call, no more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_IMPORT_H_
