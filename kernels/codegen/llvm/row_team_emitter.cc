#include "kernels/codegen/llvm/row_team_emitter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "kernels/codegen/llvm/expr_emitter.h"
#include "kernels/codegen/llvm/index_emitter.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/reduce_emitter.h"
#include "kernels/codegen/llvm/team_emitter.h"
#include "kernels/codegen/llvm/team_partials.h"
#include "kernels/schedule/gpu_schedule.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::kBlockThreads;
using schedule::kWarpThreads;
using schedule::LoopNest;
using schedule::NestTensor;
using te::Expr;
using te::ExprKind;
using te::ExprNode;

namespace {

// Elements of a thread for which everything is loaded before the first reduction ends.
constexpr int64_t kMaxLoadedAhead = 16;

class RowTeamEmitter {
 public:
  RowTeamEmitter(llvm::Module& module, const schedule::Schedule& schedule, const schedule::NestGroup& group)
      : module_(module),
        schedule_(schedule),
        group_(group),
        team_(*group.team),
        b_(module.getContext()),
        e_(b_, schedule.target),
        i_(b_, e_) {}

  EmittedNest Run(const std::string& name);

 private:
  struct Store {
    te::Tensor tensor;
    Value *value, *offset;
  };
  // A reduction whose threads have partial results.
  struct Pending {
    const LoopNest* nest;
    ReduceEmitter steps;
    Partial partial;
  };

  const LoopNest& nest(size_t n) const { return schedule_.nests[group_.first + n]; }
  bool IsOfElements(const LoopNest& nest) const { return nest.axes.size() > team_.rows.size(); }
  bool IsWritten(const te::Tensor& tensor) const;
  bool MayOverlap(const te::Tensor& tensor) const;
  void CollectTensors();
  void FindTied();
  void Begin(const std::string& name);
  void BindRow();
  Value* ElementAt(Value* base, int64_t step, int64_t within);
  Value* IsThere(int64_t step);
  void ForEachElement(llvm::function_ref<void(int64_t step, size_t element)> emit);
  void LoadAhead(const Expr& value, bool keeps_place);
  void LoadAhead();
  void AddPending(const LoopNest& nest);
  void SumUpAtOnce(ReduceEmitter& steps, std::vector<Partial>& partials);
  void SumUpInLoop(ReduceEmitter& steps, std::vector<Partial>& partials);
  void SumUpSteps(ReduceEmitter& steps, std::vector<Partial>& partials, Value* base, int64_t begin, int64_t end);
  void TakeIn(ReduceEmitter& steps, Partial& partial, Value* at, Value* is_there);
  void MergeWarps();
  void Finish();
  void FinishTensor(const LoopNest& nest, const NestTensor& t, Value* value, std::vector<Store>& stores);
  void EmitElements(const LoopNest& nest);
  void EmitStores(const std::vector<Store>& stores);

