// Emits loops and branches. Long loops test the kernel's cancel flag.
#ifndef RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_

#include <cstdint>
#include <vector>

#include "base/dim.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/IRBuilder.h"

namespace rvm::codegen {

using LoopBody =
    llvm::function_ref<std::vector<llvm::Value*>(llvm::Value* at, const std::vector<llvm::Value*>& carried)>;

// Hints to the optimiser.
struct LoopHints {
  llvm::MDNode* independent = nullptr;  // an access group without loop-carried dependences, or null
  int64_t fold_tail = 0;                // if not 0: vectorise by this many lanes, with masks for the remainder
  bool keep_rolled = false;             // do not unroll
  int64_t unroll = 0;                   // if not 0: unroll by this number
  int64_t iterations = 0;               // if not 0: so many as a rule; LLVM expects 32 otherwise
  bool is_innermost = false;            // costly iterations poll in runs that vectors can compute
};

// Iterations of a reduction by a thread of a GPU whose loads are underway together.
inline constexpr int64_t kLoadsAtOnce = 8;

// for (at = begin; at < end; at += step), with loop-carried values; returns their final values.
std::vector<llvm::Value*> EmitLoop(llvm::IRBuilder<>& b, llvm::Value* begin, llvm::Value* end, int64_t step,
                                   std::vector<llvm::Value*> carried, LoopBody body, const LoopHints& hints = {});

struct LoopRange {
  llvm::Value* begin;
  llvm::Value* end;
  Dim extent;  // end - begin is at most that
  int64_t step = 1;
};

// Like EmitLoop, in a function that returns void. Loops that may be long return from it soon after *cancel becomes
// nonzero: every iteration tests the flag if its `cost` (kernels/schedule/nest_cost.h) is large or unknown; otherwise
// the loop is split into chunks, which does not inhibit vectorisation. Without a flag (null) it is EmitLoop.
std::vector<llvm::Value*> EmitStoppableLoop(llvm::IRBuilder<>& b, const LoopRange& range, llvm::Value* cancel,
                                            int64_t cost, std::vector<llvm::Value*> carried, LoopBody body,
                                            const LoopHints& hints = {});

// Emits `body` to run where the condition holds.
void EmitIf(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::function_ref<void()> body);
// Likewise, for values: elsewhere they are those of `otherwise`, or zeros if it is empty.
std::vector<llvm::Value*> EmitChoice(llvm::IRBuilder<>& b, llvm::Value* condition,
                                     llvm::function_ref<std::vector<llvm::Value*>()> body,
                                     const std::vector<llvm::Value*>& otherwise = {});
// Emits both bodies, of which one runs.
void EmitIfElse(llvm::IRBuilder<>& b, llvm::Value* condition, llvm::function_ref<void()> then,
                llvm::function_ref<void()> otherwise);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_
