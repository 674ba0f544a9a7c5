// Trigonometric and hyperbolic functions, and their inverses.
//
// Polynomials as in math.cc. Angles are reduced in float64, whose products of parts
// with few bits are exact.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

#include "kernels/codegen/llvm/math.h"
#include "kernels/codegen/llvm/math_steps.h"

namespace rvm::codegen {

using llvm::IRBuilder;
using llvm::Value;
using namespace math_steps;  // NOLINT(build/namespaces)

namespace {

constexpr double kPi = 3.14159265358979323846, kLn2 = 0.693147180559945309417;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Value* Nearest(IRBuilder<>& b, Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::nearbyint, x); }
Value* Sqrt(IRBuilder<>& b, Value* x) { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }

// x plus x^3 times a polynomial in x^2.
Value* OddSeries(IRBuilder<>& b, Value* x, std::initializer_list<double> coefficients) {
  Value* square = b.CreateFMul(x, x);
  return MulAdd(b, b.CreateFMul(square, x), Polynomial(b, square, coefficients), x);
}

struct Angle {
  Value* quarter;  // integer: quarter turns, modulo 4
  Value* rest;     // of a quarter turn, from -1/2 to 1/2
};

// 2 / pi: parts of 29 bits, whose products with a float are exact in float64, and what is left after each of them.
constexpr double kParts[] = {0x1.45f306dp-1, 0x1.9391054p-30, 0x1.4fe13abp-59, 0x1.d1f534dp-88, 0x1.b81b6c5p-117};
constexpr double kLeft[] = {0x1.9391054a7f09dp-30, 0x1.4fe13abe8fa9ap-59, 0x1.d1f534ddc0db6p-88, 0x1.b81b6c52b3279p-117,
                            0x1.5993c439041fep-148};

// Returns the part of 2 / pi at `place` for small numbers, a later one for greater ones: products of a float of 2^54 or
// more with the first part, of 2^83 or more with the second one, of 2^112 or more with the third one are whole turns.
Value* PartFor(IRBuilder<>& b, Value* magnitude, std::span<const double> parts, size_t place) {
  Value* part = Float(magnitude, parts[place]);
  for (size_t k = 1; k < 4; ++k) {
    double limit = std::ldexp(1.0, 25 + 29 * static_cast<int>(k));
    part =
        b.CreateSelect(b.CreateFCmpOGE(magnitude, Float(magnitude, limit)), Float(magnitude, parts[place + k]), part);
  }
  return part;
}

// x * 2 / pi modulo 4, as M. Payne and R. Hanek, "Radian reduction for trigonometric functions" (1983): of the bits of
// 2 / pi only those matter that give neither whole turns nor less than rounding does.
Angle Reduce(IRBuilder<>& b, Value* x) {
  Value* wide = Widen(b, x);
  Value* magnitude = Abs(b, wide);
  auto turns_off = [&](Value* t) {
    Value* turns = Nearest(b, b.CreateFMul(t, Float(t, 0.25)));
    return MulAdd(b, turns, Float(t, -4), t);
  };
  Value* t = turns_off(b.CreateFMul(wide, PartFor(b, magnitude, kParts, 0)));
  Value* low = turns_off(b.CreateFMul(wide, PartFor(b, magnitude, kParts, 1)));
  low = MulAdd(b, wide, PartFor(b, magnitude, kLeft, 1), low);
  Value* sum = b.CreateFAdd(t, low);
  Value* quarter = Nearest(b, sum);
  Value* rest = b.CreateFAdd(b.CreateFSub(t, quarter), low);
  // An infinity is NaN by now; its quarter must still be a number.
  Value* number = b.CreateSelect(b.CreateFCmpORD(quarter, quarter), quarter, Float(quarter, 0));
  return {b.CreateFPToSI(number, IntType(x)), Narrow(b, rest)};
}

// sin and cos of a quarter turn's part, |f| <= 1/2.
Value* SinOfPart(IRBuilder<>& b, Value* f) {
  return b.CreateFMul(
      f, Polynomial(b, b.CreateFMul(f, f),
                    {1.570796327e+00, -6.459640961e-01, 7.969258276e-02, -4.681266478e-03, 1.582067473e-04}));
}
Value* CosOfPart(IRBuilder<>& b, Value* f) {
  return Polynomial(b, b.CreateFMul(f, f), {1.0, -1.233700540e+00, 2.536691826e-01, -2.085993603e-02, 9.033629757e-04});
}

Value* HasBit(IRBuilder<>& b, Value* like, Value* n, int64_t bit) {
  return b.CreateICmpNE(b.CreateAnd(n, Int(like, bit)), Int(like, 0));
}

// Returns the sine of so many quarter turns more.
Value* SinOf(IRBuilder<>& b, Value* x, int64_t quarters) {
  Angle angle = Reduce(b, x);
  Value* n = b.CreateAdd(angle.quarter, Int(x, quarters));
  Value* value = b.CreateSelect(HasBit(b, x, n, 1), CosOfPart(b, angle.rest), SinOfPart(b, angle.rest));
  return b.CreateSelect(HasBit(b, x, n, 2), b.CreateFNeg(value), value);
}

Value* AsinOfSmall(IRBuilder<>& b, Value* x) {  // |x| <= 1/2
  return OddSeries(b, x, {1.666667314e-01, 7.498761601e-02, 4.502021719e-02, 2.643335440e-02, 3.832831699e-02});
}

// log(1 + x). What rounding 1 + x loses is added again.
Value* Log1p(IRBuilder<>& b, Value* x, const MathTarget& target) {
  Value* sum = b.CreateFAdd(x, Float(x, 1));
  Value* lost = b.CreateFSub(x, b.CreateFSub(sum, Float(x, 1)));
  Value* correction = b.CreateFDiv(lost, sum);
  Value* usable = b.CreateFCmpOLT(Abs(b, x), Float(x, 0x1p24));
  return b.CreateFAdd(EmitLog(b, sum, LogBase::kE, target), b.CreateSelect(usable, correction, Float(x, 0)));
}

}  // namespace

