// Emits one loop nest as a function
//   void nest(i64 begin, i64 end, ptr tensors..., i64 symbols..., ptr cancel)
// which runs positions [begin, end) of the nest's outermost axis.
#ifndef RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_

#include <string>
#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/te/schedule.h"

namespace rvm::codegen {

struct EmittedNest {
  llvm::Function* function = nullptr;
  std::vector<te::Tensor> tensors;  // whose pointers it takes
  Dim count = 1;                    // positions to run
  Dim work;                         // about how many additions that is
  bool in_order = false;            // positions read those before them
};

EmittedNest EmitNest(llvm::Module& module, const TargetFacts& target, const te::Schedule& schedule,
                     const te::LoopNest& nest, const std::string& name);

// Columns in a panel of a packed weight.
int64_t PanelColumns(const TargetFacts& target, DataType dtype, const te::Contraction& contraction);

using LoopBody =
    llvm::function_ref<std::vector<llvm::Value*>(llvm::Value* at, const std::vector<llvm::Value*>& carried)>;

// for (at = begin; at < end; at += step): values carried from turn to turn; gives the last. `independent`: an access
// group whose accesses never meet between turns; null: no promise.
std::vector<llvm::Value*> EmitLoop(llvm::IRBuilder<>& b, llvm::Value* begin, llvm::Value* end, int64_t step,
                                   std::vector<llvm::Value*> carried, LoopBody body,
                                   llvm::MDNode* independent = nullptr);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_NEST_EMITTER_H_
