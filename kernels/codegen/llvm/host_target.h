// LLVM's code generator for a HostTarget.
#ifndef RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_
#define RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/codegen/kernel_compiler.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Target/TargetMachine.h"

namespace rvm::codegen {

absl::StatusOr<const llvm::Target*> FindBackend(const std::string& triple);
// LLVM's name of the CPU that has what every CPU of the triple's architecture has.
std::string BaselineCpu(const std::string& triple);
// LLVM's name of the target's CPU.
std::string TunedCpu(const HostTarget& target);
// Returns the target's features, and those of LLVM that state what is fast, which no CPU has or lacks.
std::string TunedFeatures(const HostTarget& target);
// Returns the code generator for position-independent code. `opt_level`: 0..3.
absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const HostTarget& target, int opt_level);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_
