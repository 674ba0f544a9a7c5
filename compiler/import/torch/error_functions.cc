// The error function's kin.
#include <cmath>
#include <limits>
#include <numbers>

#include "compiler/import/torch/chebyshev_series.h"
#include "compiler/import/torch/special_functions.h"

namespace rvm::torch::special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Term Erf(const Term& x) { return x.Apply("erf"); }

// erfcx of x >= 1.
Term ErfcxTail(const Term& x) { return Chebyshev(10 / (x + 4) - 1, series::kErfcx) / x; }

}  // namespace

// M. Giles, "Approximating the erfinv function", 2011, to 7 digits; two steps of Newton's method give the others.
Term Erfinv(const Term& y) {
  constexpr double kCentre[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
  constexpr double kTail[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                              -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
  Term w = -Log((1 - y) * (1 + y));
  Term x = y * Select(w < 5, Horner(w - 2.5, kCentre), Horner(Sqrt(w) - 3, kTail));
  for (int i = 0; i < 2; ++i) {
    x = x - (Erf(x) - y) / (2 * std::numbers::inv_sqrtpi * Exp(-(x * x)));
  }
  Term at_edge = Select(Abs(y) == 1, y * kInfinity, kNan);
  return Select(Abs(y) < 1, x, at_edge);
}

Term Erfcx(const Term& x) {
  Term near = Exp(x * x) * (1 - Erf(x));
  return Select(x >= 1, ErfcxTail(Max(x, x.Like(1))), near);
}

Term Erfc(const Term& x) {
  Term far = Max(x, x.Like(1));
  return Select(x >= 1, Exp(-(far * far)) * ErfcxTail(far), 1 - Erf(x));
}

Term Ndtr(const Term& x) { return Erfc(x * (-1 / std::numbers::sqrt2)) / 2; }

Term LogNdtr(const Term& x) {
  Term t = x * (1 / std::numbers::sqrt2);
  return Select(x < -1, Log(Erfcx(-t) / 2) - t * t, (-Erfc(t) / 2).Apply("log1p"));
}

// By erfinv; in the lower tail Newton's method on the logarithm of the distribution function.
Term Ndtri(const Term& p) {
  Term is_upper = p > 0.5, tail = Select(is_upper, 1 - p, p);
  Term centre = std::numbers::sqrt2 * Erfinv(2 * Max(tail, p.Like(0.01)) - 1);
  Term is_tail = tail < 0.02, log_p = Log(tail);
  Term start = -Sqrt(-2 * log_p - Log(-4 * std::numbers::pi * log_p));
  Term x = Select(is_tail, start, -3);
  for (int i = 0; i < 5; ++i) {
    Term value = LogNdtr(x), log_density = -0.5 * (x * x) - 0.5 * std::log(2 * std::numbers::pi);
    x = x - (value - Select(is_tail, log_p, value)) / Exp(log_density - value);
  }
  Term value = Select(is_tail, x, centre);
  value = Select(tail == 0, -kInfinity, value);
  value = Select(is_upper, -value, value);
  return Select(And(p >= 0, p <= 1), value, kNan);
}

}  // namespace rvm::torch::special
