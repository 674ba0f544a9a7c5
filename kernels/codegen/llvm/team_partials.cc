#include "kernels/codegen/llvm/team_partials.h"

#include <cstddef>

#include "kernels/codegen/llvm/team_emitter.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace rvm::codegen {

using llvm::Value;

namespace {

Value* ExchangeWord(llvm::IRBuilder<>& b, Value* word, int64_t distance) {
  return b.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {},
                           {b.getInt32(~0u), word, b.getInt32(static_cast<uint32_t>(distance)), b.getInt32(31)});
}

Value* Exchange(llvm::IRBuilder<>& b, Value* value, int64_t distance) {
  llvm::Type* type = value->getType();
  unsigned bits = type->getPrimitiveSizeInBits().getFixedValue();
  llvm::Type* word = b.getInt32Ty();
  Value* raw = b.CreateBitCast(value, b.getIntNTy(bits));
  if (bits <= 32) {
    raw = b.CreateTrunc(ExchangeWord(b, b.CreateZExt(raw, word), distance), b.getIntNTy(bits));
  } else {
    Value* low = ExchangeWord(b, b.CreateTrunc(raw, word), distance);
    Value* high = ExchangeWord(b, b.CreateTrunc(b.CreateLShr(raw, 32), word), distance);
    raw = b.CreateOr(b.CreateZExt(low, raw->getType()), b.CreateShl(b.CreateZExt(high, raw->getType()), 32));
  }
  return b.CreateBitCast(raw, type);
}

}  // namespace

Partial EmitExchange(llvm::IRBuilder<>& b, const Partial& partial, int64_t distance) {
  Partial other;
  for (Value* value : partial) other.push_back(Exchange(b, value, distance));
  return other;
}

SharedPartials::SharedPartials(llvm::Module& module, llvm::IRBuilder<>& b, const Partial& like, int64_t count) : b_(b) {
  for (Value* value : like) {
    types_.push_back(value->getType());
    arrays_.push_back(SharedArray(module, MemoryType(types_.back()), count));
  }
}

void SharedPartials::Store(const Partial& partial, Value* place) {
  for (size_t i = 0; i < partial.size(); ++i) {
    llvm::Type* memory = MemoryType(types_[i]);
    Value* value = memory == types_[i] ? partial[i] : b_.CreateZExt(partial[i], memory);
    b_.CreateStore(value, b_.CreateInBoundsGEP(memory, arrays_[i], place));
  }
}

Partial SharedPartials::Load(Value* place) {
  Partial partial;
  for (size_t i = 0; i < types_.size(); ++i) {
    llvm::Type* memory = MemoryType(types_[i]);
    Value* value = b_.CreateLoad(memory, b_.CreateInBoundsGEP(memory, arrays_[i], place));
    partial.push_back(memory == types_[i] ? value : b_.CreateTrunc(value, types_[i]));
  }
  return partial;
}

}  // namespace rvm::codegen
