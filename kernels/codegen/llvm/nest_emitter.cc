#include "kernels/codegen/llvm/nest_emitter.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "kernels/codegen/llvm/block_tile_emitter.h"
#include "kernels/codegen/llvm/block_transpose_emitter.h"
#include "kernels/codegen/llvm/index_emitter.h"
#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/reduce_emitter.h"
#include "kernels/codegen/llvm/streamed_stores.h"
#include "kernels/codegen/llvm/team_emitter.h"
#include "kernels/codegen/llvm/tile_emitter.h"
#include "kernels/codegen/llvm/transpose_emitter.h"
#include "kernels/codegen/llvm/window_emitter.h"
#include "kernels/schedule/block_tile_planner.h"
#include "kernels/schedule/gpu_schedule.h"
#include "kernels/schedule/nest_cost.h"
#include "kernels/schedule/vector_runs.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::LoopNest;
using schedule::NestForm;
using schedule::NestTensor;
using schedule::Schedule;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;

namespace {

class NestEmitter {
 public:
  NestEmitter(llvm::Module& module, const Schedule& schedule, const LoopNest& nest)
      : module_(module), schedule_(schedule), nest_(nest), b_(module.getContext()), e_(b_, schedule.target) {}

  EmittedNest Run(const std::string& name, NestUnits units);
  EmittedNest RunOnGrid(const std::string& name);

 private:
  void CollectTensors();
  bool MayOverlap(const te::Tensor& tensor) const;
  void MarkAccesses();
  void Begin(const std::string& name);
  void AssumeExtents();
  void ReturnIfFewRows();
  void BindRowAxes();
  void EmitAxes(size_t axis, size_t count, llvm::function_ref<void()> body);
  // Emits the loops around the last axis, and the body for the positions of that.
  void EmitInnermost(llvm::function_ref<void(Value* begin, Value* end)> body);
  void EmitUpdate();
  size_t AxesOfCondition() const;
  void EmitAxis(size_t axis, size_t count, Value* begin, Value* end,
                std::span<const std::pair<const ExprNode*, bool>> known, llvm::function_ref<void()> body);
  Value* Streams();
  Value* AlignedFrom(Value* begin, Value* end);
  void EmitPosition();
  void EmitFlatPosition(Value* position);
  void EmitNeighbours(Value* group);
  void EmitColumns(Value* begin, Value* end);
  void EmitUnrolledColumn();
  Value* ValueOfStep(const ExprNode& reduce, int64_t step);
  Value* FoldInPairs(ReduceEmitter& steps, const ExprNode& reduce, int64_t begin, int64_t end);
  void Finish(const NestTensor& t, Value* value);
  void FinishRest();
  using FoldRows = llvm::function_ref<void(Value* first, int64_t rows)>;
  void EmitReduceLoops(const ExprNode& reduce, size_t axis, FoldRows body);
  Value* EmitReduce(const ExprNode& reduce);
  std::vector<Value*> EmitReduceStep(const ExprNode& reduce, size_t axis, std::vector<Value*> carried);

