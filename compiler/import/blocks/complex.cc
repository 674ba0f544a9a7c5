#include "compiler/import/blocks/complex.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace rvm::importing {

bool IsComplex(Operand x) {
  const auto* pair = x == nullptr || x->is_placeholder ? nullptr : ir::DynCast<ir::TupleType>(x->type);
  if (pair == nullptr || pair->fields.size() != 2) return false;
  const auto *re = ir::DynCast<ir::TensorType>(pair->fields[0]), *im = ir::DynCast<ir::TensorType>(pair->fields[1]);
  return re != nullptr && im != nullptr && re->dtype.dtype.is_float() && re->dtype.dtype == im->dtype.dtype &&
         re->shape.dims.size() == im->shape.dims.size();
}

bool HasComplex(const Operands& operands) { return std::ranges::any_of(operands, IsComplex); }

Operand MakeComplex(Steps& c, Operand real, Operand imaginary) { return c.emit().Tuple({real, imaginary}); }

Operands MakeComplexes(Steps& c, const Operands& real, const Operands& imaginary) {
  Operands results;
  for (size_t i = 0; i < real.size() && i < imaginary.size() && !c.failed(); ++i) {
    results.push_back(real[i] == nullptr ? nullptr : MakeComplex(c, real[i], imaginary[i]));
  }
  return results;
}

Operand PartOf(Steps& c, Operand x, bool is_imaginary) {
  if (IsComplex(x)) return c.emit().Field(x, is_imaginary ? 1 : 0);
  return is_imaginary ? c.Op("zeros_like", {x}) : x;
}

Operand FromPairs(Steps& c, Operand pairs) {
  const int64_t last = c.RankOf(pairs) - 1;
  auto part = [&](int64_t i) { return c.Squeeze(c.SliceAxis(pairs, last, i, i + 1), {last}); };
  return MakeComplex(c, part(0), part(1));
}

Operand ToPairs(Steps& c, Operand x) {
  return c.Op("stack", {c.emit().Tuple({PartOf(c, x, false), PartOf(c, x, true)})}, {{"axis", -1}});
}

Operands ByParts(Steps& c, const Operands& inputs, absl::FunctionRef<Operands(Operands inputs)> convert) {
  auto part = [&](bool is_imaginary) {
    Operands parts;
    for (Operand input : inputs) parts.push_back(IsComplex(input) ? PartOf(c, input, is_imaginary) : input);
    return convert(std::move(parts));
  };
  const Operands re = part(false);
  return MakeComplexes(c, re, part(true));
}

Complex operator/(const Complex& a, const Complex& b) {
  const Term square = b.re * b.re + b.im * b.im;
  const Complex product = a * Conjugate(b);
  return {product.re / square, product.im / square};
}

Complex Direction(const Complex& z) {
  const Term length = Length(z), divisor = Select(length == 0, 1, length);
  return {z.re / divisor, z.im / divisor};
}

}  // namespace rvm::importing
