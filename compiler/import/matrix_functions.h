// Functions of matrices as loops over rows and columns. Leading axes are batches; all steps of a loop work on whole
// tensors, so extents may be symbolic.
#ifndef RVM_COMPILER_IMPORT_MATRIX_FUNCTIONS_H_
#define RVM_COMPILER_IMPORT_MATRIX_FUNCTIONS_H_

#include <cstdint>

#include "compiler/import/term.h"

namespace rvm::importing::matrix {

// ---- pieces of matrices (matrix_pieces.cc). An index is an int64 scalar.

Term Row(const Term& a, Operand index);     // (..., columns)
Term Column(const Term& a, Operand index);  // (..., rows)
Term At(const Term& vector, Operand index);
Term AsColumn(const Term& vector);  // (..., n, 1)
Term AsRow(const Term& vector);     // (..., 1, n)
Term Outer(const Term& column, const Term& row);
Term DiagonalOf(const Term& a);
Term Transposed(const Term& a);
Term Product(const Term& a, const Term& b);
Term TriangleOf(const Term& a, bool is_upper, int64_t diagonal = 0);
// Returns the symmetric matrices of which one triangle is given.
Term Symmetric(const Term& a, bool is_upper);
// 0, 1, ... for the rows or the columns, as int64 vectors.
Term RowNumbers(const Term& a);
Term ColumnNumbers(const Term& a);
Dim RowsOf(const Term& a);
Dim ColumnsOf(const Term& a);
// Returns the number of diagonal elements, an int64 scalar.
Operand DiagonalSize(const Term& a);
// Returns the first axes, columns or rows of a matrix.
Term FirstColumns(const Term& a, const Dim& count);
Term FirstRows(const Term& a, const Dim& count);
// Sums over an axis, counted from the end.
Term SumOver(const Term& x, int64_t axis);
// `b` repeated for the batches of the matrices `a`.
Term WithBatches(const Term& b, const Term& a);
// Identity matrices of the batches and rows of `like`, with so many columns.
Term Identities(const Term& like, const Dim& columns);
// Rows, or columns, of `b` in that order, which differs between batches.
Term RowsInOrder(const Term& b, const Term& order);
Term ColumnsInOrder(const Term& b, const Term& order);
// Returns the elements of `vector` in that order.
Term InOrder(const Term& vector, const Term& order);

// ---- linear systems (linear_systems.cc)

// P A = L U. `factors` has U and, below its diagonal, L; row i of P A is row `order`[i] of A; `pivots` counts from 0
// the rows that were exchanged with rows 0, 1, ...
struct Factored {
  Term factors, order, pivots;
};
// `exchanges`: rows are exchanged so that each pivot is the greatest of its column.
Factored LuFactor(const Term& a, bool exchanges = true);
// 1 or -1 for each matrix: the determinant of P.
Term PermutationSign(const Term& pivots);
Term Determinant(const Factored& lu);
// The sign of the determinant, and the logarithm of its absolute value.
struct SignedLogarithm {
  Term sign, logarithm;
};
SignedLogarithm LogDeterminant(const Factored& lu);
// Returns the order of `rows` rows that the exchanges give.
Term OrderOf(const Term& pivots, const Dim& rows);
// 0, or the number of the first element of the diagonal that `is_wrong`, counted from 1, as int32.
Term FirstWrong(const Term& is_wrong);
// X of A X = B where A is triangular. The other triangle, and if `is_unit` the diagonal, is not read.
Term SolveTriangular(const Term& a, const Term& b, bool is_upper, bool is_unit);
// X of A X = B, or of A^T X = B.
Term SolveFactored(const Factored& lu, const Term& b, bool is_transposed = false);
Term Inverse(const Term& a);
// L of A = L L^T, from the lower triangle of A; NaN from the first column on that shows A not positive definite.
Term Cholesky(const Term& a);
// Returns A to a power above 0.
Term PowerOf(const Term& a, int64_t exponent);
Term Exponential(const Term& a);

// ---- orthogonal factors (orthogonal_factors.cc)

// A = Q R by Householder reflections, Q square, with LAPACK's signs. `reflectors` is LAPACK's packed form, with `taus`.
struct Orthogonal {
  Term q, r, reflectors, taus;
};
Orthogonal QrFactor(const Term& a);
// Returns Q and R cut to the lesser extent of A; refused where only the running model knows which that is.
Orthogonal ReducedQr(const Term& a);
// Returns the product of packed reflections times `b`; the transposed product if `transposes`.
Term ApplyReflectors(const Term& reflectors, const Term& taus, const Term& b, bool transposes);
// Ascending eigenvalues and the vectors of symmetric matrices, by Jacobi's rotations.
struct Eigen {
  Term values, vectors;
};
Eigen SymmetricEigen(const Term& a);
// A = U diag(values) V^T with descending values, for matrices that are not wide. U has the shape of A, and columns of
// zeros where the value is 0.
struct Singular {
  Term u, values, v;
};
Singular SingularValues(const Term& a);
// Returns U, values and V of any matrix. U and V have the lesser extent as columns, and columns of zeros where the
// value is 0. Refused where only the running model knows which extent that is.
Singular AnySingularValues(const Term& a);
// Returns the same with orthonormal columns in place of those of zeros; `is_full`: U and V are square.
Singular SingularFactors(const Term& a, bool is_full);
// Returns the columns of `u`, which are orthonormal or 0, with others in place of the latter and behind, up to a square
// matrix.
Term Completed(const Term& u);

}  // namespace rvm::importing::matrix

#endif  // RVM_COMPILER_IMPORT_MATRIX_FUNCTIONS_H_