  llvm::Module& module_;
  const Schedule& schedule_;
  const LoopNest& nest_;
  llvm::IRBuilder<> b_;
  ExprEmitter e_;
  EmittedNest result_;
  Value* begin_ = nullptr;  // of the positions of `first_axis_`; the axes before it are bound
  Value* end_ = nullptr;
  size_t first_axis_ = 0;
  Value* cancel_ = nullptr;
  llvm::MDNode* group_ = nullptr;  // if vectors need no checks: the accesses of all positions
  std::vector<Value*> counts_;     // of an update, by axis; null: all positions
  bool is_condition_open_ = true;  // of an update: not emitted yet
  bool is_in_image_ = true;        // the open loops over ranges are those of an image that another nest stored
  Value* streams_ = nullptr;       // whether stores bypass the caches; null: never
  bool in_streaming_loop_ = false;
};

void NestEmitter::CollectTensors() {
  auto add = [&](const te::Tensor& tensor) {
    bool known = std::any_of(result_.tensors.begin(), result_.tensors.end(),
                             [&](const te::Tensor& t) { return t.get() == tensor.get(); });
    if (!known) result_.tensors.push_back(tensor);
  };
  auto own = [&](const te::Tensor& tensor) {
    return std::any_of(nest_.tensors.begin(), nest_.tensors.end(),
                       [&](const NestTensor& t) { return t.tensor.get() == tensor.get(); });
  };
  for (const ExprNode* node : te::Postorder(schedule::ReadExpressions(nest_))) {
    bool reads = node->kind == ExprKind::kRead && node->tensor->kind != te::TensorKind::kSelf;
    if (reads && !own(node->tensor)) add(node->tensor);
  }
  if (nest_.tile && nest_.tile->panels) add(nest_.tile->panels);
  for (const NestTensor& t : nest_.tensors) {
    if (t.stored) add(t.tensor);
  }
}

// Returns whether the tensor shares its memory with another that this nest accesses.
bool NestEmitter::MayOverlap(const te::Tensor& tensor) const {
  for (const schedule::Reuse& reuse : schedule_.reuses) {
    if (&schedule_.nests[reuse.nest] != &nest_) continue;
    if (tensor->kind == te::TensorKind::kInput) {
      if (tensor->input_index == reuse.input) return true;
    } else {
      auto buffer = schedule_.buffers.find(tensor.get());
      bool is_output = buffer != schedule_.buffers.end() && buffer->second.is_output;
      if (is_output && buffer->second.output == reuse.output) return true;
    }
  }
  return false;
}

// Marks iterations as independent even when an output aliases an input, so that the vectorizer needs no runtime alias
// checks.
void NestEmitter::MarkAccesses() {
  for (llvm::BasicBlock& block : *result_.function) {
    for (llvm::Instruction& instruction : block) {
      bool access = llvm::isa<llvm::LoadInst>(instruction) || llvm::isa<llvm::StoreInst>(instruction);
      if (access && !instruction.isVolatile()) AddAccessGroup(instruction, group_);
    }
  }
}

void NestEmitter::Begin(const std::string& name) {
  llvm::Function* function = MakeNestFunction(module_, schedule_, result_.tensors.size(), name);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::MustProgress);
  begin_ = function->getArg(0);
  end_ = function->getArg(1);
  unsigned next = 2;
  for (const te::Tensor& tensor : result_.tensors) {
    if (MayOverlap(tensor)) {
      // A scan reads what other positions stored.
      if (!nest_.tensors[0].tensor->self) group_ = llvm::MDNode::getDistinct(b_.getContext(), {});
    } else {
      function->addParamAttr(next, llvm::Attribute::NoAlias);
    }
    function->addParamAttr(next, llvm::Attribute::NoCapture);
    function->addParamAttr(next, llvm::Attribute::NonNull);
    e_.pointers[tensor.get()] = function->getArg(next++);
    if (tensor->self) e_.pointers[tensor->self.get()] = e_.pointers[tensor.get()];
    if (tensor->update) e_.pointers[tensor->update->self.get()] = e_.pointers[tensor.get()];
    if (nest_.product && tensor.get() == nest_.tensors[0].tensor.get())
      e_.pointers[nest_.product.get()] = e_.pointers[tensor.get()];
  }
  // Elements of one tensor that a position stores lie too far apart for checks.
  if (!nest_.replicas.empty()) group_ = llvm::MDNode::getDistinct(b_.getContext(), {});
  b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", function));
  for (const Dim& symbol : schedule_.symbols) e_.symbols[symbol.id()] = function->getArg(next++);
  cancel_ = function->getArg(next);
  result_.function = function;
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  b_.setFastMathFlags(flags);
}

// An extent is never negative, which lets index arithmetic be unsigned. Nothing is said of symbols that the nest does
// not use: nests of several kernels that differ in these only are one function.
void NestEmitter::AssumeExtents() {
  llvm::BasicBlock& entry = result_.function->getEntryBlock();
  b_.SetInsertPoint(&entry, entry.begin());
  for (const Dim& symbol : schedule_.symbols) {
    Value* extent = e_.symbols.at(symbol.id());
    bool is_value = std::find(schedule_.values.begin(), schedule_.values.end(), symbol) != schedule_.values.end();
    if (!is_value && !extent->use_empty()) b_.CreateAssumption(b_.CreateICmpSGE(extent, b_.getInt64(0)));
  }
}

// Nothing needs the nest in calls with few rows.
void NestEmitter::ReturnIfFewRows() {
  auto block = [&](const char* name) { return llvm::BasicBlock::Create(b_.getContext(), name, result_.function); };
  llvm::BasicBlock *few = block("few"), *more = block("more");
  Value* rows = e_.EmitExtent(nest_.limit->rows);
  b_.CreateCondBr(b_.CreateICmpSLE(rows, b_.getInt64(static_cast<uint64_t>(nest_.limit->few))), few, more);
  b_.SetInsertPoint(few);
  b_.CreateRetVoid();
  b_.SetInsertPoint(more);
}

