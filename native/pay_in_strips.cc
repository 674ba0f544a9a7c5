#include "native/pay_in_strips.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/AssumptionCache.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"
#include "llvm/Transforms/Utils/LoopSimplify.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

namespace rvm::native {
namespace {

using llvm::BasicBlock;
using llvm::Value;

// The payment of a loop:
//
//   block:  %left = add i64 %budget, -1
//           br (%left < 0), poll, paid
//   poll:   %refilled = call i64 @rvm_poll(...)
//           br paid
//   paid:   %after = phi [%refilled, poll], [%left, block]
struct Payment {
  llvm::PHINode* budget;  // of the loop's header
  BasicBlock* block;
  llvm::CallInst* poll;
  BasicBlock* paid;
  llvm::PHINode* after;
};

// A loop that can run in strips.
struct Plan {
  Payment payment;
  BasicBlock* exiting;  // the block that ends the loop after `backedges`
  BasicBlock* exit;
  bool pays_before_exit;                      // the last iteration, which ends the loop, pays, too
  std::vector<BasicBlock*> tail;              // from `exiting` back to the header, without branches but the payment's
  std::vector<llvm::Loop::Edge> other_exits;  // all before the payment
  const llvm::SCEV* backedges;                // how often the loop repeats unless another exit ends it
};

bool IsPure(const BasicBlock* block) {
  return llvm::none_of(*block, [](const llvm::Instruction& i) { return i.mayHaveSideEffects(); });
}

// Follows unconditional branches from `block` through blocks without effects, to the first one that ends otherwise.
BasicBlock* SkipForwarders(BasicBlock* block) {
  for (;;) {
    auto* branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    if (branch == nullptr || branch->isConditional()) return block;
    BasicBlock* next = branch->getSuccessor(0);
    if (!IsPure(block) || next->getSinglePredecessor() != block) return block;
    block = next;
  }
}

// Returns the blocks from `block` to the loop's header, if all they do but pay may happen earlier.
std::optional<std::vector<BasicBlock*>> TailFrom(BasicBlock* block, const llvm::Loop& loop, const Payment& payment) {
  std::vector<BasicBlock*> tail;
  while (block != loop.getHeader()) {
    if (block != payment.paid && block->getSinglePredecessor() == nullptr) return std::nullopt;
    for (llvm::Instruction& i : *block) {
      bool may_move = i.isTerminator() || llvm::isa<llvm::PHINode>(i) || llvm::isSafeToSpeculativelyExecute(&i);
      if (!may_move) return std::nullopt;
    }
    tail.push_back(block);
    auto* branch = llvm::dyn_cast<llvm::BranchInst>(block->getTerminator());
    if (branch == nullptr || (branch->isConditional() && block != payment.block)) return std::nullopt;
    block = block == payment.block ? payment.paid : branch->getSuccessor(0);
  }
  return tail;
}

llvm::CallInst* FindPoll(const llvm::Loop& loop) {
  llvm::CallInst* poll = nullptr;
  for (BasicBlock* block : loop.blocks()) {
    for (llvm::Instruction& instruction : *block) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      if (call == nullptr || call->getCalledFunction() == nullptr) continue;
      if (call->getCalledFunction()->getName() != "rvm_poll") continue;
      if (poll != nullptr) return nullptr;
      poll = call;
    }
  }
  return poll;
}

// Returns whether all uses of `value` in the loop are by `users`, so that only exits need its value besides.
bool HasOnlyUsers(const llvm::Loop& loop, const Value* value, std::initializer_list<const Value*> users) {
  for (const llvm::User* user : value->users()) {
    auto* instruction = llvm::cast<llvm::Instruction>(user);
    if (std::find(users.begin(), users.end(), user) != users.end()) continue;
    // In LCSSA form, a use behind the loop is a phi.
    if (loop.contains(instruction) || !llvm::isa<llvm::PHINode>(instruction)) return false;
  }
  return true;
}

std::optional<Payment> FindPayment(const llvm::Loop& loop, const llvm::DominatorTree& dominators) {
  using namespace llvm::PatternMatch;
  llvm::CallInst* poll = FindPoll(loop);
  BasicBlock* latch = loop.getLoopLatch();
  if (poll == nullptr || latch == nullptr || loop.getLoopPreheader() == nullptr) return std::nullopt;
  BasicBlock* block = poll->getParent()->getSinglePredecessor();
  BasicBlock* paid = poll->getParent()->getSingleSuccessor();
  if (block == nullptr || paid == nullptr || !loop.contains(block) || !dominators.dominates(block, latch))
    return std::nullopt;
  // The call is all there is in its block.
  if (&poll->getParent()->front() != poll || poll->getNextNode() != poll->getParent()->getTerminator())
    return std::nullopt;
  Value *left = nullptr, *budget = nullptr;
  llvm::ICmpInst::Predicate predicate;
  BasicBlock *on_true = nullptr, *on_false = nullptr;
  if (!match(block->getTerminator(),
             m_Br(m_ICmp(predicate, m_Value(left), m_ZeroInt()), m_BasicBlock(on_true), m_BasicBlock(on_false)))) {
    return std::nullopt;
  }
  if (predicate != llvm::ICmpInst::ICMP_SLT || on_true != poll->getParent() || on_false != paid) return std::nullopt;
  if (!match(left, m_Add(m_Value(budget), m_AllOnes()))) return std::nullopt;
  auto* header_budget = llvm::dyn_cast<llvm::PHINode>(budget);
  if (header_budget == nullptr || header_budget->getParent() != loop.getHeader()) return std::nullopt;
  auto* after = llvm::dyn_cast<llvm::PHINode>(header_budget->getIncomingValueForBlock(latch));
  // The phi merges all that the paths have for later.
  if (after == nullptr || after->getParent() != paid || after->getNumIncomingValues() != 2) return std::nullopt;
  if (!llvm::hasSingleElement(paid->phis())) return std::nullopt;
  if (after->getIncomingValueForBlock(poll->getParent()) != poll || !poll->hasOneUse()) return std::nullopt;
  Value* is_spent = llvm::cast<llvm::BranchInst>(block->getTerminator())->getCondition();
  bool is_only_paid = after->getIncomingValueForBlock(block) == left && is_spent->hasOneUse() &&
                      HasOnlyUsers(loop, left, {is_spent, after}) && HasOnlyUsers(loop, budget, {left}) &&
                      HasOnlyUsers(loop, after, {header_budget});
  if (!is_only_paid) return std::nullopt;
  return Payment{header_budget, block, poll, paid, after};
}

// Returns the edges on which the loop may be left; nullopt if one of them is not of a branch.
std::optional<std::vector<llvm::Loop::Edge>> ExitsOf(const llvm::Loop& loop) {
  llvm::SmallVector<llvm::Loop::Edge> edges;
  loop.getExitEdges(edges);
  for (const auto& [from, to] : edges) {
    if (!llvm::isa<llvm::BranchInst>(from->getTerminator())) return std::nullopt;
  }
  return std::vector<llvm::Loop::Edge>(edges.begin(), edges.end());
}

constexpr unsigned kMaxCostOfCount = 4;  // in LLVM's units
// Small loops become copies of their body, which share a branch. More than a few instructions gain nothing by that.
constexpr unsigned kCopies = 4;
constexpr ptrdiff_t kMaxInstructionsToUnroll = 12;
// Loops with fewer constant iterations are left to the unroller.
constexpr uint64_t kMinConstantBackedges = 32;

std::optional<Plan> MakePlan(const llvm::Loop& loop, llvm::Function& function,
                             llvm::FunctionAnalysisManager& analyses) {
  const auto& dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  std::optional<Payment> payment = FindPayment(loop, dominators);
  std::optional<std::vector<llvm::Loop::Edge>> exits = ExitsOf(loop);
  if (!payment || !exits) return std::nullopt;
  for (const auto& [exiting, exit] : *exits) {
    if (!dominators.dominates(exiting, loop.getLoopLatch())) continue;
    auto* branch = llvm::cast<llvm::BranchInst>(exiting->getTerminator());
    BasicBlock* next = branch->getSuccessor(branch->getSuccessor(0) == exit ? 1 : 0);
    if (!loop.contains(next)) continue;
    std::optional<std::vector<BasicBlock*>> tail = TailFrom(next, loop, *payment);
    if (!tail) continue;
    // Nothing happens between the payment and the test, so that they may change places.
    bool pays_behind = llvm::is_contained(*tail, payment->block);
    if (!pays_behind && (SkipForwarders(payment->paid) != exiting || !IsPure(exiting))) continue;
    const llvm::SCEV* backedges = evolution.getExitCount(&loop, exiting);
    if (llvm::isa<llvm::SCEVCouldNotCompute>(backedges) || !backedges->getType()->isIntegerTy(64)) continue;
    auto* constant = llvm::dyn_cast<llvm::SCEVConstant>(backedges);
    if (constant != nullptr && constant->getAPInt().ult(kMinConstantBackedges)) continue;
    llvm::SCEVExpander expander(evolution, function.getDataLayout(), "strip");
    llvm::Instruction* place = loop.getLoopPreheader()->getTerminator();
    if (!expander.isSafeToExpandAt(backedges, place)) continue;
    if (expander.isHighCostExpansion(backedges, const_cast<llvm::Loop*>(&loop), kMaxCostOfCount,
                                     &analyses.getResult<llvm::TargetIRAnalysis>(function), place)) {
      continue;
    }
    std::vector<llvm::Loop::Edge> others;
    llvm::copy_if(*exits, std::back_inserter(others), [&](const auto& edge) { return edge.first != exiting; });
    return Plan{*payment, exiting, exit, !pays_behind, *std::move(tail), std::move(others), backedges};
  }
  return std::nullopt;
}

// Makes two loops of one: the outer one pays for strips, the inner one runs them.
class StripMiner {
 public:
  StripMiner(const Plan& plan, llvm::Loop& loop, llvm::Function& function, llvm::FunctionAnalysisManager& analyses)
      : plan_(plan), loop_(loop), analyses_(analyses), function_(function), b_(function.getContext()) {}

