#include "kernels/codegen/llvm/streamed_stores.h"

#include <algorithm>
#include <cstdint>

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace rvm::codegen {
namespace {

// The access group that marks stores: the vectoriser keeps access groups, but no metadata that it does not know.
constexpr char kMark[] = "rvm.streamed";

llvm::MDNode* FindMark(const llvm::Module& module) {
  const llvm::NamedMDNode* named = module.getNamedMetadata(kMark);
  return named == nullptr ? nullptr : named->getOperand(0);
}

// An access group is a node without operands; a list of them has some.
bool HasGroup(const llvm::MDNode* groups, const llvm::MDNode* group) {
  if (groups == group) return true;
  for (const llvm::MDOperand& operand : groups->operands()) {
    if (operand.get() == group) return true;
  }
  return false;
}

}  // namespace

void AddAccessGroup(llvm::Instruction& access, llvm::MDNode* group) {
  llvm::MDNode* groups = access.getMetadata(llvm::LLVMContext::MD_access_group);
  access.setMetadata(llvm::LLVMContext::MD_access_group, llvm::uniteAccessGroups(groups, group));
}

void MarkStreamed(llvm::StoreInst& store) {
  llvm::Module& module = *store.getModule();
  llvm::NamedMDNode* named = module.getOrInsertNamedMetadata(kMark);
  if (named->getNumOperands() == 0) named->addOperand(llvm::MDNode::getDistinct(module.getContext(), {}));
  AddAccessGroup(store, named->getOperand(0));
}

void EmitStreamFence(llvm::IRBuilder<>& b) { b.CreateIntrinsic(b.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {}); }

llvm::PreservedAnalyses StreamStoresPass::run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
  const llvm::MDNode* mark = FindMark(*function.getParent());
  if (mark == nullptr) return llvm::PreservedAnalyses::all();
  for (llvm::Instruction& instruction : llvm::instructions(function)) {
    auto* store = llvm::dyn_cast<llvm::StoreInst>(&instruction);
    const llvm::MDNode* groups = store == nullptr ? nullptr : store->getMetadata(llvm::LLVMContext::MD_access_group);
    if (groups == nullptr || !HasGroup(groups, mark) || !store->getValueOperand()->getType()->isVectorTy()) continue;
    uint64_t bytes = function.getDataLayout().getTypeStoreSize(store->getValueOperand()->getType()).getFixedValue();
    if (bytes < 16 || (bytes & (bytes - 1)) != 0) continue;
    store->setAlignment(llvm::Align(std::min(bytes, kLineBytes)));
    llvm::Metadata* one =
        llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(function.getContext()), 1));
    store->setMetadata(llvm::LLVMContext::MD_nontemporal, llvm::MDNode::get(function.getContext(), {one}));
  }
  return llvm::PreservedAnalyses::all();
}

}  // namespace rvm::codegen
