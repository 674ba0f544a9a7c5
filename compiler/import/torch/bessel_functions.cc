// Bessel functions: a Chebyshev series near 0, and one of the rest after its exponential or its oscillation.
#include <limits>
#include <numbers>
#include <span>

#include "compiler/import/torch/chebyshev_series.h"
#include "compiler/import/torch/special_functions.h"

namespace rvm::torch::special {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kPi = std::numbers::pi;

// exp(-x) I(x) for x >= 0; of order 1 the series near 0 is of I(x) / x.
Term FirstKind(const Term& x, int order) {
  Term small = Min(x, x.Like(8)), large = Max(x, x.Like(8));
  Term near = Chebyshev(small / 4 - 1, order == 0 ? std::span<const double>(series::kI0Small) : series::kI1Small);
  Term far = Chebyshev(16 / large - 1, order == 0 ? std::span<const double>(series::kI0Large) : series::kI1Large);
  return Select(x <= 8, order == 0 ? near : near * small, far / Sqrt(large));
}

// exp(x) K(x).
Term SecondKind(const Term& x, int order) {
  Term small = Min(x, x.Like(2)), large = Max(x, x.Like(2)), y = small * small / 2 - 1;
  Term first = FirstKind(small, order) * Exp(small), logarithm = Log(small / 2);
  Term near = order == 0 ? Chebyshev(y, series::kK0Small) - logarithm * first
                         : Chebyshev(y, series::kK1Small) / small + logarithm * first;
  Term far = Chebyshev(4 / large - 1, order == 0 ? std::span<const double>(series::kK0Large) : series::kK1Large);
  Term value = Select(x <= 2, near * Exp(small), far / Sqrt(large));
  return Select(x > 0, value, Select(x == 0, kInfinity, x.Like(kNan)));
}

struct Wave {
  Term sine, cosine, p, q, amplitude;
};

// Returns the oscillation of J and Y for x >= 8.
Wave WaveOf(const Term& x, int order) {
  Term y = 128 / (x * x) - 1, angle = x - (2 * order + 1) * kPi / 4;
  return {Sin(angle), Cos(angle), Chebyshev(y, order == 0 ? std::span<const double>(series::kP0) : series::kP1),
          Chebyshev(y, order == 0 ? std::span<const double>(series::kQ0) : series::kQ1) / x, Sqrt(2 / (kPi * x))};
}

// J(x) for x >= 0.
Term Oscillating(const Term& x, int order) {
  Term small = Min(x, x.Like(8)), large = Max(x, x.Like(8)), y = small * small / 32 - 1;
  Term near = order == 0 ? Chebyshev(y, series::kJ0Small) : Chebyshev(y, series::kJ1Small) * small;
  Wave wave = WaveOf(large, order);
  Term far = wave.amplitude * (wave.p * wave.cosine - wave.q * wave.sine);
  return Select(x == kInfinity, 0, Select(x <= 8, near, far));
}

Term Singular(const Term& x, int order) {
  constexpr double kFactor = 2 / kPi;
  Term small = Min(x, x.Like(8)), large = Max(x, x.Like(8)), y = small * small / 32 - 1;
  Term logarithm = Log(small) * Oscillating(small, order);
  Term near = order == 0 ? Chebyshev(y, series::kY0Small) + kFactor * logarithm
                         : Chebyshev(y, series::kY1Small) * small + kFactor * (logarithm - 1 / small);
  Wave wave = WaveOf(large, order);
  Term far = wave.amplitude * (wave.p * wave.sine + wave.q * wave.cosine);
  Term value = Select(x == kInfinity, 0, Select(x <= 8, near, far));
  return Select(x > 0, value, Select(x == 0, -kInfinity, x.Like(kNan)));
}

Term Odd(const Term& x, const Term& value) { return Select(x < 0, -value, value); }

}  // namespace

Term BesselI0E(const Term& x) { return FirstKind(Abs(x), 0); }
Term BesselI0(const Term& x) { return Exp(Abs(x)) * BesselI0E(x); }
Term BesselI1E(const Term& x) { return Odd(x, FirstKind(Abs(x), 1)); }
Term BesselI1(const Term& x) { return Exp(Abs(x)) * BesselI1E(x); }
Term BesselK0E(const Term& x) { return SecondKind(x, 0); }
Term BesselK0(const Term& x) { return BesselK0E(x) * Exp(-x); }
Term BesselK1E(const Term& x) { return SecondKind(x, 1); }
Term BesselK1(const Term& x) { return BesselK1E(x) * Exp(-x); }
Term BesselJ0(const Term& x) { return Oscillating(Abs(x), 0); }
Term BesselJ1(const Term& x) { return Odd(x, Oscillating(Abs(x), 1)); }
Term BesselY0(const Term& x) { return Singular(x, 0); }
Term BesselY1(const Term& x) { return Singular(x, 1); }
Term SphericalBesselJ0(const Term& x) { return Select(Abs(x) == kInfinity, 0, Select(x == 0, 1, Sin(x) / x)); }

}  // namespace rvm::torch::special