  void Run() {
    DropPayment();
    FoldTail();
    BeginStrips();
    EndStrips();
    GiveBack();
    plan_.payment.budget->replaceAllUsesWith(llvm::PoisonValue::get(b_.getInt64Ty()));
    plan_.payment.budget->eraseFromParent();
    BasicBlock* latch = MergeIntoPredecessors(plan_.exiting);
    if (latch == loop_.getHeader() && IsSmall(*latch)) Unroll(*latch->getTerminator());
    plan_.payment.poll->deleteValue();
  }

 private:
  BasicBlock* NewBlock(const char* name) { return BasicBlock::Create(function_.getContext(), name, &function_); }

  Value* Poll() {
    llvm::Instruction* poll = plan_.payment.poll->clone();
    b_.Insert(poll);
    poll->setDebugLoc(plan_.payment.poll->getDebugLoc());
    return poll;
  }

  // Erases a conditional branch and what only it needs.
  static void EraseBranch(llvm::Instruction* branch) {
    Value* condition = llvm::cast<llvm::BranchInst>(branch)->getCondition();
    branch->eraseFromParent();
    llvm::RecursivelyDeleteTriviallyDeadInstructions(condition);
  }

  // The header's budget stands for the budget everywhere in the loop and behind it, until others take its place.
  void DropPayment() {
    const Payment& payment = plan_.payment;
    BasicBlock* polls = payment.poll->getParent();
    llvm::Instruction* branch = payment.block->getTerminator();
    b_.SetInsertPoint(branch);
    b_.CreateBr(payment.paid);
    EraseBranch(branch);
    payment.poll->removeFromParent();
    payment.after->replaceAllUsesWith(payment.budget);
    payment.after->eraseFromParent();
    polls->eraseFromParent();
  }

