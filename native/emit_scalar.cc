// Moves, constants, arithmetic. The results have the bits of the interpreter's (vm/interpreter/exec_scalar.h), except
// for the payloads of NaNs.
#include <cmath>
#include <cstdint>
#include <limits>

#include "llvm/IR/Intrinsics.h"
#include "native/function_emitter.h"

namespace rvm::native {

using llvm::Intrinsic::fptosi_sat;

// Integers: x/0 = x mod 0 = 0, and the least number divided by -1 wraps.
FunctionEmitter::Value* FunctionEmitter::Divide(Value* a, Value* b, bool wants_rest, bool rounds_down) {
  auto zero = [&]() -> Value* { return Int(0); };
  auto by_minus_one = [&]() -> Value* { return wants_rest ? zero() : b_.CreateNeg(a); };
  auto divide = [&]() -> Value* {
    Value* quotient = b_.CreateSDiv(a, b);
    Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, b));
    if (!rounds_down) return wants_rest ? rest : quotient;
    Value* signs_differ = b_.CreateICmpSLT(b_.CreateXor(a, b), Int(0));
    Value* is_above = b_.CreateAnd(b_.CreateICmpNE(rest, Int(0)), signs_differ);
    if (wants_rest) return b_.CreateAdd(rest, b_.CreateSelect(is_above, b, Int(0)));
    return b_.CreateSub(quotient, b_.CreateZExt(is_above, b_.getInt64Ty()));
  };
  return Choose(b_.CreateICmpEQ(b, Int(0)), /*is_rare=*/true, zero,
                [&] { return Choose(b_.CreateICmpEQ(b, Int(-1)), /*is_rare=*/true, by_minus_one, divide); });
}

// NaN if either is NaN; -0 is below 0.
FunctionEmitter::Value* FunctionEmitter::Minimum(Value* a, Value* b) {
  llvm::Type* type = a->getType();
  Value* nan = llvm::ConstantFP::getQNaN(type);
  llvm::Type* bits = type->isFloatTy() ? b_.getInt32Ty() : b_.getInt64Ty();
  Value* is_negative = b_.CreateICmpSLT(b_.CreateBitCast(a, bits), llvm::ConstantInt::get(bits, 0));
  Value* of_equal = b_.CreateSelect(is_negative, a, b);
  Value* of_different = b_.CreateSelect(b_.CreateFCmpOLT(b, a), b, a);
  Value* least = b_.CreateSelect(b_.CreateFCmpOEQ(a, b), of_equal, of_different);
  return b_.CreateSelect(b_.CreateFCmpUNO(a, b), nan, least);
}

FunctionEmitter::Value* FunctionEmitter::Wrap(Value* value, DataType dtype) {
  if (dtype.is_bool()) return b_.CreateAnd(value, Int(1));
  if (dtype.bits == 64) return value;
  Value* narrow = b_.CreateTrunc(value, b_.getIntNTy(dtype.bits));
  return dtype.is_int() ? b_.CreateSExt(narrow, b_.getInt64Ty()) : b_.CreateZExt(narrow, b_.getInt64Ty());
}

FunctionEmitter::Value* FunctionEmitter::Cast(Value* value, DataType from, DataType to) {
  llvm::Type* type = to == kFloat32 ? b_.getFloatTy() : to == kFloat64 ? b_.getDoubleTy() : b_.getInt64Ty();
  bool is_wide = from == kFloat32 || from == kFloat64;
  if (!from.is_float()) {
    if (to.is_bool()) return b_.CreateZExt(b_.CreateICmpNE(value, Int(0)), b_.getInt64Ty());
    if (!to.is_float()) return Wrap(value, to);
    if (to == kFloat32 || to == kFloat64) {
      return from.is_uint() ? b_.CreateUIToFP(value, type) : b_.CreateSIToFP(value, type);
    }
  }
  if (is_wide && to.is_float() && !type->isIntegerTy()) return b_.CreateFPCast(value, type);
  if (is_wide && (to == kInt32 || to == kInt64)) {
    Value* integer = b_.CreateIntrinsic(fptosi_sat, {b_.getIntNTy(to.bits), value->getType()}, {value});
    return b_.CreateSExt(integer, b_.getInt64Ty());
  }
  Value* slot = Import("rvm_cast", {m_.ToSlot(b_, value), Int(PackDataType(from)), Int(PackDataType(to))});
  return m_.FromSlot(b_, slot, type);
}

// ---- instructions

void FunctionEmitter::EmitMove() { SetResult(Get("src")); }
void FunctionEmitter::EmitLoadInt() { SetResult(Int(static_cast<int32_t>(Immediate("value")))); }
void FunctionEmitter::EmitLoadBits() {
  llvm::Type* type = m_.RegisterType(desc_.registers[RegisterOf("dst")].type);
  SetResult(m_.FromSlot(b_, b_.getInt64(Immediate("bits")), type));
}

