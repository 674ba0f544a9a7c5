// Linear algebra: factors of matrices, and systems of equations. Leading axes are batches.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "compiler/import/matrix_functions.h"
#include "compiler/import/tensorflow/importer.h"
#include "compiler/import/term.h"

namespace rvm::tensorflow {
namespace {

namespace matrix = importing::matrix;
using importing::Term;

// Returns input `i` as matrices; a mistake if it has fewer than 2 axes, or they are not square where they must be.
std::optional<Term> MatricesAt(NodeContext& c, size_t i, bool is_square) {
  Operand x = c.In(i);
  if (!c.failed() && c.RankOf(x) < 2) c.Fail("an input is no matrix");
  if (c.failed()) return std::nullopt;
  Term a(c, x);
  if (is_square && CompareDims(matrix::RowsOf(a), matrix::ColumnsOf(a)) == DimEquality::kDifferent) {
    c.Fail("an input is no square matrix");
    return std::nullopt;
  }
  return a;
}

Operands Cholesky(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  return a ? Operands{matrix::Cholesky(*a)} : Operands();
}

Operands Determinant(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  return a ? Operands{matrix::Determinant(matrix::LuFactor(*a))} : Operands();
}

Operands LogDeterminant(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  if (!a) return {};
  const auto [sign, logarithm] = matrix::LogDeterminant(matrix::LuFactor(*a));
  return {sign, logarithm};
}

Operands Inverse(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  if (!a) return {};
  const Term inverse = matrix::Inverse(*a);
  return {c.BoolAttr("adjoint") ? matrix::Transposed(inverse) : inverse};
}

Operands Solve(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true), b = MatricesAt(c, 1, false);
  if (!a || !b) return {};
  return {matrix::SolveFactored(matrix::LuFactor(*a), *b, c.BoolAttr("adjoint"))};
}

// Batches of A and B broadcast.
Operands SolveTriangular(NodeContext& c) {
  std::optional<Term> a = MatricesAt(c, 0, true), b = MatricesAt(c, 1, false);
  if (!a || !b) return {};
  bool is_upper = c.IntAttr("lower", 1) == 0;
  if (c.BoolAttr("adjoint")) {
    a = matrix::Transposed(*a);
    is_upper = !is_upper;
  }
  if (c.RankOf(*a) < c.RankOf(*b)) a = matrix::WithBatches(*a, *b);
  if (c.RankOf(*b) < c.RankOf(*a)) b = matrix::WithBatches(*b, *a);
  return {matrix::SolveTriangular(*a, *b, is_upper, false)};
}

Operands Qr(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, false);
  if (!a) return {};
  const matrix::Orthogonal qr = c.BoolAttr("full_matrices") ? matrix::QrFactor(*a) : matrix::ReducedQr(*a);
  return {qr.q, qr.r};
}

// Returns ascending eigenvalues, and the vectors, of symmetric matrices, of which the lower triangle counts.
Operands SymmetricEigen(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  if (!a) return {};
  const matrix::Eigen eigen = matrix::SymmetricEigen(matrix::Symmetric(*a, false));
  return {eigen.values, eigen.vectors};
}

// Returns singular values, and then U and V.
Operands SingularValues(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, false);
  if (!a) return {};
  if (c.IntAttr("compute_uv", 1) == 0) return {matrix::AnySingularValues(*a).values};
  const matrix::Singular singular = matrix::SingularFactors(*a, c.BoolAttr("full_matrices"));
  return {singular.values, singular.u, singular.v};
}

Operands Exponential(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  // In float64: squares of squares add up the roundings.
  return a ? Operands{Cast(matrix::Exponential(Cast(*a, kFloat64)), c.DTypeOf(*a))} : Operands();
}

constexpr OperatorRow kRows[] = {
    {"Cholesky", Cholesky},
    {"LogMatrixDeterminant", LogDeterminant, "", "sign log_abs_determinant"},
    {"MatrixDeterminant", Determinant},
    {"MatrixExponential", Exponential},
    {"MatrixInverse", Inverse},
    {"MatrixSolve", Solve},
    {"MatrixTriangularSolve", SolveTriangular},
    {"Qr", Qr, "", "q r"},
    {"SelfAdjointEigV2", SymmetricEigen, "", "e v"},
    {"Svd", SingularValues, "", "s u v"},
};

}  // namespace

std::span<const OperatorRow> MatrixOperators() { return kRows; }

}  // namespace rvm::tensorflow
