// Sines, cosines and tangents of angles of moderate size, in float32: W. Cody and W. Waite's reduction by multiples of
// pi / 2, whose products are exact inside of fused products and sums.
#include <cstdint>

#include "kernels/codegen/llvm/math.h"
#include "kernels/codegen/llvm/math_steps.h"

namespace rvm::codegen {

using llvm::IRBuilder;
using llvm::Value;
using namespace math_steps;  // NOLINT(build/namespaces)

namespace {

// Multiples of pi / 2 below this have 14 bits, so that what the parts of pi / 2 lack stays far below the rounding.
constexpr double kMaxNear = 20000;
// pi / 2 in parts of 24 bits, rounded toward zero: with products of one sign, zero stays a positive zero.
constexpr double kHalfPi[] = {0x1.921fb4p+0, 0x1.4442d0p-24, 0x1.846988p-48};

struct NearAngle {
  Value* quarters;  // an integer: the low two bits count
  Value* rest;      // in radians, within pi / 4
  Value* is_far;
};

Value* FusedMulAdd(IRBuilder<>& b, Value* x, Value* y, Value* z) {
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, z});
}

NearAngle ReduceNear(IRBuilder<>& b, Value* magnitude) {
  // Adding 1.5 * 2^23 rounds to an integer, which the low bits then hold.
  Value* magic = Float(magnitude, 12582912.0);
  Value* shifted = FusedMulAdd(b, magnitude, Float(magnitude, 0.636619772367581343), magic);
  Value* turns = b.CreateFSub(shifted, magic);
  Value* rest = magnitude;
  for (double part : kHalfPi) rest = FusedMulAdd(b, turns, Float(magnitude, -part), rest);
  return {AsInt(b, shifted), rest, b.CreateFCmpUGT(magnitude, Float(magnitude, kMaxNear))};
}

Value* IsOdd(IRBuilder<>& b, Value* like, Value* n) {
  return b.CreateICmpNE(b.CreateAnd(n, Int(like, 1)), Int(like, 0));
}

Value* FlipSign(IRBuilder<>& b, Value* x, Value* sign) {
  Value* flip = b.CreateAnd(sign, Int(x, 0x80000000));
  return b.CreateBitCast(b.CreateXor(AsInt(b, x), flip), x->getType());
}

}  // namespace

NearValue EmitNearSin(IRBuilder<>& b, Value* x, int64_t quarters) {
  NearAngle angle = ReduceNear(b, Abs(b, x));
  Value *n = angle.quarters, *r = angle.rest;
  if (quarters != 0) n = b.CreateAdd(n, Int(x, quarters));
  Value* square = b.CreateFMul(r, r);
  Value* sin = Polynomial(b, square, {-1.666665446e-01, 8.332151311e-03, -1.951397737e-04});
  sin = FusedMulAdd(b, b.CreateFMul(r, square), sin, r);
  Value* cos = Polynomial(b, square, {4.166664542e-02, -1.388730343e-03, 2.443166454e-05});
  Value* one = FusedMulAdd(b, square, Float(x, -0.5), Float(x, 1));
  cos = FusedMulAdd(b, b.CreateFMul(square, square), cos, one);
  Value* sign = b.CreateShl(n, 30);
  if (quarters == 0) sign = b.CreateXor(sign, AsInt(b, x));
  return {FlipSign(b, b.CreateSelect(IsOdd(b, x, n), cos, sin), sign), angle.is_far};
}

NearValue EmitNearTan(IRBuilder<>& b, Value* x) {
  NearAngle angle = ReduceNear(b, Abs(b, x));
  Value* r = angle.rest;
  Value* square = b.CreateFMul(r, r);
  Value* tan = Polynomial(
      b, square,
      {3.333315174e-01, 1.333893475e-01, 5.339985295e-02, 2.447166230e-02, 3.052183586e-03, 9.426131998e-03});
  tan = FusedMulAdd(b, b.CreateFMul(r, square), tan, r);
  Value* inverse = b.CreateFDiv(Float(x, -1), tan);
  Value* value = b.CreateSelect(IsOdd(b, x, angle.quarters), inverse, tan);
  return {FlipSign(b, value, AsInt(b, x)), angle.is_far};
}

}  // namespace rvm::codegen
