// Weights: tensors in files, bound by name to the free variables of a program and the parameters of its `@main`.
#ifndef RVM_COMPILER_DRIVER_PARAMS_H_
#define RVM_COMPILER_DRIVER_PARAMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
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
  // The parameters of `@main` can be bound to its tensors, too; else only free variables.
  bool binds_main = true;
};

// Reads a .npz, .safetensors, .npy or .params file (told apart by content; a .npy is one tensor with the
// name of the file). Errors start with the path.
absl::StatusOr<ParamFile> LoadParams(const std::string& path);
absl::StatusOr<ParamFile> DecodeParams(const std::string& path, std::span<const uint8_t> bytes);

// Result of BindParams; names without the `%`.
struct BoundWeights {
  std::vector<std::string> unused;     // tensors without a variable of their name
  std::string declaration;             // of a variable for the first of them: "free_var %w: Tensor[(2), float32];"
  std::vector<std::string> bound;      // parameters of `@main` that have become constants
  std::vector<std::string> arguments;  // parameters of `@main` without a tensor of their name
  bool any_used = false;               // a tensor has become a constant
  // The program itself calls `@main`, so its parameters stay parameters.
  bool main_is_called = false;
};

// Replaces each use of a free variable, and of each parameter of `@main` that has a tensor of its name, by a constant
// with the variable's name, which shares its elements with `files`. Clears module.free_vars and removes those
// parameters. A tensor matches by its name, or by its name with `_` in place of each character that is neither a letter
// nor a digit. Checks dtype and shape against the annotation. An extent that a bound parameter of `@main` names is
// replaced by the tensor's.
// False if errors were reported (kMissingWeight: no tensor for a free variable).
bool BindParams(ir::Module& module, std::span<const ParamFile> files, diagnostics::Diagnostics& diagnostics,
                BoundWeights* weights = nullptr);

// How to declare a variable for the tensor of `files` that `name` means, which may be misspelt: "`free_var %w: ...;`
// declares the tensor `w` of weights.npz". Empty if there is none.
std::string HowToDeclare(std::string_view name, std::span<const ParamFile> files);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_PARAMS_H_
