#include "kernels/codegen/llvm/reduce_emitter.h"

#include "base/check.h"

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
  llvm::Type* type = e_.RegisterType(dtype_);
  bool maximum = reduce_.reduce == ReduceOp::kMaximum;
  switch (reduce_.reduce) {
    case ReduceOp::kProduct:
      return dtype_.is_float() ? llvm::ConstantFP::get(type, 1) : llvm::ConstantInt::get(type, 1);
    case ReduceOp::kAll: return b_.getTrue();
    case ReduceOp::kAny: return b_.getFalse();
    case ReduceOp::kMaximum:
    case ReduceOp::kMinimum: {
      if (dtype_.is_float()) return llvm::ConstantFP::getInfinity(type, maximum);
      unsigned bits = dtype_.bits;
      if (!dtype_.is_int())
        return llvm::ConstantInt::get(type, maximum ? llvm::APInt(bits, 0) : llvm::APInt::getMaxValue(bits));
      return llvm::ConstantInt::get(
          type, maximum ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
    }
    case ReduceOp::kSum:
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMaxLast:
    case ReduceOp::kArgMinLast: return llvm::Constant::getNullValue(type);
  }
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
  switch (reduce_.reduce) {
    case ReduceOp::kSum: return e_.EmitBinary(BinaryOp::kAdd, dtype_, x, y);
    case ReduceOp::kProduct: return e_.EmitBinary(BinaryOp::kMultiply, dtype_, x, y);
    case ReduceOp::kMaximum: return e_.EmitBinary(BinaryOp::kMaximum, dtype_, x, y);
    case ReduceOp::kMinimum: return e_.EmitBinary(BinaryOp::kMinimum, dtype_, x, y);
    case ReduceOp::kAll: return b_.CreateAnd(x, y);
    case ReduceOp::kAny: return b_.CreateOr(x, y);
    case ReduceOp::kArgMax:
    case ReduceOp::kArgMin:
    case ReduceOp::kArgMaxLast:
    case ReduceOp::kArgMinLast: RVM_UNREACHABLE("not a fold");
  }
}

Value* ReduceEmitter::Fold(Value* best, Value* value) {
  if (reduce_.reduce == ReduceOp::kAll || reduce_.reduce == ReduceOp::kAny) {
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
