#include "kernels/codegen/llvm/group_emitter.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/schedule/nest_cost.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::NestGroup;
using schedule::Schedule;

namespace {

class GroupEmitter {
 public:
  GroupEmitter(llvm::Module& module, const Schedule& schedule, const NestGroup& group)
      : module_(module), schedule_(schedule), group_(group), b_(module.getContext()), e_(b_, schedule.target) {}

  EmittedNest Run(const std::string& name);

 private:
  bool IsLocal(const te::Tensor& tensor) const {
    return std::any_of(group_.local.begin(), group_.local.end(),
                       [&](const NestGroup::Local& local) { return local.tensor.get() == tensor.get(); });
  }
  void Begin(const std::string& name);
  Value* PointerOf(const te::Tensor& tensor, Value* begin);
  void CallNests(Value* begin, Value* end);
  void Order(const te::Tensor& tensor, Value* begin, Value* end);

  llvm::Module& module_;
  const Schedule& schedule_;
  const NestGroup& group_;
  llvm::IRBuilder<> b_;
  ExprEmitter e_;
  std::vector<EmittedNest> nests_;
  EmittedNest result_;
  absl::flat_hash_map<const te::TensorNode*, Value*> pointers_;
  std::vector<Value*> symbols_;
  Value* cancel_ = nullptr;
};

void GroupEmitter::Begin(const std::string& name) {
  for (const EmittedNest& nest : nests_) {
    for (const te::Tensor& tensor : nest.tensors) {
      bool known = IsLocal(tensor) || std::any_of(result_.tensors.begin(), result_.tensors.end(),
                                                  [&](const te::Tensor& t) { return t.get() == tensor.get(); });
      if (!known) result_.tensors.push_back(tensor);
    }
  }
  result_.function = MakeNestFunction(module_, schedule_, result_.tensors.size(), name);
  result_.function->addFnAttr(llvm::Attribute::NoInline);
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", result_.function));
  unsigned next = 2;
  for (const te::Tensor& tensor : result_.tensors) pointers_[tensor.get()] = result_.function->getArg(next++);
  for (const Dim& symbol : schedule_.symbols) {
    symbols_.push_back(result_.function->getArg(next++));
    e_.symbols[symbol.id()] = symbols_.back();
  }
  cancel_ = result_.function->getArg(next);
  for (const NestGroup::Local& local : group_.local) {
    auto elements = static_cast<uint64_t>(group_.rows * local.row_size);
    llvm::AllocaInst* block = b_.CreateAlloca(e_.MemoryType(local.tensor.dtype()), b_.getInt64(elements));
    block->setAlignment(llvm::Align(64));
    pointers_[local.tensor.get()] = block;
  }
}

// Returns the address of row 0 of a tensor: nests number rows from there. Of a local tensor only the block from row
// `begin` on is in memory, so the address lies outside it; no function sees that, because nests are not inlined.
Value* GroupEmitter::PointerOf(const te::Tensor& tensor, Value* begin) {
  Value* pointer = pointers_.at(tensor.get());
  for (const NestGroup::Local& local : group_.local) {
    if (local.tensor.get() != tensor.get()) continue;
    Value* skipped = b_.CreateMul(begin, b_.getInt64(static_cast<uint64_t>(-local.row_size)));
    pointer = b_.CreateGEP(e_.MemoryType(tensor.dtype()), pointer, skipped);
  }
  return pointer;
}

void GroupEmitter::Order(const te::Tensor& tensor, Value* begin, Value* end) {
  Value* skipped = b_.CreateMul(begin, e_.EmitExtent(te::OrderedRowSize(tensor)));
  Value* first = b_.CreateGEP(b_.getInt64Ty(), PointerOf(tensor, begin), skipped);
  EmitOrder(b_, e_, tensor, first, b_.CreateSub(end, begin), cancel_);
}

void GroupEmitter::CallNests(Value* begin, Value* end) {
  for (size_t n = 0; n < nests_.size(); ++n) {
    const EmittedNest& nest = nests_[n];
    std::vector<Value*> args = {begin, end};
    for (const te::Tensor& tensor : nest.tensors) args.push_back(PointerOf(tensor, begin));
    args.insert(args.end(), symbols_.begin(), symbols_.end());
    args.push_back(cancel_);
    b_.CreateCall(nest.function, args);
    const te::Tensor& first = schedule_.nests[group_.first + n].tensors[0].tensor;
    if (first->is_ordered) Order(first, begin, end);
  }
}

EmittedNest GroupEmitter::Run(const std::string& name) {
  for (size_t n = group_.first; n < group_.first + group_.count; ++n) {
    nests_.push_back(EmitNest(module_, schedule_, schedule_.nests[n], absl::StrCat(name, ".", n), NestUnits::kOfRows));
    result_.work = n == group_.first ? nests_.back().work : result_.work + nests_.back().work;
  }
  result_.count = nests_[0].count;
  Begin(absl::StrCat(name, ".", group_.first, ".rows"));
  LoopRange range{result_.function->getArg(0), result_.function->getArg(1), result_.count, group_.rows};
  EmitStoppableLoop(b_, range, cancel_, schedule::kUnknownCost, {},
                    [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                      Value* limit = b_.CreateNSWAdd(at, b_.getInt64(static_cast<uint64_t>(group_.rows)));
                      Value* end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, range.end);
                      CallNests(at, end);
                      return {};
                    });
  b_.CreateRetVoid();
  return std::move(result_);
}

}  // namespace

EmittedNest EmitGroup(llvm::Module& module, const Schedule& schedule, const NestGroup& group, const std::string& name) {
  if (group.count > 1) return GroupEmitter(module, schedule, group).Run(name);
  return EmitNest(module, schedule, schedule.nests[group.first], absl::StrCat(name, ".", group.first));
}

void EmitOrder(llvm::IRBuilder<>& b, ExprEmitter& e, const te::Tensor& tensor, Value* first, Value* rows,
               Value* cancel) {
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  std::vector<Value*> args = {first, rows, e.EmitExtent(tensor.dims().back())};
  bool all = tensor->ordered_first == tensor.dims().back();
  if (!all) args.push_back(e.EmitExtent(tensor->ordered_first));
  args.push_back(cancel);
  std::vector<llvm::Type*> types;
  for (Value* arg : args) types.push_back(arg->getType());
  auto* type = llvm::FunctionType::get(b.getVoidTy(), types, false);
  b.CreateCall(module.getOrInsertFunction(all ? "rvm_order_rows" : "rvm_order_first", type), args);
}

}  // namespace rvm::codegen
