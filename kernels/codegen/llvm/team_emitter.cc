#include "kernels/codegen/llvm/team_emitter.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/codegen/llvm/loop_emitter.h"
#include "kernels/codegen/llvm/reduce_emitter.h"
#include "kernels/codegen/llvm/team_partials.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::kBlockThreads;
using schedule::kWarpThreads;

namespace {

constexpr unsigned kShared = 3;  // the address space

class TeamEmitter {
 public:
  explicit TeamEmitter(const BlockSite& site)
      : site_(site),
        b_(site.b),
        e_(site.e),
        team_(*site.nest.team),
        reduce_(*site.nest.reduction()),
        steps_(site.b, site.e, reduce_) {}

  void Run(llvm::function_ref<void(Value*)> finish);

 private:
  Value* Number(int64_t x) { return b_.getInt64(static_cast<uint64_t>(x)); }
  Partial EmitThreadPart(Value* part, Value* is_position);
  Partial MergeLanes(Partial partial);

  const BlockSite& site_;
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  const schedule::Team& team_;
  const te::ExprNode& reduce_;
  ReduceEmitter steps_;
};

// Folds the elements of thread `part` of a position; none if there is no such position.
Partial TeamEmitter::EmitThreadPart(Value* part, Value* is_position) {
  Dim elements = te::NumPositions(reduce_.axes);
  Value* end = b_.CreateSelect(is_position, e_.EmitExtent(elements), Number(0));
  return EmitLoop(b_, part, end, team_.threads, steps_.Initial(),
                  [&](Value* at, const Partial& carried) {
                    e_.OpenScope();
                    BindFlat(b_, e_, reduce_.axes, at);
                    Partial next = steps_.Combine(carried, at);
                    e_.CloseScope();
                    return next;
                  },
                  {.unroll = kLoadsAtOnce});
}

Partial TeamEmitter::MergeLanes(Partial partial) {
  for (int64_t distance = kWarpThreads / 2; distance > 0; distance /= 2) {
    partial = steps_.Merge(partial, EmitExchange(b_, partial, distance));
  }
  return partial;
}

void TeamEmitter::Run(llvm::function_ref<void(Value*)> finish) {
  Value* thread = EmitThread(b_);
  Value *warp = b_.CreateLShr(thread, Number(5)), *lane = b_.CreateAnd(thread, Number(kWarpThreads - 1));
  bool are_neighbours = team_.are_neighbours;
  Value* part = are_neighbours ? b_.CreateURem(thread, Number(team_.threads)) : warp;
  Value* slot = are_neighbours ? b_.CreateUDiv(thread, Number(team_.threads)) : lane;
  Value* position = b_.CreateNUWAdd(b_.CreateNUWMul(site_.block, Number(team_.positions())), slot);
  Dim positions = te::NumPositions(site_.nest.axes);
  Value* is_position = b_.CreateICmpSLT(position, e_.EmitExtent(positions));
  e_.OpenScope();
  BindFlat(b_, e_, site_.nest.axes, position);
  Partial partial = EmitThreadPart(part, is_position);
  if (are_neighbours) partial = MergeLanes(std::move(partial));
  Value* is_first = b_.CreateAnd(is_position, b_.CreateICmpEQ(part, Number(0)));
  auto finish_first = [&](llvm::function_ref<Partial()> merged) {
    EmitIf(b_, is_first, [&] {
      e_.OpenScope();
      finish(steps_.Result(merged()));
      e_.CloseScope();
    });
  };
  if (team_.threads == kWarpThreads && are_neighbours) {
    finish_first([&] { return partial; });
  } else {
    // Each warp leaves a partial result of each position.
    int64_t width = are_neighbours ? 1 : kWarpThreads;
    SharedPartials shared(site_.module, b_, partial, schedule::kBlockWarps * width);
    if (are_neighbours) {
      EmitIf(b_, b_.CreateICmpEQ(lane, Number(0)), [&] { shared.Store(partial, warp); });
    } else {
      shared.Store(partial, thread);
    }
    EmitBarrier(b_);
    finish_first([&] {
      Partial sum = partial;
      for (int64_t w = 1; w < schedule::kBlockWarps; ++w) {
        Value* place = b_.CreateNUWAdd(Number(w * width), are_neighbours ? Number(0) : lane);
        sum = steps_.Merge(sum, shared.Load(place));
      }
      return sum;
    });
    EmitBarrier(b_);  // the next block of positions uses the same memory
  }
  e_.CloseScope();
}

}  // namespace

Value* EmitThread(llvm::IRBuilder<>& b) {
  return b.CreateZExt(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {}), b.getInt64Ty());
}

void EmitBarrier(llvm::IRBuilder<>& b) { b.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); }

Value* SharedArray(llvm::Module& module, llvm::Type* type, int64_t elements) {
  auto* array = llvm::ArrayType::get(type, static_cast<uint64_t>(elements));
  auto* memory =
      new llvm::GlobalVariable(module, array, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(array),
                               "shared", nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  memory->setAlignment(llvm::Align(16));
  return memory;
}

void EmitTeam(const BlockSite& site, llvm::function_ref<void(Value*)> finish) { TeamEmitter(site).Run(finish); }

}  // namespace rvm::codegen
