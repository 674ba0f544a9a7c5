#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/loops.h"
#include "compiler/import/matrix_functions.h"

namespace rvm::importing::matrix {
namespace {

Term Placeholder(Steps& c) { return {c, c.emit().Placeholder()}; }

// Returns whether matrices have more columns than rows; a refusal that names `what` if that is not known.
bool IsWide(const Term& a, std::string_view what) {
  const Dim rows = RowsOf(a), columns = ColumnsOf(a);
  if (rows == columns) return false;
  if (rows.AsConst() && columns.AsConst()) return *rows.AsConst() < *columns.AsConst();
  a.steps().Unsupported(
      absl::StrCat(Abseil(what), " of a matrix whose shape only the running model knows; give it with --shape"));
  return false;
}

// b - tau v (v^T b).
Term Reflected(const Term& b, const Term& v, const Term& tau) {
  return b - Outer(v, AsColumn(tau) * SumOver(AsColumn(v) * b, -2));
}

}  // namespace

Orthogonal QrFactor(const Term& a) {
  Steps& c = a.steps();
  Term rows = RowNumbers(a), columns = ColumnNumbers(a);
  // A tau for each column; those behind the last row stay 0.
  Term taus = Row(a, c.Integer(0)) * 0;
  Term start = Identities(a, RowsOf(a));
  Rolled rolled =
      Roll(c, DiagonalSize(a), nullptr, {a, start, a, taus}, [&](Operand index, const Operands& own) -> Step {
        Term k(c, index), r(c, own[0]), q(c, own[1]), packed(c, own[2]), chosen(c, own[3]);
        Term column = Column(r, k), alpha = At(column, k), below = Select(rows > k, column, 0);
        Term rest = SumOver(below * below, -1), is_active = rest > 0, length = Sqrt(alpha * alpha + rest);
        Term beta = Select(is_active, Select(alpha >= 0, -length, length), alpha);
        Term safe = Select(is_active, beta, 1), tau = Select(is_active, (beta - alpha) / safe, 0);
        Term divisor = AsColumn(Select(is_active, alpha - beta, 1)), v = Select(rows == k, 1, below / divisor);
        // The second is the transposed Q.
        r = Reflected(r, v, tau);
        Term shown = Select(rows > k, v, Select(rows == k, AsColumn(beta), column));
        Term exact = Select(rows > k, 0, Select(rows == k, AsColumn(beta), column));
        r = Select(columns == k, AsColumn(exact), r);
        // Rows above were finished by earlier columns; the packed form has the reflections below the diagonal.
        packed = Select(columns == k, AsColumn(shown), Select(And(AsColumn(rows) == k, columns > k), r, packed));
        chosen = Select(columns == k, AsColumn(tau), chosen);
        return {nullptr, {r, Reflected(q, v, tau), packed, chosen}, {}};
      });
  if (c.failed() || rolled.state.size() != 4) {
    return {Placeholder(c), Placeholder(c), Placeholder(c), Placeholder(c)};
  }
  return {Transposed({c, rolled.state[1]}), {c, rolled.state[0]}, {c, rolled.state[2]}, {c, rolled.state[3]}};
}

Term ApplyReflectors(const Term& reflectors, const Term& taus, const Term& b, bool transposes) {
  Steps& c = b.steps();
  Term rows = RowNumbers(reflectors), last(c, c.emit().FromDim(ColumnsOf(taus) - 1));
  Operand limit = c.emit().FromDim(ColumnsOf(taus));
  Rolled rolled =
      Roll(c, limit, nullptr, {WithBatches(b, reflectors)}, [&](Operand index, const Operands& own) -> Step {
        Term k = transposes ? Term(c, index) : last - Term(c, index);
        Term v = Select(rows == k, 1, Select(rows > k, Column(reflectors, k), 0));
        return {nullptr, {Reflected({c, own[0]}, v, At(taus, k))}, {}};
      });
  return {c, rolled.state.size() == 1 ? rolled.state[0] : c.emit().Placeholder()};
}

Orthogonal ReducedQr(const Term& a) {
  Orthogonal qr = QrFactor(a);
  const Dim least = IsWide(a, "the reduced factors") ? RowsOf(a) : ColumnsOf(a);
  if (a.steps().failed()) return qr;
  return {FirstColumns(qr.q, least), FirstRows(qr.r, least), qr.reflectors, qr.taus};
}

// ---- Jacobi's rotations, of n/2 disjoint pairs of columns at once

namespace {

constexpr int64_t kMaxSweeps = 40;

// The rounds of a tournament: in each of `rounds` every column has another partner, or none, which is itself.
struct Tournament {
  Term columns, rounds;  // 0, 1, ...; how many rounds make a sweep
};

Tournament TournamentOf(const Term& a) {
  Steps& c = a.steps();
  Term count(c, c.emit().FromDim(ColumnsOf(a)));
  Term is_odd = count.Apply("floor_mod", count.Like(2));
  return {ColumnNumbers(a), Max(count + is_odd - 1, count.Like(1))};
}

Term PartnersOf(const Tournament& t, const Term& round) {
  Term players = t.rounds + 1, number = round.Apply("floor_mod", t.rounds);
  Term partner = (number - t.columns).Apply("floor_mod", t.rounds);
  Term fixed = (number * (players.Apply("floor_divide", players.Like(2)))).Apply("floor_mod", t.rounds);
  partner = Select(partner == t.columns, players - 1, partner);
  partner = Select(t.columns == players - 1, fixed, partner);
  // With an odd number of columns the last player is none.
  Term last(t.columns.steps(), t.columns.steps().emit().FromDim(ColumnsOf(t.columns) - 1));
  return Select(partner > last, t.columns, partner);
}

struct Rotation {
  Term cosine, sine;  // for each column: column' = column * cosine + partner * sine
};

// Makes the columns of a pair orthogonal, given the squares of their lengths and their product.
Rotation RotationOf(const Term& own, const Term& other, const Term& product, const Term& columns, const Term& partners,
                    const Term& is_active) {
  Term safe = Select(is_active, product, 1), tau = (other - own) / (2 * safe);
  Term is_positive = Or(tau > 0, And(tau == 0, columns < partners));
  Term size = Abs(tau), tangent = 1 / (size + Sqrt(1 + tau * tau));
  tangent = Select(is_active, Select(is_positive, tangent, -tangent), 0);
  Term cosine = 1 / Sqrt(1 + tangent * tangent);
  return {cosine, -(tangent * cosine)};
}

double Epsilon(const Term& a) { return a.steps().DTypeOf(a) == kFloat64 ? 2.2e-16 : 1.2e-7; }

// Returns the angle below which columns are not rotated. Rotations are computed in float64, where hundreds of them add
// up to less than the rounding of float32.
double RotationLimit(const Term& a) { return a.steps().DTypeOf(a) == kFloat64 ? Epsilon(a) : 1e-10; }

Term Rotated(const Term& a, const Term& partners, const Rotation& rotation) {
  return a * AsRow(rotation.cosine) + ColumnsInOrder(a, partners) * AsRow(rotation.sine);
}

// Returns the order that sorts the values of each batch.
Term Sorted(const Term& values, bool is_ascending) {
  Steps& c = values.steps();
  return {c,
          c.Op("argsort", {values}, {{"axis", c.RankOf(values) - 1}, {"is_ascend", is_ascending}, {"dtype", "int64"}})};
}

}  // namespace

Eigen SymmetricEigen(const Term& given) {
  Steps& c = given.steps();
  const Term a = Cast(given, kFloat64);
  Tournament tournament = TournamentOf(a);
  Term largest(c, c.Op("max", {Abs(a)}, {{"axis", ir::AttrValue::List{-2, -1}}, {"keepdims", true}}));
  Term limit = Column(largest, c.Integer(0)) * RotationLimit(given);
  Operand always = c.emit().Constant(Literal::ScalarInt(kBool, 1));
  Rolled rolled =
      Roll(c, tournament.rounds * kMaxSweeps, always, {a, Identities(a, ColumnsOf(a)), tournament.rounds},
           [&](Operand index, const Operands& own) -> Step {
             Term matrix(c, own[0]), vectors(c, own[1]), idle(c, own[2]);
             Term partners = PartnersOf(tournament, {c, index});
             Term diagonal = DiagonalOf(matrix);
             Term order = Broadcast(partners, Cast(diagonal, kInt64)), other = InOrder(diagonal, order);
             Term is_pair = AsColumn(tournament.columns) == partners;
             // Both elements of a pair, which rounding makes different: both columns turn by the same angle.
             Term element = Select(is_pair, matrix, 0);
             Term product = (SumOver(element, -2) + SumOver(element, -1)) * 0.5;
             Term is_active = And(tournament.columns != partners, Abs(product) > limit);
             Rotation rotation = RotationOf(diagonal, other, product, tournament.columns, partners, is_active);
             Term turned = Transposed(Rotated(Transposed(Rotated(matrix, partners, rotation)), partners, rotation));
             // Clears it: what rounding leaves there would be turned again, without end.
             turned = Select(And(is_pair, AsRow(is_active)), 0, turned);
             // A sweep without a rotation ends it.
             Term rest = Select(Any(is_active), tournament.rounds, idle - 1);
             return {rest > 0, {turned, Rotated(vectors, partners, rotation), rest}, {}};
           });
  if (c.failed() || rolled.state.size() != 3) return {Placeholder(c), Placeholder(c)};
  Term values = DiagonalOf({c, rolled.state[0]}), order = Sorted(values, true);
  const DataType dtype = c.DTypeOf(given);
  return {Cast(InOrder(values, order), dtype), Cast(ColumnsInOrder({c, rolled.state[1]}, order), dtype)};
}

// M. R. Hestenes, "Inversion of matrices by biorthogonalization", 1958: columns are rotated until they are orthogonal.
Singular SingularValues(const Term& given) {
  Steps& c = given.steps();
  const Term a = Cast(given, kFloat64);
  Tournament tournament = TournamentOf(a);
  Operand always = c.emit().Constant(Literal::ScalarInt(kBool, 1));
  Term square = Identities(Transposed(a), ColumnsOf(a));
  // The rounding of a sum over the rows.
  Term limit = (Sqrt(Cast(Term(c, c.emit().FromDim(RowsOf(a))), kFloat64)) + 1) * RotationLimit(given);
  Rolled rolled =
      Roll(c, tournament.rounds * kMaxSweeps, always, {a, square, tournament.rounds},
           [&](Operand index, const Operands& own) -> Step {
             Term columns(c, own[0]), v(c, own[1]), idle(c, own[2]);
             Term partners = PartnersOf(tournament, {c, index});
             Term others = ColumnsInOrder(columns, partners), squares = SumOver(columns * columns, -2);
             Term order = Broadcast(partners, Cast(squares, kInt64));
             Term other = InOrder(squares, order), product = SumOver(columns * others, -2);
             Term is_active = And(tournament.columns != partners, Abs(product) > Sqrt(squares) * Sqrt(other) * limit);
             Rotation rotation = RotationOf(squares, other, product, tournament.columns, partners, is_active);
             Term turned = columns * AsRow(rotation.cosine) + others * AsRow(rotation.sine);
             Term rest = Select(Any(is_active), tournament.rounds, idle - 1);
             return {rest > 0, {turned, Rotated(v, partners, rotation), rest}, {}};
           });
  if (c.failed() || rolled.state.size() != 3) return {Placeholder(c), Placeholder(c), Placeholder(c)};
  Term columns(c, rolled.state[0]), values = Sqrt(SumOver(columns * columns, -2)), order = Sorted(values, false);
  values = InOrder(values, order);
  columns = ColumnsInOrder(columns, order);
  Term largest = Term(c, c.Op("max", {values}, {{"axis", ir::AttrValue::List{-1}}, {"keepdims", true}}));
  Term is_zero = values <= largest * (2 * Epsilon(given));
  Term u = Select(AsRow(is_zero), 0, columns / AsRow(Select(is_zero, 1, values)));
  const DataType dtype = c.DTypeOf(given);
  return {Cast(u, dtype), Cast(values, dtype), Cast(ColumnsInOrder({c, rolled.state[1]}, order), dtype)};
}

// The reflections that make `u` triangular give its columns again, up to signs, and others for columns of zeros.
Term Completed(const Term& u) {
  Orthogonal qr = QrFactor(u);
  Term diagonal = DiagonalOf(qr.r), sign = Select(diagonal < 0, -1, diagonal.Like(1));
  Term identity = Identities(u, RowsOf(u)), numbers = ColumnNumbers(identity);
  // Signs of the columns of `u`, then 1.
  Term is_first = AsColumn(ColumnNumbers(u)) == numbers;
  Term spread = SumOver(Select(is_first, AsColumn(sign - 1), 0), -2) + 1;
  return qr.q * AsRow(spread);
}

Singular AnySingularValues(const Term& a) {
  if (!IsWide(a, "singular values")) return SingularValues(a);
  const Singular turned = SingularValues(Transposed(a));
  return {turned.v, turned.values, turned.u};
}

Singular SingularFactors(const Term& a, bool is_full) {
  const Singular singular = AnySingularValues(a);
  if (a.steps().failed()) return singular;
  const bool is_wide = IsWide(a, "singular values");
  const Term tall = is_wide ? singular.v : singular.u;
  const Term columns = is_full ? Completed(tall) : FirstColumns(Completed(tall), ColumnsOf(tall));
  return {is_wide ? singular.u : columns, singular.values, is_wide ? columns : singular.v};
}

}  // namespace rvm::importing::matrix
