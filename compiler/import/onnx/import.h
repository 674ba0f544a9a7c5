// ONNX models as Relay programs.
//
//   RVM_ASSIGN_OR_RETURN(onnx::ImportedModel model, onnx::Import(bytes, options));
//
// `@main` takes the model's inputs in their order, without those that have initialisers or are frozen, and gives its
// outputs, several as a tuple. Symbolic extents keep their names. A mistake in the model is kInvalidArgument, what is
// not supported kUnimplemented: all of both at once, with the names of the nodes.
#ifndef RVM_COMPILER_IMPORT_ONNX_IMPORT_H_
#define RVM_COMPILER_IMPORT_ONNX_IMPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/onnx/tensor_data.h"
#include "compiler/ir/module.h"

namespace rvm::onnx {

struct ImportOptions {
  // Inputs with values that they always have.
  std::map<std::string, Literal, std::less<>> frozen;
  // Inputs with other extents than the model says: numbers, names, or "?".
  std::map<std::string, std::vector<std::string>, std::less<>> shapes;
  bool all_extents_unknown = false;  // every extent of every input is `?`: for tests
  ExternalFiles files;
};

struct ImportedModel {
  ir::Module module;  // not typed yet
  // Values of the free variables of the module.
  std::map<std::string, Literal, std::less<>> weights;
  std::vector<std::string> inputs, outputs;  // as the model names them
};

// `bytes` must outlive the call, no more.
absl::StatusOr<ImportedModel> Import(Bytes bytes, const ImportOptions& options);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_IMPORT_H_