  llvm::Module& module_;
  const schedule::Schedule& schedule_;
  const schedule::NestGroup& group_;
  const schedule::RowTeam& team_;
  llvm::IRBuilder<> b_;
  ExprEmitter e_;
  IndexEmitter i_;
  EmittedNest result_;
  absl::flat_hash_set<const ExprNode*> tied_;  // what depends on results of the group
  std::vector<const ExprNode*> reads_;         // of results of the group
  Value* lane_ = nullptr;                      // the number of the thread in its row
  Value* first_ = nullptr;                     // its first element
  Value* is_row_ = nullptr;                    // null: always
  std::vector<ExprEmitter::Scope> elements_;   // of a thread, if all of them are in straight-line code
  std::vector<Pending> pending_;
  std::vector<Store> row_stores_;
  bool uses_shared_ = false;
};

bool RowTeamEmitter::IsWritten(const te::Tensor& tensor) const {
  for (size_t n = 0; n < group_.count; ++n) {
    for (const NestTensor& t : nest(n).tensors) {
      if (t.tensor.get() == tensor.get()) return true;
    }
  }
  return false;
}

void RowTeamEmitter::CollectTensors() {
  auto add = [&](const te::Tensor& tensor) {
    bool known = std::any_of(result_.tensors.begin(), result_.tensors.end(),
                             [&](const te::Tensor& t) { return t.get() == tensor.get(); });
    if (!known) result_.tensors.push_back(tensor);
  };
  for (size_t n = 0; n < group_.count; ++n) {
    for (const ExprNode* node : te::Postorder(schedule::ReadExpressions(nest(n)))) {
      if (node->kind == ExprKind::kRead && !IsWritten(node->tensor)) add(node->tensor);
    }
    for (const NestTensor& t : nest(n).tensors) {
      if (t.stored) add(t.tensor);
    }
  }
}

void RowTeamEmitter::FindTied() {
  for (size_t n = 0; n < group_.count; ++n) {
    for (const ExprNode* node : te::Postorder(schedule::Values(nest(n)))) {
      bool reads_result = node->kind == ExprKind::kRead && IsWritten(node->tensor);
      bool is_tied = reads_result || std::any_of(node->operands.begin(), node->operands.end(),
                                                 [&](const Expr& operand) { return tied_.contains(operand.get()); });
      if (!is_tied || !tied_.insert(node).second) continue;
      if (reads_result) reads_.push_back(node);
    }
  }
}

// Returns whether the tensor shares its memory with another one of the group.
bool RowTeamEmitter::MayOverlap(const te::Tensor& tensor) const {
  for (const schedule::Reuse& reuse : schedule_.reuses) {
    if (reuse.nest < group_.first || reuse.nest >= group_.first + group_.count) continue;
    if (tensor->kind == te::TensorKind::kInput) {
      if (tensor->input_index == reuse.input) return true;
      continue;
    }
    auto buffer = schedule_.buffers.find(tensor.get());
    bool is_output = buffer != schedule_.buffers.end() && buffer->second.is_output;
    if (is_output && buffer->second.output == reuse.output) return true;
  }
  return false;
}

void RowTeamEmitter::Begin(const std::string& name) {
  CollectTensors();
  FindTied();
  result_.function = MakeNestFunction(module_, schedule_, result_.tensors.size(), name);
  result_.function->setConvergent();
  result_.of_blocks = true;
  result_.count = schedule::Blocks(team_);
  unsigned next = 2;
  for (const te::Tensor& tensor : result_.tensors) {
    if (!MayOverlap(tensor)) result_.function->addParamAttr(next, llvm::Attribute::NoAlias);
    e_.pointers[tensor.get()] = result_.function->getArg(next++);
  }
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", result_.function));
  for (const Dim& symbol : schedule_.symbols) e_.symbols[symbol.id()] = result_.function->getArg(next++);
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
}

// Threads without a row compute the last one and store nothing.
void RowTeamEmitter::BindRow() {
  Value *thread = EmitThread(b_), *row = result_.function->getArg(0);
  lane_ = thread;
  Dim rows = te::NumPositions(team_.rows);
  int64_t of_block = team_.rows_of_block();
  if (of_block > 1) {
    lane_ = i_.Remainder(thread, team_.threads);
    row = b_.CreateNUWAdd(i_.Times(row, of_block), i_.Quotient(thread, team_.threads));
    if (!rows.is_const() || rows.constant() % of_block != 0) {
      Value* count = e_.EmitExtent(rows);
      is_row_ = b_.CreateICmpSLT(row, count);
      row = b_.CreateSelect(is_row_, row, b_.CreateSub(count, i_.Number(1)));
    }
  }
  // Adds an opaque zero, so that LLVM keeps the distances between elements in the addresses of vectors.
  first_ = i_.Times(b_.CreateNUWAdd(lane_, i_.HiddenZero()), team_.vector);
  i_.Bind(team_.rows, i_.Decode(team_.rows, row));
}

// Returns whether the thread has elements of the step; null if it does.
Value* RowTeamEmitter::IsThere(int64_t step) {
  if (team_.is_whole() || step + 1 < team_.steps) return nullptr;
  Value* begin = i_.Plus(first_, step * team_.threads * team_.vector);
  return b_.CreateICmpULT(begin, i_.Number(team_.elements()));
}

// Returns the position in the row of an element of a step, counted from `base`. Beyond the end it is in the last
// vector.
Value* RowTeamEmitter::ElementAt(Value* base, int64_t step, int64_t within) {
  int64_t offset = step * team_.threads * team_.vector;
  if (team_.is_whole() || step + 1 < team_.steps) return i_.Plus(base, offset + within);
  Value* begin = i_.Plus(base, offset);
  Value* last = i_.Number(team_.elements() - team_.vector);
  return i_.Plus(b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, begin, last), within);
}

