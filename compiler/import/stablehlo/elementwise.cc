// Operators that compute each element by itself.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/term.h"

namespace rvm::stablehlo {
namespace {

using importing::BitsAs;
using importing::Term;
using importing::UnsignedOf;

// Operands of one shape; a constant that all elements of one share is a scalar, unless all operands are that.
Operands Broadcasting(NodeContext& c) {
  Operands operands;
  bool has_tensor = false;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    operands.push_back(c.ScalarOrIn(i));
    has_tensor = has_tensor || operands.back() == c.In(i);
  }
  return has_tensor ? operands : c.Inputs(0, c.num_inputs());
}

bool IsIntegral(NodeContext& c, Operand x) { return c.DTypeOf(x).is_integral() && !c.DTypeOf(x).is_bool(); }

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }

// Operators on numbers, and what they are on bools.
Operands Binary(NodeContext& c) {
  const Operands x = Broadcasting(c);
  if (x.size() != 2) return {c.Fail("it has not two operands")};
  std::string_view op = c.row().variant;
  if (c.DTypeOf(x[0]).is_bool()) {
    if (op == "add" || op == "maximum") op = "logical_or";
    if (op == "multiply" || op == "minimum") op = "logical_and";
  }
  return {c.Op(op, x)};
}

// Bitwise operators, which on bools are logical.
Operands Bitwise(NodeContext& c) {
  const Operands x = Broadcasting(c);
  const bool is_bool = c.DTypeOf(c.In(0)).is_bool();
  return {c.Op(absl::StrCat(is_bool ? "logical_" : "bitwise_", std::string(c.row().variant)), x)};
}

bool MayBeZero(Operand x) {
  if (!x->constant) return true;
  for (int64_t i = 0; i < x->constant->num_elements(); ++i) {
    if (x->constant->IntAt(i) == 0) return true;
  }
  return false;
}

// Integers truncate; XLA's x / 0 has all bits set.
Operands Divide(NodeContext& c) {
  const Operands x = Broadcasting(c);
  if (x.size() != 2) return {c.Fail("it has not two operands")};
  const Term a(c, x[0]), b(c, x[1]);
  if (c.failed() || !IsIntegral(c, a)) return {a / b};
  const Term quotient = a.Apply("trunc_divide", b);
  if (!MayBeZero(b) || b.operand()->elements) return {quotient};
  return {Select(b == 0, Term(c, c.emit().Integer(-1, c.DTypeOf(a))), quotient)};
}

// JAX has the inverse tangent as the angle of (1, x).
Operands Atan2(NodeContext& c) {
  const Operands x = Broadcasting(c);
  const bool is_one = x.size() == 2 && x[1]->constant && x[1]->constant->num_elements() == 1;
  if (is_one && x[1]->constant->DoubleAt(0) == 1) return {c.Op("atan", {c.In(0)})};
  return {c.Op("atan2", x)};
}

// The remainder of x / 0 is x.
Operands Remainder(NodeContext& c) {
  const Operands x = Broadcasting(c);
  if (x.size() != 2) return {c.Fail("it has not two operands")};
  const Term a(c, x[0]), b(c, x[1]);
  const Term rest = a.Apply("trunc_mod", b);
  if (c.failed() || !IsIntegral(c, a) || !MayBeZero(b) || b.operand()->elements) return {rest};
  return {Select(b == 0, a, rest)};
}

// 3 bits of the direction: EQ, NE, GE, GT, LE, LT, in the order of VHLO's enumeration.
constexpr std::string_view kComparisons[] = {"equal", "not_equal", "greater_equal", "greater", "less_equal", "less"};
constexpr int64_t kTotalOrder = 2;  // of VHLO's comparison types

Operands Compare(NodeContext& c) {
  Operands x = Broadcasting(c);
  const int64_t direction = c.Int("comparison_direction", -1), type = c.Int("compare_type", 0);
  if (c.failed() || x.size() != 2) return {c.Fail("it has not two operands")};
  if (direction < 0 || direction > 5) return {c.Fail(absl::StrCat("its comparison has the number ", direction))};
  if (type == kTotalOrder && c.DTypeOf(x[0]).is_float()) {
    for (Operand& operand : x) operand = TotalOrderKey(c, operand);
  }
  if (c.DTypeOf(x[0]).is_bool() && direction > 1) {
    for (Operand& operand : x) operand = c.Cast(operand, kUInt8);
  }
  return {c.Op(kComparisons[direction], x)};
}

// Shifts by the width or more give 0, those of signed integers their sign.
Operands ShiftLeft(NodeContext& c) { return {c.Op("left_shift", Broadcasting(c))}; }

DataType Signed(DataType dtype) {
  return dtype.bits == 8 ? kInt8 : dtype.bits == 16 ? kInt16 : dtype.bits == 32 ? kInt32 : kInt64;
}