  // Makes the block with the test the loop's latch.
  void FoldTail() {
    llvm::Instruction* test = plan_.exiting->getTerminator();
    BasicBlock* latch = plan_.exiting;
    for (BasicBlock* block : plan_.tail) {
      latch = block;
      for (llvm::Instruction& i : llvm::make_early_inc_range(*block)) {
        if (i.isTerminator()) continue;
        if (auto* phi = llvm::dyn_cast<llvm::PHINode>(&i)) {
          phi->replaceAllUsesWith(phi->getIncomingValue(0));
          phi->eraseFromParent();
        } else {
          i.moveBefore(test);
        }
      }
    }
    if (latch == plan_.exiting) return;
    loop_.getHeader()->replacePhiUsesWith(latch, plan_.exiting);
    test->replaceSuccessorWith(plan_.tail.front(), loop_.getHeader());
    for (BasicBlock* block : plan_.tail) block->dropAllReferences();
    for (BasicBlock* block : plan_.tail) block->eraseFromParent();
  }

  // The begin of the outer loop, in front of the header.
  void BeginStrips() {
    BasicBlock* preheader = loop_.getLoopPreheader();
    auto& evolution = analyses_.getResult<llvm::ScalarEvolutionAnalysis>(function_);
    llvm::SCEVExpander expander(evolution, function_.getDataLayout(), "strip");
    Value* backedges = expander.expandCodeFor(plan_.backedges, b_.getInt64Ty(), preheader->getTerminator());
    strip_ = NewBlock("strip");
    refill_ = NewBlock("refill");
    preheader->getTerminator()->replaceSuccessorWith(loop_.getHeader(), strip_);
    b_.SetInsertPoint(strip_);
    for (llvm::PHINode& phi : loop_.getHeader()->phis()) {
      llvm::PHINode* outer = b_.CreatePHI(phi.getType(), 2);
      outer->addIncoming(phi.getIncomingValueForBlock(preheader), preheader);
      outer->addIncoming(phi.getIncomingValueForBlock(plan_.exiting), refill_);
      phi.setIncomingValueForBlock(preheader, outer);
      if (&phi == plan_.payment.budget) available_ = outer;
    }
    loop_.getHeader()->replacePhiUsesWith(preheader, strip_);
    wanted_ = b_.CreatePHI(b_.getInt64Ty(), 2, "wanted");
    wanted_->addIncoming(backedges, preheader);
    Value* paid = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, wanted_, available_);
    budget_ = b_.CreateSub(available_, paid, "budget");
    rest_ = b_.CreateSub(wanted_, paid, "rest");
    b_.CreateBr(loop_.getHeader());
    turns_ = llvm::PHINode::Create(b_.getInt64Ty(), 2, "turns", loop_.getHeader()->begin());
    turns_->addIncoming(paid, strip_);
  }

