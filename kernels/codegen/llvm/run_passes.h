// Runs LLVM's optimiser on a module.
#ifndef RVM_KERNELS_CODEGEN_LLVM_RUN_PASSES_H_
#define RVM_KERNELS_CODEGEN_LLVM_RUN_PASSES_H_

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"

namespace rvm::codegen {

// Runs the passes that `pipeline` makes. They know of no library function: none but those of the loader's table exist
// when a kernel runs. `machine`: null for passes that need not know it.
void RunPasses(llvm::Module& module, llvm::TargetMachine* machine, const llvm::PipelineTuningOptions& tuning,
               llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder& builder)> pipeline,
               llvm::function_ref<bool()> must_stop = nullptr);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_RUN_PASSES_H_
