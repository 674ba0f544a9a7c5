// Emits loops; long ones look at the kernel's cancel flag.
#ifndef RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_
#define RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "base/dim.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/IRBuilder.h"

namespace rvm::codegen {

using LoopBody =
    llvm::function_ref<std::vector<llvm::Value*>(llvm::Value* at, const std::vector<llvm::Value*>& carried)>;

// What the optimiser should know of a loop.
struct LoopHints {
  llvm::MDNode* independent = nullptr;  // an access group whose accesses never meet between turns; null: no promise
  int64_t fold_tail = 0;                // not 0: vectorise by so many lanes, the last turns masked
  bool keep_rolled = false;             // the loop was unrolled as far as it pays
};

// for (at = begin; at < end; at += step): values carried from turn to turn; gives the last.
std::vector<llvm::Value*> EmitLoop(llvm::IRBuilder<>& b, llvm::Value* begin, llvm::Value* end, int64_t step,
                                   std::vector<llvm::Value*> carried, LoopBody body, const LoopHints& hints = {});

// About how many additions something is; or nobody knows before it runs.
inline constexpr int64_t kUnknownCost = std::numeric_limits<int64_t>::max();
int64_t CostOfTurns(int64_t cost, const Dim& turns);

struct LoopRange {
  llvm::Value* begin;
  llvm::Value* end;
  Dim extent;  // end - begin is at most that
  int64_t step = 1;
};

// As EmitLoop, in a function that gives nothing. Loops that may be long are left by returning from it soon after
// *cancel is not 0: each turn looks if its `cost` is large or unknown, else there is a loop over chunks of turns, which
// vectors do not notice.
std::vector<llvm::Value*> EmitStoppableLoop(llvm::IRBuilder<>& b, const LoopRange& range, llvm::Value* cancel,
                                            int64_t cost, std::vector<llvm::Value*> carried, LoopBody body,
                                            const LoopHints& hints = {});

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_LOOP_EMITTER_H_