  // In place of the test of the loop's end.
  void EndStrips() {
    llvm::Instruction* test = plan_.exiting->getTerminator();
    BasicBlock *end = NewBlock("end_of_strip"), *leave = NewBlock("leave");
    llvm::MDBuilder weights(function_.getContext());
    b_.SetInsertPoint(test);
    turns_->addIncoming(b_.CreateAdd(turns_, b_.getInt64(-1)), plan_.exiting);
    Value* is_over = b_.CreateICmpEQ(turns_, b_.getInt64(0));
    b_.CreateCondBr(is_over, end, loop_.getHeader(), weights.createUnlikelyBranchWeights());
    EraseBranch(test);

    b_.SetInsertPoint(end);
    b_.CreateCondBr(b_.CreateICmpEQ(rest_, b_.getInt64(0)), leave, refill_);

    b_.SetInsertPoint(refill_);
    available_->setIncomingValueForBlock(refill_, Poll());
    wanted_->addIncoming(b_.CreateAdd(rest_, b_.getInt64(-1)), refill_);
    b_.CreateBr(strip_);

    b_.SetInsertPoint(leave);
    Leave();
  }

  // The end of the loop by its count.
  void Leave() {
    BasicBlock* from = b_.GetInsertBlock();
    Value* budget = budget_;
    if (plan_.pays_before_exit) {
      BasicBlock *poll = NewBlock("poll"), *paid = NewBlock("paid");
      Value* left = b_.CreateAdd(budget, b_.getInt64(-1));
      b_.CreateCondBr(b_.CreateICmpSLT(left, b_.getInt64(0)), poll, paid);
      b_.SetInsertPoint(poll);
      Value* refilled = Poll();
      b_.CreateBr(paid);
      b_.SetInsertPoint(paid);
      llvm::PHINode* after = b_.CreatePHI(b_.getInt64Ty(), 2);
      after->addIncoming(left, from);
      after->addIncoming(refilled, poll);
      budget = after;
      from = paid;
    }
    b_.CreateBr(plan_.exit);
    plan_.exit->replacePhiUsesWith(plan_.exiting, from);
    SetBudget(plan_.exit, from, budget);
  }