// Makes a range of rows one of the last axis that counts them.
void NestEmitter::BindRowAxes() {
  first_axis_ = nest_.row_axes - 1;
  if (first_axis_ == 0) return;
  Value* rows = b_.CreateNSWSub(end_, begin_);
  Value* rest = begin_;
  for (size_t axis = first_axis_; axis > 0; --axis) {
    Value* extent = e_.EmitExtent(nest_.axes[axis].extent);
    Value* position = b_.CreateURem(rest, extent);
    axis == first_axis_ ? void(begin_ = position) : e_.Bind(nest_.axes[axis], position);
    rest = b_.CreateUDiv(rest, extent);
  }
  e_.Bind(nest_.axes[0], rest);
  end_ = b_.CreateNSWAdd(begin_, rows);
}

// How many axes are outside the condition of an update.
size_t NestEmitter::AxesOfCondition() const {
  size_t axes = nest_.axes.size();
  while (axes > 0 && !te::DependsOn(nest_.update->condition, nest_.axes[axes - 1].id)) --axes;
  return axes;
}

// The positions that an update has in this call. Code for the usual case is apart.
void NestEmitter::EmitUpdate() {
  for (const Expr& count : nest_.update->counts) counts_.push_back(count ? e_.Emit(count) : nullptr);
  auto emit = [&] { EmitAxes(0, nest_.axes.size(), [&] { EmitPosition(); }); };
  if (nest_.update->usual.empty()) return emit();
  Value* is_usual = b_.getTrue();
  for (const Expr& condition : nest_.update->usual) is_usual = b_.CreateAnd(is_usual, e_.Emit(condition));
  auto usual = [&] {
    e_.OpenScope();
    for (const Expr& condition : nest_.update->usual) e_.BindValue(condition.get(), b_.getTrue());
    emit();
    e_.CloseScope();
  };
  auto other = [&] {
    e_.OpenScope();
    emit();
    e_.CloseScope();
  };
  EmitIfElse(b_, is_usual, usual, other);
}

void NestEmitter::EmitAxes(size_t axis, size_t count, llvm::function_ref<void()> body) {
  bool has_condition = nest_.update && nest_.update->condition && is_condition_open_;
  if (has_condition && axis == AxesOfCondition()) {
    Value* condition = e_.Emit(nest_.update->condition);
    is_condition_open_ = false;
    e_.OpenScope();
    EmitIf(b_, condition, [&] { EmitAxes(axis, count, body); });
    e_.CloseScope();
    is_condition_open_ = true;
    return;
  }
  if (axis == count) return body();
  Value* begin = axis == first_axis_ ? begin_ : b_.getInt64(0);
  Value* end = axis == first_axis_ ? end_ : e_.EmitExtent(nest_.axes[axis].extent);
  if (axis < counts_.size() && counts_[axis] != nullptr)
    end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, counts_[axis]);
  if (axis >= nest_.ranges.size() || nest_.ranges[axis].empty()) return EmitAxis(axis, count, begin, end, {}, body);
  const auto is_last = [&] {
    return std::all_of(nest_.ranges.begin() + static_cast<std::ptrdiff_t>(axis) + 1, nest_.ranges.end(),
                       [](const auto& inner) { return inner.empty(); });
  };
  const bool was_in_image = is_in_image_;
  for (const schedule::AxisRange& range : nest_.ranges[axis]) {
    is_in_image_ = was_in_image && range.is_image;
    if (is_in_image_ && is_last()) continue;
    auto limit = [&](llvm::Intrinsic::ID id, Value* x, int64_t bound) -> Value* {
      if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(x)) {
        const int64_t value = known->getSExtValue();
        bound = id == llvm::Intrinsic::smax ? std::max(value, bound) : std::min(value, bound);
        return b_.getInt64(static_cast<uint64_t>(bound));
      }
      return b_.CreateBinaryIntrinsic(id, x, b_.getInt64(static_cast<uint64_t>(bound)));
    };
    Value *from = limit(llvm::Intrinsic::smax, begin, range.begin), *to = limit(llvm::Intrinsic::smin, end, range.end);
    EmitAxis(axis, count, from, to, range.known, body);
  }
  is_in_image_ = was_in_image;
}