// Emits code in the scope of each element of the thread.
void RowTeamEmitter::ForEachElement(llvm::function_ref<void(int64_t step, size_t element)> emit) {
  for (size_t element = 0; element < elements_.size(); ++element) {
    e_.OpenScope(std::move(elements_[element]));
    emit(static_cast<int64_t>(element) / team_.vector, element);
    elements_[element] = e_.CloseScope();
  }
}

// Emits those parts of the value that read memory and depend on no result of the group. `keeps_place`: the load is
// volatile, so that neither LLVM nor ptxas moves it behind the exchanges, into the branch of the thread that stores.
void RowTeamEmitter::LoadAhead(const Expr& value, bool keeps_place) {
  std::vector<Expr> left = {value};
  absl::flat_hash_set<const ExprNode*> seen;
  while (!left.empty()) {
    Expr next = left.back();
    left.pop_back();
    if (!seen.insert(next.get()).second) continue;
    if (!tied_.contains(next.get())) {
      std::vector<const ExprNode*> nodes = te::Postorder({next});
      bool reads =
          std::any_of(nodes.begin(), nodes.end(), [](const ExprNode* node) { return node->kind == ExprKind::kRead; });
      if (!reads) continue;
      auto* load = llvm::dyn_cast<llvm::LoadInst>(e_.Emit(next));
      bool is_in_memory = next->kind == ExprKind::kRead && next->tensor.rank() != 0;
      if (load != nullptr && keeps_place && is_in_memory) load->setVolatile(true);
      continue;
    }
    bool branches =
        next->kind == ExprKind::kSelect && (te::MustBranch(next->operands[1]) || te::MustBranch(next->operands[2]));
    for (size_t i = 0; i < (branches ? 1 : next->operands.size()); ++i) left.push_back(next->operands[i]);
  }
}

// Loads what the results of reductions are combined with, before the threads exchange them.
void RowTeamEmitter::LoadAhead() {
  for (size_t n = 0; n < group_.count; ++n) {
    for (size_t t = nest(n).reduction() != nullptr ? 1 : 0; t < nest(n).tensors.size(); ++t) {
      const Expr& value = nest(n).tensors[t].value;
      if (!IsOfElements(nest(n))) {
        LoadAhead(value, true);
      } else if (static_cast<int64_t>(elements_.size()) <= kMaxLoadedAhead) {
        ForEachElement([&](int64_t, size_t) { LoadAhead(value, false); });
      }
    }
  }
}

void RowTeamEmitter::TakeIn(ReduceEmitter& steps, Partial& partial, Value* at, Value* is_there) {
  Partial next = steps.Combine(partial, at);
  for (size_t i = 0; i < next.size(); ++i) {
    partial[i] = is_there != nullptr ? b_.CreateSelect(is_there, next[i], partial[i]) : next[i];
  }
}

void RowTeamEmitter::SumUpAtOnce(ReduceEmitter& steps, std::vector<Partial>& partials) {
  ForEachElement([&](int64_t step, size_t element) {
    TakeIn(steps, partials[element % partials.size()], e_.EmitVariable(team_.element), IsThere(step));
  });
}

