#include "kernels/codegen/llvm/math.h"

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "kernels/codegen/llvm/math_steps.h"
#include "llvm/IR/Intrinsics.h"

// Polynomials were fitted by weighted least squares towards the minimax; each comment states
// the interval.
namespace rvm::codegen {

using llvm::IRBuilder;
using llvm::Value;
using namespace math_steps;  // NOLINT(build/namespaces)

namespace {

// e^x = 2^n * (1 + p), |p| < 0.42
struct ExpParts {
  Value* n;  // an integer; its upper bits are of no use
  Value* p;
  Value* nf;  // n as a float
};

ExpParts SplitExp(IRBuilder<>& b, Value* x) {
  // Adding 1.5 * 2^23 rounds to an integer, which the low bits then hold.
  Value* magic = Float(x, 12582912.0);
  Value* shifted = MulAdd(b, x, Float(x, 1.44269504088896341), magic);
  Value* nf = b.CreateFSub(shifted, magic);
  Value* r = MulAdd(b, nf, Float(x, -0.693145751953125), x);
  r = MulAdd(b, nf, Float(x, -1.42860682030941723212e-6), r);
  Value* q = Polynomial(b, r,
                        {5.000000044e-01, 1.666666637e-01, 4.166636103e-02, 8.333389349e-03, 1.394061735e-03,
                         1.984587625e-04});  // (e^r - 1 - r) / r^2, |r| <= ln2 / 2
  return {AsInt(b, shifted), MulAdd(b, b.CreateFMul(r, r), q, r), nf};
}

// e^x * 2^shift, if that is a normal number.
Value* NormalExp(IRBuilder<>& b, Value* x, int64_t shift) {
  ExpParts e = SplitExp(b, x);
  return b.CreateFMul(b.CreateFAdd(e.p, Float(x, 1)), PowerOfTwo(b, b.CreateAdd(e.n, Int(x, shift)), x->getType()));
}

}  // namespace

Value* EmitExp(IRBuilder<>& b, Value* x, const MathTarget& target) {
  ExpParts e = SplitExp(b, ClampBelow(b, ClampAbove(b, x, 89.0), -104.0));
  Value* power = b.CreateFAdd(e.p, Float(x, 1));
  bool by_instruction = target.has_avx512 && HasVectorInstructions(x);
  return by_instruction ? ScaleByInstruction(b, power, e.nf) : Scale(b, power, e.n);
}

Value* EmitHalfExp(IRBuilder<>& b, Value* x) {
  ExpParts e = SplitExp(b, ClampBelow(b, ClampAbove(b, x, 90.0), -104.0));
  return Scale(b, b.CreateFAdd(e.p, Float(x, 1)), b.CreateSub(e.n, Int(x, 1)));
}

Value* EmitTanh(IRBuilder<>& b, Value* x) {
  // (e^2|x| - 1) / (e^2|x| + 1), keeping e^2|x| - 1 exact near 0.
  Value* twice = b.CreateFMul(ClampAbove(b, Abs(b, x), 10.0), Float(x, 2));
  ExpParts e = SplitExp(b, twice);
  Value* scale = PowerOfTwo(b, e.n, x->getType());
  Value* m = MulAdd(b, e.p, scale, b.CreateFSub(scale, Float(x, 1)));
  return CopySign(b, b.CreateFDiv(m, b.CreateFAdd(m, Float(x, 2))), x);
}

Value* EmitSigmoid(IRBuilder<>& b, Value* x) {
  // e^-|x| does not overflow. Numerator and denominator are 2^64 times what they are: e^-|x| is then a normal number
  // where the result of a negative x is subnormal.
  constexpr int64_t kShift = 64;
  Value* one = Float(x, 0x1p64);
  Value* e = NormalExp(b, ClampBelow(b, b.CreateFNeg(Abs(b, x)), -104.0), kShift);
  Value* above = b.CreateSelect(b.CreateFCmpOLT(x, Float(x, 0)), e, one);
  return b.CreateFDiv(above, b.CreateFAdd(e, one));
}

Value* EmitErf(IRBuilder<>& b, Value* x) {
  Value* a = Abs(b, x);
  Value* square = b.CreateFMul(x, x);
  Value* near =
      b.CreateFMul(x, Polynomial(b, square,
                                 {1.128379166e+00, -3.761262714e-01, 1.128360018e-01, -2.685444459e-02, 5.189535341e-03,
                                  -8.020841295e-04, 7.889119584e-05}));  // erf(x) / x, |x| <= 1
  Value* t = ClampAbove(b, a, 4.0);
  Value* log = Polynomial(
      b, t,
      {1.781241076e-04, -1.129527360e+00, -6.333328481e-01, -1.082784842e-01, 2.510176082e-02, -4.153775864e-03,
       4.265053130e-04, -1.926272062e-05, -1.697468795e-07});  // log(erfc(t)), 0.95 <= t <= 4
  Value* far = CopySign(b, b.CreateFSub(Float(x, 1), NormalExp(b, log, 0)), x);
  return b.CreateSelect(b.CreateFCmpOLT(a, Float(x, 1)), near, far);
}

Value* EmitLog(IRBuilder<>& b, Value* x, LogBase base, const MathTarget& target) {
  bool by_instructions = target.has_avx512 && HasVectorInstructions(x);
  auto [mantissa, ef] = by_instructions ? SplitByInstructions(b, x) : SplitNormal(b, x);
  Value* f = b.CreateFSub(mantissa, Float(x, 1));
  Value* q = Polynomial(
      b, f,
      {3.333333986e-01, -2.500016527e-01, 1.999960480e-01, -1.665529631e-01, 1.427624028e-01, -1.272778509e-01,
       1.170065369e-01, -9.116141889e-02, 3.767246319e-02});  // (log(1 + f) - f + f^2 / 2) / f^3
  Value* square = b.CreateFMul(f, f);
  Value* tail = MulAdd(b, b.CreateFMul(square, f), q, b.CreateFMul(square, Float(x, -0.5)));
  Value* result = nullptr;
  if (base == LogBase::kE) {
    tail = MulAdd(b, ef, Float(x, 1.42860682030941723212e-6), tail);
    result = MulAdd(b, ef, Float(x, 0.693145751953125), b.CreateFAdd(f, tail));
  } else if (base == LogBase::k2) {
    // f by 1 and by the rest of 1 / log(2), which is rounded where it is small beside the sum.
    Value* rest = MulAdd(b, f, Float(x, 0.44269504088896341), b.CreateFMul(tail, Float(x, 1.44269504088896341)));
    result = b.CreateFAdd(b.CreateFAdd(ef, f), rest);
  } else {
    // The high part of the factor has few bits, so that e times it is exact.
    Value* fraction = b.CreateFMul(b.CreateFAdd(f, tail), Float(x, 0.434294481903251828));
    Value* low = MulAdd(b, ef, Float(x, 4.6050389811952137e-6), fraction);
    result = MulAdd(b, ef, Float(x, 0.301025390625), low);
  }
  if (by_instructions) return result;
  result = b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, kInfinity)), Float(x, kInfinity), result);
  result = b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, 0)), Float(x, -kInfinity), result);
  Value* bad = b.CreateFCmpULT(x, Float(x, 0));  // negative or NaN
  return b.CreateSelect(bad, Float(x, std::numeric_limits<float>::quiet_NaN()), result);
}

