// Building blocks of the functions of math.h.
#ifndef RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_
#define RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/IntrinsicsX86.h"

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

// x = mantissa * 2^exponent with the mantissa in [3/4, 3/2), both floats, for positive numbers.
struct NormalParts {
  Value* mantissa;
  Value* exponent;
};
inline NormalParts SplitNormal(IRBuilder<>& b, Value* x) {
  // Subnormals are scaled up first.
  Value* tiny = b.CreateFCmpOLT(x, Float(x, 0x1p-126));
  Value* bits = AsInt(b, b.CreateSelect(tiny, b.CreateFMul(x, Float(x, 0x1p23)), x));
  Value* offset = b.CreateSub(bits, Int(x, 0x3f400000));
  Value* mantissa = b.CreateAdd(b.CreateAnd(offset, Int(x, 0x7fffff)), Int(x, 0x3f400000));
  Value* exponent = b.CreateSIToFP(b.CreateAShr(offset, 23), x->getType());
  exponent = b.CreateFAdd(exponent, b.CreateSelect(tiny, Float(x, -23), Float(x, 0)));
  return {b.CreateBitCast(mantissa, x->getType()), exponent};
}

// Returns whether x is a vector that AVX-512 has instructions for.
inline bool HasVectorInstructions(Value* x) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  return vector != nullptr && (vector->getNumElements() == 8 || vector->getNumElements() == 16);
}

// Likewise, by instructions of AVX-512. The exponent of zero is minus infinity, that of infinity is infinity; the
// mantissa of a negative number and of a NaN is a NaN.
inline NormalParts SplitByInstructions(IRBuilder<>& b, Value* x) {
  // The interval [3/4, 3/2), and NaN for negative numbers.
  constexpr uint32_t kInterval = 3 + (2 << 2);
  constexpr uint32_t kCurrentRounding = 4;
  bool wide = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements() == 16;
  Value* undefined = llvm::PoisonValue::get(x->getType());
  Value* all = wide ? b.getInt16(0xffff) : b.getInt8(0xff);
  auto exponent_of = [&](Value* y) -> Value* {
    if (wide) {
      return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_getexp_ps_512, {},
                               {y, undefined, all, b.getInt32(kCurrentRounding)});
    }
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_getexp_ps_256, {}, {y, undefined, all});
  };
  llvm::SmallVector<Value*, 5> args = {x, b.getInt32(kInterval), undefined, all};
  if (wide) args.push_back(b.getInt32(kCurrentRounding));
  llvm::Intrinsic::ID id =
      wide ? llvm::Intrinsic::x86_avx512_mask_getmant_ps_512 : llvm::Intrinsic::x86_avx512_mask_getmant_ps_256;
  Value* mantissa = b.CreateIntrinsic(id, {}, args);
  return {mantissa, b.CreateFSub(exponent_of(x), exponent_of(mantissa))};
}

// x * 2^n for an integer n as a float, rounded once, by an instruction of AVX-512.
inline Value* ScaleByInstruction(IRBuilder<>& b, Value* x, Value* n) {
  constexpr uint32_t kCurrentRounding = 4;
  Value* undefined = llvm::PoisonValue::get(x->getType());
  if (llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements() == 16) {
    return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_512, {},
                             {x, n, undefined, b.getInt16(0xffff), b.getInt32(kCurrentRounding)});
  }
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_scalef_ps_256, {}, {x, n, undefined, b.getInt8(0xff)});
}

// Returns the vector of `element` with the lanes of x; `element` itself for a scalar.
inline llvm::Type* Like(Value* x, llvm::Type* element) {
  auto* vector = llvm::dyn_cast<llvm::VectorType>(x->getType());
  return vector == nullptr ? element : llvm::VectorType::get(element, vector->getElementCount());
}
inline Value* Widen(IRBuilder<>& b, Value* x) { return b.CreateFPExt(x, Like(x, b.getDoubleTy())); }
inline Value* Narrow(IRBuilder<>& b, Value* x) { return b.CreateFPTrunc(x, Like(x, b.getFloatTy())); }

}  // namespace rvm::codegen::math_steps

#endif  // RVM_KERNELS_CODEGEN_LLVM_MATH_STEPS_H_
