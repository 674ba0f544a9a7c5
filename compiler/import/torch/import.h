// Exported programs of PyTorch (.pt2 files of torch.export.save) and TorchScript (.pt and .torchscript files of
// torch.jit.save) as Relay programs. No PyTorch is needed.
//
//   torch::ImportOptions options;
//   RVM_ASSIGN_OR_RETURN(torch::ImportedModel model, torch::Import(file, options));
//
// As for ONNX (compiler/import/onnx/import.h): `@main` takes the model's inputs in their order and gives its outputs,
// several as a tuple. Symbolic extents keep their names, s0; their ranges and the guards of the export are checked when
// a program runs. Buffers and inputs that the model writes to are its state: a buffer becomes a parameter behind the
// others, and the new values of what is written stand behind the other outputs; `@initial_state` gives the buffers'
// first values. Both programs in core ATen operators (`run_decompositions`) and those before are read.
#ifndef RVM_COMPILER_IMPORT_TORCH_IMPORT_H_
#define RVM_COMPILER_IMPORT_TORCH_IMPORT_H_

#include "absl/status/statusor.h"
#include "compiler/import/import_options.h"

namespace rvm::torch {

using importing::ImportedModel;
using importing::ImportOptions;

// Weights that are views of `file` keep its owner alive; without an owner they are copies.
absl::StatusOr<ImportedModel> Import(const importing::FileBytes& file, const ImportOptions& options);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_IMPORT_H_
