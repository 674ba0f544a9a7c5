#include "kernels/codegen/llvm/window_emitter.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/reduce_emitter.h"
#include "kernels/schedule/nest_cost.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::Windows;

namespace {

// Maximum number of places of a row that are held at once: they fit the first-level cache, and any stack.
constexpr int64_t kMaxPlaces = 1024;
constexpr int64_t kMaxLanes = 16;
constexpr int64_t kFewVectors = 4;  // of a row; longer ones are left to LLVM

class WindowEmitter {
 public:
  WindowEmitter(const WindowSite& site, llvm::function_ref<void(Value*)> finish)
      : s_(site),
        finish_(finish),
        b_(site.b),
        e_(site.e),
        windows_(*site.nest.windows),
        reduce_(*site.nest.reduction()),
        fold_(b_, e_, reduce_),
        type_(e_.RegisterType(reduce_.operands[0].dtype())) {
    lanes_ = std::clamp<int64_t>(s_.target.vector_bits / type_->getScalarSizeInBits(), 2, kMaxLanes);
    const Dim& extent = s_.nest.axes.back().extent;
    int64_t most = std::max(kMaxPlaces / windows_.stride, lanes_);
    block_ = std::min(extent.AsConst().value_or(most), most);
    block_ = std::max<int64_t>((block_ + lanes_ - 1) / lanes_, 1) * lanes_;
    // Vectors are stored up to a whole one beyond the last place.
    row_ = Array((block_ + windows_.reach() / windows_.stride + 1) * windows_.stride + lanes_);
    folded_ = Array(block_);
  }

  void Run() {
    int64_t cost = schedule::CostOfIterations(schedule::CostOfPosition(s_.nest), block_);
    EmitStoppableLoop(b_, {s_.begin, s_.end, s_.nest.axes.back().extent, block_}, s_.cancel, cost, {},
                      [&](Value* first, const std::vector<Value*>&) -> std::vector<Value*> {
                        e_.OpenScope();
                        Value* count = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateNSWSub(s_.end, first),
                                                                Number(block_));
                        EmitRow(first, count);
                        EmitFolds(count);
                        EmitEnd(first, count);
                        e_.CloseScope();
                        return {};
                      });
  }

 private:
  struct Range {
    Value *begin, *end;
  };
  // A position of an axis of the reduction: one that has a value, and whether it is the position itself; null: always.
  struct Step {
    Value *position, *is_inside;
  };