// Returns whether the result is so large in this call that its stores bypass the caches; null: never.
Value* NestEmitter::Streams() {
  if (!nest_.streamed) return nullptr;
  auto is_least = [&](const Dim& dim, int64_t least) {
    return b_.CreateICmpSGE(e_.EmitExtent(dim), b_.getInt64(static_cast<uint64_t>(least)));
  };
  Value* streams = b_.CreateAnd(is_least(nest_.streamed->row, schedule::StreamedStores::kMinRow),
                                is_least(nest_.streamed->size, schedule::StreamedStores::kMinSize));
  Value* result = e_.pointers.at(nest_.tensors.back().tensor.get());
  for (int64_t input : nest_.streamed->replaced) {
    for (const te::Tensor& tensor : result_.tensors) {
      if (tensor->kind != te::TensorKind::kInput || tensor->input_index != input) continue;
      streams = b_.CreateAnd(streams, b_.CreateICmpNE(e_.pointers.at(tensor.get()), result));
    }
  }
  return streams;
}

// The first position of the innermost axis from `begin` on that is stored at the beginning of a line of the caches.
Value* NestEmitter::AlignedFrom(Value* begin, Value* end) {
  const te::Tensor& tensor = nest_.tensors.back().tensor;
  auto bytes = static_cast<uint64_t>(tensor.dtype().bytes());
  e_.OpenScope();
  e_.Bind(nest_.axes.back(), begin);
  Value* offset = b_.CreateMul(e_.Emit(nest_.store_offset), b_.getInt64(bytes));
  Value* address = b_.CreateAdd(b_.CreatePtrToInt(e_.pointers.at(tensor.get()), b_.getInt64Ty()), offset);
  e_.CloseScope();
  Value* before = b_.CreateUDiv(b_.CreateAnd(b_.CreateNeg(address), b_.getInt64(kLineBytes - 1)), b_.getInt64(bytes));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, before), end);
}

// A loop in which comparisons have known values.
void NestEmitter::EmitAxis(size_t axis, size_t count, Value* begin, Value* end,
                           std::span<const std::pair<const ExprNode*, bool>> known, llvm::function_ref<void()> body) {
  // Loops around EmitColumns share its accumulators, so their accesses are not independent.
  bool has_positions = count == nest_.axes.size();
  llvm::MDNode* independent = has_positions ? group_ : nullptr;
  auto one_loop = [&](Value* from, Value* to, bool keep_rolled) {
    EmitStoppableLoop(
        b_, {from, to, nest_.axes[axis].extent}, cancel_, schedule::CostOfIteration(nest_, axis), {},
        [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
          e_.OpenScope();
          e_.Bind(nest_.axes[axis], at);
          for (const auto& [node, truth] : known) {
            bool compares = node->dtype.is_bool();
            e_.BindValue(node, compares ? b_.getInt1(truth) : e_.Emit(node->operands[truth ? 0 : 1]));
          }
          EmitAxes(axis + 1, count, body);
          e_.CloseScope();
          return {};
        },
        {.independent = independent, .keep_rolled = keep_rolled, .is_innermost = has_positions && axis + 1 == count});
  };
  auto loop_over = [&](Value* from, Value* to) {
    const auto *first = llvm::dyn_cast<llvm::ConstantInt>(from), *last = llvm::dyn_cast<llvm::ConstantInt>(to);
    const bool is_known = first != nullptr && last != nullptr;
    if (!is_known || nest_.run_lanes == 0 || axis + 1 < count || !has_positions) return one_loop(from, to, false);
    const int64_t begin_of_row = first->getSExtValue(), length = last->getSExtValue() - begin_of_row;
    for (auto [begin_of_run, end_of_run] : schedule::VectorRuns(length, nest_.run_lanes)) {
      one_loop(b_.getInt64(static_cast<uint64_t>(begin_of_row + begin_of_run)),
               b_.getInt64(static_cast<uint64_t>(begin_of_row + end_of_run)), true);
    }
  };
  auto loop = [&] {
    if (streams_ == nullptr || axis + 1 < count) return loop_over(begin, end);
    auto stream = [&] {
      Value* aligned = AlignedFrom(begin, end);
      loop_over(begin, aligned);
      in_streaming_loop_ = true;
      loop_over(aligned, end);
      in_streaming_loop_ = false;
    };
    EmitIfElse(b_, streams_, stream, [&] { loop_over(begin, end); });
  };
  std::span<const Expr> conditions;
  if (has_positions && axis + 1 == count) conditions = nest_.unswitched;
  auto choose = [&](auto& self, size_t next) -> void {
    if (next == conditions.size()) return loop();
    auto with = [&](bool truth) {
      e_.OpenScope();
      e_.BindValue(conditions[next].get(), b_.getInt1(truth));
      self(self, next + 1);
      e_.CloseScope();
    };
    EmitIfElse(b_, e_.Emit(conditions[next]), [&] { with(true); }, [&] { with(false); });
  };
  choose(choose, 0);
}