Operands ShiftRight(NodeContext& c) {
  const Operands x = Broadcasting(c);
  if (c.failed() || x.size() != 2) return {c.Fail("it has not two operands")};
  const DataType dtype = c.DTypeOf(x[0]), bits = UnsignedOf(dtype);
  const bool is_logical = c.row().variant == "logical";
  // A negative distance is one of more than all bits.
  const Term distance(c, BitsAs(c, x[1], bits));
  const Term most = distance.Like(dtype.bits - 1);
  if (!is_logical) {
    // Copies the highest bit, also of unsigned integers.
    const DataType sign = Signed(dtype);
    return {BitsAs(c, c.Op("right_shift", {BitsAs(c, x[0], sign), BitsAs(c, Min(distance, most), sign)}), dtype)};
  }
  const Term shifted(c, c.Op("right_shift", {BitsAs(c, x[0], bits), Min(distance, most)}));
  return {BitsAs(c, Select(distance > most, 0, shifted), dtype)};
}

Operands Not(NodeContext& c) { return {c.Op(c.DTypeOf(c.In(0)).is_bool() ? "logical_not" : "bitwise_not", {c.In(0)})}; }

Operands Select(NodeContext& c) {
  if (c.num_inputs() != 3) return {c.Fail("it has not three operands")};
  Operands x = Broadcasting(c);
  // A scalar condition chooses a whole tensor.
  if (c.RankOf(c.In(0)) == 0) x = {c.In(0), c.In(1), c.In(2)};
  if (c.RankOf(x[0]) == 0 && c.RankOf(x[1]) == 0 && c.RankOf(x[2]) == 0) x = {c.In(0), c.In(1), c.In(2)};
  return {c.Where(x[0], x[1], x[2])};
}

Operands Clamp(NodeContext& c) {
  if (c.num_inputs() != 3) return {c.Fail("it has not three operands")};
  const Term x(c, c.In(1));
  return {Min(Max(x, Term(c, c.ScalarOrIn(0))), Term(c, c.ScalarOrIn(2)))};
}

Operands Convert(NodeContext& c) {
  Operand x = c.In(0);
  const DataType to = c.ResultDType();
  if (c.failed() || c.DTypeOf(x) == to) return {x};
  if (to.is_bool()) return {c.Op("not_equal", {x, c.Number(0, x)})};
  Operand y = c.Cast(x, to);
  Operand scalar = c.ScalarOrIn(0);
  if (scalar != x) c.NoteSplat(y, c.Cast(scalar, to));
  return {y};
}

Operands Cbrt(NodeContext& c) {
  const Term x(c, c.In(0));
  const bool is_wide = c.DTypeOf(x) == kFloat64;
  const Term root = Cast(Abs(Cast(x, is_wide ? kFloat64 : kFloat32))
                             .Apply("power", Term(c, c.emit().Number(1.0 / 3, is_wide ? kFloat64 : kFloat32))),
                         c.DTypeOf(x));
  return {Select(x < 0.0, -root, root)};
}

Operands BitcastConvert(NodeContext& c) {
  Operand x = c.In(0);
  const DataType to = c.ResultDType();
  return {c.failed() ? nullptr : BitsAs(c, x, to)};
}

// Returns the dtype of floats with so many bits of exponent and mantissa.
Operands ReducePrecision(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t exponent = c.Int("exponent_bits", 0), mantissa = c.Int("mantissa_bits", 0);
  if (c.failed()) return {};
  struct Format {
    int64_t exponent, mantissa;
    DataType dtype;
  };
  for (const Format& format : {Format{8, 7, kBFloat16}, {5, 10, kFloat16}, {8, 23, kFloat32}, {11, 52, kFloat64}}) {
    if (format.exponent != exponent || format.mantissa != mantissa) continue;
    if (format.dtype.bits >= c.DTypeOf(x).bits && c.DTypeOf(x).bits > 16) return {x};
    return {c.Cast(c.Cast(x, format.dtype), c.DTypeOf(x))};
  }
  return {c.Unsupported(absl::StrCat("floats of ", exponent, " bits of exponent and ", mantissa, " of mantissa"))};
}

