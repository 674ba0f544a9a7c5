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

// Returns the sign of the determinant and the logarithm of its absolute value.
Operands LogDeterminant(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  if (!a) return {};
  const matrix::Factored lu = matrix::LuFactor(*a);
  const Term diagonal = matrix::DiagonalOf(lu.factors);
  const ir::Attrs attrs = {{"axis", ir::AttrValue::List{c.RankOf(diagonal) - 1}}};
  const Term signs(c, c.Op("prod", {diagonal.Apply("sign")}, attrs));
  return {signs * Cast(matrix::PermutationSign(lu.pivots), c.DTypeOf(*a)), c.Op("sum", {Log(Abs(diagonal))}, attrs)};
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
  const matrix::Orthogonal qr = matrix::QrFactor(*a);
  if (c.BoolAttr("full_matrices")) return {qr.q, qr.r};
  const Dim rows = matrix::RowsOf(*a), columns = matrix::ColumnsOf(*a);
  if (rows != columns && !(rows.AsConst() && columns.AsConst())) {
    return {c.Unsupported("the reduced factors of a matrix whose shape only the running model knows")};
  }
  const Dim least = rows == columns || *rows.AsConst() > *columns.AsConst() ? columns : rows;
  return {matrix::FirstColumns(qr.q, least), matrix::FirstRows(qr.r, least)};
}

// Returns ascending eigenvalues, and the vectors, of symmetric matrices, of which the lower triangle counts.
Operands SymmetricEigen(NodeContext& c) {
  const std::optional<Term> a = MatricesAt(c, 0, true);
  if (!a) return {};
  const Term below = matrix::TriangleOf(*a, false, -1);
  const matrix::Eigen eigen = matrix::SymmetricEigen(matrix::TriangleOf(*a, false) + matrix::Transposed(below));
  return {eigen.values, eigen.vectors};
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
};

}  // namespace

std::span<const OperatorRow> MatrixOperators() { return kRows; }

}  // namespace rvm::tensorflow