void NestEmitter::Finish(const NestTensor& t, Value* value) {
  if (t.stored) {
    Value* offset = e_.Emit(nest_.store_offset);
    llvm::StoreInst* store = e_.Store(t.tensor.dtype(), value, e_.pointers.at(t.tensor.get()), offset);
    if (in_streaming_loop_) MarkStreamed(*store);
  }
  e_.BindTensor(t.tensor.get(), e_.Round(t.tensor.dtype(), value));
}

void NestEmitter::FinishRest() {
  for (size_t i = 1; i < nest_.tensors.size(); ++i) Finish(nest_.tensors[i], e_.Emit(nest_.tensors[i].value));
}

void NestEmitter::EmitPosition() {
  for (const schedule::Replica& replica : nest_.replicas) {
    const te::Tensor& tensor = nest_.tensors[0].tensor;
    e_.Store(tensor.dtype(), e_.Emit(replica.value), e_.pointers.at(tensor.get()), e_.Emit(replica.store_offset));
  }
  if (!nest_.replicas.empty()) return;
  const NestTensor& first = nest_.tensors[0];
  Finish(first, nest_.reduction() != nullptr ? EmitReduce(*nest_.reduction()) : e_.Emit(first.value));
  FinishRest();
}

// A position of all axes, by its number.
void NestEmitter::EmitFlatPosition(Value* position) {
  auto emit = [&] {
    e_.OpenScope();
    BindFlat(b_, e_, nest_.axes, position);
    EmitPosition();
    e_.CloseScope();
  };
  // The opaque code at its end keeps LLVM from merging its store with one of those that become a vector.
  auto emit_apart = [&] {
    emit();
    IndexEmitter(b_, e_).HiddenZero();
  };
  if (nest_.elements_per_thread == 1) return emit();
  Dim in_groups = TakesNeighbours(nest_);
  if (in_groups.is_const()) return EmitNeighbours(position);
  Value* takes = b_.CreateICmpNE(e_.EmitExtent(in_groups), b_.getInt64(0));
  EmitIfElse(b_, takes, [&] { EmitNeighbours(position); }, emit_apart);
}

// Neighbouring positions of the last axis, whose loads, and then stores, LLVM makes vectors.
void NestEmitter::EmitNeighbours(Value* group) {
  e_.OpenScope();
  std::vector<te::IndexVar> groups = nest_.axes;
  groups.back().extent = FloorDiv(groups.back().extent + (nest_.elements_per_thread - 1), nest_.elements_per_thread);
  IndexEmitter i(b_, e_);
  std::vector<Value*> positions = i.Decode(groups, group);
  // Adds an opaque zero so that LLVM does not rewrite the first offset in terms of the group number.
  Value* number = positions.size() == 1 ? positions.back() : b_.CreateNUWAdd(positions.back(), i.HiddenZero());
  Value* first = i.Times(number, nest_.elements_per_thread);
  positions.pop_back();
  groups.pop_back();
  i.Bind(groups, positions);
  const NestTensor& tensor = nest_.tensors[0];
  auto emit_each = [&](llvm::function_ref<void(size_t)> emit) {
    for (int64_t n = 0; n < nest_.elements_per_thread; ++n) {
      e_.OpenScope();
      e_.Bind(nest_.axes.back(), i.Plus(first, n));
      emit(static_cast<size_t>(n));
      e_.CloseScope();
    }
  };
  auto emit_all = [&] {
    std::vector<Value*> values;
    emit_each([&](size_t) { values.push_back(e_.Emit(tensor.value)); });
    emit_each([&](size_t n) { Finish(tensor, values[n]); });
  };
  const Dim& extent = nest_.axes.back().extent;
  if (extent.is_const() && extent.constant() % nest_.elements_per_thread == 0) {
    emit_all();
  } else {
    Value* end = e_.EmitExtent(extent);
    auto emit_rest = [&] {
      EmitLoop(b_, first, end, 1, {}, [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
        e_.OpenScope();
        e_.Bind(nest_.axes.back(), at);
        Finish(tensor, e_.Emit(tensor.value));
        e_.CloseScope();
        return {};
      });
      i.HiddenZero();  // likewise
    };
    EmitIfElse(b_, b_.CreateICmpSLE(i.Plus(first, nest_.elements_per_thread), end), emit_all, emit_rest);
  }
  e_.CloseScope();
}

