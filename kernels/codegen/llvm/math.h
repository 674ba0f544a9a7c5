// Straight-line float32 mathematics in IR, so that loops over it vectorise.
//
// Errors are a few units in the last place (kernels/codegen/accuracy_test.cc has the bounds); infinities, NaN, overflow
// and underflow behave as in libm. Works on scalars and on vectors.
#ifndef RVM_KERNELS_CODEGEN_LLVM_MATH_H_
#define RVM_KERNELS_CODEGEN_LLVM_MATH_H_

#include "base/element.h"
#include "llvm/IR/IRBuilder.h"

namespace rvm::codegen {

llvm::Value* EmitExp(llvm::IRBuilder<>& b, llvm::Value* x);
// e^x / 2, which overflows later.
llvm::Value* EmitHalfExp(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitTanh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitSigmoid(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitErf(llvm::IRBuilder<>& b, llvm::Value* x);
enum class LogBase { kE, k2, k10 };
llvm::Value* EmitLog(llvm::IRBuilder<>& b, llvm::Value* x, LogBase base);

// In trigonometry.cc. Angles may be as great as floats are.
llvm::Value* EmitSin(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitCos(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitTan(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAsin(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAcos(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAtan(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitSinh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitCosh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAsinh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAcosh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitAtanh(llvm::IRBuilder<>& b, llvm::Value* x);
llvm::Value* EmitPower(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y);

// The bits of small floats (base/element.h), as integers of their width, from and to float, rounding to nearest even.
llvm::Value* EmitBitsToFloat(llvm::IRBuilder<>& b, llvm::Value* bits, const FloatFormat& format);
llvm::Value* EmitFloatToBits(llvm::IRBuilder<>& b, llvm::Value* x, const FloatFormat& format);
llvm::Value* EmitBFloatToFloat(llvm::IRBuilder<>& b, llvm::Value* bits);
// For targets that have an instruction for it.
llvm::Value* EmitHalfToFloat(llvm::IRBuilder<>& b, llvm::Value* bits);
llvm::Value* EmitFloatToBFloat(llvm::IRBuilder<>& b, llvm::Value* x);

}  // namespace rvm::codegen

#endif  // RVM_KERNELS_CODEGEN_LLVM_MATH_H_
