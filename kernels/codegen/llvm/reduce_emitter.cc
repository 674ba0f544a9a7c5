#include "kernels/codegen/llvm/reduce_emitter.h"

#include <bit>
#include <cstdint>

#include "base/fold.h"

namespace rvm::codegen {

using llvm::Value;
using te::BinaryOp;
using te::ReduceOp;

ReduceEmitter::ReduceEmitter(llvm::IRBuilder<>& builder, ExprEmitter& emitter, const te::ExprNode& reduce)
    : b_(builder),
      e_(emitter),
      reduce_(reduce),
      dtype_(reduce.operands[0].dtype()),
      finds_place_(IsArg(reduce.reduce)) {}

Value* ReduceEmitter::Identity() {
  DataType dtype = IsTruth(reduce_.reduce) ? kBool : dtype_;
  int64_t bits = FoldIdentity(reduce_.reduce, dtype);
  llvm::Type* type = e_.RegisterType(dtype);
  if (dtype.is_float()) return llvm::ConstantFP::get(type, std::bit_cast<double>(bits));
  return llvm::ConstantInt::get(type, static_cast<uint64_t>(bits), /*IsSigned=*/true);
}

std::vector<Value*> ReduceEmitter::Initial() {
  if (!finds_place_) return {Identity()};
  return {Identity(), b_.getInt64(0), b_.getInt64(0)};
}

// Merges two partial results of one value.
Value* ReduceEmitter::Combined(Value* x, Value* y) {
  llvm::IRBuilder<>::FastMathFlagGuard guard(b_);
  llvm::FastMathFlags flags = b_.getFastMathFlags();
  flags.setAllowReassoc(true);
  b_.setFastMathFlags(flags);
  DataType dtype = IsTruth(reduce_.reduce) ? kBool : dtype_;
  return e_.EmitBinary(FoldedOp(reduce_.reduce), dtype, x, y);
}

Value* ReduceEmitter::Fold(Value* best, Value* value) {
  if (IsTruth(reduce_.reduce)) {
    value = dtype_.is_float() ? b_.CreateFCmpUNE(value, llvm::ConstantFP::get(value->getType(), 0))
                              : b_.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0));
  }
  return Combined(best, value);
}

// Returns whether the value replaces the best one. Of equal ones the first, or the last, is the best.
Value* ReduceEmitter::IsBetter(Value* value, Value* best, Value* is_later) {
  bool maximum = reduce_.reduce == ReduceOp::kArgMax || reduce_.reduce == ReduceOp::kArgMaxLast;
  bool last = reduce_.reduce == ReduceOp::kArgMaxLast || reduce_.reduce == ReduceOp::kArgMinLast;
  Value* preferred = last ? is_later : b_.CreateNot(is_later);
  Value* better = e_.EmitBinary(maximum ? BinaryOp::kGreater : BinaryOp::kLess, dtype_, value, best);
  Value* equal = e_.EmitBinary(BinaryOp::kEqual, dtype_, value, best);
  better = b_.CreateOr(better, b_.CreateAnd(equal, preferred));
  if (!dtype_.is_float()) return better;
  // Comparisons with a NaN are false: a NaN beats all but a preferred NaN.
  Value* beats = b_.CreateOr(preferred, b_.CreateFCmpORD(best, best));
  return b_.CreateOr(better, b_.CreateAnd(b_.CreateFCmpUNO(value, value), beats));
}

std::vector<Value*> ReduceEmitter::Combine(const std::vector<Value*>& carried, Value* position) {
  Value* value = e_.Emit(reduce_.operands[0]);
  if (!finds_place_) return {Fold(carried[0], value)};
  Value* count = carried[2];
  if (position == nullptr) position = count;
  Value* better = b_.CreateOr(IsBetter(value, carried[0], b_.getTrue()), b_.CreateICmpEQ(count, b_.getInt64(0)));
  return {b_.CreateSelect(better, value, carried[0]), b_.CreateSelect(better, position, carried[1]),
          b_.CreateNSWAdd(count, b_.getInt64(1))};
}

std::vector<Value*> ReduceEmitter::Merge(const std::vector<Value*>& a, const std::vector<Value*>& b) {
  if (!finds_place_) return {Combined(a[0], b[0])};
  Value* none = b_.getInt64(0);
  Value* better = IsBetter(b[0], a[0], b_.CreateICmpSGT(b[1], a[1]));
  better = b_.CreateAnd(b_.CreateOr(better, b_.CreateICmpEQ(a[2], none)), b_.CreateICmpNE(b[2], none));
  return {b_.CreateSelect(better, b[0], a[0]), b_.CreateSelect(better, b[1], a[1]), b_.CreateNSWAdd(a[2], b[2])};
}

}  // namespace rvm::codegen
