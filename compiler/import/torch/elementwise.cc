// Arithmetic element by element that Relay composes: signs and bits, logarithms of sums, integers.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "compiler/import/loops.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/special_functions.h"

namespace rvm::torch::convert {
namespace {

using importing::Rolled;
using importing::Step;
using importing::Term;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The two operands in the floating-point dtype that ATen computes them in.
struct Pair {
  Term a, b;
};
Pair FloatPair(NodeContext& c, const char* first = "self", const char* second = "other") {
  Operand a = c.In(first), b = c.In(second);
  c.Promote({&a, &b});
  if (!c.failed() && !c.DTypeOf(a).is_float()) {
    a = c.Cast(a, kFloat32);
    b = c.Cast(b, kFloat32);
  }
  return {{c, a}, {c, b}};
}

Term FloatSelf(NodeContext& c) { return {c, c.Floating(c.In("self"))}; }

// Returns the signed integers of as many bits.
DataType BitsOf(DataType dtype) { return dtype.bits == 64 ? kInt64 : dtype.bits == 16 ? kInt16 : kInt32; }

Operand Reinterpret(NodeContext& c, Operand x, DataType dtype) {
  return c.Op("reinterpret", {x}, {{"dtype", dtype.ToString()}});
}
Term Bits(NodeContext& c, const Term& x) { return {c, Reinterpret(c, x, BitsOf(c.DTypeOf(x)))}; }
Term IsNegative(NodeContext& c, const Term& x) { return Bits(c, x) < 0; }

Term Xlog(const Term& x, const Term& y, const Term& logarithm) {
  return Select(IsNan(y), kNan, Select(x == 0, 0, x * logarithm));
}

Operands FloatBinary(NodeContext& c) {
  Pair pair = FloatPair(c);
  return {c.Op(c.row().variant, {pair.a, pair.b})};
}

Operands Copysign(NodeContext& c) {
  Pair pair = FloatPair(c);
  if (c.failed()) return {};
  return {Select(Bits(c, pair.a).Apply("bitwise_xor", Bits(c, pair.b)) < 0, -pair.a, pair.a)};
}

Operands Signbit(NodeContext& c) {
  Term x(c, c.In("self"));
  if (c.failed()) return {};
  if (c.DTypeOf(x).is_float()) return {IsNegative(c, x)};
  return {x < 0};
}

Operands Angle(NodeContext& c) {
  Term x = FloatSelf(c);
  return {Select(IsNan(x), x, Select(x < 0, std::numbers::pi, x.Like(0)))};
}

// In float64, where squares of float32 neither overflow nor vanish.
Operands Hypot(NodeContext& c) {
  Pair pair = FloatPair(c);
  DataType dtype = c.DTypeOf(pair.a);
  Term a(c, c.Cast(Abs(pair.a), kFloat64)), b(c, c.Cast(Abs(pair.b), kFloat64));
  Term most = Max(a, b), least = Min(a, b), ratio = Select(most == 0, 0, least / most);
  Term length = Select(Or(a == kInfinity, b == kInfinity), kInfinity, most * Sqrt(1 + ratio * ratio));
  return {c.Cast(length, dtype)};
}

Operands Ldexp(NodeContext& c) {
  Pair pair = FloatPair(c);
  return {pair.a * pair.b.Like(2).Apply("power", pair.b)};
}

// log(exp(a) + exp(b)), to base 2 where the row says so.
Operands LogAddExp(NodeContext& c) {
  Pair pair = FloatPair(c);
  double base = c.row().variant == "2" ? std::numbers::ln2 : 1;
  Term more = Exp(-Abs(pair.a - pair.b) * base).Apply("log1p") / base;
  Term equal = pair.a + std::numbers::ln2 / base;  // also of infinities, whose difference is none
  return {Select(pair.a == pair.b, equal, Max(pair.a, pair.b) + more)};
}

Operands LogCumsumexp(NodeContext& c) {
  Operand x = c.Floating(c.In("self"));
  if (c.failed() || c.RankOf(x) == 0) return {x};
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  Term wide(c, c.Cast(x, kFloat64));
  Term most(c, c.Op("max", {wide}, {{"axis", ir::AttrValue::List{axis}}, {"keepdims", true}}));
  most = Select(Abs(most) == kInfinity, 0, most);
  Term sum(c, c.Op("cumsum", {Exp(wide - most)}, {{"axis", axis}}));
  return {c.Cast(Log(sum) + most, c.DTypeOf(x))};
}

Operands FloatPower(NodeContext& c) {
  return {c.Op("power", {c.Cast(c.In("self"), kFloat64), c.Cast(c.In("exponent"), kFloat64)})};
}

Operands Heaviside(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("values");
  c.Promote({&a, &b});
  Term x(c, a), values(c, b);
  return {Select(x == 0, values, Term(c, c.Cast(x > 0, c.DTypeOf(a))))};
}

Operands Logit(NodeContext& c) {
  Term x = FloatSelf(c);
  if (c.Has("eps")) {
    double epsilon = c.Float("eps", 0);
    x = Min(Max(x, x.Like(epsilon)), x.Like(1 - epsilon));
  }
  return {Log(x / (1 - x))};
}

Operands NanToNum(NodeContext& c) {
  Term x(c, c.In("self"));
  DataType dtype = c.DTypeOf(x);
  if (!dtype.is_float()) return {x};
  double most = dtype == kFloat64   ? std::numeric_limits<double>::max()
                : dtype == kFloat16 ? 65504
                : dtype == kFloat32 ? std::numeric_limits<float>::max()
                                    : 3.3895313892515355e38;  // of bfloat16
  Term high = x.Like(c.Float("posinf", most)), low = x.Like(c.Float("neginf", -most));
  Term finite = Select(x == kInfinity, high, Select(x == -kInfinity, low, x));
  return {Select(IsNan(x), c.Float("nan", 0), finite)};
}

Operands Xlogy(NodeContext& c) {
  Pair pair = FloatPair(c);
  return {Xlog(pair.a, pair.b, Log(pair.b))};
}

Operands Xlog1py(NodeContext& c) {
  Pair pair = FloatPair(c);
  return {Xlog(pair.a, pair.b, pair.b.Apply("log1p"))};
}

Operands Entr(NodeContext& c) {
  Term x = FloatSelf(c);
  return {Select(IsNan(x), x, Select(x < 0, -kInfinity, Select(x == 0, 0, -x * Log(x))))};
}

Operands Sinc(NodeContext& c) {
  Term x = FloatSelf(c), is_zero = x == 0, angle = Select(is_zero, 1, x) * std::numbers::pi;
  return {Select(is_zero, 1, Sin(angle) / angle)};
}

Operands Exp2(NodeContext& c) {
  Term x = FloatSelf(c);
  return {x.Like(2).Apply("power", x)};
}

// Degrees and radians, by the factor in the row.
Operands ConvertAngle(NodeContext& c) {
  Term x = FloatSelf(c);
  return {x * (c.row().variant == "degrees" ? 180 / std::numbers::pi : std::numbers::pi / 180)};
}

Operands Frac(NodeContext& c) {
  Term x(c, c.In("self"));
  return {x - x.Apply("trunc")};
}

// Returns the neighbour of `self` in the direction of `other`, by its bits.
Operands Nextafter(NodeContext& c) {
  Pair pair = FloatPair(c);
  if (c.failed()) return {};
  DataType dtype = c.DTypeOf(pair.a);
  Term bits = Bits(c, pair.a), is_up = pair.b > pair.a;
  Term next(c, Reinterpret(c, Select(is_up.Apply("equal", pair.a > 0), bits + 1, bits - 1), dtype));
  Term least(c, Reinterpret(c, c.emit().Integer(1, BitsOf(dtype)), dtype));
  next = Select(pair.a == 0, Select(is_up, least, -least), next);
  Term result = Select(pair.a == pair.b, pair.b, next);
  return {Select(Or(IsNan(pair.a), IsNan(pair.b)), kNan, result)};
}

// Returns a fraction from 1/2 to 1 and an exponent.
Operands Frexp(NodeContext& c) {
  Operand given = c.Floating(c.In("self"));
  if (c.failed()) return {};
  constexpr double kScale = 18014398509481984;  // 2^54, which makes subnormal numbers normal
  Term x(c, c.Cast(given, kFloat64)), is_tiny = Abs(x) < 2.2250738585072014e-308;
  Term bits = Bits(c, Select(is_tiny, x * kScale, x));
  auto mask = [&](int64_t value) { return c.emit().Integer(value, kInt64); };
  constexpr int64_t kExponent = int64_t{0x7FF} << 52;
  Term exponent(c, c.Op("right_shift", {c.Op("bitwise_and", {bits, mask(kExponent)}), mask(52)}));
  Operand fraction = c.Op("bitwise_or", {c.Op("bitwise_and", {bits, mask(~kExponent)}), mask(int64_t{1022} << 52)});
  Term is_plain = And(x != 0, Abs(x) < kInfinity);
  Term shown = Select(is_plain, exponent - Select(is_tiny, exponent.Like(1022 + 54), 1022), 0);
  Term value = Select(is_plain, Term(c, Reinterpret(c, fraction, kFloat64)), x);
  return {c.Cast(value, c.DTypeOf(given)), c.Cast(shown, kInt32)};
}

// gcd and lcm, by Euclid.
Operands CommonDivisor(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  if (c.failed()) return {};
  Term x(c, a), y(c, b), first = Abs(Broadcast(x, y)), second = Abs(Broadcast(y, x));
  Rolled rolled = Roll(c, nullptr, Any(second != 0), {first, second}, [&](Operand, const Operands& own) -> Step {
    Term divisor(c, own[0]), rest(c, own[1]), is_done = rest == 0;
    Term next = Select(is_done, 0, divisor.Apply("trunc_mod", Select(is_done, 1, rest)));
    return {Any(next != 0), {Select(is_done, divisor, rest), next}, {}};
  });
  if (c.failed() || rolled.state.size() != 2) return {};
  Term divisor(c, rolled.state[0]);
  if (c.row().variant == "gcd") return {divisor};
  Term quotient = first.Apply("trunc_divide", Select(divisor == 0, 1, divisor));
  return {Abs(quotient * Abs(y))};
}

Operands IsClose(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  double relative = c.Float("rtol", 1e-5), absolute = c.Float("atol", 1e-8);
  Term x(c, a), y(c, b), close = x == y;
  if (c.failed()) return {};
  if (c.DTypeOf(a).is_float() && c.Bool("equal_nan", false)) close = Or(close, And(IsNan(x), IsNan(y)));
  if (relative == 0 && absolute == 0) return {close};
  Term apart(c, c.Floating(Abs(x - y))), most = Abs(Term(c, c.Floating(y)) * relative) + absolute;
  return {Or(close, And(apart < kInfinity, apart <= most))};
}

// Rounds to the steps of a quantisation, of the whole tensor or of each index of an axis.
Operands FakeQuantize(NodeContext& c) {
  Term x(c, c.In("self"));
  const auto number = [&](std::string_view name) {
    const Argument* given = c.Find(name);
    if (given == nullptr || given->kind != ArgumentKind::kTensor) return x.Like(c.Float(name, 0));
    Operand value = c.Cast(c.In(name), c.DTypeOf(x));
    if (c.RankOf(value) == 0 || !c.Has("axis")) return Term(c, c.Reshape(value, Dims()));
    Dims dims(static_cast<size_t>(c.RankOf(x)), Dim(1));
    dims[static_cast<size_t>(c.Axis(c.Int("axis", 0), c.RankOf(x)))] = c.ExtentOf(value, 0);
    return Term(c, c.Reshape(value, dims));
  };
  const Term scale = number("scale"), zero = number("zero_point");
  if (c.failed()) return {};
  Term code = zero + Term(c, c.Op("round_half_even", {x * (1.0 / scale)}));
  code = Term(c, c.Op("clip", {code}, {{"a_min", c.Float("quant_min", 0)}, {"a_max", c.Float("quant_max", 255)}}));
  return {(code - zero) * scale};
}

constexpr OperatorRow kRows[] = {
    {"fake_quantize_per_tensor_affine", FakeQuantize},
    {"fake_quantize_per_channel_affine", FakeQuantize},
    {"isclose", IsClose},
    {"arctan2", FloatBinary, "atan2"},
    {"atan2", FloatBinary, "atan2"},
    {"angle", Angle},
    {"copysign", Copysign},
    {"deg2rad", ConvertAngle, "radians"},
    {"rad2deg", ConvertAngle, "degrees"},
    {"exp2", Exp2},
    {"special_exp2", Exp2},
    {"float_power", FloatPower},
    {"frac", Frac},
    {"frexp", Frexp},
    {"gcd", CommonDivisor, "gcd"},
    {"lcm", CommonDivisor, "lcm"},
    {"heaviside", Heaviside},
    {"hypot", Hypot},
    {"ldexp", Ldexp},
    {"logaddexp", LogAddExp},
    {"logaddexp2", LogAddExp, "2"},
    {"_logcumsumexp", LogCumsumexp},
    {"logcumsumexp", LogCumsumexp},
    {"logit", Logit},
    {"special_logit", Logit},
    {"nan_to_num", NanToNum},
    {"nextafter", Nextafter},
    {"signbit", Signbit},
    {"sinc", Sinc},
    {"special_sinc", Sinc},
    {"special_entr", Entr},
    {"special_xlog1py", Xlog1py},
    {"special_xlogy", Xlogy},
    {"xlogy", Xlogy},
};

}  // namespace

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::torch::convert