Value* EmitSin(IRBuilder<>& b, Value* x) {
  // Keeps the sign of 0.
  return b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, 0)), x, SinOf(b, x, 0));
}

Value* EmitCos(IRBuilder<>& b, Value* x) { return SinOf(b, x, 1); }

Value* EmitTan(IRBuilder<>& b, Value* x) {
  Angle angle = Reduce(b, x);
  Value *sin = SinOfPart(b, angle.rest), *cos = CosOfPart(b, angle.rest);
  Value* odd = HasBit(b, x, angle.quarter, 1);
  Value* above = b.CreateSelect(odd, b.CreateFNeg(cos), sin);
  Value* result = b.CreateFDiv(above, b.CreateSelect(odd, sin, cos));
  return b.CreateSelect(b.CreateFCmpOEQ(x, Float(x, 0)), x, result);
}

Value* EmitAsin(IRBuilder<>& b, Value* x) {
  Value* a = Abs(b, x);
  Value* small = b.CreateFCmpOLE(a, Float(x, 0.5));
  // pi / 2 - 2 asin(sqrt((1 - a) / 2))
  Value* root = Sqrt(b, MulAdd(b, a, Float(x, -0.5), Float(x, 0.5)));
  Value* part = AsinOfSmall(b, b.CreateSelect(small, a, root));
  return CopySign(b, b.CreateSelect(small, part, MulAdd(b, part, Float(x, -2), Float(x, kPi / 2))), x);
}