void RowTeamEmitter::SumUpSteps(ReduceEmitter& steps, std::vector<Partial>& partials, Value* base, int64_t begin,
                                int64_t end) {
  for (int64_t step = begin; step < end; ++step) {
    for (int64_t within = 0; within < team_.vector; ++within) {
      e_.OpenScope();
      Value* at = ElementAt(base, step, within);
      e_.Bind(team_.element, at);
      TakeIn(steps, partials[static_cast<size_t>(within)], at, IsThere(step));
      e_.CloseScope();
    }
  }
}

// Some steps at once, in a loop, and then those that are left.
void RowTeamEmitter::SumUpInLoop(ReduceEmitter& steps, std::vector<Partial>& partials) {
  int64_t whole = team_.steps - (team_.is_whole() ? 0 : 1), in_loop = whole / team_.steps_at_once * team_.steps_at_once;
  int64_t width = team_.threads * team_.vector;
  Partial carried;
  for (const Partial& partial : partials) carried.insert(carried.end(), partial.begin(), partial.end());
  size_t size = partials[0].size();
  auto spread = [&](const Partial& values) {
    for (size_t i = 0; i < values.size(); ++i) partials[i / size][i % size] = values[i];
  };
  spread(EmitLoop(b_, i_.Number(0), i_.Number(in_loop * width), team_.steps_at_once * width, carried,
                  [&](Value* at, const Partial& current) {
                    spread(current);
                    SumUpSteps(steps, partials, b_.CreateNUWAdd(first_, at), 0, team_.steps_at_once);
                    Partial next;
                    for (const Partial& partial : partials) next.insert(next.end(), partial.begin(), partial.end());
                    return next;
                  },
                  {.keep_rolled = true}));
  SumUpSteps(steps, partials, first_, in_loop, team_.steps);
}

// Reduces the elements of the thread, with one partial result for each place in a vector.
void RowTeamEmitter::AddPending(const LoopNest& nest) {
  ReduceEmitter steps(b_, e_, *nest.reduction());
  std::vector<Partial> partials;
  for (int64_t i = 0; i < team_.vector; ++i) partials.push_back(steps.Initial());
  elements_.empty() ? SumUpInLoop(steps, partials) : SumUpAtOnce(steps, partials);
  Partial partial = partials[0];
  for (size_t i = 1; i < partials.size(); ++i) partial = steps.Merge(partial, partials[i]);
  pending_.push_back({&nest, steps, std::move(partial)});
}

// Merges the partial results of the warps of a row, of all pending reductions at once.
void RowTeamEmitter::MergeWarps() {
  Value *warp = i_.Quotient(lane_, kWarpThreads), *in_warp = i_.Remainder(lane_, kWarpThreads);
  std::vector<SharedPartials> shared;
  for (const Pending& pending : pending_) shared.emplace_back(module_, b_, pending.partial, schedule::kBlockWarps);
  EmitIf(b_, b_.CreateICmpEQ(in_warp, i_.Number(0)), [&] {
    for (size_t n = 0; n < pending_.size(); ++n) shared[n].Store(pending_[n].partial, warp);
  });
  EmitBarrier(b_);
  for (size_t n = 0; n < pending_.size(); ++n) {
    Pending& pending = pending_[n];
    pending.partial = shared[n].Load(i_.Number(0));
    for (int64_t w = 1; w < schedule::kBlockWarps; ++w) {
      pending.partial = pending.steps.Merge(pending.partial, shared[n].Load(i_.Number(w)));
    }
  }
  uses_shared_ = true;
}

void RowTeamEmitter::FinishTensor(const LoopNest& nest, const NestTensor& t, Value* value, std::vector<Store>& stores) {
  if (t.stored) stores.push_back({t.tensor, value, e_.Emit(nest.store_offset)});
  Value* rounded = e_.Round(t.tensor.dtype(), value);
  for (const ExprNode* read : reads_) {
    bool is_same = read->tensor.get() == t.tensor.get() && read->operands[0].get() == nest.store_offset.get();
    if (is_same) e_.BindValue(read, rounded);
  }
}