// float, or a vector of as many as `bits`.
static llvm::Type* FloatsFor(IRBuilder<>& b, Value* bits) {
  auto* vector = llvm::dyn_cast<llvm::VectorType>(bits->getType());
  return vector == nullptr ? b.getFloatTy() : llvm::VectorType::get(b.getFloatTy(), vector->getElementCount());
}

Value* EmitBitsToFloat(IRBuilder<>& b, Value* bits, const FloatFormat& format) {
  llvm::Type* f32 = FloatsFor(b, bits);
  llvm::Type* u32 = bits->getType()->getWithNewBitWidth(32);
  Value* u = b.CreateZExt(bits, u32);
  Value* magnitude = b.CreateAnd(u, format.sign() - 1);
  Value* sign = b.CreateShl(b.CreateAnd(u, format.sign()), static_cast<uint64_t>(32 - format.bits()));
  Value* moved = b.CreateShl(magnitude, static_cast<uint64_t>(23 - format.fraction_bits));
  // Multiplying corrects the bias of the exponent, also for subnormals.
  Value* finite =
      b.CreateBitCast(b.CreateFMul(b.CreateBitCast(moved, f32), llvm::ConstantFP::get(f32, format.scale())), u32);
  Value* special = b.CreateOr(moved, 0x7f800000);
  Value* result =
      b.CreateSelect(b.CreateICmpUGE(magnitude, llvm::ConstantInt::get(u32, format.first_special())), special, finite);
  return b.CreateBitCast(b.CreateOr(result, sign), f32);
}

