// Emits reductions by several threads for each position, as described by schedule::Team.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TEAM_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_TEAM_EMITTER_H_

#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/loop_nest.h"

namespace rvm::codegen {

// Code that all threads of a block run together.
struct BlockSite {
  llvm::Module& module;
  llvm::IRBuilder<>& b;
  ExprEmitter& e;
  const schedule::LoopNest& nest;
  llvm::Value* block;  // i64: which of schedule::Blocks(nest) it is; the same for all threads
};

llvm::Value* EmitThread(llvm::IRBuilder<>& b);  // i64: its number in the block
void EmitBarrier(llvm::IRBuilder<>& b);
// Returns an array in the memory that the block shares.
llvm::Value* SharedArray(llvm::Module& module, llvm::Type* type, int64_t elements);

// `finish` emits what follows the reduction at one position, whose axes are bound, given its result.
void EmitTeam(const BlockSite& site, llvm::function_ref<void(llvm::Value*)> finish);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TEAM_EMITTER_H_