// Returns the number of bits that are set, by sums of ever wider fields.
Operand PopulationCount(NodeContext& c, Operand x) {
  const DataType wide = c.DTypeOf(x).bits == 64 ? kUInt64 : kUInt32;
  const auto field = [&](uint64_t mask) { return Term(c, c.emit().Integer(static_cast<int64_t>(mask), wide)); };
  const auto shifted = [&](const Term& v, int64_t by) {
    return Term(c, c.Op("right_shift", {v, c.emit().Integer(by, wide)}));
  };
  const auto masked = [&](const Term& v, uint64_t mask) { return v.Apply("bitwise_and", field(mask)); };
  Term v(c, c.Cast(BitsAs(c, x, UnsignedOf(c.DTypeOf(x))), wide));
  v = v - masked(shifted(v, 1), 0x5555555555555555);
  v = masked(v, 0x3333333333333333) + masked(shifted(v, 2), 0x3333333333333333);
  v = masked(v + shifted(v, 4), 0x0f0f0f0f0f0f0f0f);
  v = v + shifted(v, 8);
  v = v + shifted(v, 16);
  if (wide == kUInt64) v = v + shifted(v, 32);
  return masked(v, 0x7f);
}

Operands Popcnt(NodeContext& c) { return {c.Cast(PopulationCount(c, c.In(0)), c.ResultDType())}; }

// The bits that no higher one is set behind are those that are not set after each has set all lower ones.
Operands CountLeadingZeros(NodeContext& c) {
  Operand x = c.In(0);
  const DataType bits = UnsignedOf(c.DTypeOf(x));
  Term v(c, BitsAs(c, x, bits));
  for (int64_t by = 1; by < bits.bits; by *= 2) {
    v = v.Apply("bitwise_or", Term(c, c.Op("right_shift", {v, c.emit().Integer(by, bits)})));
  }
  const Term ones(c, c.Cast(PopulationCount(c, v), kInt32));
  return {c.Cast(ones.Like(bits.bits) - ones, c.ResultDType())};
}

constexpr Lanes kEach = Lanes::kElementwise;
constexpr OperatorRow kRows[] = {
    {"abs", Unary, "abs", kEach},
    {"add", Binary, "add", kEach},
    {"and", Bitwise, "and", kEach},
    {"atan2", Atan2, "", kEach},
    {"bitcast_convert", BitcastConvert, "", kEach},
    {"cbrt", Cbrt, "", kEach},
    {"ceil", Unary, "ceil", kEach},
    {"clamp", Clamp, "", kEach},
    {"compare", Compare, "", kEach},
    {"convert", Convert, "", kEach},
    {"cosine", Unary, "cos", kEach},
    {"count_leading_zeros", CountLeadingZeros, "", kEach},
    {"divide", Divide, "", kEach},
    {"exponential", Unary, "exp", kEach},
    {"exponential_minus_one", Unary, "expm1", kEach},
    {"floor", Unary, "floor", kEach},
    {"is_finite", Unary, "isfinite", kEach},
    {"log", Unary, "log", kEach},
    {"log_plus_one", Unary, "log1p", kEach},
    {"logistic", Unary, "sigmoid", kEach},
    {"maximum", Binary, "maximum", kEach},
    {"minimum", Binary, "minimum", kEach},
    {"multiply", Binary, "multiply", kEach},
    {"negate", Unary, "negative", kEach},
    {"not", Not, "", kEach},
    {"or", Bitwise, "or", kEach},
    {"popcnt", Popcnt, "", kEach},
    {"power", Binary, "power", kEach},
    {"reduce_precision", ReducePrecision, "", kEach},
    {"remainder", Remainder, "", kEach},
    {"round_nearest_afz", Unary, "round", kEach},
    {"round_nearest_even", Unary, "round_half_even", kEach},
    {"rsqrt", Unary, "rsqrt", kEach},
    {"select", Select, "", kEach},
    {"shift_left", ShiftLeft, "", kEach},
    {"shift_right_arithmetic", ShiftRight, "arithmetic", kEach},
    {"shift_right_logical", ShiftRight, "logical", kEach},
    {"sign", Unary, "sign", kEach},
    {"sine", Unary, "sin", kEach},
    {"sqrt", Unary, "sqrt", kEach},
    {"subtract", Binary, "subtract", kEach},
    {"tan", Unary, "tan", kEach},
    {"tanh", Unary, "tanh", kEach},
    {"xor", Bitwise, "xor", kEach},
};

}  // namespace

// Floats in the total order of IEEE 754 have the order of their bits as integers, with those of negative ones reversed.
Operand TotalOrderKey(NodeContext& c, Operand x) {
  const DataType dtype = c.DTypeOf(x);
  if (!dtype.is_float()) return dtype.is_bool() ? c.Cast(x, kUInt8) : x;
  if (dtype.bits < 32) x = c.Cast(x, kFloat32);
  const DataType bits = dtype.bits == 64 ? kInt64 : kInt32;
  const Term number(c, BitsAs(c, x, bits));
  const Term lower(c, c.emit().Integer(bits.bits == 64 ? INT64_MAX : INT32_MAX, bits));
  return Select(number < 0, number.Apply("bitwise_xor", lower), number);
}

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::stablehlo
