// The gamma function and its kin.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "compiler/import/loops.h"
#include "compiler/import/torch/special_functions.h"

namespace rvm::torch::special {
namespace {

using importing::Operand;
using importing::Operands;
using importing::Rolled;
using importing::Step;
using importing::Steps;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// Returns the distance to the nearest integer, with a sign.
Term FromInteger(const Term& x) { return x - RoundHalfEven(x); }

}  // namespace

// C. Lanczos, "A precision approximation of the gamma function", 1964, with 9 terms; reflected below 1/2.
Term Lgamma(const Term& x) {
  constexpr double kTerms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                               12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  Term is_reflected = x < 0.5, z = Select(is_reflected, -x, x - 1);
  Term sum = x.Like(0.99999999999980993);
  for (int i = 0; i < 8; ++i) sum = sum + kTerms[i] / (z + (i + 1));
  Term t = z + 7.5, value = (z + 0.5) * Log(t) - t + Log(sum) + 0.5 * std::log(2 * kPi);
  // A harmless argument where it is not reflected, which keeps gradients finite.
  Term reflected = Log(kPi / Abs(Sin(kPi * Select(is_reflected, FromInteger(x), 0.25)))) - value;
  value = Select(Or(x == 1, x == 2), 0, Select(is_reflected, reflected, value));
  return Select(Abs(x) == kInfinity, kInfinity, value);
}

// Reflected for x <= 0, shifted by 10 below 10, and from there the asymptotic series.
Term Digamma(const Term& x) {
  constexpr double kSeries[] = {1. / 12, -691. / 32760, 1. / 132, -1. / 240, 1. / 252, -1. / 120, 1. / 12, 0};
  Term is_reflected = x <= 0, z = Select(is_reflected, 1 - x, x), is_shifted = z < 10;
  Term shift = x.Like(0);
  for (int i = 0; i < 10; ++i) shift = shift + 1 / (z + i);
  Term y = Select(is_shifted, z + 10, z);
  Term value = Log(y) - 0.5 / y - Horner(1 / (y * y), kSeries) - Select(is_shifted, shift, 0);
  Term reflected = value - kPi / (kPi * Select(is_reflected, FromInteger(x), 0.25)).Apply("tan");
  Term at_integer = Select(x == 0, -(1 / x), kNan);  // an infinity with the sign that the limit has
  Term is_integer = And(is_reflected, x == Floor(x));
  return Select(is_integer, at_integer, Select(is_reflected, reflected, value));
}

// Returns the formula of Euler and Maclaurin behind the first terms, of which there are so many that the argument is
// above 9.
Term Zeta(const Term& s, const Term& q) {
  constexpr double kDivisors[] = {12,
                                  -720,
                                  30240,
                                  -1209600,
                                  47900160,
                                  -1.8924375803183791606e9,
                                  7.47242496e10,
                                  -2.950130727918164224e12,
                                  1.1646782814350067249e14,
                                  -4.5979787224074726105e15,
                                  1.8152105401943546773e17,
                                  -7.1661652561756670113e18};
  constexpr double kMin = -1048576;  // there is no result below, where float32 has integers alone
  Steps& c = s.steps();
  Term exponent = -s, start = Broadcast(q, s);
  auto goes_on = [&](const Term& index, const Term& at) { return Or(index < 9, And(at <= 9, at > kMin)); };
  auto power = [&](const Term& at) { return at.Apply("power", exponent); };
  Term first = power(start);
  Operand zero = c.Number(0, q);
  Rolled rolled = Roll(c, nullptr, Any(goes_on(Term(c, zero), start)), {start, first, first},
                       [&](Operand index, const Operands& own) -> Step {
                         Term at(c, own[0]), last(c, own[1]), sum(c, own[2]);
                         Term number(c, c.Cast(index, kFloat64)), active = goes_on(number, at);
                         Term next = Select(active, at + 1, at), term = Select(active, power(next), last);
                         return {Any(goes_on(number + 1, next)), {next, term, Select(active, sum + term, sum)}, {}};
                       });
  if (c.failed() || rolled.state.size() != 3) return {c, c.emit().Placeholder()};
  Term w(c, rolled.state[0]), b(c, rolled.state[1]), sum(c, rolled.state[2]);
  sum = sum + b * w / (s - 1) - 0.5 * b;
  Term factor = s.Like(1);
  for (int i = 0; i < 12; ++i) {
    factor = factor * (s + 2 * i);
    b = b / w;
    sum = sum + Select(b == 0, 0, factor * b / kDivisors[i]);
    factor = factor * (s + (2 * i + 1));
    b = b / w;
  }
  Term is_pole = And(q <= 0, q == Floor(q));
  Term is_defined = And(s >= 1, Or(q > 0, And(s == Floor(s), q > kMin)));
  sum = Select(is_defined, sum, kNan);
  return Select(s == 1, kInfinity, Select(And(s > 1, is_pole), kInfinity, sum));
}

Term Polygamma(int64_t order, const Term& x) {
  if (order == 0) return Digamma(x);
  double factor = std::tgamma(static_cast<double>(order) + 1) * (order % 2 == 0 ? -1 : 1);
  return factor * Zeta(x.Like(static_cast<double>(order) + 1), x);
}

namespace {

constexpr int64_t kMaxTerms = 20000;
constexpr double kEpsilon = 1e-16;

// gamma(a, x) / Gamma(a) by its power series, for x < a + 1.
Term BySeries(const Term& a, const Term& x, const Term& scale) {
  Steps& c = a.steps();
  Term first = Broadcast(1 / a, x);
  Rolled rolled =
      Roll(c, c.Integer(kMaxTerms), nullptr, {first, first}, [&](Operand index, const Operands& own) -> Step {
        Term term(c, own[0]), sum(c, own[1]), number(c, c.Cast(index, kFloat64));
        Term next = term * (x / (a + number + 1)), total = sum + next;
        return {Any(Abs(next) > Abs(total) * kEpsilon), {next, total}, {}};
      });
  if (c.failed() || rolled.state.size() != 2) return {c, c.emit().Placeholder()};
  return Term(c, rolled.state[1]) * scale;
}

// Gamma(a, x) / Gamma(a) by its continued fraction (W. J. Lentz, Applied Optics 15, 1976), for x >= a + 1.
Term ByFraction(const Term& a, const Term& x, const Term& scale) {
  constexpr double kTiny = 1e-300;
  Steps& c = a.steps();
  Term b0 = x + 1 - a, d0 = 1 / b0, c0 = Broadcast(b0.Like(1 / kTiny), b0);
  Rolled rolled = Roll(c, c.Integer(kMaxTerms), nullptr, {c0, d0, d0}, [&](Operand index, const Operands& own) -> Step {
    Term i = Term(c, c.Cast(index, kFloat64)) + 1, an = -(i * (i - a)), b = b0 + i * 2;
    auto apart = [&](const Term& t) { return Select(Abs(t) < kTiny, kTiny, t); };
    Term numerator = apart(b + an / Term(c, own[0])), d = 1 / apart(an * Term(c, own[1]) + b);
    Term change = numerator * d, value = Term(c, own[2]) * change;
    return {Any(Abs(change - 1) > 3e-16), {numerator, d, value}, {}};
  });
  if (c.failed() || rolled.state.size() != 3) return {c, c.emit().Placeholder()};
  return Term(c, rolled.state[2]) * scale;
}

Term IncompleteGamma(const Term& a, const Term& x, bool is_upper) {
  // Each expansion gets arguments for which it converges, whichever is chosen.
  Term by_series = x < a + 1, is_inside = And(And(a > 0, x > 0), And(a < kInfinity, x < kInfinity));
  Term one = x.Like(1), safe_a = Select(is_inside, a, one), safe_x = Select(is_inside, x, one);
  Term scale = Exp(safe_a * Log(safe_x) - safe_x - Lgamma(safe_a));
  Term lower = BySeries(safe_a, Select(by_series, safe_x, safe_a), scale);
  Term upper = ByFraction(safe_a, Select(by_series, safe_a + 2, safe_x), scale);
  Term value = is_upper ? Select(by_series, 1 - lower, upper) : Select(by_series, lower, 1 - upper);
  double at_zero = is_upper ? 1 : 0;
  Term at_edge = Select(Or(x == 0, a == kInfinity), at_zero, x.Like(1 - at_zero));
  at_edge = Select(And(a == 0, x > 0), x.Like(1 - at_zero), at_edge);
  Term is_defined = And(And(a >= 0, x >= 0), Not(Or(And(a == 0, x == 0), And(a == kInfinity, x == kInfinity))));
  return Select(is_inside, value, Select(is_defined, at_edge, kNan));
}

}  // namespace

Term LowerGamma(const Term& a, const Term& x) { return IncompleteGamma(a, x, false); }
Term UpperGamma(const Term& a, const Term& x) { return IncompleteGamma(a, x, true); }

}  // namespace rvm::torch::special
