#include "kernels/codegen/llvm/block_transpose_emitter.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/codegen/llvm/index_emitter.h"
#include "kernels/codegen/llvm/loop_emitter.h"

namespace rvm::codegen {

using llvm::Value;
using schedule::kBlockThreads;
using schedule::kTransposeTile;
using schedule::kWarpThreads;

namespace {

constexpr int64_t kStride = kTransposeTile + 1;  // words from line to line, so that a column is in different banks

class BlockTransposeEmitter {
 public:
  explicit BlockTransposeEmitter(const BlockSite& site)
      : site_(site),
        b_(site.b),
        e_(site.e),
        i_(site.b, site.e),
        read_axis_(site.nest.axes[*site.nest.transposed]),
        store_axis_(site.nest.axes.back()) {}

  void Run(llvm::function_ref<Value*()> compute, llvm::function_ref<void(Value*)> store);

 private:
  using Element = llvm::function_ref<void(Value* place)>;
  void FindTile();
  void ForEachElement(bool along_reads, Element emit);

  const BlockSite& site_;
  llvm::IRBuilder<>& b_;
  ExprEmitter& e_;
  IndexEmitter i_;
  const te::IndexVar &read_axis_, &store_axis_;
  Value *first_read_ = nullptr, *first_store_ = nullptr;  // positions of both axes where the tile begins
};

// Neighbouring blocks are side by side along the last axis. Binds the other axes.
void BlockTransposeEmitter::FindTile() {
  auto tiles = [&](const te::IndexVar& axis) {
    return i_.Quotient(i_.Plus(e_.EmitExtent(axis.extent), kTransposeTile - 1), kTransposeTile);
  };
  Value *of_store = tiles(store_axis_), *of_read = tiles(read_axis_);
  Value *number = b_.CreateUDiv(site_.block, of_store), *line = b_.CreateURem(number, of_read);
  first_store_ = i_.Times(b_.CreateURem(site_.block, of_store), kTransposeTile);
  first_read_ = i_.Times(line, kTransposeTile);
  std::vector<te::IndexVar> outer;
  for (size_t axis = 0; axis + 1 < site_.nest.axes.size(); ++axis) {
    if (axis != *site_.nest.transposed) outer.push_back(site_.nest.axes[axis]);
  }
  i_.Bind(outer, i_.Decode(outer, b_.CreateUDiv(number, of_read)));
}

// The elements of a thread, of those that the nest has: a warp takes 32 along one axis, and each fourth of the other.
void BlockTransposeEmitter::ForEachElement(bool along_reads, Element emit) {
  Value* thread = EmitThread(b_);
  Value *lane = i_.Remainder(thread, kWarpThreads), *warp = i_.Quotient(thread, kWarpThreads);
  EmitLoop(b_, warp, i_.Number(kTransposeTile), kBlockThreads / kWarpThreads, {},
           [&](Value* other, const std::vector<Value*>&) -> std::vector<Value*> {
             Value *of_read = along_reads ? lane : other, *of_store = along_reads ? other : lane;
             Value *read = b_.CreateNUWAdd(first_read_, of_read), *stored = b_.CreateNUWAdd(first_store_, of_store);
             Value* is_there = b_.CreateAnd(b_.CreateICmpULT(read, e_.EmitExtent(read_axis_.extent)),
                                            b_.CreateICmpULT(stored, e_.EmitExtent(store_axis_.extent)));
             Value* place = b_.CreateNUWAdd(i_.Times(of_read, kStride), of_store);
             EmitIf(b_, is_there, [&] {
               e_.OpenScope();
               e_.Bind(read_axis_, read);
               e_.Bind(store_axis_, stored);
               emit(place);
               e_.CloseScope();
             });
             return {};
           });
}

void BlockTransposeEmitter::Run(llvm::function_ref<Value*()> compute, llvm::function_ref<void(Value*)> store) {
  e_.OpenScope();
  FindTile();
  llvm::Type* type = nullptr;  // of a value
  Value* shared = nullptr;
  ForEachElement(true, [&](Value* place) {
    Value* value = compute();
    type = value->getType();
    if (type->isIntegerTy(1)) value = b_.CreateZExt(value, b_.getInt8Ty());
    shared = SharedArray(site_.module, value->getType(), kTransposeTile * kStride);
    b_.CreateStore(value, b_.CreateInBoundsGEP(value->getType(), shared, place));
  });
  EmitBarrier(b_);
  ForEachElement(false, [&](Value* place) {
    llvm::Type* memory = type->isIntegerTy(1) ? b_.getInt8Ty() : type;
    Value* value = b_.CreateLoad(memory, b_.CreateInBoundsGEP(memory, shared, place));
    store(memory == type ? value : b_.CreateTrunc(value, type));
  });
  EmitBarrier(b_);  // the next tile uses the same memory
  e_.CloseScope();
}

}  // namespace

void EmitBlockTranspose(const BlockSite& site, llvm::function_ref<Value*()> compute,
                        llvm::function_ref<void(Value*)> store) {
  BlockTransposeEmitter(site).Run(compute, store);
}

}  // namespace rvm::codegen
