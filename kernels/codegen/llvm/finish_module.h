// The steps from a module with functions to its object, for kernels and for functions of programs.
#ifndef RVM_KERNELS_CODEGEN_LLVM_FINISH_MODULE_H_
#define RVM_KERNELS_CODEGEN_LLVM_FINISH_MODULE_H_

#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/codegen/kernel_compiler.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Module.h"
#include "llvm/Pass.h"
#include "llvm/Target/TargetMachine.h"

namespace rvm::codegen {

// Tells the code generator of each function which CPU it is for.
void SetTarget(llvm::Module& module, const HostTarget& target);

// Checks the module, runs `optimise` on it, and generates its object, which may call what kernels/abi/imports.def and
// `imports` list. `optimise` skips passes as soon as `must_stop` returns true. Code generation goes without the passes
// `left_out`.
absl::StatusOr<CompiledObject> FinishModule(llvm::Module& module, llvm::TargetMachine& machine,
                                            const CodegenOptions& options,
                                            llvm::function_ref<void(llvm::function_ref<bool()> must_stop)> optimise,
                                            std::span<const std::string_view> imports = {},
                                            std::span<const llvm::AnalysisID> left_out = {});

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_FINISH_MODULE_H_
