// Weights: tensors in files, bound by name to the free variables of a program and the parameters of its `@main`.
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

// A .npz, .safetensors, .npy or .params file (told apart by content; a .npy is one tensor with the
// name of the file). Errors start with the path.
absl::StatusOr<ParamFile> LoadParams(const std::string& path);
absl::StatusOr<ParamFile> DecodeParams(const std::string& path, std::span<const uint8_t> bytes);

// What BindParams did; names without the `%`.
struct BoundWeights {
  std::vector<std::string> unused;     // tensors that nothing is named like
  std::vector<std::string> bound;      // parameters of `@main` that have become constants
  std::vector<std::string> arguments;  // parameters of `@main` that no tensor is named like
  bool any_used = false;               // a tensor has become a constant
  // The program itself calls `@main`, so its parameters stay parameters.
  bool main_is_called = false;
};

// Replaces each use of a free variable, and of each parameter of `@main` that a tensor is named like, by a constant,
// which shares the elements with `files` and has the variable's name. Empties module.free_vars and drops those
// parameters. A tensor is meant by its name, or by its name with `_` for what is no letter and no digit. Checks dtype
// and shape against the annotation; an extent that a bound parameter of `@main` names is the tensor's from then on.
// False if errors were reported (kMissingWeight: no tensor for a free variable).
bool BindParams(ir::Module& module, std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics,
                BoundWeights* weights = nullptr);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_PARAMS_H_
