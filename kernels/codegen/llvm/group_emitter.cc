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
  // Rows [begin, end), a block of them or a part of one.
  struct Rows {
    Value *begin, *end;
  };

  void Begin(const std::string& name);
  Value* PointerOf(const te::Tensor& tensor, const Rows& block, const Rows& rows);
  void EmitRowBlocks();
  void EmitStrips();
  Rows RowsOf(Value* block);
  void CallNests(const Rows& block);
  void CallNest(size_t number, const Rows& block, const Rows& rows);
  bool HasTiles(size_t number) const { return schedule_.nests[group_.first + number].HasTilesOfRows(); }
  Value* I64(int64_t v) { return b_.getInt64(static_cast<uint64_t>(v)); }
  Value* Min(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }

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
  Value* strip_ = nullptr;  // of which the function uses the memory
};

void GroupEmitter::Begin(const std::string& name) {
  for (const EmittedNest& nest : nests_) {
    for (const te::Tensor& tensor : nest.tensors) {
      const NestGroup::Local* local = group_.FindLocal(tensor);
      bool known = (local != nullptr && local->is_on_stack) ||
                   std::any_of(result_.tensors.begin(), result_.tensors.end(),
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
    if (!local.is_on_stack) continue;
    auto elements = static_cast<uint64_t>(local.rows * local.row_size.constant());
    llvm::AllocaInst* block = b_.CreateAlloca(e_.MemoryType(local.tensor.dtype()), b_.getInt64(elements));
    block->setAlignment(llvm::Align(64));
    pointers_[local.tensor.get()] = block;
  }
}

// Returns the address of row 0 of a tensor: nests number rows from there. Of a local tensor only the rows at hand are
// in memory, so the address lies outside it; no function sees that, because nests are not inlined.
Value* GroupEmitter::PointerOf(const te::Tensor& tensor, const Rows& block, const Rows& rows) {
  Value* pointer = pointers_.at(tensor.get());
  const NestGroup::Local* local = group_.FindLocal(tensor);
  if (local == nullptr) return pointer;
  Value* skipped = b_.CreateNeg(local->rows == group_.rows ? block.begin : rows.begin);
  if (!local->is_on_stack) skipped = b_.CreateAdd(skipped, b_.CreateMul(strip_, I64(local->rows)));
  skipped = b_.CreateMul(skipped, e_.EmitExtent(local->row_size));
  return b_.CreateGEP(e_.MemoryType(tensor.dtype()), pointer, skipped);
}

// `rows`: of the block, which the nest runs.
void GroupEmitter::CallNest(size_t number, const Rows& block, const Rows& rows) {
  const EmittedNest& nest = nests_[number];
  std::vector<Value*> args = {rows.begin, rows.end};
  for (const te::Tensor& tensor : nest.tensors) args.push_back(PointerOf(tensor, block, rows));
  args.insert(args.end(), symbols_.begin(), symbols_.end());
  args.push_back(cancel_);
  b_.CreateCall(nest.function, args);
  const te::Tensor& first = schedule_.nests[group_.first + number].tensors[0].tensor;
  if (!first->is_ordered) return;
  Value* skipped = b_.CreateMul(rows.begin, e_.EmitExtent(te::OrderedRowSize(first)));
  Value* keys = b_.CreateGEP(b_.getInt64Ty(), PointerOf(first, block, rows), skipped);
  EmitOrder(b_, e_, first, keys, b_.CreateSub(rows.end, rows.begin), cancel_);
}

// Calls the nests for a block: those between tiles for one part of it after the other.
void GroupEmitter::CallNests(const Rows& block) {
  for (size_t n = 0; n < nests_.size();) {
    size_t end = n + 1;
    while (group_.matmuls && !HasTiles(n) && end < nests_.size() && !HasTiles(end)) ++end;
    if (end == n + 1) {
      CallNest(n, block, block);
    } else {
      const int64_t step = group_.matmuls->rows_between;
      EmitLoop(b_, block.begin, block.end, step, {}, [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
        for (size_t k = n; k < end; ++k) CallNest(k, block, {at, Min(b_.CreateNSWAdd(at, I64(step)), block.end)});
        return {};
      });
    }
    n = end;
  }
}

// The units of work are rows.
void GroupEmitter::EmitRowBlocks() {
  result_.count = schedule_.nests[group_.first].axes[0].extent;
  LoopRange range{result_.function->getArg(0), result_.function->getArg(1), result_.count, group_.rows};
  EmitStoppableLoop(b_, range, cancel_, schedule::kUnknownCost, {},
                    [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                      CallNests({at, Min(b_.CreateNSWAdd(at, I64(group_.rows)), range.end)});
                      return {};
                    });
}

// Returns the rows of the block of that number.
GroupEmitter::Rows GroupEmitter::RowsOf(Value* block) {
  const Dim all = te::NumPositions(schedule_.nests[group_.first].RowAxes());
  Value *first = I64(0), *end = e_.EmitExtent(all);
  if (group_.matmuls && CompareDims(group_.matmuls->span, all) != DimEquality::kEqual) {
    Value* in_span = e_.EmitExtent(group_.matmuls->span);
    Value* blocks = e_.EmitExtent(FloorDiv(group_.matmuls->span + (group_.rows - 1), group_.rows));
    first = b_.CreateNSWMul(b_.CreateUDiv(block, blocks), in_span);
    end = b_.CreateNSWAdd(first, in_span);
    block = b_.CreateURem(block, blocks);
  }
  Value* begin = b_.CreateNSWAdd(first, b_.CreateNSWMul(block, I64(group_.rows)));
  return {begin, Min(b_.CreateNSWAdd(begin, I64(group_.rows)), end)};
}

// The units of work are strips. All that a call has use the memory of the first one, which stays in the caches.
void GroupEmitter::EmitStrips() {
  result_.count = group_.strips;
  strip_ = result_.function->getArg(0);
  const Dim in_strip = FloorDiv(group_.blocks + (group_.strips - 1), group_.strips);
  Value *step = e_.EmitExtent(in_strip), *all = e_.EmitExtent(group_.blocks);
  LoopRange range{Min(b_.CreateNSWMul(strip_, step), all), Min(b_.CreateNSWMul(result_.function->getArg(1), step), all),
                  group_.blocks};
  EmitStoppableLoop(b_, range, cancel_, schedule::kUnknownCost, {},
                    [&](Value* block, const std::vector<Value*>&) -> std::vector<Value*> {
                      CallNests(RowsOf(block));
                      return {};
                    });
}

EmittedNest GroupEmitter::Run(const std::string& name) {
  for (size_t n = group_.first; n < group_.first + group_.count; ++n) {
    nests_.push_back(EmitNest(module_, schedule_, schedule_.nests[n], absl::StrCat(name, ".", n), NestUnits::kOfRows));
    result_.work = n == group_.first ? nests_.back().work : result_.work + nests_.back().work;
  }
  Begin(absl::StrCat(name, ".", group_.first, ".rows"));
  group_.has_strips() ? EmitStrips() : EmitRowBlocks();
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
