// ONNX models as Relay programs.
//
//   diagnostics::SourceMap sources;
//   onnx::ImportOptions options;
//   options.sources = &sources;
//   RVM_ASSIGN_OR_RETURN(onnx::ImportedModel model, onnx::ImportFile("model.onnx", options));
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

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/onnx/tensor_data.h"
#include "compiler/ir/module.h"

namespace rvm::onnx {

struct ImportOptions {
  // The model's name in origins: the path of its file.
  std::string name = "model.onnx";
  // Gets an origin for each node that makes steps, "MatMul node `/proj` of model.onnx". Null: steps have none.
  diagnostics::SourceMap* sources = nullptr;
  // Inputs with values that they always have.
  std::map<std::string, Literal, std::less<>> frozen;
  // Inputs with other extents than the model says: numbers, names, or "?".
  std::map<std::string, std::vector<std::string>, std::less<>> shapes;
  bool all_extents_unknown = false;  // every extent of every input is `?`: for tests
  ExternalFiles files;               // null: a model with external data is refused
  // Called with parts of the model's bytes that have been copied. Null: nobody wants to know.
  std::function<void(Bytes part)> release;
};

struct ImportedModel {
  ir::Module module;  // not typed yet
  // Values of the free variables of the module.
  std::map<std::string, Literal, std::less<>> weights;
  std::vector<std::string> inputs, outputs;  // as the model names them
};

// `bytes` must outlive the call, no more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

// Of the file at `path`, which becomes the model's name. Files of external data are read from beside it or below,
// unless `options.files` is set. Weights share memory with a file where they lie as kernels want them; others are
// copied, and their pages of the file released. kNotFound: a file cannot be read.
absl::StatusOr<ImportedModel> ImportFile(const std::string& path, ImportOptions options);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_IMPORT_H_
