// Building blocks of the functions of math.h.
#ifndef RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_
#define RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"

namespace rvm::codegen::math_steps {

using llvm::IRBuilder;
using llvm::Value;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Value* Float(Value* like, double value) { return llvm::ConstantFP::get(like->getType(), value); }

inline llvm::Type* IntType(Value* x) {
  llvm::Type* element = llvm::Type::getInt32Ty(x->getContext());
  auto* vector = llvm::dyn_cast<llvm::VectorType>(x->getType());
  return vector == nullptr ? element : llvm::VectorType::get(element, vector->getElementCount());
}

inline Value* Int(Value* like_float, int64_t value) {
  return llvm::ConstantInt::get(IntType(like_float), static_cast<uint64_t>(value) & 0xffffffffu);
}

inline Value* AsInt(IRBuilder<>& b, Value* x) { return b.CreateBitCast(x, IntType(x)); }

inline Value* MulAdd(IRBuilder<>& b, Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fmuladd, {x->getType()}, {x, y, z});
}

// Lowest power first.
inline Value* Polynomial(IRBuilder<>& b, Value* x, std::initializer_list<double> coefficients) {
  const double* c = coefficients.end() - 1;
  Value* sum = Float(x, *c);
  while (c != coefficients.begin()) sum = MulAdd(b, sum, x, Float(x, *--c));
  return sum;
}

inline Value* Abs(IRBuilder<>& b, Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
inline Value* CopySign(IRBuilder<>& b, Value* x, Value* sign) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
}
// A NaN passes through.
inline Value* ClampAbove(IRBuilder<>& b, Value* x, double limit) {
  return b.CreateSelect(b.CreateFCmpOGT(x, Float(x, limit)), Float(x, limit), x);
}
inline Value* ClampBelow(IRBuilder<>& b, Value* x, double limit) {
  return b.CreateSelect(b.CreateFCmpOLT(x, Float(x, limit)), Float(x, limit), x);
}

// 2^n for an integer n in the normal range. Only the low 9 bits of n count.
inline Value* PowerOfTwo(IRBuilder<>& b, Value* n, llvm::Type* type) {
  Value* biased = b.CreateAdd(n, llvm::ConstantInt::get(n->getType(), 127));
  return b.CreateBitCast(b.CreateShl(biased, 23), type);
}
// x * 2^n, in two steps: 2^n itself may overflow, or be subnormal. Only the low 10 bits of n count.
inline Value* Scale(IRBuilder<>& b, Value* x, Value* n) {
  Value* half = b.CreateAShr(n, 1);
  Value* scaled = b.CreateFMul(x, PowerOfTwo(b, half, x->getType()));
  return b.CreateFMul(scaled, PowerOfTwo(b, b.CreateSub(n, half), x->getType()));
}

}  // namespace rvm::codegen::math_steps

#endif  // RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_
