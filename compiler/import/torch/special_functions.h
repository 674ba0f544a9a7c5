// Special functions as compositions of steps. Arguments and results are float64 tensors, so that the rounding to
// float32 dominates the error where a model computes in float32.
#ifndef RVM_COMPILER_IMPORT_TORCH_SPECIAL_FUNCTIONS_H_
#define RVM_COMPILER_IMPORT_TORCH_SPECIAL_FUNCTIONS_H_

#include <cstdint>
#include <string_view>

#include "compiler/import/term.h"

namespace rvm::torch::special {

using importing::Term;

// gamma_functions.cc
Term Lgamma(const Term& x);
Term Digamma(const Term& x);
// Returns the derivative number `order` of digamma.
Term Polygamma(int64_t order, const Term& x);
// Hurwitz's zeta function.
Term Zeta(const Term& s, const Term& q);
// The regularised incomplete gamma functions.
Term LowerGamma(const Term& a, const Term& x);
Term UpperGamma(const Term& a, const Term& x);

// error_functions.cc
Term Erfinv(const Term& y);
Term Erfc(const Term& x);
// exp(x^2) erfc(x).
Term Erfcx(const Term& x);
// The normal distribution function, and its logarithm.
Term Ndtr(const Term& x);
Term LogNdtr(const Term& x);
// Returns the inverse of the normal distribution function.
Term Ndtri(const Term& p);

// bessel_functions.cc; `E` is scaled by exp(-|x|), of the second kind by exp(x).
Term BesselI0(const Term& x);
Term BesselI0E(const Term& x);
Term BesselI1(const Term& x);
Term BesselI1E(const Term& x);
Term BesselK0(const Term& x);
Term BesselK0E(const Term& x);
Term BesselK1(const Term& x);
Term BesselK1E(const Term& x);
Term BesselJ0(const Term& x);
Term BesselJ1(const Term& x);
Term BesselY0(const Term& x);
Term BesselY1(const Term& x);
Term SphericalBesselJ0(const Term& x);

}  // namespace rvm::torch::special

#endif  // RVM_COMPILER_IMPORT_TORCH_SPECIAL_FUNCTIONS_H_
