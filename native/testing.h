// For tests that plant bugs into the machine code of functions.
#ifndef RVM_NATIVE_TESTING_H_
#define RVM_NATIVE_TESTING_H_

#include <sys/wait.h>
#include <unistd.h>

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

// Returns whether `test` gives true in a process of its own; false if that crashes, or takes longer than a minute.
inline bool IsTrueInAProcess(const std::function<bool()>& test) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(test() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace rvm::native

#endif  // RVM_NATIVE_TESTING_H_
