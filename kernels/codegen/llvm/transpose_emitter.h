// Emits nests that read along another axis than they store (schedule::NestForm::kTransposed): square blocks are
// computed along the axis of the reads and transposed in registers, so that both loads and stores are vectors.
#ifndef RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_EMITTER_H_

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/loop_nest.h"

namespace rvm::codegen {

struct TransposeSite {
  llvm::IRBuilder<>& b;
  ExprEmitter& e;
  const schedule::Target& target;
  const schedule::LoopNest& nest;
  llvm::Value* begin;  // positions of the first axis
  llvm::Value* end;
  llvm::Value* cancel;
  llvm::MDNode* independent;  // an access group without loop-carried dependences, or null
};

void EmitTransposed(const TransposeSite& site);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_TRANSPOSE_EMITTER_H_