std::vector<Value*> NestEmitter::EmitReduceStep(const ExprNode& reduce, size_t axis, std::vector<Value*> carried) {
  if (axis == reduce.axes.size()) return ReduceEmitter(b_, e_, reduce).Combine(carried);
  Value* end = e_.EmitExtent(reduce.axes[axis].extent);
  LoopRange range{b_.getInt64(0), end, reduce.axes[axis].extent};
  bool is_innermost = schedule_.target.has_blocks && axis + 1 == reduce.axes.size();
  return EmitStoppableLoop(b_, range, cancel_, schedule::CostOfReduceIteration(reduce, axis, 1), std::move(carried),
                           [&](Value* at, const std::vector<Value*>& current) {
                             e_.OpenScope();
                             e_.Bind(reduce.axes[axis], at);
                             std::vector<Value*> next = EmitReduceStep(reduce, axis + 1, current);
                             e_.CloseScope();
                             return next;
                           },
                           {.unroll = is_innermost ? kLoadsAtOnce : 0});
}

Value* NestEmitter::EmitReduce(const ExprNode& reduce) {
  ReduceEmitter steps(b_, e_, reduce);
  return steps.Result(EmitReduceStep(reduce, 0, steps.Initial()));
}

// Calls `body` with the number of positions of the innermost axis that it is to fold: they follow `first`.
void NestEmitter::EmitReduceLoops(const ExprNode& reduce, size_t axis, FoldRows body) {
  if (axis == reduce.axes.size()) return body(nullptr, 1);
  Value* end = e_.EmitExtent(reduce.axes[axis].extent);
  int64_t cost = schedule::CostOfReduceIteration(reduce, axis, nest_.column_block);
  auto loop = [&](Value* begin, Value* limit, int64_t step, llvm::function_ref<void(Value*)> iteration) {
    EmitStoppableLoop(b_, {begin, limit, reduce.axes[axis].extent, step}, cancel_,
                      schedule::CostOfIterations(cost, step), {},
                      [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                        e_.OpenScope();
                        iteration(at);
                        e_.CloseScope();
                        return {};
                      });
  };
  if (axis + 1 < reduce.axes.size()) {
    return loop(b_.getInt64(0), end, 1, [&](Value* at) {
      e_.Bind(reduce.axes[axis], at);
      EmitReduceLoops(reduce, axis + 1, body);
    });
  }
  int64_t rows = nest_.rows_at_once;
  Value* whole = b_.CreateAnd(end, b_.getInt64(static_cast<uint64_t>(-rows)));
  loop(b_.getInt64(0), whole, rows, [&](Value* at) { body(at, rows); });
  loop(whole, end, 1, [&](Value* at) { body(at, 1); });
}

void NestEmitter::EmitInnermost(llvm::function_ref<void(Value* begin, Value* end)> body) {
  size_t outer = nest_.axes.size() - 1;
  EmitAxes(first_axis_, outer, [&] {
    outer == first_axis_ ? body(begin_, end_) : body(b_.getInt64(0), e_.EmitExtent(nest_.axes.back().extent));
  });
}

