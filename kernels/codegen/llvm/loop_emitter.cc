#include "kernels/codegen/llvm/loop_emitter.h"

#include <algorithm>
#include <limits>

#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace rvm::codegen {

using llvm::Value;

namespace {

void MarkIndependent(llvm::BranchInst* latch, llvm::MDNode* group) {
  llvm::LLVMContext& context = latch->getContext();
  llvm::Metadata* accesses[] = {llvm::MDString::get(context, "llvm.loop.parallel_accesses"), group};
  llvm::Metadata* loop[] = {nullptr, llvm::MDNode::get(context, accesses)};
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, loop);
  id->replaceOperandWith(0, id);
  latch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

}  // namespace

std::vector<Value*> EmitLoop(llvm::IRBuilder<>& b, Value* begin, Value* end, int64_t step, std::vector<Value*> carried,
                             LoopBody body, llvm::MDNode* independent) {
  llvm::BasicBlock* entry = b.GetInsertBlock();
  llvm::Function* function = entry->getParent();
  llvm::BasicBlock* head = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  llvm::BasicBlock* exit = llvm::BasicBlock::Create(b.getContext(), "exit", function);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), head, exit);
  b.SetInsertPoint(head);
  llvm::PHINode* at = b.CreatePHI(begin->getType(), 2, "at");
  at->addIncoming(begin, entry);
  std::vector<Value*> current;
  for (Value* value : carried) {
    llvm::PHINode* phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, entry);
    current.push_back(phi);
  }
  std::vector<Value*> next = body(at, current);
  Value* following = b.CreateNSWAdd(at, llvm::ConstantInt::get(at->getType(), static_cast<uint64_t>(step)));
  llvm::BasicBlock* latch = b.GetInsertBlock();
  llvm::BranchInst* again = b.CreateCondBr(b.CreateICmpSLT(following, end), head, exit);
  if (independent != nullptr) MarkIndependent(again, independent);
  at->addIncoming(following, latch);
  b.SetInsertPoint(exit);
  std::vector<Value*> results;
  for (size_t i = 0; i < carried.size(); ++i) {
    llvm::cast<llvm::PHINode>(current[i])->addIncoming(next[i], latch);
    llvm::PHINode* phi = b.CreatePHI(carried[i]->getType(), 2);
    phi->addIncoming(carried[i], entry);
    phi->addIncoming(next[i], latch);
    results.push_back(phi);
  }
  return results;
}

namespace {

// Between two looks at the flag: tens of microseconds as a rule, a few milliseconds where every read misses the caches.
constexpr int64_t kChunkCost = 32768;
// Turns in a chunk are a multiple of this, or each turn looks.
constexpr int64_t kTurns = 64;

// Returns from the function if *cancel is not 0.
void EmitStop(llvm::IRBuilder<>& b, Value* cancel) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* stop = llvm::BasicBlock::Create(b.getContext(), "stop", function);
  llvm::BasicBlock* go_on = llvm::BasicBlock::Create(b.getContext(), "go_on", function);
  Value* wanted = b.CreateLoad(b.getInt32Ty(), cancel, /*isVolatile=*/true);
  b.CreateCondBr(b.CreateICmpNE(wanted, b.getInt32(0)), stop, go_on,
                 llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(stop);
  b.CreateRetVoid();
  b.SetInsertPoint(go_on);
}

}  // namespace

int64_t CostOfTurns(int64_t cost, const Dim& turns) {
  if (cost == kUnknownCost || !turns.is_const()) return kUnknownCost;
  int64_t product = 0;
  bool overflows = __builtin_mul_overflow(cost, std::max<int64_t>(turns.constant(), 1), &product);
  return overflows ? kUnknownCost : product;
}

std::vector<Value*> EmitStoppableLoop(llvm::IRBuilder<>& b, const LoopRange& range, Value* cancel, int64_t cost,
                                      std::vector<Value*> carried, LoopBody body, llvm::MDNode* independent) {
  int64_t all = CostOfTurns(cost, FloorDiv(range.extent + (range.step - 1), range.step));
  if (all <= kChunkCost) return EmitLoop(b, range.begin, range.end, range.step, std::move(carried), body, independent);
  if (cost > kChunkCost / kTurns) {
    auto checked = [&](Value* at, const std::vector<Value*>& current) {
      EmitStop(b, cancel);
      return body(at, current);
    };
    return EmitLoop(b, range.begin, range.end, range.step, std::move(carried), checked, independent);
  }
  int64_t chunk = kChunkCost / std::max<int64_t>(cost, 1) / kTurns * kTurns * range.step;
  return EmitLoop(b, range.begin, range.end, chunk, std::move(carried),
                  [&](Value* first, const std::vector<Value*>& current) {
                    Value* limit = b.CreateNSWAdd(first, b.getInt64(static_cast<uint64_t>(chunk)));
                    Value* last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, range.end);
                    std::vector<Value*> next = EmitLoop(b, first, last, range.step, current, body, independent);
                    EmitStop(b, cancel);
                    return next;
                  });
}

}  // namespace rvm::codegen
