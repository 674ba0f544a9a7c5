// Emits folds over windows that slide along rows, in two steps (schedule::Windows).
#ifndef RVM_KERNELS_CODEGEN_LLVM_WINDOW_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_WINDOW_EMITTER_H_

#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/schedule/loop_nest.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace rvm::codegen {

struct WindowSite {
  llvm::IRBuilder<>& b;
  ExprEmitter& e;
  const schedule::Target& target;
  const schedule::LoopNest& nest;
  llvm::Value* begin;  // positions of the last axis; the others are bound
  llvm::Value* end;
  llvm::Value* cancel;
  llvm::MDNode* independent;  // an access group without loop-carried dependences, or null
};

// `finish` emits the epilogue at one position, whose axes are bound, given the value of the fold.
void EmitWindows(const WindowSite& site, llvm::function_ref<void(llvm::Value*)> finish);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_WINDOW_EMITTER_H_
