// TorchScript files, as torch.jit.save writes them, as exported programs.
//
// The code of a module is run here on names in place of tensors: what is known now - numbers, lists, modules, whether a
// value is None - is computed, loops over it are unrolled and methods inlined; each operator on a tensor becomes a node
// as torch.export would write it. Branches and loops on what only the running model knows become nodes with graphs.
// From there on both formats are one: the same tables of operators, writes, state.
#ifndef RVM_COMPILER_IMPORT_TORCH_SCRIPT_H_
#define RVM_COMPILER_IMPORT_TORCH_SCRIPT_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/zip.h"
#include "compiler/import/import_options.h"
#include "compiler/import/torch/pickle.h"
#include "compiler/import/torch/program.h"

namespace rvm::torch {

struct ScriptTensor {
  TensorMeta meta;
  std::string path;  // of its elements in the archive
};

struct ScriptModel {
  Program program;
  std::map<std::string, ScriptTensor> tensors;
};

// `entries`: those of the archive, without the folder that all are in. The options say the shapes of inputs, which such
// files do not have: extents, with a dtype behind them where it is not float32.
absl::StatusOr<ScriptModel> ReadScript(const absl::flat_hash_map<std::string, ZipEntry>& entries,
                                       const importing::ImportOptions& options);

// Removes the dtypes from the shapes, which others do not expect there.
void DropDTypes(importing::ImportOptions& options);

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_SCRIPT_H_