// A block of the last axis at a time, its accumulators in a local array.
void NestEmitter::EmitColumns(Value* begin, Value* end) {
  const ExprNode& reduce = *nest_.reduction();
  ReduceEmitter steps(b_, e_, reduce);
  llvm::Type* type = e_.RegisterType(reduce.operands[0].dtype());
  if (reduce.reduce == ReduceOp::kAll || reduce.reduce == ReduceOp::kAny) type = b_.getInt1Ty();
  llvm::Type* memory = type->isIntegerTy(1) ? b_.getInt8Ty() : type;
  llvm::IRBuilder<> at_entry(&result_.function->getEntryBlock(), result_.function->getEntryBlock().begin());
  llvm::AllocaInst* block = at_entry.CreateAlloca(memory, at_entry.getInt64(nest_.column_block));
  block->setAlignment(llvm::Align(64));
  auto load = [&](Value* i) {
    Value* raw = b_.CreateLoad(memory, b_.CreateInBoundsGEP(memory, block, i));
    return memory == type ? raw : b_.CreateICmpNE(raw, b_.getInt8(0));
  };
  auto store = [&](Value* value, Value* i) {
    b_.CreateStore(memory == type ? value : b_.CreateZExt(value, memory), b_.CreateInBoundsGEP(memory, block, i));
  };
  int64_t cost = schedule::CostOfIterations(schedule::CostOfPosition(nest_), nest_.column_block);
  LoopRange range{begin, end, nest_.axes.back().extent, nest_.column_block};
  EmitStoppableLoop(b_, range, cancel_, cost, {}, [&](Value* first, const std::vector<Value*>&) -> std::vector<Value*> {
    Value* left = b_.CreateNSWSub(end, first);
    Value* width = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, b_.getInt64(nest_.column_block));
    auto each = [&](llvm::function_ref<void(Value*)> body) {
      EmitLoop(b_, b_.getInt64(0), width, 1, {},
               [&](Value* i, const std::vector<Value*>&) -> std::vector<Value*> {
                 e_.OpenScope();
                 e_.Bind(nest_.axes.back(), b_.CreateNSWAdd(first, i));
                 body(i);
                 e_.CloseScope();
                 return {};
               },
               {.independent = group_});
    };
    each([&](Value* i) { store(steps.Initial()[0], i); });
    EmitReduceLoops(reduce, 0, [&](Value* row, int64_t rows) {
      each([&](Value* i) {
        Value* folded = load(i);
        for (int64_t k = 0; k < rows; ++k) {
          e_.OpenScope();
          if (row != nullptr) e_.Bind(reduce.axes.back(), b_.CreateNSWAdd(row, b_.getInt64(static_cast<uint64_t>(k))));
          folded = steps.Fold(folded, e_.Emit(reduce.operands[0]));
          e_.CloseScope();
        }
        store(folded, i);
      });
    });
    each([&](Value* i) {
      Finish(nest_.tensors[0], load(i));
      FinishRest();
    });
    return {};
  });
}

// Emits the value of a step of a reduction of known extents; `step` counts them in order.
Value* NestEmitter::ValueOfStep(const ExprNode& reduce, int64_t step) {
  e_.OpenScope();
  for (size_t axis = reduce.axes.size(); axis-- > 0;) {
    const int64_t extent = reduce.axes[axis].extent.constant();
    e_.Bind(reduce.axes[axis], b_.getInt64(static_cast<uint64_t>(step % extent)));
    step /= extent;
  }
  Value* value = e_.Emit(reduce.operands[0]);
  e_.CloseScope();
  return value;
}

// Folds the steps [begin, end) as a tree: one behind another, each would wait for the one before it.
Value* NestEmitter::FoldInPairs(ReduceEmitter& steps, const ExprNode& reduce, int64_t begin, int64_t end) {
  if (end - begin == 1) return ValueOfStep(reduce, begin);
  const int64_t middle = begin + (end - begin) / 2;
  Value* left = FoldInPairs(steps, reduce, begin, middle);
  return steps.Fold(left, FoldInPairs(steps, reduce, middle, end));
}

// One position, its result in a register. Sums have the order of their steps.
void NestEmitter::EmitUnrolledColumn() {
  const ExprNode& reduce = *nest_.reduction();
  ReduceEmitter steps(b_, e_, reduce);
  int64_t count = 1;
  for (const te::IndexVar& axis : reduce.axes) count *= axis.extent.constant();
  Value* folded = steps.Initial()[0];
  if (count > 0 && (reduce.reduce == ReduceOp::kMaximum || reduce.reduce == ReduceOp::kMinimum)) {
    folded = steps.Fold(folded, FoldInPairs(steps, reduce, 0, count));
  } else {
    for (int64_t step = 0; step < count; ++step) folded = steps.Fold(folded, ValueOfStep(reduce, step));
  }
  Finish(nest_.tensors[0], folded);
  FinishRest();
}