  llvm::ConstantInt* Number(int64_t value) { return b_.getInt64(static_cast<uint64_t>(value)); }
  Value* At(llvm::AllocaInst* array, Value* i) { return b_.CreateInBoundsGEP(type_, array, i); }
  Value* Limit(llvm::Intrinsic::ID id, Value* x, Value* y) { return b_.CreateBinaryIntrinsic(id, x, y); }
  llvm::Align ElementAlign() const { return llvm::Align(type_->getScalarSizeInBits() / 8); }
  // Returns the greatest power of two that is not greater.
  static int64_t Floor(int64_t count) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(count))); }
  Value* Identity() { return fold_.Initial()[0]; }

  llvm::AllocaInst* Array(int64_t size) {
    llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
    llvm::AllocaInst* array = llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type_, Number(size));
    array->setAlignment(llvm::Align(64));
    return array;
  }

  // Returns the part of a range that has values; empty, inside of the range, if none has.
  Range Within(const Windows::Limits& limits, Range range) {
    Range result = range;
    for (const te::Expr& begin : limits.begins)
      result.begin = Limit(llvm::Intrinsic::smax, result.begin, e_.Emit(begin));
    for (const te::Expr& end : limits.ends) result.end = Limit(llvm::Intrinsic::smin, result.end, e_.Emit(end));
    result.begin = Limit(llvm::Intrinsic::smin, result.begin, range.end);
    result.end = Limit(llvm::Intrinsic::smax, result.end, result.begin);
    return result;
  }

  // Returns a bound on the places of a row that have values.
  int64_t KnownPlaces() {
    int64_t begin = 0, end = (block_ - 1) * windows_.stride + windows_.reach() + 1;
    if (auto windows = s_.nest.axes.back().extent.AsConst()) {
      end = std::min(end, (*windows - 1) * windows_.stride + windows_.reach() + 1);
    }
    auto each = [&](const std::vector<te::Expr>& limits, auto change) {
      for (const te::Expr& limit : limits) {
        if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(e_.Emit(limit))) change(known->getSExtValue());
      }
    };
    each(windows_.limits[0].begins, [&](int64_t limit) { begin = std::max(begin, limit); });
    each(windows_.limits[0].ends, [&](int64_t limit) { end = std::min(end, limit); });
    return std::max<int64_t>(end - begin, 1);
  }

  // Emits the first step: the places that `count` windows from `first` on cover.
  void EmitRow(Value* first, Value* count) {
    first_place_ = b_.CreateNSWMul(first, Number(windows_.stride));
    Value* places = b_.CreateNSWAdd(b_.CreateNSWMul(count, Number(windows_.stride)),
                                    Number(windows_.reach() + 1 - windows_.stride));
    Range all{first_place_, b_.CreateNSWAdd(first_place_, places)}, inside = Within(windows_.limits[0], all);
    steps_.clear();
    for (size_t i = 1; i < windows_.limits.size(); ++i) AddSteps(windows_.limits[i], inside);
    // Vectors of identities may reach into what is computed afterwards, or beyond the row.
    Value* identities = b_.CreateVectorSplat(static_cast<unsigned>(lanes_), Identity());
    auto fill = [&](Value* begin, Value* end) {
      EmitLoop(b_, begin, end, lanes_, {}, [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
        b_.CreateAlignedStore(identities, At(row_, b_.CreateNSWSub(at, first_place_)), ElementAlign());
        return {};
      });
    };
    fill(all.begin, inside.begin);
    EmitInside(inside);
    fill(inside.end, all.end);
  }

  // Adds the steps of an axis of the reduction. Where none of them has a value, no place has.
  void AddSteps(const Windows::Limits& limits, Range& inside) {
    Range all{Number(0), Number(limits.variable.extent.constant())}, range = Within(limits, all);
    bool is_limited = !limits.begins.empty() || !limits.ends.empty();
    std::vector<Step>& steps = steps_.emplace_back();
    for (int64_t i = 0; i < limits.variable.extent.constant(); ++i) {
      if (!is_limited) {
        steps.push_back({Number(i), nullptr});
        continue;
      }
      Value* last = b_.CreateNSWSub(range.end, Number(1));
      Value* position = Limit(llvm::Intrinsic::smin, Limit(llvm::Intrinsic::smax, Number(i), range.begin), last);
      steps.push_back({position, b_.CreateICmpEQ(position, Number(i))});
    }
    if (is_limited) inside.end = b_.CreateSelect(b_.CreateICmpSLT(range.begin, range.end), inside.end, inside.begin);
  }

  void EmitPlace(Value* place) { b_.CreateStore(FoldPlace(place), At(row_, b_.CreateNSWSub(place, first_place_))); }

  void EmitInside(Range inside) {
    EmitOverlapping(inside, std::min(lanes_, Floor(KnownPlaces())), [&](Value* place) { EmitPlace(place); });
  }

  // Emits the epilogue. Rows of few windows are vectors that overlap, unless an argument of the epilogue may be its
  // result.
  void EmitEnd(Value* first, Value* count) {
    int64_t windows = s_.nest.axes.back().extent.AsConst().value_or(0);
    bool overlaps = s_.independent == nullptr && windows < kFewVectors * lanes_ && windows % lanes_ != 0;
    EmitOverlapping({Number(0), count}, overlaps ? std::min(lanes_, Floor(windows)) : 1, [&](Value* i) {
      e_.OpenScope();
      e_.Bind(s_.nest.axes.back(), b_.CreateNSWAdd(first, i));
      finish_(b_.CreateLoad(type_, At(folded_, i)));
      e_.CloseScope();
    });
  }

  // Runs the body for a range: for `at_once` iterations that LLVM makes one of vectors, the last of which may overlap
  // those before; one by one if there are not so many.
  void EmitOverlapping(Range range, int64_t at_once, llvm::function_ref<void(Value*)> body) {
    auto each = [&](Value* begin, Value* end, bool keep_rolled) {
      EmitLoop(b_, begin, end, 1, {},
               [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                 body(at);
                 return {};
               },
               {.independent = s_.independent, .keep_rolled = keep_rolled});
    };
    if (at_once < 2) return each(range.begin, range.end, false);
    auto vectors = [&] {
      Value* last = b_.CreateNSWSub(range.end, Number(at_once));
      EmitLoop(b_, range.begin, range.end, at_once, {},
               [&](Value* at, const std::vector<Value*>&) -> std::vector<Value*> {
                 Value* begin = Limit(llvm::Intrinsic::smin, at, last);
                 each(begin, b_.CreateNSWAdd(begin, Number(at_once)), true);
                 return {};
               });
    };
    Value* are_enough = b_.CreateICmpSGE(b_.CreateNSWSub(range.end, range.begin), Number(at_once));
    EmitIfElse(b_, are_enough, vectors, [&] { each(range.begin, range.end, false); });
  }

  // Returns the fold at a place over all axes of the reduction but the last.
  Value* FoldPlace(Value* place) {
    e_.OpenScope();
    e_.Bind(windows_.place, place);
    Value* folded = FoldSteps(0, nullptr, nullptr);
    e_.CloseScope();
    return folded;
  }

  Value* FoldSteps(size_t axis, Value* folded, Value* is_inside) {
    if (axis == steps_.size()) {
      Value* value = e_.Emit(windows_.value);
      // An element that is folded in twice changes nothing in an extreme.
      if (is_inside != nullptr && !IsExtreme()) value = b_.CreateSelect(is_inside, value, Identity());
      return folded == nullptr ? value : fold_.Fold(folded, value);
    }
    for (const Step& step : steps_[axis]) {
      e_.OpenScope();
      e_.Bind(windows_.limits[axis + 1].variable, step.position);
      Value* both = step.is_inside == nullptr ? is_inside : step.is_inside;
      if (step.is_inside != nullptr && is_inside != nullptr) both = b_.CreateAnd(is_inside, step.is_inside);
      folded = FoldSteps(axis + 1, folded, both);
      e_.CloseScope();
    }
    return folded;
  }

  bool IsExtreme() const {
    return reduce_.reduce == te::ReduceOp::kMaximum || reduce_.reduce == te::ReduceOp::kMinimum;
  }

  // Emits the second step: vectors of windows. Lanes beyond `count` fold what is in the row, and are not read.
  void EmitFolds(Value* count) {
    auto* places = llvm::FixedVectorType::get(type_, static_cast<unsigned>(lanes_ * windows_.stride));
    EmitLoop(b_, Number(0), count, lanes_, {}, [&](Value* first, const std::vector<Value*>&) -> std::vector<Value*> {
      Value* place = b_.CreateNSWMul(first, Number(windows_.stride));
      std::vector<Value*> loaded(static_cast<size_t>(windows_.reach() / windows_.stride) + 1);
      Value* folded = nullptr;
      for (int64_t step = 0; step < windows_.steps; ++step) {
        int64_t at = step * windows_.dilation;
        Value*& group = loaded[static_cast<size_t>(at / windows_.stride)];
        if (group == nullptr) {
          Value* begin = b_.CreateNSWAdd(place, Number(at / windows_.stride * windows_.stride));
          group = b_.CreateAlignedLoad(places, At(row_, begin), ElementAlign());
        }
        Value* value = windows_.stride == 1 ? group : b_.CreateShuffleVector(group, Lanes(at % windows_.stride));
        folded = folded == nullptr ? value : fold_.Fold(folded, value);
      }
      b_.CreateAlignedStore(folded, At(folded_, first), ElementAlign());
      return {};
    });
  }

  std::vector<int> Lanes(int64_t first) const {
    std::vector<int> lanes;
    for (int64_t i = 0; i < lanes_; ++i) lanes.push_back(static_cast<int>(first + i * windows_.stride));
    return lanes;
  }

  const WindowSite& s_;
  llvm::function_ref<void(Value*)> finish_;
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const Windows& windows_;
  const te::ExprNode& reduce_;
  ReduceEmitter fold_;
  llvm::Type* type_;  // of a place, in memory too
  int64_t lanes_ = 0, block_ = 0;
  llvm::AllocaInst *row_ = nullptr, *folded_ = nullptr;  // the places that a block of windows covers; the windows
  Value* first_place_ = nullptr;
  std::vector<std::vector<Step>> steps_;  // by axis of the reduction
};

}  // namespace

void EmitWindows(const WindowSite& site, llvm::function_ref<void(Value*)> finish) { WindowEmitter(site, finish).Run(); }

}  // namespace rvm::codegen
