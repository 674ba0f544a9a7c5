// The gradient of a function as a program of its own, for people to read and to compile.
#ifndef RVM_COMPILER_DRIVER_GRADIENT_H_
#define RVM_COMPILER_DRIVER_GRADIENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/diagnostics/diagnostics.h"

namespace rvm::driver {

struct GradientRequest {
  std::string function = "main";
  // Parameters of the function, with or without `%`. Empty: all that a gradient can be taken by.
  std::vector<std::string> parameters;
  // The text may import files: see ProgramFiles.
  bool reads_imports = false;
};

// Returns the text of a program with the function `@NAME_grad`, which takes what `@NAME` takes and gives its result and
// a tuple of the gradients by `parameters`, in the order of the request; and of what that function needs. No `grad` is
// left in it, function literals are called in place, constants folded and dead code is gone.
//
// `source`: the id of a Relay text. Errors in it, and of gradients that cannot be taken, are reported to `diagnostics`,
// and the status only counts them; for a wrong request it has a message.
absl::StatusOr<std::string> GradientProgram(uint32_t source, const GradientRequest& request,
                                            diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_GRADIENT_H_