EmittedNest NestEmitter::Run(const std::string& name, NestUnits units) {
  CollectTensors();
  Begin(name);
  if (nest_.limit) ReturnIfFewRows();
  if (units == NestUnits::kOfRows) BindRowAxes();
  result_.work = nest_.work;
  result_.in_order = nest_.tensors[0].tensor->self || (nest_.update && nest_.update->is_in_order);
  if (!nest_.axes.empty()) result_.count = nest_.axes[0].extent;
  switch (nest_.form) {
    case NestForm::kTiles: {
      TileSite site{b_, e_, schedule_.target, nest_, begin_, end_, cancel_, group_, units == NestUnits::kOfRows};
      result_.count = EmitTiles(site, [&](Value* sum) {
        Finish(nest_.tensors[0], sum);
        FinishRest();
      });
      break;
    }
    case NestForm::kColumns: {
      if (nest_.column_block == 0) {
        EmitAxes(first_axis_, nest_.axes.size(), [&] { EmitUnrolledColumn(); });
      } else {
        EmitInnermost([&](Value* begin, Value* end) { EmitColumns(begin, end); });
      }
      break;
    }
    case NestForm::kWindows: {
      EmitInnermost([&](Value* begin, Value* end) {
        EmitWindows({b_, e_, schedule_.target, nest_, begin, end, cancel_, group_}, [&](Value* folded) {
          Finish(nest_.tensors[0], folded);
          FinishRest();
        });
      });
      break;
    }
    case NestForm::kTransposed: {
      EmitTransposed({b_, e_, schedule_.target, nest_, begin_, end_, cancel_, group_});
      break;
    }
    case NestForm::kPositions: {
      if (nest_.update) {
        EmitUpdate();
        break;
      }
      streams_ = Streams();
      EmitAxes(first_axis_, nest_.axes.size(), [&] { EmitPosition(); });
      if (streams_ != nullptr) EmitIf(b_, streams_, [&] { EmitStreamFence(b_); });
      break;
    }
    case NestForm::kTeams:
    case NestForm::kBlockTiles: RVM_UNREACHABLE("a nest for a GPU");
  }
  b_.CreateRetVoid();
  AssumeExtents();
  if (group_ != nullptr) MarkAccesses();
  return std::move(result_);
}

EmittedNest NestEmitter::RunOnGrid(const std::string& name) {
  RVM_CHECK(!nest_.tensors[0].tensor->self && !nest_.tensors[0].tensor->is_ordered && !nest_.update,
            "a nest whose positions are not independent");
  CollectTensors();
  Begin(name);
  cancel_ = nullptr;
  result_.of_blocks = nest_.form != NestForm::kPositions;
  result_.count = result_.of_blocks ? Blocks(nest_) : GridThreads(nest_);
  auto finish = [&](Value* value) {
    Finish(nest_.tensors[0], value);
    FinishRest();
  };
  EmitLoop(b_, begin_, end_, 1, {}, [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
    BlockSite site{module_, b_, e_, nest_, at};
    if (nest_.block_tile && nest_.team) {
      Value* by_tiles = b_.CreateICmpNE(e_.EmitExtent(IsWorthTiles(nest_)), b_.getInt64(0));
      EmitIf(b_, by_tiles, [&] { EmitBlockTile(site, finish); });
      EmitIf(b_, b_.CreateNot(by_tiles), [&] { EmitTeam(site, finish); });
    } else if (nest_.block_tile) {
      EmitBlockTile(site, finish);
    } else if (nest_.form == NestForm::kTeams) {
      EmitTeam(site, finish);
    } else if (nest_.form == NestForm::kTransposed) {
      EmitBlockTranspose(site, [&] { return e_.Emit(nest_.tensors[0].value); }, finish);
    } else {
      EmitFlatPosition(at);
    }
    return {};
  });
  if (result_.of_blocks) result_.function->setConvergent();
  b_.CreateRetVoid();
  AssumeExtents();
  return std::move(result_);
}

}  // namespace

llvm::Function* MakeNestFunction(llvm::Module& module, const schedule::Schedule& schedule, size_t num_tensors,
                                 const std::string& name) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type *i64 = llvm::Type::getInt64Ty(context), *pointer = llvm::PointerType::getUnqual(context);
  std::vector<llvm::Type*> parameters = {i64, i64};
  parameters.insert(parameters.end(), num_tensors, pointer);
  parameters.insert(parameters.end(), schedule.symbols.size(), i64);
  parameters.push_back(pointer);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), parameters, false);
  llvm::Function* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, module);
  function->setDoesNotThrow();
  return function;
}

EmittedNest EmitNest(llvm::Module& module, const Schedule& schedule, const LoopNest& nest, const std::string& name,
                     NestUnits units) {
  NestEmitter emitter(module, schedule, nest);
  return units == NestUnits::kOfGrid ? emitter.RunOnGrid(name) : emitter.Run(name, units);
}

}  // namespace rvm::codegen
