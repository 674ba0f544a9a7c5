// Register-blocked products with packed constant weights.
//
// A tile is a few rows by one panel of columns; its sums stay in vector registers over the
// whole depth. Then they go through a local buffer to the epilogue, whose loop over
// the columns vectorises. Rows that are left over have tiles of their own heights.
#ifndef RVM_KERNELS_CODEGEN_LLVM_CONTRACTION_H_
#define RVM_KERNELS_CODEGEN_LLVM_CONTRACTION_H_

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/te/loop_nest.h"

namespace rvm::codegen {

struct ContractionSite {
  llvm::IRBuilder<>& b;
  ExprEmitter& e;
  const TargetFacts& target;
  const te::LoopNest& nest;
  llvm::Value* begin;  // of the units it says there are
  llvm::Value* end;
  llvm::Value* cancel;
  llvm::MDNode* independent;  // as for EmitLoop: of the accesses at different positions
};

// Gives how many units of work there are. `finish` emits the epilogue at one position,
// whose axes are bound, from the value of the sum.
Dim EmitContraction(const ContractionSite& site, llvm::function_ref<void(llvm::Value*)> finish);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_CONTRACTION_H_
