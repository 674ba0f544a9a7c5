// Results of direct kernel calls: tensors of static shapes. A result lies where the compiler planned it, takes the
// memory of an argument that the call consumes and nobody else has, or is a block of the pool: as KernelCaller decides.
// The VM makes calls that need more.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/abi/machine_abi.h"
#include "llvm/IR/Constants.h"
#include "llvm/Support/MathExtras.h"
#include "native/direct_call.h"

namespace rvm::native {
namespace {

using llvm::Value;

bool IsOnHeap(const KernelTensor& type, const Operand* offsets, uint32_t result) {
  return !type.dims.empty() && (offsets == nullptr || offsets->u32(result) == kNoOffset);
}

// Returns Heap::BlockBytes for the elements of a tensor of this type.
int64_t BlockBytes(const KernelTensor& type) {
  int64_t bytes = type.dtype.bytes();
  for (const Dim& dim : type.dims) bytes *= dim.constant();
  return kRvmTensorHeaderBytes + llvm::alignTo(bytes, kRvmTensorHeaderBytes);
}

}  // namespace

// Returns the memory of a consumed argument without other owners that the result may have; null if there is none.
Value* FunctionEmitter::TakeArgument(DirectCall& call, uint32_t result) {
  Value* none = llvm::ConstantPointerNull::get(b_.getPtrTy());
  Value* taken = none;
  for (const KernelDesc::Reuse& reuse : call.kernel.reuses) {
    if (reuse.result != result || !call.IsMoved(reuse.param)) continue;
    Value* tensor = Get(call.RegisterOf(reuse.param));
    Value* count = Load(b_.getInt32Ty(), tensor, kRvmCountOffset);
    Value* storage = Load(b_.getInt8Ty(), tensor, kRvmTensorStorageOffset);
    Value* fits = b_.CreateAnd(b_.CreateICmpEQ(count, b_.getInt32(1), "is_alone"),
                               b_.CreateICmpEQ(storage, b_.getInt8(kRvmTensorInline)));
    Value*& is_taken = call.is_taken[reuse.param];
    if (is_taken != nullptr) fits = b_.CreateAnd(fits, b_.CreateNot(is_taken, "is_left"));
    if (taken != none) fits = b_.CreateAnd(fits, b_.CreateIsNull(taken));
    is_taken = is_taken == nullptr ? fits : b_.CreateOr(is_taken, fits);
    taken = b_.CreateSelect(fits, tensor, taken);
  }
  return taken;
}

// Writes a header of a tensor whose elements follow it.
void FunctionEmitter::WriteTensor(Value* place, const KernelTensor& type, bool is_planned) {
  uint64_t storage = is_planned ? kRvmTensorBorrowed : kRvmTensorInline;
  uint64_t word = std::bit_cast<uint32_t>(type.dtype);
  word |= uint64_t{type.dims.size()} << (8 * (kRvmTensorRankOffset - kRvmTensorTypeOffset));
  word |= storage << (8 * (kRvmTensorStorageOffset - kRvmTensorTypeOffset));
  std::vector<uint64_t> extents;
  for (const Dim& dim : type.dims) extents.push_back(static_cast<uint64_t>(dim.constant()));
  // Tag and heap layout of a tensor are 0.
  Store(Int(is_planned ? kRvmImmortalCount : 1), place, kRvmCountOffset);
  Store(b_.getInt64(word), place, kRvmTensorTypeOffset);
  Store(At(place, kRvmTensorHeaderBytes), place, kRvmTensorDataOffset);
  Store(Int(is_planned ? 0 : BlockBytes(type)), place, kRvmTensorBytesOffset);
  Store(m_.Extents(extents), place, kRvmTensorDimsOffset);
}

Value* FunctionEmitter::PlaceTensor(const KernelTensor& type, uint32_t offset) {
  Value* place = At(window_, offset);
  WriteTensor(place, type, /*is_planned=*/true);
  return place;
}

// Finds blocks of the pool for the results `wanted`. Without them, the VM makes the call: nothing has changed.
std::vector<FunctionEmitter::FreeBlock> FunctionEmitter::FindBlocks(const DirectCall& call,
                                                                    std::span<const uint32_t> wanted) {
  std::vector<FreeBlock> blocks;
  for (uint32_t result : wanted) {
    int64_t size_class = BlockBytes(call.kernel.results[result]) / kRvmTensorHeaderBytes;
    auto pool = static_cast<int64_t>(offsetof(RvmHeap, blocks) + offsetof(RvmPool, free));
    FreeBlock block = FindBlock(pool + size_class * static_cast<int64_t>(sizeof(void*)), blocks);
    Block* there = NewBlock("block");
    b_.CreateCondBr(block.is_there, there, call.by_the_vm);
    b_.SetInsertPoint(there);
    blocks.push_back(block);
  }
  return blocks;
}

// Makes the result in a block of the pool.
Value* FunctionEmitter::NewTensor(const DirectCall& call, uint32_t result, const FreeBlock& block) {
  const KernelTensor& type = call.kernel.results[result];
  TakeBlock(block, BlockBytes(type));
  WriteTensor(block.block, type, /*is_planned=*/false);
  return block.block;
}

// Makes the tensors of results on the heap. Those that may have the memory of an argument get it, if there are others;
// one alone may also be new.
void FunctionEmitter::MakeOnHeap(DirectCall& call, std::span<const uint32_t> results, std::vector<Value*>& tensors) {
  std::vector<uint32_t> new_ones;
  for (uint32_t i : results) {
    tensors[i] = TakeArgument(call, i);
    if (llvm::isa<llvm::ConstantPointerNull>(tensors[i])) {
      new_ones.push_back(i);
      continue;
    }
    Value* is_none = b_.CreateIsNull(tensors[i]);
    if (results.size() == 1) {
      Value* taken = tensors[i];
      auto make = [&] { return NewTensor(call, i, FindBlocks(call, {&i, 1})[0]); };
      tensors[i] = Choose(is_none, /*is_rare=*/false, make, [&] { return taken; });
      return;
    }
    Block* go_on = NewBlock("taken");
    b_.CreateCondBr(is_none, call.by_the_vm, go_on);
    b_.SetInsertPoint(go_on);
  }
  std::vector<FreeBlock> blocks = FindBlocks(call, new_ones);
  for (size_t i = 0; i < new_ones.size(); ++i) tensors[new_ones[i]] = NewTensor(call, new_ones[i], blocks[i]);
}

// Makes the tensors for all results, null for scalars, and stores where their elements are.
std::vector<Value*> FunctionEmitter::MakeResults(DirectCall& call) {
  const Operand* offsets = at_.opcode() == Opcode::kCallKernelPlanned ? &OperandOf("offsets") : nullptr;
  std::vector<uint32_t> on_heap;
  std::vector<Value*> tensors(call.dsts.count, nullptr);
  for (uint32_t i = 0; i < call.dsts.count; ++i) {
    const KernelTensor& type = call.kernel.results[i];
    if (IsOnHeap(type, offsets, i)) {
      on_heap.push_back(i);
    } else if (!type.dims.empty()) {
      tensors[i] = PlaceTensor(type, offsets->u32(i));
    }
  }
  MakeOnHeap(call, on_heap, tensors);
  for (uint32_t i = 0; i < call.dsts.count; ++i) {
    const KernelTensor& type = call.kernel.results[i];
    int64_t place = (int64_t{call.args.count} + i) * 8;
    Value* data = type.dims.empty() ? At(call.scalars, place) : Load(b_.getPtrTy(), tensors[i], kRvmTensorDataOffset);
    Store(data, call.buffers, place);
    // The argument whose memory it has may have elements of another type.
    bool changes = std::any_of(call.kernel.reuses.begin(), call.kernel.reuses.end(), [&](const KernelDesc::Reuse& r) {
      return r.result == i && call.kernel.params[r.param].dtype != type.dtype;
    });
    if (changes) Store(b_.getInt32(std::bit_cast<uint32_t>(type.dtype)), tensors[i], kRvmTensorTypeOffset);
  }
  return tensors;
}

}  // namespace rvm::native