Value* EmitAcos(IRBuilder<>& b, Value* x) {
  Value* a = Abs(b, x);
  Value* small = b.CreateFCmpOLE(a, Float(x, 0.5));
  Value* root = Sqrt(b, MulAdd(b, a, Float(x, -0.5), Float(x, 0.5)));
  Value* part = AsinOfSmall(b, b.CreateSelect(small, x, root));
  Value* twice = b.CreateFMul(part, Float(x, 2));
  Value* negative = b.CreateFCmpOLT(x, Float(x, 0));
  Value* far = b.CreateSelect(negative, b.CreateFSub(Float(x, kPi), twice), twice);
  return b.CreateSelect(small, b.CreateFSub(Float(x, kPi / 2), part), far);
}

Value* EmitAtan(IRBuilder<>& b, Value* x) {
  Value* a = Abs(b, x);
  Value* above = b.CreateFCmpOGT(a, Float(x, 1));
  Value* t = b.CreateSelect(above, b.CreateFDiv(Float(x, 1), a), a);
  Value* part = OddSeries(b, t,
                          {-3.333316696e-01, 1.999413705e-01, -1.421420783e-01, 1.067893496e-01, -7.580566489e-02,
                           4.355339914e-02, -1.658109641e-02, 2.974568232e-03});
  return CopySign(b, b.CreateSelect(above, b.CreateFSub(Float(x, kPi / 2), part), part), x);
}

Value* EmitSinh(IRBuilder<>& b, Value* x) {
  Value* a = Abs(b, x);
  Value* near = OddSeries(b, a, {1.666666665e-01, 8.333339691e-03, 1.983809813e-04, 2.806305107e-06});
  Value* half = EmitHalfExp(b, a);
  Value* far = b.CreateFSub(half, b.CreateFDiv(Float(x, 0.25), half));
  return CopySign(b, b.CreateSelect(b.CreateFCmpOLT(a, Float(x, 1)), near, far), x);
}

Value* EmitCosh(IRBuilder<>& b, Value* x) {
  Value* half = EmitHalfExp(b, Abs(b, x));
  return b.CreateFAdd(half, b.CreateFDiv(Float(x, 0.25), half));
}

Value* EmitAsinh(IRBuilder<>& b, Value* x, const MathTarget& target) {
  Value* a = Abs(b, x);
  Value* big = b.CreateFCmpOGT(a, Float(x, 0x1p32));  // log(2a); the square would overflow
  Value* square = b.CreateFMul(a, a);
  Value* root = Sqrt(b, b.CreateFAdd(square, Float(x, 1)));
  Value* y = b.CreateFAdd(a, b.CreateFDiv(square, b.CreateFAdd(root, Float(x, 1))));
  Value* log = Log1p(b, b.CreateSelect(big, a, y), target);
  return CopySign(b, b.CreateFAdd(log, b.CreateSelect(big, Float(x, kLn2), Float(x, 0))), x);
}

Value* EmitAcosh(IRBuilder<>& b, Value* x, const MathTarget& target) {
  Value* big = b.CreateFCmpOGT(x, Float(x, 0x1p32));
  Value* t = b.CreateFSub(x, Float(x, 1));
  Value* y = b.CreateFAdd(t, Sqrt(b, MulAdd(b, t, t, b.CreateFMul(t, Float(x, 2)))));
  Value* log = Log1p(b, b.CreateSelect(big, x, y), target);
  Value* result = b.CreateFAdd(log, b.CreateSelect(big, Float(x, kLn2), Float(x, 0)));
  return b.CreateSelect(b.CreateFCmpULT(x, Float(x, 1)), Float(x, kNan), result);
}

Value* EmitAtanh(IRBuilder<>& b, Value* x, const MathTarget& target) {
  Value* a = Abs(b, x);
  Value* y = b.CreateFDiv(b.CreateFMul(a, Float(x, 2)), b.CreateFSub(Float(x, 1), a));
  return CopySign(b, b.CreateFMul(Log1p(b, y, target), Float(x, 0.5)), x);
}

}  // namespace rvm::codegen
