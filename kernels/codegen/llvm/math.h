// Straight-line float32 mathematics in IR, so that loops over it vectorise.
//
// Errors are a few units in the last place (kernels/codegen/accuracy_test.cc has the bounds); infinities, NaN, overflow
// and underflow behave as in libm. Works on scalars and on vectors.
#ifndef RVM_KERNELS_CODEGEN_LLVM_MATH_H_
#define RVM_KERNELS_CODEGEN_LLVM_MATH_H_

#include <cstdint>

#include "base/element.h"
#include "llvm/IR/IRBuilder.h"

namespace rvm::codegen {

// Instructions of the machine that functions make use of.
struct MathTarget {
  bool has_fma = false;     // products and sums of float32 are rounded once
  bool has_avx512 = false;  // with avx512vl and avx512dq
};

llvm::Value* EmitExp(llvm::IRBuilder<>& b, llvm::Value* x, const MathTarget& target = {});
// e^x / 2, which overflows later.
llvm::Value* EmitHalfExp(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitTanh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitSigmoid(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitErf(llvm::IRBuilder<>& b, llvm::Value* x);
enum class LogBase { kE, k2, k10 };
llvm::Value* EmitLog(llvm::IRBuilder<>& b, llvm::Value* x, LogBase base, const MathTarget& target = {});

// In trigonometry.cc. Angles may be as great as floats are.
llvm::Value* EmitSin(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitCos(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitTan(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAsin(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAcos(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAtan(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitSinh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitCosh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAsinh(llvm::IRBuilder<>& b, llvm::Value* x, const MathTarget& target = {});
llvm::Value* EmitAcosh(llvm::IRBuilder<>& b, llvm::Value* x, const MathTarget& target = {});
llvm::Value* EmitAtanh(llvm::IRBuilder<>& b, llvm::Value* x, const MathTarget& target = {});

// In near_angles.cc: a function of angles of moderate size, for machines that have fused products and sums.
struct NearValue {
  llvm::Value* value;
  llvm::Value* is_far;  // by lane: the angle is too great, or a NaN, and the value is of no use
};
// sin(x + quarters * pi / 2), for 0 or 1 quarters.
NearValue EmitNearSin(llvm::IRBuilder<>& b, llvm::Value* x, int64_t quarters);
NearValue EmitNearTan(llvm::IRBuilder<>& b, llvm::Value* x);

// In power.cc.
struct UsualPower {
  llvm::Value* value;       // |x|^y
  llvm::Value* is_unusual;  // by lane: x is not a positive number, or one of both is infinite or NaN
};
UsualPower EmitPowerOfMagnitude(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const MathTarget& target);
// x^y, from |x|^y.
llvm::Value* EmitSpecialPowers(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, llvm::Value* of_magnitude);
llvm::Value* EmitPower(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y, const MathTarget& target = {});

// Returns the bits of small floats (base/element.h), as integers of their width, from and to float, rounding to nearest
// even.
llvm::Value* EmitBitsToFloat(llvm::IRBuilder<>& b, llvm::Value* bits, const FloatFormat& format);
llvm::Value* EmitFloatToBits(llvm::IRBuilder<>& b, llvm::Value* x, const FloatFormat& format);
llvm::Value* EmitBFloatToFloat(llvm::IRBuilder<>& b, llvm::Value* bits);
// For targets that have an instruction for it.
llvm::Value* EmitHalfToFloat(llvm::IRBuilder<>& b, llvm::Value* bits);
llvm::Value* EmitFloatToBFloat(llvm::IRBuilder<>& b, llvm::Value* x);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_MATH_H_
