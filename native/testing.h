// For tests that plant bugs into the machine code of functions.
#ifndef RVM_NATIVE_TESTING_H_
#define RVM_NATIVE_TESTING_H_

#include <functional>

#include "absl/status/statusor.h"
#include "native/control_compiler.h"

namespace llvm {
class Module;
}  // namespace llvm

namespace rvm::native {

// Like CompileControl at level 1, but changes the module before it is optimised.
absl::StatusOr<CompiledControl> CompileChangedControl(const VerifiedExecutable& executable,
                                                      const codegen::HostTarget& target,
                                                      const std::function<void(llvm::Module& module)>& change);

}  // namespace rvm::native

#endif  // RVM_NATIVE_TESTING_H_
