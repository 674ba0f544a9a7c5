// Complex numbers in importers of all formats. Relay has none: a complex tensor is a tuple of its real and imaginary
// parts, two tensors of one type (docs/decisions/0092-complex-numbers-and-fourier-transforms.md).
#ifndef RVM_COMPILER_IMPORT_BLOCKS_COMPLEX_H_
#define RVM_COMPILER_IMPORT_BLOCKS_COMPLEX_H_

#include "absl/functional/function_ref.h"
#include "compiler/import/steps.h"
#include "compiler/import/term.h"

namespace rvm::importing {

bool IsComplex(Operand x);
bool HasComplex(const Operands& operands);
Operand MakeComplex(Steps& c, Operand real, Operand imaginary);
// Returns the complex numbers of these parts, one by one; null for null.
Operands MakeComplexes(Steps& c, const Operands& real, const Operands& imaginary);
// Returns the real part, or the imaginary one; of a real tensor itself, and zeros.
Operand PartOf(Steps& c, Operand x, bool is_imaginary);
// Returns the complex numbers whose parts lie along the last axis, and the other way around.
Operand FromPairs(Steps& c, Operand pairs);
Operand ToPairs(Steps& c, Operand x);
// Returns the results of an operator that does the same to both parts, such as one that moves elements. `convert` takes
// inputs with a part in place of each complex tensor.
Operands ByParts(Steps& c, const Operands& inputs, absl::FunctionRef<Operands(Operands inputs)> convert);

// Complex numbers in formulas.
struct Complex {
  Term re, im;
  Steps& steps() const { return re.steps(); }
  // Converts to the operand, so that converters return them.
  operator Operand() const { return MakeComplex(steps(), re, im); }  // NOLINT: implicit on purpose
};
inline Complex ComplexOf(Steps& c, Operand x) { return {{c, PartOf(c, x, false)}, {c, PartOf(c, x, true)}}; }
inline Complex operator*(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(const Complex& a, const Complex& b) { return {a.re - b.re, a.im - b.im}; }
Complex operator/(const Complex& a, const Complex& b);
inline Complex Conjugate(const Complex& z) { return {z.re, -z.im}; }
inline Complex Polar(const Term& length, const Term& angle) { return {length * Cos(angle), length * Sin(angle)}; }
inline Term Length(const Complex& z) { return Sqrt(z.re * z.re + z.im * z.im); }
inline Term Angle(const Complex& z) { return z.im.Apply("atan2", z.re); }
inline Complex Exp(const Complex& z) { return Polar(Exp(z.re), z.im); }
inline Complex Log(const Complex& z) { return {Log(Length(z)), Angle(z)}; }
inline Complex Sqrt(const Complex& z) { return Polar(Sqrt(Length(z)), Angle(z) * 0.5); }
// Returns z divided by its length; 0 for 0.
Complex Direction(const Complex& z);

}  // namespace rvm::importing

#endif  // RVM_COMPILER_IMPORT_BLOCKS_COMPLEX_H_
