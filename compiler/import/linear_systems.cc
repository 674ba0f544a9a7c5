#include <cstdint>
#include <limits>
#include <optional>

#include "compiler/import/loops.h"
#include "compiler/import/matrix_functions.h"

namespace rvm::importing::matrix {
namespace {

Term Placeholder(Steps& c) { return {c, c.emit().Placeholder()}; }

// Returns the index of the element of greatest magnitude at or below row k.
Term PivotOf(const Term& column, const Term& rows, const Term& k) {
  Steps& c = column.steps();
  Term size = Select(rows >= k, Abs(column), -1);
  return Cast({c, c.Op("argmax", {size}, {{"axis", ir::AttrValue::List{c.RankOf(size) - 1}}})}, kInt64);
}

// 0, 1, ... with `a` and `b` exchanged in each batch.
Term Exchange(const Term& rows, const Term& a, const Term& b) {
  Steps& c = rows.steps();
  Term other(c, c.Unsqueeze(b, {c.RankOf(b)}));
  return Select(rows == a, other, Select(rows == other, a, rows));
}

}  // namespace

Factored LuFactor(const Term& a, bool exchanges) {
  Steps& c = a.steps();
  Term rows = RowNumbers(a), columns = ColumnNumbers(a);
  Term batches = Cast(Column(a, c.Integer(0)), kInt64);
  Term order = Broadcast(rows, batches);
  // One pivot for each element of the diagonal.
  std::optional<int64_t> height = RowsOf(a).AsConst(), width = ColumnsOf(a).AsConst();
  bool is_tall = height && width && *height > *width;
  Term places = is_tall ? columns : rows;
  Term pivots = Broadcast(places, is_tall ? Cast(Row(a, c.Integer(0)), kInt64) : batches);
  Rolled rolled =
      Roll(c, DiagonalSize(a), nullptr, {a, order, pivots}, [&](Operand index, const Operands& own) -> Step {
        Term k(c, index), matrix(c, own[0]), permuted(c, own[1]), chosen(c, own[2]);
        if (exchanges) {
          Term place = PivotOf(Column(matrix, k), rows, k);
          chosen = Select(places == k, Term(c, c.Unsqueeze(place, {c.RankOf(place)})), chosen);
          Term exchange = Exchange(rows, k, place);
          matrix = RowsInOrder(matrix, exchange);
          permuted = InOrder(permuted, exchange);
        }
        Term column = Column(matrix, k), pivot = AsColumn(At(column, k));
        Term factor = Select(rows > k, Select(pivot == 0, column, column / pivot), 0);
        Term rest = Select(columns > k, Row(matrix, k), 0);
        Term is_factor = And(AsColumn(rows) > k, columns == k);
        return {nullptr, {Select(is_factor, AsColumn(factor), matrix - Outer(factor, rest)), permuted, chosen}, {}};
      });
  if (c.failed() || rolled.state.size() != 3) return {Placeholder(c), Placeholder(c), Placeholder(c)};
  return {{c, rolled.state[0]}, {c, rolled.state[1]}, {c, rolled.state[2]}};
}

Term PermutationSign(const Term& pivots) {
  Steps& c = pivots.steps();
  Term kept = Cast(pivots == ColumnNumbers(pivots), kInt64);
  return {c, c.Op("prod", {kept * 2 - 1}, {{"axis", ir::AttrValue::List{c.RankOf(kept) - 1}}})};
}

Term Determinant(const Factored& lu) {
  Steps& c = lu.factors.steps();
  Term product(c, c.Op("prod", {DiagonalOf(lu.factors)}, {{"axis", ir::AttrValue::List{c.RankOf(lu.factors) - 2}}}));
  return product * Cast(PermutationSign(lu.pivots), c.DTypeOf(lu.factors));
}

SignedLogarithm LogDeterminant(const Factored& lu) {
  const Term diagonal = DiagonalOf(lu.factors);
  Steps& c = diagonal.steps();
  const ir::Attrs attrs = {{"axis", ir::AttrValue::List{c.RankOf(diagonal) - 1}}};
  const Term signs(c, c.Op("prod", {diagonal.Apply("sign")}, attrs));
  return {signs * Cast(PermutationSign(lu.pivots), c.DTypeOf(diagonal)), {c, c.Op("sum", {Log(Abs(diagonal))}, attrs)}};
}

Term OrderOf(const Term& pivots, const Dim& rows) {
  Steps& c = pivots.steps();
  Term numbers(c, c.Iota(rows));
  Term first = Broadcast(numbers, Term(c, c.Unsqueeze(At(pivots, c.Integer(0)), {c.RankOf(pivots) - 1})));
  Operand limit = c.emit().FromDim(ColumnsOf(pivots));
  Rolled rolled = Roll(c, limit, nullptr, {first}, [&](Operand index, const Operands& own) -> Step {
    Term k(c, index), order(c, own[0]);
    return {nullptr, {InOrder(order, Exchange(numbers, k, At(pivots, k)))}, {}};
  });
  return {c, rolled.state.size() == 1 ? rolled.state[0] : c.emit().Placeholder()};
}

Term FirstWrong(const Term& is_wrong) {
  Steps& c = is_wrong.steps();
  ir::Attrs attrs = {{"axis", ir::AttrValue::List{c.RankOf(is_wrong) - 1}}};
  Term any(c, c.Op("any", {is_wrong}, attrs));
  // Counts those before it, of which a matrix of no rows has none.
  Term is_before(c, c.Op("cumprod", {Cast(Not(is_wrong), kInt32)}, {{"axis", -1}}));
  return Select(any, Term(c, c.Op("sum", {is_before}, attrs)) + 1, 0);
}

Term SolveTriangular(const Term& a, const Term& b, bool is_upper, bool is_unit) {
  Steps& c = a.steps();
  Term rows = RowNumbers(a), start = WithBatches(b, a), last(c, c.emit().FromDim(RowsOf(a) - 1));
  Operand limit = c.emit().FromDim(RowsOf(a));
  Rolled rolled = Roll(c, limit, nullptr, {start}, [&](Operand index, const Operands& own) -> Step {
    Term k = is_upper ? last - Term(c, index) : Term(c, index), rest(c, own[0]);
    Term column = Column(a, k), solved = Row(rest, k);
    if (!is_unit) solved = solved / AsColumn(At(column, k));
    Term below = Select(is_upper ? rows < k : rows > k, column, 0);
    return {nullptr, {Select(AsColumn(rows) == k, AsRow(solved), rest - Outer(below, solved))}, {}};
  });
  return {c, rolled.state.size() == 1 ? rolled.state[0] : c.emit().Placeholder()};
}

Term SolveFactored(const Factored& lu, const Term& b, bool is_transposed) {
  Steps& c = b.steps();
  if (!is_transposed) {
    Term y = SolveTriangular(lu.factors, RowsInOrder(b, lu.order), false, true);
    return SolveTriangular(lu.factors, y, true, false);
  }
  Term factors = Transposed(lu.factors);
  Term y = SolveTriangular(factors, SolveTriangular(factors, b, false, false), true, true);
  Operand inverse = c.Op("argsort", {lu.order}, {{"axis", -1}, {"dtype", "int64"}});
  return RowsInOrder(y, {c, inverse});
}

Term Inverse(const Term& a) { return SolveFactored(LuFactor(a), Identities(a, ColumnsOf(a))); }

Term Cholesky(const Term& a) {
  Steps& c = a.steps();
  Term rows = RowNumbers(a), columns = ColumnNumbers(a);
  Operand limit = c.emit().FromDim(RowsOf(a));
  Rolled rolled = Roll(c, limit, nullptr, {a}, [&](Operand index, const Operands& own) -> Step {
    Term k(c, index), rest(c, own[0]), column = Column(rest, k), pivot = At(column, k);
    Term root = Sqrt(Select(pivot > 0, pivot, std::numeric_limits<double>::quiet_NaN()));
    Term scaled = Select(rows > k, column / AsColumn(root), 0), factor = Select(rows == k, AsColumn(root), scaled);
    return {nullptr, {Select(columns == k, AsColumn(factor), rest - Outer(scaled, scaled))}, {}};
  });
  if (c.failed() || rolled.state.size() != 1) return Placeholder(c);
  return TriangleOf({c, rolled.state[0]}, false);
}

Term PowerOf(const Term& a, int64_t exponent) {
  Term result = a, square = a;
  bool is_first = true;
  for (int64_t rest = exponent; rest > 0; rest >>= 1) {
    if ((rest & 1) != 0) {
      result = is_first ? square : Product(result, square);
      is_first = false;
    }
    if (rest > 1) square = Product(square, square);
  }
  return result;
}

// Scales and squares: the Taylor series of A / 2^s, squared s times.
Term Exponential(const Term& a) {
  constexpr int kTerms = 16;
  Steps& c = a.steps();
  Term norms = SumOver(Abs(a), -2);
  Term norm(c, c.Op("max", {norms}));
  Term squares = Max((norm.Apply("log2") + 1).Apply("ceil"), norm.Like(0));
  squares = Select(Abs(norm) < std::numeric_limits<double>::infinity(), squares, 0);
  Term scaled = a / squares.Like(2).Apply("power", squares), one = Identities(a, ColumnsOf(a)), sum = one;
  for (int i = kTerms; i > 0; --i) sum = one + Product(scaled, sum) / i;
  Operand limit = Cast(squares, kInt64);
  Rolled rolled = Roll(c, limit, nullptr, {sum}, [&](Operand, const Operands& own) -> Step {
    return {nullptr, {Product({c, own[0]}, {c, own[0]})}, {}};
  });
  return {c, rolled.state.size() == 1 ? rolled.state[0] : c.emit().Placeholder()};
}

}  // namespace rvm::importing::matrix
