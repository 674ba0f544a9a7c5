// Stores that bypass the caches (non-temporal stores), for results that are larger than these.
//
// A store to memory that is not in a cache first reads its line; one that bypasses the caches writes whole lines. The
// vectoriser makes no such stores of elements, because they need aligned vectors: elements are marked before it runs,
// in a loop that begins at a line, and the vectors that it made of them become non-temporal afterwards.
#ifndef RVM_KERNELS_CODEGEN_LLVM_STREAMED_STORES_H_
#define RVM_KERNELS_CODEGEN_LLVM_STREAMED_STORES_H_

#include <cstdint>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassManager.h"

namespace rvm::codegen {

// Size of a cache line.
inline constexpr uint64_t kLineBytes = 64;

// REQUIRES: the loop around it stores consecutive elements, the first of them at the beginning of a line.
void MarkStreamed(llvm::StoreInst& store);
// Adds the access to the group, for the hint LoopHints::independent.
void AddAccessGroup(llvm::Instruction& access, llvm::MDNode* group);
// Orders streamed stores before what follows.
void EmitStreamFence(llvm::IRBuilder<>& b);

// Makes the vectors of marked elements non-temporal. Runs directly behind the vectoriser.
struct StreamStoresPass : llvm::PassInfoMixin<StreamStoresPass> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_STREAMED_STORES_H_