  // Other exits add what was paid for and not taken to the budget.
  void GiveBack() {
    for (const auto& [from, to] : plan_.other_exits) {
      BasicBlock* edge = NewBlock("give_back");
      from->getTerminator()->replaceSuccessorWith(to, edge);
      to->replacePhiUsesWith(from, edge);
      b_.SetInsertPoint(edge);
      SetBudget(to, edge, b_.CreateAdd(budget_, turns_));
      b_.CreateBr(to);
    }
  }

  // Makes `budget` that which `block` gets from `from`.
  void SetBudget(BasicBlock* block, BasicBlock* from, Value* budget) {
    for (llvm::PHINode& phi : block->phis()) {
      if (phi.getIncomingValueForBlock(from) == plan_.payment.budget) phi.setIncomingValueForBlock(from, budget);
    }
  }

  static BasicBlock* MergeIntoPredecessors(BasicBlock* block) {
    while (BasicBlock* before = block->getSinglePredecessor()) {
      if (!llvm::MergeBlockIntoPredecessor(block)) break;
      block = before;
    }
    return block;
  }

  static bool IsSmall(BasicBlock& block) {
    auto is_call = [](const llvm::Instruction& i) { return llvm::isa<llvm::CallBase>(i); };
    auto body = llvm::make_range(block.getFirstNonPHIIt(), block.end());
    return llvm::none_of(body, is_call) && std::distance(body.begin(), body.end()) <= kMaxInstructionsToUnroll;
  }

  void Unroll(llvm::Instruction& back) {
    llvm::LLVMContext& context = function_.getContext();
    llvm::Metadata* count[] = {llvm::MDString::get(context, "llvm.loop.unroll.count"),
                               llvm::ConstantAsMetadata::get(b_.getInt32(kCopies))};
    llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, llvm::MDNode::get(context, count)});
    loop->replaceOperandWith(0, loop);
    back.setMetadata(llvm::LLVMContext::MD_loop, loop);
  }

  const Plan& plan_;
  llvm::Loop& loop_;
  llvm::FunctionAnalysisManager& analyses_;
  llvm::Function& function_;
  llvm::IRBuilder<> b_;
  BasicBlock *strip_ = nullptr, *refill_ = nullptr;
  llvm::PHINode* available_ = nullptr;  // the budget that a strip pays from
  llvm::PHINode* wanted_ = nullptr;     // backedges that are left when a strip begins
  Value* budget_ = nullptr;             // what the strip leaves
  Value* rest_ = nullptr;
  llvm::PHINode* turns_ = nullptr;  // backedges that are left of the strip
};

// Gives every loop a preheader, one latch and exits of its own, and each value of it that is used outside a phi.
void Normalise(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  auto& loops = analyses.getResult<llvm::LoopAnalysis>(function);
  auto& dominators = analyses.getResult<llvm::DominatorTreeAnalysis>(function);
  auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
  auto& assumptions = analyses.getResult<llvm::AssumptionAnalysis>(function);
  for (llvm::Loop* loop : loops) {
    llvm::simplifyLoop(loop, &dominators, &loops, &evolution, &assumptions, nullptr, /*PreserveLCSSA=*/false);
    llvm::formLCSSARecursively(*loop, dominators, &loops, &evolution);
  }
  analyses.invalidate(function, llvm::PreservedAnalyses::none());
}

// Changes the first loop for which there is a plan.
bool ChangeOne(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
    if (!loop->isInnermost()) continue;
    std::optional<Plan> plan = MakePlan(*loop, function, analyses);
    if (!plan) continue;
    StripMiner(*plan, *loop, function, analyses).Run();
    analyses.invalidate(function, llvm::PreservedAnalyses::none());
    return true;
  }
  return false;
}

}  // namespace

llvm::PreservedAnalyses PayInStripsPass::run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
  if (analyses.getResult<llvm::LoopAnalysis>(function).empty()) return llvm::PreservedAnalyses::all();
  do {
    Normalise(function, analyses);
  } while (ChangeOne(function, analyses));
  return llvm::PreservedAnalyses::none();
}

}  // namespace rvm::native
