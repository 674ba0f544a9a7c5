// Weights: tensors in files, bound by name to the free variables of a program.
#ifndef RVM_COMPILER_DRIVER_PARAMS_H_
#define RVM_COMPILER_DRIVER_PARAMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/literal.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::driver {

struct ParamFile {
  std::string path;
  std::map<std::string, Literal, std::less<>> tensors;
  // Tensors of a form we do not read, and why: an error only if one is asked for.
  std::map<std::string, std::string, std::less<>> unreadable;
};

// A .npz, .safetensors or .npy file (told apart by content; a .npy is one tensor with the
// name of the file). Errors start with the path.
absl::StatusOr<ParamFile> LoadParams(const std::string& path);
absl::StatusOr<ParamFile> DecodeParams(const std::string& path, std::span<const uint8_t> bytes);

// Replaces each use of a free variable by a constant, which shares the elements with `files` and
// has the variable's name, and empties module.free_vars. A tensor is meant by its name, or,
// since `%` names have no dots and dashes, by its name with `_` for these. Checks dtype and shape
// against the annotation. False if errors were reported (kUnboundParameter: no such tensor).
// `unused`: the tensors that no variable asked for.
bool BindParams(ir::Module& module, std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics,
                std::vector<std::string>* unused = nullptr);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_PARAMS_H_
