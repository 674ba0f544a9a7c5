// ONNX models as Relay programs.
//
//   diagnostics::SourceMap sources;
//   onnx::ImportOptions options;
//   options.sources = &sources;
//   RVM_ASSIGN_OR_RETURN(onnx::ImportedModel model, onnx::Import(bytes, options));
//   diagnostics::Diagnostics diagnostics(&sources);
//   driver::CompileOptions compile;
//   compile.weights.push_back({.path = "model.onnx", .tensors = std::move(model.weights)});
//   program = driver::CompileModule(std::move(model.module), diagnostics, compile);
//
// `@main` takes the model's inputs in their order, without those that have initialisers or are frozen, and gives its
// outputs, several as a tuple. Symbolic extents keep their names. A mistake in the model is kInvalidArgument, what is
// not supported kUnimplemented: all of both at once, with the names of the nodes. What the compiler and the running
// program say of a step names its node, by its origin in `sources`. Not thread-safe in `sources`.
#ifndef RVM_COMPILER_IMPORT_ONNX_IMPORT_H_
#define RVM_COMPILER_IMPORT_ONNX_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::onnx {

using importing::Bytes;
using importing::ImportedModel;
using importing::ImportOptions;

// `bytes` must outlive the call, no more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_IMPORT_H_
