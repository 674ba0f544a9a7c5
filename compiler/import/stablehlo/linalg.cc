// Factors of matrices, and the routines of LAPACK that JAX calls for them.
#include "compiler/import/stablehlo/linalg.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/matrix_functions.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/term.h"

namespace rvm::stablehlo {
namespace {

namespace matrix = importing::matrix;
using importing::Term;

// X of op(A) X = B, or of X op(A) = B; op transposes or does nothing.
struct System {
  bool is_left, is_lower, is_unit, is_transposed;
};
Operand SolveSystem(NodeContext& c, const System& system) {
  if (c.num_inputs() < 2) return c.Fail("it has not two operands");
  Term a(c, c.In(0)), b(c, c.In(1));
  bool is_upper = !system.is_lower;
  // X op(A) = B is op(A)^T X^T = B^T.
  if (system.is_transposed == system.is_left) {
    a = matrix::Transposed(a);
    is_upper = !is_upper;
  }
  if (!system.is_left) b = matrix::Transposed(b);
  const Term x = matrix::SolveTriangular(a, b, is_upper, system.is_unit);
  return system.is_left ? x : matrix::Transposed(x);
}

// Returns the factor of the triangle that is given; the other triangle of the result is 0.
Term CholeskyOf(const Term& a, bool is_lower) {
  return is_lower ? matrix::Cholesky(a) : matrix::Transposed(matrix::Cholesky(matrix::Transposed(a)));
}

Operands Cholesky(NodeContext& c) { return {CholeskyOf(Term(c, c.In(0)), c.Int("lower", 0) != 0)}; }

Operands TriangularSolve(NodeContext& c) {
  constexpr int64_t kNoTranspose = 1;  // of VHLO's enumeration; the adjoint of reals is the transposed matrix
  return {SolveSystem(c, {.is_left = c.Int("left_side", 0) != 0,
                          .is_lower = c.Int("lower", 0) != 0,
                          .is_unit = c.Int("unit_diagonal", 0) != 0,
                          .is_transposed = c.Int("transpose_a", kNoTranspose) != kNoTranspose})};
}

// ---- routines. They return, last, the number of the first column that failed, counted from 1, or 0.

// Returns a letter of the configuration of a routine: 'L' or 'U', 'N' or 'T'.
char Letter(NodeContext& c, std::string_view name) {
  const Attribute* config = c.op().Find("mhlo.backend_config");
  const Attribute* letter = config == nullptr ? nullptr : config->Find(name);
  return letter == nullptr ? '\0' : static_cast<char>(letter->integer);
}

Operands Potrf(NodeContext& c) {
  const Term a(c, c.In(0));
  const bool is_lower = Letter(c, "uplo") == 'L';
  const Term factor = CholeskyOf(a, is_lower);
  // The routine leaves the other triangle as it was.
  return {factor + matrix::TriangleOf(a, is_lower, is_lower ? 1 : -1),
          matrix::FirstWrong(IsNan(matrix::DiagonalOf(factor)))};
}

Operands Getrf(NodeContext& c) {
  const matrix::Factored lu = matrix::LuFactor(Term(c, c.In(0)));
  return {lu.factors, Cast(lu.pivots, kInt32) + 1, matrix::FirstWrong(matrix::DiagonalOf(lu.factors) == 0)};
}

Operands Trsm(NodeContext& c) {
  return {SolveSystem(c, {.is_left = Letter(c, "side") == 'L',
                          .is_lower = Letter(c, "uplo") == 'L',
                          .is_unit = Letter(c, "diag") == 'U',
                          .is_transposed = Letter(c, "trans_x") != 'N'})};
}

// Returns the packed reflections of a QR factorisation.
Operands Geqrf(NodeContext& c) {
  const Term a(c, c.In(0));
  const matrix::Orthogonal qr = matrix::QrFactor(a);
  const Dims dims = c.ResultDims(1);
  if (c.failed() || dims.empty()) return {};
  return {qr.reflectors, c.SliceAxis(qr.taus, -1, 0, dims.back())};
}

// Their product, the orthogonal factor.
Operands Orgqr(NodeContext& c) {
  const Term reflectors(c, c.In(0)), taus(c, c.In(1));
  const Term start = matrix::Identities(reflectors, matrix::ColumnsOf(reflectors));
  return {matrix::ApplyReflectors(reflectors, taus, start, false)};
}

// Returns vectors and ascending eigenvalues of symmetric matrices, of which one triangle is given.
Operands Syevd(NodeContext& c) {
  const Term a(c, c.In(0));
  const bool is_upper = Letter(c, "uplo") == 'U';
  const matrix::Eigen eigen = matrix::SymmetricEigen(matrix::Symmetric(a, is_upper));
  return {eigen.vectors, eigen.values, matrix::FirstWrong(IsNan(eigen.values))};
}

// Returns the matrices, which the routine overwrites, their descending singular values, U and V^T.
Operands Gesdd(NodeContext& c) {
  const Term a(c, c.In(0));
  const Dims u = c.ResultDims(2), turned = c.ResultDims(3);
  if (c.failed() || u.size() < 2 || turned.size() < 2) return {};
  const bool is_full = u.back() == matrix::RowsOf(a) && turned[turned.size() - 2] == matrix::ColumnsOf(a);
  const matrix::Singular singular = matrix::SingularFactors(a, is_full);
  return {a, singular.values, singular.u, matrix::Transposed(singular.v), matrix::FirstWrong(IsNan(singular.values))};
}

struct Routine {
  std::string_view name;  // without the letter of its dtype
  Operands (*convert)(NodeContext&);
};
constexpr Routine kRoutines[] = {{"geqrf_ffi", Geqrf}, {"gesdd_ffi", Gesdd}, {"getrf_ffi", Getrf}, {"orgqr_ffi", Orgqr},
                                 {"potrf_ffi", Potrf}, {"syevd_ffi", Syevd}, {"trsm_ffi", Trsm}};

constexpr OperatorRow kRows[] = {
    {"cholesky", Cholesky},
    {"triangular_solve", TriangularSolve},
};

}  // namespace

Operands CallRoutine(NodeContext& c, std::string_view target) {
  constexpr std::string_view kPrefix = "lapack_";
  const std::string_view name = target.substr(std::min(target.size(), kPrefix.size() + 1));
  for (const Routine& routine : kRoutines) {
    if (routine.name == name) return routine.convert(c);
  }
  return {c.Unsupported(
      absl::StrCat("`", Abseil(target.substr(0, 100)), "`, a routine of LAPACK that `jax.numpy.linalg` calls"))};
}

std::span<const OperatorRow> LinalgOperators() { return kRows; }

}  // namespace rvm::stablehlo