void FunctionEmitter::EmitAddI32() { SetResult(Wrap(b_.CreateAdd(A(), B()), kInt32)); }
void FunctionEmitter::EmitSubI32() { SetResult(Wrap(b_.CreateSub(A(), B()), kInt32)); }
void FunctionEmitter::EmitMulI32() { SetResult(Wrap(b_.CreateMul(A(), B()), kInt32)); }
void FunctionEmitter::EmitAddImmI32() { SetResult(Wrap(b_.CreateAdd(A(), Immediate16()), kInt32)); }
void FunctionEmitter::EmitAddInt() { SetResult(b_.CreateAdd(A(), B())); }
void FunctionEmitter::EmitSubInt() { SetResult(b_.CreateSub(A(), B())); }
void FunctionEmitter::EmitMulInt() { SetResult(b_.CreateMul(A(), B())); }
void FunctionEmitter::EmitAddImmInt() { SetResult(b_.CreateAdd(A(), Immediate16())); }
void FunctionEmitter::EmitFloorDivInt() { SetResult(Divide(A(), B(), /*wants_rest=*/false, /*rounds_down=*/true)); }
void FunctionEmitter::EmitFloorModInt() { SetResult(Divide(A(), B(), /*wants_rest=*/true, /*rounds_down=*/true)); }
void FunctionEmitter::EmitTruncDivInt() { SetResult(Divide(A(), B(), /*wants_rest=*/false, /*rounds_down=*/false)); }
void FunctionEmitter::EmitTruncModInt() { SetResult(Divide(A(), B(), /*wants_rest=*/true, /*rounds_down=*/false)); }
void FunctionEmitter::EmitMinInt() { SetResult(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, A(), B())); }
void FunctionEmitter::EmitMaxInt() { SetResult(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, A(), B())); }
void FunctionEmitter::EmitNegInt() { SetResult(b_.CreateNeg(A())); }
void FunctionEmitter::EmitWrapInt() { SetResult(Wrap(A(), *UnpackDataType(OperandOf("dtype").u16()))); }
void FunctionEmitter::EmitAndInt() { SetResult(b_.CreateAnd(A(), B())); }
void FunctionEmitter::EmitOrInt() { SetResult(b_.CreateOr(A(), B())); }
void FunctionEmitter::EmitXorInt() { SetResult(b_.CreateXor(A(), B())); }
void FunctionEmitter::EmitNotBool() { SetResult(b_.CreateXor(A(), Int(1))); }
void FunctionEmitter::EmitEqInt() { SetFlag(b_.CreateICmpEQ(A(), B())); }
void FunctionEmitter::EmitNeInt() { SetFlag(b_.CreateICmpNE(A(), B())); }
void FunctionEmitter::EmitLtInt() { SetFlag(b_.CreateICmpSLT(A(), B())); }
void FunctionEmitter::EmitLeInt() { SetFlag(b_.CreateICmpSLE(A(), B())); }

void FunctionEmitter::EmitAddF32() { SetResult(b_.CreateFAdd(A(), B())); }
void FunctionEmitter::EmitSubF32() { SetResult(b_.CreateFSub(A(), B())); }
void FunctionEmitter::EmitMulF32() { SetResult(b_.CreateFMul(A(), B())); }
void FunctionEmitter::EmitDivF32() { SetResult(b_.CreateFDiv(A(), B())); }
void FunctionEmitter::EmitNegF32() { SetResult(b_.CreateFNeg(A())); }
void FunctionEmitter::EmitSqrtF32() { SetResult(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, A())); }
void FunctionEmitter::EmitMinF32() { SetResult(Minimum(A(), B())); }
void FunctionEmitter::EmitMaxF32() { SetResult(b_.CreateFNeg(Minimum(b_.CreateFNeg(A()), b_.CreateFNeg(B())))); }
void FunctionEmitter::EmitEqF32() { SetFlag(b_.CreateFCmpOEQ(A(), B())); }
void FunctionEmitter::EmitLtF32() { SetFlag(b_.CreateFCmpOLT(A(), B())); }
void FunctionEmitter::EmitLeF32() { SetFlag(b_.CreateFCmpOLE(A(), B())); }

void FunctionEmitter::EmitAddF64() { SetResult(b_.CreateFAdd(A(), B())); }
void FunctionEmitter::EmitSubF64() { SetResult(b_.CreateFSub(A(), B())); }
void FunctionEmitter::EmitMulF64() { SetResult(b_.CreateFMul(A(), B())); }
void FunctionEmitter::EmitDivF64() { SetResult(b_.CreateFDiv(A(), B())); }
void FunctionEmitter::EmitNegF64() { SetResult(b_.CreateFNeg(A())); }
void FunctionEmitter::EmitSqrtF64() { SetResult(b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, A())); }
void FunctionEmitter::EmitMinF64() { SetResult(Minimum(A(), B())); }
void FunctionEmitter::EmitMaxF64() { SetResult(b_.CreateFNeg(Minimum(b_.CreateFNeg(A()), b_.CreateFNeg(B())))); }
void FunctionEmitter::EmitEqF64() { SetFlag(b_.CreateFCmpOEQ(A(), B())); }
void FunctionEmitter::EmitLtF64() { SetFlag(b_.CreateFCmpOLT(A(), B())); }
void FunctionEmitter::EmitLeF64() { SetFlag(b_.CreateFCmpOLE(A(), B())); }

void FunctionEmitter::EmitCast() {
  SetResult(Cast(Get("src"), *UnpackDataType(OperandOf("from").u16()), *UnpackDataType(OperandOf("to").u16())));
}

}  // namespace rvm::native