Value* EmitFloatToBits(IRBuilder<>& b, Value* x, const FloatFormat& format) {
  Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  Value* magnitude = b.CreateAnd(bits, 0x7fffffff);
  Value* sign = b.CreateAnd(b.CreateLShr(bits, static_cast<uint64_t>(32 - format.bits())), format.sign());
  // The sum is a multiple of the least subnormal, rounded.
  float rounder = format.subnormal_rounder();
  Value* sum = b.CreateFAdd(b.CreateBitCast(magnitude, b.getFloatTy()), llvm::ConstantFP::get(b.getFloatTy(), rounder));
  Value* small = b.CreateSub(b.CreateBitCast(sum, b.getInt32Ty()), b.getInt32(std::bit_cast<uint32_t>(rounder)));
  auto shift = static_cast<uint64_t>(23 - format.fraction_bits);
  Value* odd = b.CreateAnd(b.CreateLShr(magnitude, shift), 1);
  Value* rounded = b.CreateAdd(b.CreateAdd(magnitude, odd), b.getInt32((1u << (shift - 1)) - 1));
  Value* normal = b.CreateLShr(b.CreateSub(rounded, b.getInt32(format.rebias())), shift);
  Value* overflow = b.getInt32(format.overflow());
  normal = b.CreateSelect(b.CreateICmpULT(normal, overflow), normal, overflow);
  Value* result = b.CreateSelect(b.CreateICmpULT(magnitude, b.getInt32(format.least_normal())), small, normal);
  result = b.CreateSelect(b.CreateICmpUGT(magnitude, b.getInt32(0x7f800000)), b.getInt32(format.nan()), result);
  return b.CreateTrunc(b.CreateOr(result, sign), b.getIntNTy(static_cast<unsigned>(format.bits())));
}

Value* EmitBFloatToFloat(IRBuilder<>& b, Value* bits) {
  llvm::Type* u32 = bits->getType()->getWithNewBitWidth(32);
  return b.CreateBitCast(b.CreateShl(b.CreateZExt(bits, u32), 16), FloatsFor(b, bits));
}

Value* EmitHalfToFloat(IRBuilder<>& b, Value* bits) {
  llvm::Type* floats = FloatsFor(b, bits);
  llvm::Type* halves = b.getHalfTy();
  if (auto* vector = llvm::dyn_cast<llvm::VectorType>(floats)) {
    halves = llvm::VectorType::get(halves, vector->getElementCount());
  }
  return b.CreateFPExt(b.CreateBitCast(bits, halves), floats);
}

Value* EmitFloatToBFloat(IRBuilder<>& b, Value* x) {
  Value* bits = b.CreateBitCast(x, b.getInt32Ty());
  Value* odd = b.CreateAnd(b.CreateLShr(bits, 16), 1);
  Value* rounded = b.CreateAdd(b.CreateAdd(bits, odd), b.getInt32(0x7fff));
  Value* nan = b.CreateOr(bits, 0x400000);
  Value* is_nan = b.CreateICmpUGT(b.CreateAnd(bits, 0x7fffffff), b.getInt32(0x7f800000));
  return b.CreateTrunc(b.CreateLShr(b.CreateSelect(is_nan, nan, rounded), 16), b.getInt16Ty());
}

}  // namespace rvm::codegen
