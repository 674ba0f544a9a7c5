// Powers. Logarithms are taken in float64, so that products with great exponents are accurate.
//
// Polynomials as in math.cc.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/codegen/llvm/math.h"
#include "kernels/codegen/llvm/math_steps.h"

namespace rvm::codegen {

using llvm::IRBuilder;
using llvm::Value;
using namespace math_steps;  // NOLINT(build/namespaces)

namespace {

constexpr double kLn2 = 0.693147180559945309417;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// log2 of a float64 that is no subnormal, and not negative.
Value* Log2(IRBuilder<>& b, Value* x) {
  llvm::Type* i64 = Like(x, b.getInt64Ty());
  auto integer = [&](uint64_t value) { return llvm::ConstantInt::get(i64, value); };
  // m in [sqrt(1/2), sqrt(2)) and e with x = m * 2^e.
  Value* offset = b.CreateSub(b.CreateBitCast(x, i64), integer(0x3fe6a09e667f3bcd));
  Value* e = b.CreateTrunc(b.CreateAShr(offset, 52), Like(x, b.getInt32Ty()));
  Value* bits = b.CreateAdd(b.CreateAnd(offset, integer(0xfffffffffffff)), integer(0x3fe6a09e667f3bcd));
  Value* m = b.CreateBitCast(bits, x->getType());
  Value* s = b.CreateFDiv(b.CreateFSub(m, Float(x, 1)), b.CreateFAdd(m, Float(x, 1)));
  auto term = [](int i) { return 2 / (kLn2 * (2 * i + 1)); };
  Value* series = Polynomial(b, b.CreateFMul(s, s), {term(0), term(1), term(2), term(3), term(4), term(5), term(6)});
  Value* result = MulAdd(b, s, series, b.CreateSIToFP(e, x->getType()));
  result = b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, 0)), Float(x, -kInfinity), result);
  return b.CreateSelect(b.CreateFCmpOLT(x, Float(x, kInfinity)), result, x);
}

// The parts of the logarithm that depend on the first bits of the mantissa m in [3/4, 3/2): an inverse of so few bits
// that m times it, less 1, is exact as a float, and minus its logarithm. At 1 the logarithm is exactly 0.
constexpr float kInverse[16] = {1,       0.90625F, 0.875F,  0.8125F, 0.78125F, 0.75F,   0.71875F, 0.6875F,
                                1.3125F, 1.25F,    1.1875F, 1.1875F, 1.125F,   1.0625F, 1.0625F,  1};

// Returns the elements at indices whose low four bits count.
Value* LookUp(IRBuilder<>& b, Value* index, llvm::ArrayRef<llvm::Constant*> table) {
  llvm::Constant* all = llvm::ConstantVector::get(table);
  auto* lanes = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  if (lanes == nullptr) return b.CreateExtractElement(all, b.CreateAnd(index, b.getInt32(15)));
  // Vectors of fewer lanes are the first ones of 16.
  llvm::SmallVector<int, 16> first(16), mine(lanes->getNumElements());
  for (int i = 0; i < 16; ++i) first[static_cast<size_t>(i)] = i;
  for (unsigned i = 0; i < mine.size(); ++i) mine[i] = static_cast<int>(i);
  for (size_t i = mine.size(); i < 16; ++i) first[i] = 0;
  Value* wide = b.CreateShuffleVector(index, first);
  Value* found = nullptr;
  if (table[0]->getType()->isFloatTy()) {
    found = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_permvar_sf_512, {}, {all, wide});
  } else {
    Value* low = llvm::ConstantVector::get(table.take_front(8));
    Value* high = llvm::ConstantVector::get(table.drop_front(8));
    auto half = [&](llvm::ArrayRef<int> part) {
      Value* at = b.CreateZExt(b.CreateShuffleVector(wide, part), llvm::FixedVectorType::get(b.getInt64Ty(), 8));
      return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_pd_512, {}, {low, at, high});
    };
    found = b.CreateShuffleVector(half({0, 1, 2, 3, 4, 5, 6, 7}), half({8, 9, 10, 11, 12, 13, 14, 15}),
                                  {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15});
  }
  return mine.size() == 16 ? found : b.CreateShuffleVector(found, mine);
}

