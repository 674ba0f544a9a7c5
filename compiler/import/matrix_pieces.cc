#include <cstdint>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/matrix_functions.h"

namespace rvm::importing::matrix {
namespace {

// Returns the axis that counts from the end.
int64_t AxisOf(const Term& x, int64_t axis) { return x.steps().RankOf(x) + axis; }

Term Take(const Term& a, Operand index, int64_t axis) {
  Steps& c = a.steps();
  return {c, c.Op("take", {a, index}, {{"axis", AxisOf(a, axis)}})};
}

// The elements of `b` along an axis at `order`, both broadcast.
Term Gathered(const Term& b, const Term& order, int64_t axis) {
  Steps& c = b.steps();
  Term index = Broadcast(order, Cast(b, kInt64));
  Term whole = Broadcast(b, Cast(index, c.DTypeOf(b)));
  return {c, c.Op("gather", {whole, index}, {{"axis", AxisOf(whole, axis)}})};
}

}  // namespace

Term Row(const Term& a, Operand index) { return Take(a, index, -2); }
Term Column(const Term& a, Operand index) { return Take(a, index, -1); }
Term At(const Term& vector, Operand index) { return Take(vector, index, -1); }

Term AsColumn(const Term& vector) {
  Steps& c = vector.steps();
  return {c, c.Unsqueeze(vector, {c.RankOf(vector)})};
}
Term AsRow(const Term& vector) {
  Steps& c = vector.steps();
  return {c, c.Unsqueeze(vector, {c.RankOf(vector) - 1})};
}
Term Outer(const Term& column, const Term& row) { return AsColumn(column) * AsRow(row); }

Term DiagonalOf(const Term& a) { return {a.steps(), a.steps().Op("diag", {a})}; }

Term Transposed(const Term& a) {
  Steps& c = a.steps();
  if (c.RankOf(a) < 2) return {c, c.Fail("it has an operand that is no matrix")};
  return {c, SwapAxes(c, a, -2, -1)};
}

Term Product(const Term& a, const Term& b) { return a.Apply("nn.matmul", b); }

Term TriangleOf(const Term& a, bool is_upper, int64_t diagonal) {
  Steps& c = a.steps();
  return {c, c.Op("trilu", {a, c.emit().Integer(diagonal, kInt32)}, {{"upper", is_upper}})};
}

Term Symmetric(const Term& a, bool is_upper) {
  const Term half = TriangleOf(a, is_upper, is_upper ? 1 : -1);
  return TriangleOf(a, is_upper) + Transposed(half);
}

Dim RowsOf(const Term& a) { return a.steps().ExtentOf(a, -2); }
Dim ColumnsOf(const Term& a) { return a.steps().ExtentOf(a, -1); }
Operand DiagonalSize(const Term& a) {
  Steps& c = a.steps();
  return c.Op("minimum", {c.emit().FromDim(RowsOf(a)), c.emit().FromDim(ColumnsOf(a))});
}
Term RowNumbers(const Term& a) { return {a.steps(), a.steps().Iota(RowsOf(a))}; }
Term ColumnNumbers(const Term& a) { return {a.steps(), a.steps().Iota(ColumnsOf(a))}; }

Term FirstColumns(const Term& a, const Dim& count) {
  return {a.steps(), a.steps().SliceAxis(a, AxisOf(a, -1), 0, count)};
}
Term FirstRows(const Term& a, const Dim& count) { return {a.steps(), a.steps().SliceAxis(a, AxisOf(a, -2), 0, count)}; }

Term SumOver(const Term& x, int64_t axis) {
  Steps& c = x.steps();
  return {c, c.Op("sum", {x}, {{"axis", ir::AttrValue::List{AxisOf(x, axis)}}})};
}

Term WithBatches(const Term& b, const Term& a) { return Broadcast(b, AsColumn(Column(a, b.steps().Integer(0)))); }

Term Identities(const Term& like, const Dim& columns) {
  Steps& c = like.steps();
  Term numbers(c, c.Iota(columns));
  return WithBatches(Cast(AsColumn(RowNumbers(like)) == numbers, c.DTypeOf(like)), like);
}

Term RowsInOrder(const Term& b, const Term& order) { return Gathered(b, AsColumn(order), -2); }
Term ColumnsInOrder(const Term& b, const Term& order) { return Gathered(b, AsRow(order), -1); }
Term InOrder(const Term& vector, const Term& order) {
  Steps& c = vector.steps();
  return {c, c.Op("gather", {vector, order}, {{"axis", c.RankOf(order) - 1}})};
}

}  // namespace rvm::importing::matrix
