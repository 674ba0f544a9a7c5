// LLVM's code generator for a HostTarget.
#ifndef RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_
#define RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_

#include <string>

#include "absl/status/statusor.h"
#include "llvm/MC/TargetRegistry.h"

namespace rvm::codegen {

absl::StatusOr<const llvm::Target*> FindBackend(const std::string& triple);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_HOST_TARGET_H_