// log2 of a float32 that is not negative, as a float64, without a division.
Value* Log2ByTable(IRBuilder<>& b, Value* x) {
  llvm::SmallVector<llvm::Constant*, 16> inverses, logs;
  for (float inverse : kInverse) {
    inverses.push_back(llvm::ConstantFP::get(b.getFloatTy(), inverse));
    logs.push_back(llvm::ConstantFP::get(b.getDoubleTy(), -std::log2(double{inverse})));
  }
  NormalParts parts;
  if (HasVectorInstructions(x)) {
    parts = SplitByInstructions(b, x);
  } else {
    parts = SplitNormal(b, x);
    parts.exponent = b.CreateSelect(b.CreateFCmpOLT(x, Float(x, kInfinity)), parts.exponent, x);
    parts.exponent = b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, 0)), Float(x, -kInfinity), parts.exponent);
  }
  Value* index = b.CreateLShr(AsInt(b, parts.mantissa), 19);
  Value* rest = MulAdd(b, parts.mantissa, LookUp(b, index, inverses), Float(x, -1));
  Value* wide = Widen(b, rest);
  Value* sum = b.CreateFAdd(Widen(b, parts.exponent), LookUp(b, index, logs));
  Value* series = Polynomial(b, wide,
                             {1.4426950408928678, -0.72134750894469113, 0.48089827913019606, -0.36070229702056367,
                              0.28882227727206067, -0.22603196237075635});  // log2(1 + t) / t, |t| <= 1/16
  return MulAdd(b, wide, series, sum);
}

// 2^x of a float64, as a float.
Value* Exp2(IRBuilder<>& b, Value* x, Value* like, const MathTarget& target) {
  Value* t = ClampBelow(b, ClampAbove(b, x, 160), -160);
  // Adding 1.5 * 2^52 rounds to an integer, which the low bits then hold.
  Value* magic = Float(t, 0x1.8p52);
  Value* shifted = b.CreateFAdd(t, magic);
  Value* whole = b.CreateFSub(shifted, magic);
  Value* f = Narrow(b, b.CreateFSub(t, whole));
  Value* p = Polynomial(b, f,
                        {1.0, 6.931471805e-01, 2.402265121e-01, 5.550410976e-02, 9.618025604e-03, 1.333342265e-03,
                         1.546973165e-04, 1.531646116e-05});
  if (target.has_avx512 && HasVectorInstructions(like)) return ScaleByInstruction(b, p, Narrow(b, whole));
  return Scale(b, p, b.CreateTrunc(b.CreateBitCast(shifted, Like(x, b.getInt64Ty())), IntType(like)));
}

}  // namespace

UsualPower EmitPowerOfMagnitude(IRBuilder<>& b, Value* x, Value* y, const MathTarget& target) {
  Value* a = Abs(b, x);
  Value* log = target.has_avx512 ? Log2ByTable(b, a) : Log2(b, Widen(b, a));
  Value* value = Exp2(b, b.CreateFMul(Widen(b, y), log), x, target);
  // Less 1, the bits of positive numbers are below those of infinity.
  Value* infinite = Int(x, 0x7f800000);
  Value* not_positive = b.CreateICmpUGE(b.CreateSub(AsInt(b, x), Int(x, 1)), b.CreateSub(infinite, Int(x, 1)));
  Value* not_finite = b.CreateICmpUGE(AsInt(b, Abs(b, y)), infinite);
  return {value, b.CreateOr(not_positive, not_finite)};
}

Value* EmitSpecialPowers(IRBuilder<>& b, Value* x, Value* y, Value* of_magnitude) {
  Value* a = Abs(b, x);
  Value* one = Float(x, 1);
  Value* result = of_magnitude;
  auto is_whole = [&](Value* v) { return b.CreateFCmpOEQ(b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, v), v); };
  Value *whole = is_whole(y), *even = is_whole(b.CreateFMul(y, Float(y, 0.5)));
  Value* odd = b.CreateAnd(whole, b.CreateNot(even));
  // Only powers of odd exponents have a sign; those of other exponents of negative numbers are no real numbers.
  result = b.CreateSelect(odd, CopySign(b, result, x), result);
  Value* finite_negative = b.CreateAnd(b.CreateFCmpOLT(x, Float(x, 0)), b.CreateFCmpOGT(x, Float(x, -kInfinity)));
  result = b.CreateSelect(b.CreateAnd(finite_negative, b.CreateNot(whole)), Float(x, kNan), result);
  Value* endless = b.CreateFCmpOEQ(Abs(b, y), Float(y, kInfinity));
  Value* stays_one = b.CreateOr(b.CreateFCmpOEQ(y, Float(y, 0)), b.CreateFCmpOEQ(x, one));
  stays_one = b.CreateOr(stays_one, b.CreateAnd(b.CreateFCmpOEQ(a, one), endless));
  return b.CreateSelect(stays_one, one, result);
}

Value* EmitPower(IRBuilder<>& b, Value* x, Value* y, const MathTarget& target) {
  return EmitSpecialPowers(b, x, y, EmitPowerOfMagnitude(b, x, y, target).value);
}

}  // namespace rvm::codegen
