// Operations on complex numbers, made of what operations do to their real and imaginary parts.
#include "compiler/import/blocks/complex.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/spectrum.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/term.h"

namespace rvm::stablehlo {
namespace {

using importing::Complex;
using importing::MakeComplex;
using importing::PartOf;
using importing::Spectrum;
using importing::Term;

Complex InOf(NodeContext& c, size_t i) { return importing::ComplexOf(c, c.In(i)); }
Complex RealOf(const Term& x) { return {x, x.Apply("zeros_like")}; }

// ---- ways from operations on real numbers

// Control flow hands complex numbers on.
Operands AsTheyAre(NodeContext& c) { return c.OnReals(c.Inputs(0, c.num_inputs())); }

Operands CustomCall(NodeContext& c) {
  const std::string_view target = c.Text("call_target_name");
  if (!target.starts_with("lapack_")) return AsTheyAre(c);
  return {
      c.Unsupported(absl::StrCat("`", Abseil(target.substr(0, 100)), "`, a routine of LAPACK for complex numbers"))};
}

// Operations that do the same to both parts: they move elements, or are linear.
Operands ByParts(NodeContext& c) {
  return importing::ByParts(c, c.Inputs(0, c.num_inputs()),
                            [&](Operands parts) { return c.OnReals(std::move(parts)); });
}

// The same with a body that adds, or takes the update.
Operands ByPartsOfSums(NodeContext& c) {
  const std::string_view operation = c.num_regions() == 1 ? SingleOperation(c.op().regions[0]) : "";
  const bool is_linear = operation == "add" || operation == "update";
  return is_linear ? ByParts(c) : Operands{c.Unsupported("complex numbers in a body that does not add")};
}

// Products, linear in each of two operands.
Operands ByProducts(NodeContext& c) {
  auto product = [&](bool first, bool second) {
    const Operands results = c.OnReals({PartOf(c, c.In(0), first), PartOf(c, c.In(1), second)});
    return Term(c, c.failed() || results.empty() ? c.emit().Placeholder() : results[0]);
  };
  if (c.num_inputs() != 2) return {c.Fail("it has not two operands")};
  return {Complex{product(false, false) - product(true, true), product(false, true) + product(true, false)}};
}

// ---- parts

Operands OfParts(NodeContext& c) { return {MakeComplex(c, c.In(0), c.In(1))}; }
Operands Part(NodeContext& c) { return {PartOf(c, c.In(0), c.row().variant == "imaginary")}; }
Operands Absolute(NodeContext& c) { return {Length(InOf(c, 0))}; }

Operands Constant(NodeContext& c) {
  const Attribute* value = c.op().Find("value");
  const bool is_tensor = value != nullptr && value->kind == Attribute::Kind::kTensor && value->type->is_complex;
  const bool is_splat = is_tensor && IsSplat(*value);
  std::optional<Literal> literal = is_tensor ? LiteralOf(*value, is_splat) : std::nullopt;
  if (!literal) return {c.Fail("its value does not fit its type")};
  Operand numbers = importing::FromPairs(c, c.emit().Constant(*std::move(literal)));
  if (!is_splat) return {numbers};
  const Dims dims = c.ResultDims();
  auto spread = [&](bool is_imaginary) { return c.BroadcastTo(PartOf(c, numbers, is_imaginary), dims); };
  return {MakeComplex(c, spread(false), spread(true))};
}

// Converts real numbers, or complex ones of another width.
Operands Convert(NodeContext& c) {
  const DataType dtype = c.ResultDType();
  if (c.failed()) return {};
  auto part = [&](bool is_imaginary) { return c.Cast(PartOf(c, c.In(0), is_imaginary), dtype); };
  return {MakeComplex(c, part(false), part(true))};
}

// Equality of both parts, or of one for `NE`; there is no order.
Operands Compare(NodeContext& c) {
  constexpr int64_t kEqual = 0, kNotEqual = 1;
  const int64_t direction = c.Int("comparison_direction", kEqual);
  if (direction != kEqual && direction != kNotEqual) return {c.Unsupported("an order of complex numbers")};
  const Complex a = InOf(c, 0), b = InOf(c, 1);
  return {direction == kEqual ? And(a.re == b.re, a.im == b.im) : Or(a.re != b.re, a.im != b.im)};
}

Operands IsFinite(NodeContext& c) {
  const Complex z = InOf(c, 0);
  return {And(z.re.Apply("isfinite"), z.im.Apply("isfinite"))};
}

// ---- functions

Complex Sine(const Complex& z) { return {Sin(z.re) * z.im.Apply("cosh"), Cos(z.re) * z.im.Apply("sinh")}; }
Complex Cosine(const Complex& z) { return {Cos(z.re) * z.im.Apply("cosh"), -(Sin(z.re) * z.im.Apply("sinh"))}; }

// Returns tanh z with t = tan y and u = tanh x: (u (1 + t^2) + i t (1 - u^2)) / (1 + u^2 t^2).
Complex HyperbolicTangent(const Complex& z) {
  const Term t = Sin(z.im) / Cos(z.im), u = z.re.Apply("tanh"), divisor = 1 + u * u * t * t;
  return {u * (1 + t * t) / divisor, t * (1 - u * u) / divisor};
}

// Returns exp(z) - 1 without the loss of digits close to 0: expm1(x) cos y - 2 sin^2(y / 2) as the real part.
Complex ExpMinusOne(const Complex& z) {
  const Term half = Sin(z.im * 0.5), grown = z.re.Apply("expm1");
  return {grown * Cos(z.im) - 2 * half * half, (grown + 1) * Sin(z.im)};
}

// Returns log(1 + z): half of log1p(x (2 + x) + y^2) as the real part.
Complex LogPlusOne(const Complex& z) {
  const Term square = z.re * (z.re + 2) + z.im * z.im;
  return {square.Apply("log1p") * 0.5, z.im.Apply("atan2", z.re + 1)};
}

// Returns a^b = exp(b log a); 0 for 0, whose logarithm is not finite, and 1 for a power of 0.
Complex Power(const Complex& a, const Complex& b) {
  const Complex power = Exp(b * Log(a));
  const Term is_zero = And(a.re == 0, a.im == 0), is_one = And(b.re == 0, b.im == 0);
  const Term re = Select(is_one, 1, Select(is_zero, 0, power.re));
  return {re, Select(Or(is_zero, is_one), 0, power.im)};
}

template <Complex (*function)(const Complex&)>
Operands Of(NodeContext& c) {
  return {function(InOf(c, 0))};
}
template <Complex (*function)(const Complex&, const Complex&)>
Operands OfTwo(NodeContext& c) {
  return {function(InOf(c, 0), InOf(c, 1))};
}
Complex Root(const Complex& z) { return Sqrt(z); }
Complex InverseRoot(const Complex& z) { return RealOf(z.re.Apply("ones_like")) / Sqrt(z); }
Complex Exponential(const Complex& z) { return Exp(z); }
Complex Logarithm(const Complex& z) { return Log(z); }
Complex Sign(const Complex& z) { return Direction(z); }
Complex Logistic(const Complex& z) {
  const Complex one = RealOf(z.re.Apply("ones_like"));
  return one / (one + Exp(Complex{-z.re, -z.im}));
}
Complex Tangent(const Complex& z) {
  // tan z = -i tanh(i z).
  const Complex turned = HyperbolicTangent({-z.im, z.re});
  return {turned.im, -turned.re};
}
Complex Quotient(const Complex& a, const Complex& b) { return a / b; }

// ---- transforms

Operands Transform(NodeContext& c) {
  enum : int64_t { kForward, kInverse, kOfReal, kToReal };
  const int64_t kind = c.Int("fft_type", -1);
  const std::vector<int64_t> lengths = c.Ints("fft_length");
  const Spectrum x =
      kind == kOfReal ? Spectrum{.real = c.In(0)} : Spectrum{PartOf(c, c.In(0), false), PartOf(c, c.In(0), true)};
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(x.real), axes = static_cast<int64_t>(lengths.size());
  bool fits = axes >= 1 && axes <= rank && kind >= kForward && kind <= kToReal;
  for (int64_t length : lengths) fits = fits && length >= 1;
  if (!fits) return {c.Unsupported("a transform of no axis, or of a length that is not above 0")};
  if (kind == kToReal) return {importing::InverseOfRealAxes(c, x, lengths)};
  if (kind == kOfReal) {
    const Spectrum y = importing::TransformRealAxes(c, x.real, lengths);
    return {MakeComplex(c, y.real, y.imaginary)};
  }
  Spectrum y = x;
  double count = 1;
  for (int64_t i = 0; i < axes; ++i) {
    y = importing::Transform(c, y, rank - axes + i, kind == kInverse);
    count *= static_cast<double>(lengths[static_cast<size_t>(i)]);
  }
  if (kind == kForward) return {MakeComplex(c, y.real, y.imaginary)};
  return {MakeComplex(c, c.Div(y.real, c.Number(count, y.real)), c.Div(y.imaginary, c.Number(count, y.imaginary)))};
}

constexpr OperatorRow kRows[] = {
    {"abs", Absolute},
    {"add", ByParts},
    {"broadcast_in_dim", ByParts},
    {"call", AsTheyAre},
    {"case", AsTheyAre},
    {"compare", Compare},
    {"complex", OfParts},
    {"composite", AsTheyAre},
    {"concatenate", ByParts},
    {"constant", Constant},
    {"convert", Convert},
    {"convolution", ByProducts},
    {"cosine", Of<Cosine>},
    {"custom_call", CustomCall},
    {"divide", OfTwo<Quotient>},
    {"dot_general", ByProducts},
    {"dynamic_broadcast_in_dim", ByParts},
    {"dynamic_gather", ByParts},
    {"dynamic_pad", ByParts},
    {"dynamic_reshape", ByParts},
    {"dynamic_slice", ByParts},
    {"dynamic_update_slice", ByParts},
    {"exponential", Of<Exponential>},
    {"exponential_minus_one", Of<ExpMinusOne>},
    {"fft", Transform},
    {"gather", ByParts},
    {"if", AsTheyAre},
    {"imag", Part, "imaginary"},
    {"is_finite", IsFinite},
    {"log", Of<Logarithm>},
    {"log_plus_one", Of<LogPlusOne>},
    {"logistic", Of<Logistic>},
    {"multiply", ByProducts},
    {"negate", ByParts},
    {"optimization_barrier", AsTheyAre},
    {"pad", ByParts},
    {"power", OfTwo<Power>},
    {"real", Part},
    {"real_dynamic_slice", ByParts},
    {"reduce", ByPartsOfSums},
    {"reduce_window", ByPartsOfSums},
    {"reshape", ByParts},
    {"reverse", ByParts},
    {"rsqrt", Of<InverseRoot>},
    {"scatter", ByPartsOfSums},
    {"select", ByParts},
    {"sign", Of<Sign>},
    {"sine", Of<Sine>},
    {"slice", ByParts},
    {"sqrt", Of<Root>},
    {"subtract", ByParts},
    {"tan", Of<Tangent>},
    {"tanh", Of<HyperbolicTangent>},
    {"transpose", ByParts},
    {"while", AsTheyAre},
};

}  // namespace

std::span<const OperatorRow> ComplexOperators() { return kRows; }

}  // namespace rvm::stablehlo
