// Special functions, computed in float64, and orthogonal polynomials.
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/import/loops.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/special_functions.h"

namespace rvm::torch::convert {
namespace {

using importing::Rolled;
using importing::Step;
using importing::Term;

Operand At(NodeContext& c, size_t position) {
  const Argument* argument = c.Positional(position);
  return argument == nullptr ? c.Fail(absl::StrCat("its argument ", position, " is missing")) : c.In(*argument);
}

using UnaryFunction = Term (*)(const Term&);
struct UnaryRow {
  std::string_view name;
  UnaryFunction function;
};

// By the name in OperatorRow::variant.
constexpr UnaryRow kUnary[] = {
    {"bessel_i0", special::BesselI0},
    {"bessel_i0e", special::BesselI0E},
    {"bessel_i1", special::BesselI1},
    {"bessel_i1e", special::BesselI1E},
    {"bessel_j0", special::BesselJ0},
    {"bessel_j1", special::BesselJ1},
    {"bessel_k0", special::BesselK0},
    {"bessel_k0e", special::BesselK0E},
    {"bessel_k1", special::BesselK1},
    {"bessel_k1e", special::BesselK1E},
    {"bessel_y0", special::BesselY0},
    {"bessel_y1", special::BesselY1},
    {"digamma", special::Digamma},
    {"erfc", special::Erfc},
    {"erfcx", special::Erfcx},
    {"erfinv", special::Erfinv},
    {"lgamma", special::Lgamma},
    {"log_ndtr", special::LogNdtr},
    {"ndtr", special::Ndtr},
    {"ndtri", special::Ndtri},
    {"spherical_bessel_j0", special::SphericalBesselJ0},
};

using BinaryFunction = Term (*)(const Term&, const Term&);
struct BinaryRow {
  std::string_view name;
  BinaryFunction function;
};

constexpr BinaryRow kBinary[] = {
    {"lower_gamma", special::LowerGamma}, {"upper_gamma", special::UpperGamma}, {"zeta", special::Zeta}};

template <typename Row, size_t size>
auto FunctionOf(const Row (&rows)[size], std::string_view name) -> decltype(Row::function) {
  for (const Row& row : rows) {
    if (row.name == name) return row.function;
  }
  return nullptr;
}

Term Wide(NodeContext& c, Operand x) { return {c, c.Cast(x, kFloat64)}; }

Operands Special(NodeContext& c) {
  Operand x = c.Floating(At(c, 0));
  UnaryFunction function = FunctionOf(kUnary, c.row().variant);
  if (c.failed()) return {};
  return {c.Cast(function(Wide(c, x)), c.DTypeOf(x))};
}

Operands SpecialBinary(NodeContext& c) {
  Operand a = At(c, 0), b = At(c, 1);
  BinaryFunction function = FunctionOf(kBinary, c.row().variant);
  if (c.failed()) return {};
  c.Promote({&a, &b});
  Operand like = c.Floating(a);
  return {c.Cast(function(Wide(c, a), Wide(c, b)), c.DTypeOf(like))};
}

Operands Polygamma(NodeContext& c) {
  Operand x = c.Floating(c.In("self"));
  int64_t order = c.Int("n", 0);
  if (c.failed() || order < 0) return {c.failed() ? nullptr : c.Fail("its order is negative")};
  return {c.Cast(special::Polygamma(order, Wide(c, x)), c.DTypeOf(x))};
}

// log(gamma) of several variables.
Operands MultivariateLgamma(NodeContext& c) {
  constexpr double kLogPi = 1.1447298858494001741;
  Operand x = c.Floating(c.In("self"));
  int64_t count = c.Int("p", 1);
  if (c.failed() || count < 1 || count > 256) return {c.failed() ? nullptr : c.Fail("its `p` is not from 1 to 256")};
  Term wide = Wide(c, x), sum = wide.Like(static_cast<double>(count * (count - 1)) / 4 * kLogPi);
  for (int64_t i = 0; i < count; ++i) sum = sum + special::Lgamma(wide - static_cast<double>(i) / 2);
  return {c.Cast(sum, c.DTypeOf(x))};
}

// ---- orthogonal polynomials

// p0 = 1, p1 = first x + shift; (1 + over k) p(k+1) = ((slope + slopes k) x + offset + offsets k) p(k) - (less + lesses
// k) p(k-1).
struct Recurrence {
  std::string_view name;
  double first, shift, slope, slopes, offset, offsets, less, lesses, over;
};

constexpr Recurrence kRecurrences[] = {
    {"chebyshev_t", 1, 0, 2, 0, 0, 0, 1, 0, 0},  {"chebyshev_u", 2, 0, 2, 0, 0, 0, 1, 0, 0},
    {"chebyshev_v", 2, -1, 2, 0, 0, 0, 1, 0, 0}, {"chebyshev_w", 2, 1, 2, 0, 0, 0, 1, 0, 0},
    {"hermite_h", 2, 0, 2, 0, 0, 0, 0, 2, 0},    {"hermite_he", 1, 0, 1, 0, 0, 0, 0, 1, 0},
    {"laguerre_l", -1, 1, -1, 0, 1, 2, 0, 1, 1}, {"legendre_p", 1, 0, 1, 2, 0, 0, 0, 1, 1},
};

Term NextPolynomial(const Recurrence& r, const Term& x, const Term& k, const Term& newer, const Term& older) {
  Term factor = (r.slope + r.slopes * k) * x + (r.offset + r.offsets * k);
  Term sum = factor * newer - (r.less + r.lesses * k) * older;
  return r.over == 0 ? sum : sum / (1 + r.over * k);
}

// Evaluates a polynomial of x, with a degree for each element; 0 where the degree is negative.
Operands OrthogonalPolynomial(NodeContext& c) {
  constexpr std::string_view kShifted = "shifted_";
  std::string_view name = c.row().variant;
  bool is_shifted = name.starts_with(kShifted);
  if (is_shifted) name.remove_prefix(kShifted.size());
  const Recurrence* rule = nullptr;
  for (const Recurrence& recurrence : kRecurrences) {
    if (recurrence.name == name) rule = &recurrence;
  }
  Operand given = At(c, 0), degree = At(c, 1);
  if (c.failed()) return {};
  Operand like = given, other = degree;
  c.Promote({&like, &other});
  DataType dtype = c.DTypeOf(c.Floating(like));
  Term x = Wide(c, given), n(c, c.Op("trunc", {Wide(c, degree)}));
  if (is_shifted) x = 2 * x - 1;
  x = Broadcast(x, n);
  n = Broadcast(n, x);
  Term first = rule->first * x + rule->shift, one = Broadcast(x.Like(1), x);
  Term result = Select(n < 0, 0, Select(n == 0, one, Select(n == 1, first, 0)));
  Operand most = c.RankOf(n) == 0 ? n.operand() : c.Op("max", {n});
  Operand limit = c.Cast(c.Op("maximum", {Term(c, most) - 1, c.Number(0, most)}), kInt64);
  Rolled rolled = Roll(c, limit, nullptr, {one, first, result}, [&](Operand index, const Operands& own) -> Step {
    Term k = Term(c, c.Cast(index, kFloat64)) + 1, older(c, own[0]), newer(c, own[1]);
    Term next = NextPolynomial(*rule, x, k, newer, older);
    return {nullptr, {newer, next, Select(n == k + 1, next, Term(c, own[2]))}, {}};
  });
  return {rolled.state.size() == 3 ? c.Cast(rolled.state[2], dtype) : nullptr};
}

constexpr OperatorRow kRows[] = {
    {"digamma", Special, "digamma"},
    {"special_digamma", Special, "digamma"},
    {"special_psi", Special, "digamma"},
    {"erfc", Special, "erfc"},
    {"special_erfc", Special, "erfc"},
    {"erfinv", Special, "erfinv"},
    {"special_erfinv", Special, "erfinv"},
    {"i0", Special, "bessel_i0"},
    {"special_i0", Special, "bessel_i0"},
    {"special_i0e", Special, "bessel_i0e"},
    {"special_i1", Special, "bessel_i1"},
    {"special_i1e", Special, "bessel_i1e"},
    {"lgamma", Special, "lgamma"},
    {"special_gammaln", Special, "lgamma"},
    {"special_bessel_j0", Special, "bessel_j0"},
    {"special_bessel_j1", Special, "bessel_j1"},
    {"special_bessel_y0", Special, "bessel_y0"},
    {"special_bessel_y1", Special, "bessel_y1"},
    {"special_erfcx", Special, "erfcx"},
    {"special_log_ndtr", Special, "log_ndtr"},
    {"special_modified_bessel_i0", Special, "bessel_i0"},
    {"special_modified_bessel_i1", Special, "bessel_i1"},
    {"special_modified_bessel_k0", Special, "bessel_k0"},
    {"special_modified_bessel_k1", Special, "bessel_k1"},
    {"special_ndtr", Special, "ndtr"},
    {"special_ndtri", Special, "ndtri"},
    {"special_scaled_modified_bessel_k0", Special, "bessel_k0e"},
    {"special_scaled_modified_bessel_k1", Special, "bessel_k1e"},
    {"special_spherical_bessel_j0", Special, "spherical_bessel_j0"},
    {"igamma", SpecialBinary, "lower_gamma"},
    {"special_gammainc", SpecialBinary, "lower_gamma"},
    {"igammac", SpecialBinary, "upper_gamma"},
    {"special_gammaincc", SpecialBinary, "upper_gamma"},
    {"special_zeta", SpecialBinary, "zeta"},
    {"mvlgamma", MultivariateLgamma},
    {"special_multigammaln", MultivariateLgamma},
    {"polygamma", Polygamma},
    {"special_polygamma", Polygamma},
    {"special_chebyshev_polynomial_t", OrthogonalPolynomial, "chebyshev_t"},
    {"special_chebyshev_polynomial_u", OrthogonalPolynomial, "chebyshev_u"},
    {"special_chebyshev_polynomial_v", OrthogonalPolynomial, "chebyshev_v"},
    {"special_chebyshev_polynomial_w", OrthogonalPolynomial, "chebyshev_w"},
    {"special_hermite_polynomial_h", OrthogonalPolynomial, "hermite_h"},
    {"special_hermite_polynomial_he", OrthogonalPolynomial, "hermite_he"},
    {"special_laguerre_polynomial_l", OrthogonalPolynomial, "laguerre_l"},
    {"special_legendre_polynomial_p", OrthogonalPolynomial, "legendre_p"},
    {"special_shifted_chebyshev_polynomial_t", OrthogonalPolynomial, "shifted_chebyshev_t"},
    {"special_shifted_chebyshev_polynomial_u", OrthogonalPolynomial, "shifted_chebyshev_u"},
    {"special_shifted_chebyshev_polynomial_v", OrthogonalPolynomial, "shifted_chebyshev_v"},
    {"special_shifted_chebyshev_polynomial_w", OrthogonalPolynomial, "shifted_chebyshev_w"},
};

}  // namespace

std::span<const OperatorRow> SpecialOperators() { return kRows; }

}  // namespace rvm::torch::convert
