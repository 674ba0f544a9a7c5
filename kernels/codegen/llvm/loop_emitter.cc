#include "kernels/codegen/llvm/loop_emitter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/schedule/nest_cost.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"

namespace rvm::codegen {

using llvm::Value;

namespace {

void SetHints(llvm::BranchInst* latch, const LoopHints& hints) {
  llvm::LLVMContext& context = latch->getContext();
  llvm::SmallVector<llvm::Metadata*, 5> loop = {nullptr};
  auto add = [&](const char* name, llvm::ArrayRef<llvm::Metadata*> value) {
    llvm::SmallVector<llvm::Metadata*, 2> parts = {llvm::MDString::get(context, name)};
    parts.append(value.begin(), value.end());
    loop.push_back(llvm::MDNode::get(context, parts));
  };
  auto constant = [&](llvm::Constant* value) -> llvm::Metadata* { return llvm::ConstantAsMetadata::get(value); };
  if (hints.independent != nullptr) add("llvm.loop.parallel_accesses", {hints.independent});
  if (hints.fold_tail > 0) {
    llvm::Constant* lanes =
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(hints.fold_tail));
    add("llvm.loop.vectorize.width", {constant(lanes)});
    add("llvm.loop.vectorize.predicate.enable", {constant(llvm::ConstantInt::getTrue(context))});
  }
  if (hints.unroll > 0) {
    auto* count = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(hints.unroll));
    add("llvm.loop.unroll.count", {constant(count)});
  }
  if (hints.keep_rolled) add("llvm.loop.unroll.disable", {});
  if (hints.iterations > 0) {
    auto again = static_cast<uint32_t>(std::min<int64_t>(hints.iterations - 1, std::numeric_limits<uint32_t>::max()));
    latch->setMetadata(llvm::LLVMContext::MD_prof, llvm::MDBuilder(context).createBranchWeights(again, 1));
  }
  if (loop.size() == 1) return;
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, loop);
  id->replaceOperandWith(0, id);
  latch->setMetadata(llvm::LLVMContext::MD_loop, id);
}

}  // namespace

std::vector<Value*> EmitLoop(llvm::IRBuilder<>& b, Value* begin, Value* end, int64_t step, std::vector<Value*> carried,
                             LoopBody body, const LoopHints& hints) {
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
  SetHints(again, hints);
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

// Cost between two polls of the flag: tens of microseconds as a rule, a few milliseconds where every read misses the
// caches.
constexpr int64_t kChunkCost = 32768;
// Divides the number of iterations of a chunk; iterations that cost more than their part of a chunk poll each time.
constexpr int64_t kIterationsPerCheck = 64;
// The same in innermost loops of costly iterations: LLVM makes vectors of those that do not poll.
constexpr int64_t kLanesPerCheck = 16;

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

std::vector<Value*> EmitStoppableLoop(llvm::IRBuilder<>& b, const LoopRange& range, Value* cancel, int64_t cost,
                                      std::vector<Value*> carried, LoopBody body, const LoopHints& hints) {
  int64_t all = schedule::CostOfIterations(cost, FloorDiv(range.extent + (range.step - 1), range.step));
  if (cancel == nullptr || all <= kChunkCost)
    return EmitLoop(b, range.begin, range.end, range.step, std::move(carried), body, hints);
  const bool is_costly = cost > kChunkCost / kIterationsPerCheck;
  const int64_t unit = is_costly && hints.is_innermost ? kLanesPerCheck : kIterationsPerCheck;
  if (cost > kChunkCost / unit) {
    auto checked = [&](Value* at, const std::vector<Value*>& current) {
      EmitStop(b, cancel);
      return body(at, current);
    };
    return EmitLoop(b, range.begin, range.end, range.step, std::move(carried), checked, hints);
  }
  int64_t chunk = kChunkCost / std::max<int64_t>(cost, 1) / unit * unit * range.step;
  return EmitLoop(b, range.begin, range.end, chunk, std::move(carried),
                  [&](Value* first, const std::vector<Value*>& current) {
                    Value* limit = b.CreateNSWAdd(first, b.getInt64(static_cast<uint64_t>(chunk)));
                    Value* last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, range.end);
                    std::vector<Value*> next = EmitLoop(b, first, last, range.step, current, body, hints);
                    EmitStop(b, cancel);
                    return next;
                  });
}

void EmitIf(llvm::IRBuilder<>& b, Value* condition, llvm::function_ref<void()> body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* inside = llvm::BasicBlock::Create(b.getContext(), "if", function);
  llvm::BasicBlock* after = llvm::BasicBlock::Create(b.getContext(), "after", function);
  b.CreateCondBr(condition, inside, after);
  b.SetInsertPoint(inside);
  body();
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

std::vector<Value*> EmitChoice(llvm::IRBuilder<>& b, Value* condition, llvm::function_ref<std::vector<Value*>()> body,
                               const std::vector<Value*>& otherwise) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  std::vector<Value*> values;
  llvm::BasicBlock* inside = nullptr;
  EmitIf(b, condition, [&] {
    values = body();
    inside = b.GetInsertBlock();
  });
  for (size_t i = 0; i < values.size(); ++i) {
    llvm::Type* type = values[i]->getType();
    llvm::PHINode* phi = b.CreatePHI(type, 2);
    phi->addIncoming(otherwise.empty() ? llvm::Constant::getNullValue(type) : otherwise[i], before);
    phi->addIncoming(values[i], inside);
    values[i] = phi;
  }
  return values;
}

void EmitIfElse(llvm::IRBuilder<>& b, Value* condition, llvm::function_ref<void()> then,
                llvm::function_ref<void()> otherwise) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, function); };
  llvm::BasicBlock *is_true = block("then"), *is_false = block("else"), *done = block("done");
  b.CreateCondBr(condition, is_true, is_false);
  b.SetInsertPoint(is_true);
  then();
  b.CreateBr(done);
  b.SetInsertPoint(is_false);
  otherwise();
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

}  // namespace rvm::codegen
