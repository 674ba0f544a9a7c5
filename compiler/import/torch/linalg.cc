// Linear algebra: the operators of torch.linalg, and the older ones.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/matrix_functions.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/norms.h"

namespace rvm::torch::convert {
namespace {

using namespace importing::matrix;  // NOLINT: most of it is used
using importing::Term;

// Returns the argument as matrices; a mistake if it has fewer than 2 axes.
std::optional<Term> Matrices(NodeContext& c, size_t position = 0) {
  const Argument* argument = c.Positional(position);
  Operand x = argument == nullptr ? c.Fail("it has too few arguments") : c.In(*argument);
  if (!c.failed() && c.RankOf(x) < 2) c.Fail(absl::StrCat("argument ", position + 1, " is no matrix"));
  if (c.failed()) return std::nullopt;
  return Term(c, c.Floating(x));
}

std::optional<Term> SquareMatrices(NodeContext& c, size_t position = 0) {
  std::optional<Term> a = Matrices(c, position);
  if (a && CompareDims(RowsOf(*a), ColumnsOf(*a)) == DimEquality::kDifferent) {
    c.Fail(absl::StrCat("argument ", position + 1, " is no square matrix"));
    return std::nullopt;
  }
  return a;
}

// From here on the program goes on only where `info` is 0 everywhere.
void CheckErrors(NodeContext& c, const Term& info, std::string what) {
  if (c.failed()) return;
  Term is_zero = info == 0;
  c.Assert(c.RankOf(is_zero) == 0 ? is_zero.operand() : c.Op("all", {is_zero}), std::move(what));
}

Term ZeroPivots(const Factored& lu) { return FirstWrong(DiagonalOf(lu.factors) == 0); }

// Pivots as LAPACK counts them: from 1, as int32.
Term ShownPivots(NodeContext& c, const Term& pivots) { return {c, c.Cast(pivots + 1, kInt32)}; }
Factored GivenFactors(NodeContext& c, const Term& factors, Operand pivots) {
  Term from_zero(c, c.Cast(pivots, kInt64));
  from_zero = from_zero - 1;
  return {factors, OrderOf(from_zero, RowsOf(factors)), from_zero};
}

// Vectors on a diagonal of matrices in the axes `dim1` and `dim2`.
Operands DiagEmbed(NodeContext& c) {
  Operand x = c.In("self");
  int64_t rank = c.RankOf(x) + 1, offset = c.Int("offset", 0);
  int64_t first = c.Axis(c.Int("dim1", -2), rank), second = c.Axis(c.Int("dim2", -1), rank);
  bool is_near = offset > -(int64_t{1} << 31) && offset < int64_t{1} << 31;
  if (c.failed() || first == second || !is_near) {
    return {c.failed() ? nullptr : c.Fail("its `dim1` and `dim2` are one axis, or its diagonal is too far off")};
  }
  Term numbers(c, c.Iota(c.ExtentOf(x, -1) + std::abs(offset)));
  // For each row the element that stands in it.
  Operand index = c.Op("maximum", {numbers - static_cast<double>(std::max<int64_t>(-offset, 0)), c.Integer(0)});
  Term rows = AsColumn({c, c.Op("take", {x, index}, {{"axis", rank - 2}})});
  Term is_diagonal = numbers - AsColumn(numbers) == static_cast<double>(offset);
  Operand matrix = Select(is_diagonal, rows, 0);
  std::vector<int64_t> axes;
  for (int64_t axis = 0, next = 0; axis < rank; ++axis) {
    axes.push_back(axis == first ? rank - 2 : axis == second ? rank - 1 : next++);
  }
  return {c.Transpose(matrix, axes)};
}

// ---- determinants and linear systems

Operands LinalgDet(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  Factored lu = LuFactor(*a);
  if (!c.WantsOutput(1) && !c.WantsOutput(2)) return {Determinant(lu)};
  return {Determinant(lu), lu.factors, ShownPivots(c, lu.pivots)};
}

// Returns the sign and the logarithm of the determinant; logdet gives the latter alone, NaN where the sign is negative.
Operands LinalgSlogdet(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  Factored lu = LuFactor(*a);
  const auto [sign, logarithm] = LogDeterminant(lu);
  if (c.row().name == "logdet") return {Select(sign < 0, std::numeric_limits<double>::quiet_NaN(), logarithm)};
  return {sign, logarithm, lu.factors, ShownPivots(c, lu.pivots)};
}

// linalg_solve and _linalg_solve_ex; `B` is a vector where it has an axis less, or the shape of A's rows.
Operands LinalgSolve(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  Term b(c, c.Cast(c.In("B"), c.DTypeOf(*a)));
  const Dims &left = c.DimsOf(*a), &right = c.DimsOf(b);
  bool is_vector = right.size() == 1 || right.size() + 1 == left.size();
  for (size_t i = 0; is_vector && right.size() > 1 && i < right.size(); ++i) {
    is_vector = CompareDims(left[i], right[i]) == DimEquality::kEqual;
  }
  if (is_vector) b = AsColumn(b);
  bool is_left = c.Bool("left", true) || is_vector;
  Factored lu = LuFactor(*a);
  Term x = is_left ? SolveFactored(lu, b) : Transposed(SolveFactored(lu, Transposed(b), true));
  if (is_vector) x = Term(c, c.Squeeze(x, {c.RankOf(x) - 1}));
  Term info = ZeroPivots(lu);
  bool checks = c.row().name == "linalg_solve" || c.Bool("check_errors", false);
  if (checks) CheckErrors(c, info, "a matrix of `torch.linalg.solve` is singular");
  return {x, lu.factors, ShownPivots(c, lu.pivots), info};
}

// inverse, linalg_inv and linalg_inv_ex.
Operands LinalgInverse(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  Factored lu = LuFactor(*a);
  Term info = ZeroPivots(lu);
  bool checks = c.row().name != "linalg_inv_ex" || c.Bool("check_errors", false);
  if (checks) CheckErrors(c, info, "a matrix of `torch.linalg.inv` is singular");
  return {SolveFactored(lu, Identities(*a, ColumnsOf(*a))), info};
}

Operands LinalgLuFactor(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  Factored lu = LuFactor(*a, c.Bool("pivot", true));
  return {lu.factors, ShownPivots(c, lu.pivots), ZeroPivots(lu)};
}

// P, L and U of factors in one matrix.
Operands Unpacked(NodeContext& c, const Term& factors, const Term& order) {
  Dim rows = RowsOf(factors), columns = ColumnsOf(factors);
  bool is_wide = rows.AsConst() && columns.AsConst() && *rows.AsConst() < *columns.AsConst();
  Dim least = is_wide ? rows : columns;
  Term lower = TriangleOf(FirstColumns(factors, least), false, -1), upper = TriangleOf(FirstRows(factors, least), true);
  Term numbers = AsColumn({c, c.Iota(rows)});
  Term permutation(c, c.Cast(numbers == AsRow(order), c.DTypeOf(factors)));
  return {permutation, lower + Identities(factors, least), upper};
}

Operands LinalgLu(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  Factored lu = LuFactor(*a, c.Bool("pivot", true));
  return Unpacked(c, lu.factors, lu.order);
}

Operands LuUnpack(NodeContext& c) {
  std::optional<Term> factors = Matrices(c);
  if (!factors) return {};
  Factored lu = GivenFactors(c, *factors, c.In("LU_pivots"));
  return Unpacked(c, lu.factors, lu.order);
}

// linalg_lu_solve, and lu_solve, which has the right sides first.
Operands LinalgLuSolve(NodeContext& c) {
  bool is_first = c.Has("LU_data");
  std::optional<Term> factors = SquareMatrices(c, is_first ? 1 : 0), b = Matrices(c, is_first ? 0 : 2);
  if (!factors || !b) return {};
  Factored lu = GivenFactors(c, *factors, c.In(is_first ? "LU_pivots" : "pivots"));
  bool is_left = c.Bool("left", true), is_transposed = c.Bool("adjoint", false) == is_left;
  if (is_left) return {SolveFactored(lu, *b, is_transposed)};
  return {Transposed(SolveFactored(lu, Transposed(*b), is_transposed))};
}

Operands LinalgSolveTriangular(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c), b = Matrices(c, 1);
  if (!a || !b) return {};
  bool is_upper = c.Bool("upper", false), is_unit = c.Bool("unitriangular", false);
  if (c.Bool("left", true)) return {SolveTriangular(*a, *b, is_upper, is_unit)};
  return {Transposed(SolveTriangular(Transposed(*a), Transposed(*b), !is_upper, is_unit))};
}

// Solves a triangular system; returns the solution and the matrix.
Operands TriangularSolve(NodeContext& c) {
  std::optional<Term> b = Matrices(c), a = SquareMatrices(c, 1);
  if (!a || !b) return {};
  bool is_upper = c.Bool("upper", true), is_transposed = c.Bool("transpose", false);
  Term matrix = is_transposed ? Transposed(*a) : *a;
  return {SolveTriangular(matrix, *b, is_upper != is_transposed, c.Bool("unitriangular", false)), WithBatches(*a, *b)};
}

// linalg_cholesky and linalg_cholesky_ex.
Operands LinalgCholesky(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  bool is_upper = c.Bool("upper", false);
  Term factor = Cholesky(is_upper ? Transposed(*a) : *a);
  Term info = FirstWrong(Not(DiagonalOf(factor) > 0));
  bool checks = c.row().name != "linalg_cholesky_ex" || c.Bool("check_errors", false);
  if (checks) CheckErrors(c, info, "a matrix of `torch.linalg.cholesky` is not positive definite");
  return {is_upper ? Transposed(factor) : factor, info};
}

// cholesky_solve, and cholesky_inverse, whose right-hand side is the identity.
Operands CholeskySolve(NodeContext& c) {
  bool is_inverse = c.row().name == "cholesky_inverse";
  std::optional<Term> given = Matrices(c), factor = is_inverse ? given : SquareMatrices(c, 1);
  if (!given || !factor) return {};
  Term b = is_inverse ? Identities(*factor, ColumnsOf(*factor)) : *given;
  bool is_upper = c.Bool("upper", false);
  Term lower = is_upper ? Transposed(*factor) : *factor, upper = is_upper ? *factor : Transposed(*factor);
  return {SolveTriangular(upper, SolveTriangular(lower, b, false, false), true, false)};
}

// Checks the `info` of an operator with `_ex`. Its arguments may have lost their names.
Operands LinalgCheckErrors(NodeContext& c) {
  const Argument *info = c.Positional(0), *name = c.Positional(1);
  if (info == nullptr || name == nullptr) return {c.Fail("it has too few arguments")};
  CheckErrors(c, {c, c.In(*info)}, absl::StrCat("a matrix of `", name->text, "` is singular or not definite"));
  return {};
}

// ---- powers

Operands MatrixPower(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  int64_t exponent = c.Int("n", 1);
  if (!a) return {};
  if (exponent < -(int64_t{1} << 31)) return {c.Unsupported("an exponent below -2^31")};
  if (exponent == 0) return {Identities(*a, ColumnsOf(*a))};
  return {exponent < 0 ? PowerOf(Inverse(*a), -exponent) : PowerOf(*a, exponent)};
}

Operands MatrixExponential(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  // In float64: squares of squares add up the roundings.
  return {c.Cast(Exponential({c, c.Cast(*a, kFloat64)}), c.DTypeOf(*a))};
}

// ---- orthogonal factors

Operands LinalgQr(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  std::string mode = c.Text("mode", "reduced");
  Orthogonal qr = mode == "complete" ? QrFactor(*a) : ReducedQr(*a);
  if (mode != "r") return {qr.q, qr.r};
  return {c.Cast(c.emit().Constant(Literal::FromValues<float>(kFloat32, {0}, {})), c.DTypeOf(*a)), qr.r};
}

Operands Geqrf(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  Orthogonal qr = QrFactor(*a);
  Dim rows = RowsOf(*a), columns = ColumnsOf(*a);
  bool is_wide = rows.AsConst() && columns.AsConst() && *rows.AsConst() < *columns.AsConst();
  return {qr.reflectors, c.SliceAxis(qr.taus, c.RankOf(qr.taus) - 1, 0, is_wide ? rows : columns)};
}

Operands HouseholderProduct(NodeContext& c) {
  std::optional<Term> reflectors = Matrices(c);
  if (!reflectors) return {};
  Term taus(c, c.In("tau"));
  return {ApplyReflectors(*reflectors, taus, Identities(*reflectors, ColumnsOf(*reflectors)), false)};
}

Operands Ormqr(NodeContext& c) {
  std::optional<Term> reflectors = Matrices(c), b = Matrices(c, 2);
  if (!reflectors || !b) return {};
  Term taus(c, c.In("input2"));
  bool is_left = c.Bool("left", true), transposes = c.Bool("transpose", false);
  if (is_left) return {ApplyReflectors(*reflectors, taus, *b, transposes)};
  return {Transposed(ApplyReflectors(*reflectors, taus, Transposed(*b), !transposes))};
}

Term Largest(const Term& values, bool keeps) {
  Steps& c = values.steps();
  return {c, c.Op("max", {values}, {{"axis", ir::AttrValue::List{c.RankOf(values) - 1}}, {"keepdims", keeps}})};
}

Term Smallest(const Term& values) {
  Steps& c = values.steps();
  return {c, c.Op("min", {values}, {{"axis", ir::AttrValue::List{c.RankOf(values) - 1}}})};
}

// linalg_eigh, _linalg_eigh and linalg_eigvalsh; and the square root of positive definite matrices, made of both.
Operands LinalgEigh(NodeContext& c) {
  std::optional<Term> a = SquareMatrices(c);
  if (!a) return {};
  Eigen eigen = SymmetricEigen(Symmetric(*a, c.Text("UPLO", "L") == "U" || c.Text("UPLO", "L") == "u"));
  if (c.row().name != "linalg_matrix_sqrth") return {eigen.values, eigen.vectors};
  return {Product(eigen.vectors * AsRow(Sqrt(eigen.values)), Transposed(eigen.vectors))};
}

// linalg_svd, _linalg_svd and svd, whose third output is V instead of V^T; and the polar form of a matrix that is not
// wide, U V^T and V diag(values) V^T.
Operands LinalgSvd(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  bool is_old = c.row().name == "svd", is_plain = c.row().name == "linalg_svd";
  if (!c.Bool("compute_uv", true)) return {nullptr, AnySingularValues(*a).values};
  bool is_full = is_old ? !c.Bool("some", true) : c.Bool("full_matrices", is_plain);
  Singular singular = SingularFactors(*a, is_full && c.row().name != "linalg_polar");
  if (c.failed()) return {};
  Term turned = Transposed(singular.v);
  if (c.row().name == "linalg_polar") {
    return {Product(singular.u, turned), Product(singular.v * AsRow(singular.values), turned)};
  }
  return {singular.u, singular.values, is_old ? singular.v : turned};
}

Operands LinalgSvdvals(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  return {AnySingularValues(*a).values};
}

// Returns the matrices; of those that are said to be symmetric the lower triangle counts.
std::optional<Term> MaybeSymmetric(NodeContext& c) {
  if (!c.Bool("hermitian", false)) return Matrices(c);
  std::optional<Term> a = SquareMatrices(c);
  return a ? std::optional<Term>(Symmetric(*a, false)) : std::nullopt;
}

// Returns the bound below which values count as 0: the greater of the absolute and the relative tolerance. Without both
// it is the relative one of the dtype and the extents.
Term Tolerance(NodeContext& c, const Term& a, const Term& largest) {
  auto given = [&](const char* name) -> std::optional<Term> {
    if (!c.Has(name)) return std::nullopt;
    Term value(c, c.Cast(c.In(name), c.DTypeOf(a)));
    if (c.RankOf(value) > 0) value = Term(c, c.Unsqueeze(value, {c.RankOf(value)}));
    return value;
  };
  std::optional<Term> absolute = given("atol"), relative = given("rtol");
  for (const char* name : {"rcond", "tol"}) {
    if (!c.Has(name)) continue;
    (std::string_view(name) == "tol" ? absolute : relative) = given(name);
  }
  Term rows(c, c.emit().FromDim(RowsOf(a))), columns(c, c.emit().FromDim(ColumnsOf(a)));
  double epsilon = c.DTypeOf(a) == kFloat64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  Term common = Term(c, c.Cast(Max(rows, columns), c.DTypeOf(a))) * epsilon;
  if (!absolute) return largest * relative.value_or(common);
  if (relative) return Max(*absolute, largest * *relative);
  return Max(*absolute, largest * Select(*absolute > 0, 0, common));
}

Operands LinalgPinv(NodeContext& c) {
  std::optional<Term> a = MaybeSymmetric(c);
  if (!a) return {};
  Singular singular = AnySingularValues(*a);
  if (c.failed()) return {};
  Term is_kept = singular.values > Tolerance(c, *a, Largest(singular.values, true));
  Term inverse = Select(is_kept, 1 / Select(is_kept, singular.values, 1), 0);
  return {Product(singular.v * AsRow(inverse), Transposed(singular.u))};
}

Operands LinalgMatrixRank(NodeContext& c) {
  std::optional<Term> a = MaybeSymmetric(c);
  if (!a) return {};
  Term values = AnySingularValues(*a).values;
  if (c.failed()) return {};
  Term is_kept = values > Tolerance(c, *a, Largest(values, true));
  return {c.Op("sum", {c.Cast(is_kept, kInt64)}, {{"axis", ir::AttrValue::List{-1}}})};
}

// Norms of matrices in the last two axes, which are dropped.
Term MatrixNorm(const Term& a, std::string_view name, double order) {
  if (name == "fro") return Sqrt(SumOver(SumOver(a * a, -1), -1));
  if (name == "nuc") return SumOver(AnySingularValues(a).values, -1);
  Term sums = std::abs(order) == 1 ? SumOver(Abs(a), -2) : std::isinf(order) ? SumOver(Abs(a), -1) : a;
  if (std::abs(order) == 2) sums = AnySingularValues(a).values;
  return order > 0 ? Largest(sums, false) : Smallest(sums);
}

// Computes norms of the matrices in the axes `dim`.
Operands LinalgMatrixNorm(NodeContext& c) {
  Operand x = c.In("self");
  x = c.Floating(c.Cast(x, c.DType("dtype", c.DTypeOf(x))));
  std::vector<int64_t> dims = c.Has("dim") ? c.Axes(c.Ints("dim"), c.RankOf(x)) : std::vector<int64_t>();
  if (dims.empty()) dims = c.Axes({-2, -1}, c.RankOf(x));
  if (c.failed() || dims.size() != 2 || dims[0] == dims[1]) {
    return {c.failed() ? nullptr : c.Fail("its `dim` is not two axes")};
  }
  std::vector<int64_t> order;
  for (int64_t i = 0; i < c.RankOf(x); ++i) {
    if (i != dims[0] && i != dims[1]) order.push_back(i);
  }
  order.insert(order.end(), dims.begin(), dims.end());
  const Argument* given = c.Find("ord");
  bool is_name = given == nullptr || given->kind == ArgumentKind::kString;
  double number = is_name ? 0 : c.Float("ord", 2);
  if (!is_name && std::abs(number) != 1 && std::abs(number) != 2 && !std::isinf(number)) {
    return {c.Unsupported(absl::StrCat("the matrix norm of order ", number))};
  }
  Term norm = MatrixNorm({c, c.Transpose(x, order)}, is_name ? c.Text("ord", "fro") : "", number);
  if (c.Bool("keepdim", false)) norm = Term(c, c.Unsqueeze(norm, dims));
  return {norm};
}

// The norm of matrices, or of vectors: of all elements, if neither an order nor axes are given.
Operands LinalgNorm(NodeContext& c) {
  const Argument* order = c.Find("ord");
  const bool is_name = order != nullptr && order->kind == ArgumentKind::kString;
  const size_t axes = c.Has("dim") ? c.Ints("dim").size() : 0;
  const bool is_matrix = axes == 2 || (axes == 0 && (is_name || order != nullptr) && c.RankOf(c.In("self")) == 2);
  return is_matrix ? LinalgMatrixNorm(c) : VectorNorm(c);
}

// Products of vectors along an axis.
Operands LinalgVecdot(NodeContext& c) {
  Operand x = c.In("x"), y = c.In("y");
  c.Promote({&x, &y});
  return {c.Op("sum", {c.Mul(x, y)}, {{"axis", ir::AttrValue::List{c.Int("dim", -1)}}})};
}

// Returns the ratio of the norms of the matrix and of its inverse.
Operands LinalgCond(NodeContext& c) {
  std::optional<Term> a = Matrices(c);
  if (!a) return {};
  const Argument* given = c.Find("p");
  bool is_name = given != nullptr && given->kind == ArgumentKind::kString;
  double order = is_name ? 0 : c.Float("p", 2);
  if (!is_name && std::abs(order) == 2) {
    Term values = AnySingularValues(*a).values;
    return {order > 0 ? Largest(values, false) / Smallest(values) : Smallest(values) / Largest(values, false)};
  }
  std::string name = c.Text("p", "");
  return {MatrixNorm(*a, name, order) * MatrixNorm(Inverse(*a), name, order)};
}

constexpr OperatorRow kRows[] = {
    {"diag_embed", DiagEmbed},
    {"_linalg_det", LinalgDet},
    {"det", LinalgDet},
    {"linalg_det", LinalgDet},
    {"_linalg_slogdet", LinalgSlogdet},
    {"linalg_slogdet", LinalgSlogdet},
    {"logdet", LinalgSlogdet},
    {"slogdet", LinalgSlogdet},
    {"_linalg_solve_ex", LinalgSolve},
    {"linalg_solve", LinalgSolve},
    {"linalg_solve_ex", LinalgSolve},
    {"inverse", LinalgInverse},
    {"linalg_inv", LinalgInverse},
    {"linalg_inv_ex", LinalgInverse},
    {"_lu_with_info", LinalgLuFactor},
    {"linalg_lu_factor", LinalgLuFactor},
    {"linalg_lu_factor_ex", LinalgLuFactor},
    {"linalg_lu", LinalgLu},
    {"linalg_lu_solve", LinalgLuSolve},
    {"lu_solve", LinalgLuSolve},
    {"lu_unpack", LuUnpack},
    {"linalg_solve_triangular", LinalgSolveTriangular},
    {"triangular_solve", TriangularSolve},
    {"cholesky", LinalgCholesky},
    {"linalg_cholesky", LinalgCholesky},
    {"linalg_cholesky_ex", LinalgCholesky},
    {"cholesky_inverse", CholeskySolve},
    {"cholesky_solve", CholeskySolve},
    {"_linalg_check_errors", LinalgCheckErrors},
    {"linalg_matrix_power", MatrixPower},
    {"matrix_power", MatrixPower},
    {"linalg_matrix_exp", MatrixExponential},
    {"matrix_exp", MatrixExponential},
    {"linalg_qr", LinalgQr},
    {"geqrf", Geqrf},
    {"linalg_householder_product", HouseholderProduct},
    {"orgqr", HouseholderProduct},
    {"ormqr", Ormqr},
    {"_linalg_eigh", LinalgEigh},
    {"linalg_eigh", LinalgEigh},
    {"linalg_eigvalsh", LinalgEigh},
    {"linalg_matrix_sqrth", LinalgEigh},
    {"linalg_polar", LinalgSvd},
    {"_linalg_svd", LinalgSvd},
    {"linalg_svd", LinalgSvd},
    {"svd", LinalgSvd},
    {"linalg_svdvals", LinalgSvdvals},
    {"linalg_pinv", LinalgPinv},
    {"pinverse", LinalgPinv},
    {"linalg_eig", Refused, "eigenvalues may be complex; `torch.linalg.eigh` takes symmetric matrices"},
    {"_linalg_eigvals", Refused, "eigenvalues may be complex; `torch.linalg.eigvalsh` takes symmetric matrices"},
    {"linalg_eigvals", Refused, "eigenvalues may be complex; `torch.linalg.eigvalsh` takes symmetric matrices"},
    {"linalg_ldl_factor", Refused, "no symmetric indefinite factors; use `torch.linalg.lu_factor`"},
    {"linalg_ldl_solve", Refused, "no symmetric indefinite factors; use `torch.linalg.lu_solve`"},
    {"linalg_ldl_factor_ex", Refused, "no symmetric indefinite factors; use `torch.linalg.lu_factor`"},
    {"linalg_matrix_rank", LinalgMatrixRank},
    {"linalg_matrix_norm", LinalgMatrixNorm},
    {"linalg_norm", LinalgNorm},
    {"linalg_vecdot", LinalgVecdot},
    {"linalg_cond", LinalgCond},
};

}  // namespace

std::span<const OperatorRow> LinalgOperators() { return kRows; }

}  // namespace rvm::torch::convert