// Gives all threads of a row the results of the pending reductions.
void RowTeamEmitter::Finish() {
  if (pending_.empty()) return;
  for (int64_t distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    for (Pending& pending : pending_) {
      pending.partial = pending.steps.Merge(pending.partial, EmitExchange(b_, pending.partial, distance));
    }
  }
  if (team_.threads > kWarpThreads) MergeWarps();
  for (Pending& pending : pending_) {
    const LoopNest& nest = *pending.nest;
    FinishTensor(nest, nest.tensors[0], pending.steps.Result(pending.partial), row_stores_);
    for (size_t t = 1; t < nest.tensors.size(); ++t) {
      FinishTensor(nest, nest.tensors[t], e_.Emit(nest.tensors[t].value), row_stores_);
    }
  }
  pending_.clear();
}

void RowTeamEmitter::EmitStores(const std::vector<Store>& stores) {
  for (const Store& store : stores)
    e_.Store(store.tensor.dtype(), store.value, e_.pointers.at(store.tensor.get()), store.offset);
}

void RowTeamEmitter::EmitElements(const LoopNest& nest) {
  std::vector<std::vector<Store>> stores(static_cast<size_t>(team_.steps));
  ForEachElement([&](int64_t step, size_t) {
    for (const NestTensor& t : nest.tensors) FinishTensor(nest, t, e_.Emit(t.value), stores[static_cast<size_t>(step)]);
  });
  bool any = std::any_of(nest.tensors.begin(), nest.tensors.end(), [](const NestTensor& t) { return t.stored; });
  if (!any) return;
  auto emit = [&] {
    for (int64_t step = 0; step < team_.steps; ++step) {
      const std::vector<Store>& now = stores[static_cast<size_t>(step)];
      Value* is_there = IsThere(step);
      if (is_there == nullptr) {
        EmitStores(now);
      } else {
        EmitIf(b_, is_there, [&] { EmitStores(now); });
      }
    }
  };
  if (is_row_ == nullptr) {
    emit();
  } else {
    EmitIf(b_, is_row_, emit);
  }
}

EmittedNest RowTeamEmitter::Run(const std::string& name) {
  Begin(name);
  BindRow();
  if (team_.steps_at_once == team_.steps) elements_.resize(static_cast<size_t>(team_.steps * team_.vector));
  ForEachElement([&](int64_t step, size_t element) {
    e_.Bind(team_.element, ElementAt(first_, step, static_cast<int64_t>(element) % team_.vector));
  });
  bool is_loaded = false;
  auto finish = [&] {
    if (!std::exchange(is_loaded, true)) LoadAhead();
    Finish();
  };
  for (size_t n = 0; n < group_.count; ++n) {
    const LoopNest& now = nest(n);
    if (now.reduction() != nullptr) {
      if (tied_.contains(now.reduction()->operands[0].get())) finish();
      AddPending(now);
      continue;
    }
    if (!pending_.empty()) finish();
    if (IsOfElements(now)) {
      EmitElements(now);
      continue;
    }
    for (const NestTensor& t : now.tensors) FinishTensor(now, t, e_.Emit(t.value), row_stores_);
  }
  finish();
  if (!row_stores_.empty()) {
    Value* stores = b_.CreateICmpEQ(lane_, i_.Number(0));
    if (is_row_ != nullptr) stores = b_.CreateAnd(stores, is_row_);
    EmitIf(b_, stores, [&] { EmitStores(row_stores_); });
  }
  if (uses_shared_) EmitBarrier(b_);  // the next row uses the same memory
  b_.CreateRetVoid();
  return std::move(result_);
}

}  // namespace

EmittedNest EmitRowTeam(llvm::Module& module, const schedule::Schedule& schedule, const schedule::NestGroup& group,
                        const std::string& name) {
  return RowTeamEmitter(module, schedule, group).Run(name);
}

}  // namespace rvm::codegen
