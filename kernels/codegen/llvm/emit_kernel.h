// Emits kernels into a module that others finish.
#ifndef RVM_KERNELS_CODEGEN_LLVM_EMIT_KERNEL_H_
#define RVM_KERNELS_CODEGEN_LLVM_EMIT_KERNEL_H_

#include "kernels/codegen/kernel_compiler.h"
#include "llvm/IR/Module.h"

namespace rvm::codegen {

// Returns whether the kernel is a few instructions: it takes at most 16 steps, for the elements of its results and the
// terms of its sums.
bool IsSmall(const KernelRequest& request);

// Emits the function `request.symbol`, an RvmKernel, and those that it calls.
void EmitKernel(llvm::Module& module, const KernelRequest& request);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_EMIT_KERNEL_H_
