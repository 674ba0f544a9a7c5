// Operators that compute each element by itself, and reductions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/term.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

using importing::Term;

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }
Operands Binary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0), c.In(1)})}; }
// Quotients of integers are rounded towards 0.
Operands Quotient(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Activated(c.Op(c.DTypeOf(x).is_float() ? "divide" : "trunc_divide", {x, c.In(1)}), 0)};
}
Operands Arithmetic(NodeContext& c) { return {c.Activated(c.Op(c.row().variant, {c.In(0), c.In(1)}), 0)}; }

Operand Clip(NodeContext& c, double least, double greatest) {
  return c.Op("clip", {c.In(0)}, {{"a_min", least}, {"a_max", greatest}});
}
Operands Relu6(NodeContext& c) { return {Clip(c, 0, 6)}; }
Operands ReluN1To1(NodeContext& c) { return {Clip(c, -1, 1)}; }

Operands Relu0To1(NodeContext& c) { return {Clip(c, 0, 1)}; }

Operands LeakyRelu(NodeContext& c) {
  return {c.Op("nn.leaky_relu", {c.In(0)}, {{"alpha", static_cast<double>(c.options().Number<float>(0, 0))}})};
}
Operands Prelu(NodeContext& c) {
  const Term x(c, c.In(0));
  return {Select(x < 0.0, x * Term(c, c.In(1)), x)};
}
Operands HardSwish(NodeContext& c) {
  const Term x(c, c.In(0));
  return {x * Min(Max(x + 3, x.Like(0)), x.Like(6)) * (1.0 / 6)};
}
Operands Cast(NodeContext& c) { return {c.Cast(c.In(0), c.OutputDType(0))}; }
// Values that quantised tensors round to, as floats: the range is moved so that 0 is one of them.
Operands FakeQuant(NodeContext& c) {
  const double least = c.options().Number<float>(0, 0), greatest = c.options().Number<float>(1, 0);
  const int bits = c.options().Number<int32_t>(2, 0);
  const double first = c.options().Number<uint8_t>(3, 0) != 0 ? 1 : 0;
  if (bits < 2 || bits > 16 || !(greatest > least)) return {c.Fail("its range or its number of bits makes no sense")};
  const double last = std::ldexp(1.0, bits) - 1;
  const auto scale = static_cast<float>((greatest - least) / (last - first));
  const double zero = std::clamp(std::round(first - least / static_cast<double>(scale)), first, last);
  const auto low = static_cast<float>(first - zero) * scale, high = static_cast<float>(last - zero) * scale;
  const Term x(c, c.In(0));
  const Term clipped = Min(Max(x, x.Like(low)), x.Like(high));
  return {Floor((clipped - low) * static_cast<double>(1.0f / scale) + 0.5) * scale + low};
}
Operands Gelu(NodeContext& c) {
  const bool is_approximate = c.options().Number<uint8_t>(0, 0) != 0;
  return {c.Op("nn.gelu", {c.In(0)}, {{"approximate", is_approximate ? "tanh" : "none"}})};
}
// float16 weights are dequantised by name alone; other integers have their scales in the tensor.
Operands Dequantize(NodeContext& c) { return {c.Cast(c.In(0), kFloat32)}; }
Operands Bitcast(NodeContext& c) { return tensorflow_family::Bitcast(c, c.OutputDType(0)); }
Operands Clamp(NodeContext& c) { return {c.Op("minimum", {c.Op("maximum", {c.In(1), c.In(0)}), c.In(2)})}; }
Operands Cbrt(NodeContext& c) {
  const Term x(c, c.In(0));
  return {x.Apply("sign") * Abs(x).Apply("power", x.Like(1.0 / 3))};
}
Operands Logical(NodeContext& c) {
  Operand x = c.In(0);
  return {
      c.Op(absl::StrCat(c.DTypeOf(x).is_bool() ? "logical_" : "bitwise_", std::string(c.row().variant)), {x, c.In(1)})};
}
Operands Compare(NodeContext& c) {
  constexpr std::string_view kDirections[] = {"equal", "not_equal", "greater_equal", "greater", "less_equal", "less"};
  const uint32_t direction = c.options().Number<uint32_t>(0, 0);
  if (direction >= std::size(kDirections)) return {c.Fail(absl::StrCat("its direction is ", direction))};
  return {c.Op(kDirections[direction], {c.In(0), c.In(1)})};
}
Operands Where(NodeContext& c) { return {c.Where(c.In(0), c.In(1), c.In(2))}; }
Operands Softmax(NodeContext& c) {
  Operand x = c.In(0);
  const float beta = c.options().Number<float>(0, 0);
  if (beta != 1) x = c.Mul(x, c.Number(beta, x));
  return {c.Op("nn.softmax", {x}, {{"axis", -1}})};
}
Operands LogSoftmax(NodeContext& c) { return {c.Op("nn.log_softmax", {c.In(0)}, {{"axis", -1}})}; }

Operands Reduce(NodeContext& c) {
  const std::vector<int64_t> axes = c.Ints(1, "axes");
  if (c.failed()) return {};
  if (axes.empty()) return {c.In(0)};
  const bool keeps = c.options().Number<uint8_t>(0, 0) != 0;
  return {c.Op(c.row().variant, {c.In(0)}, {{"axis", ir::IntList(axes)}, {"keepdims", keeps}})};
}
Operands ArgReduce(NodeContext& c) {
  const int64_t axis = c.Int(1, "axis");
  if (c.failed()) return {};
  return {c.Cast(c.Op(c.row().variant, {c.In(0)}, {{"axis", ir::IntList({{axis}})}}), c.OutputDType(0))};
}

constexpr OperatorRow kRows[] = {
    {"ABS", Unary, "abs"},
    {"ADD", Arithmetic, "add"},
    {"ADD_N", Shared<tensorflow_family::AddN>},
    Moves("ARG_MAX", ArgReduce, "argmax"),
    Moves("ARG_MIN", ArgReduce, "argmin"),
    {"ATAN2", Binary, "atan2"},
    {"BITCAST", Bitcast},
    {"BITWISE_XOR", Binary, "bitwise_xor"},
    Moves("CAST", Cast),
    {"CEIL", Unary, "ceil"},
    {"COS", Unary, "cos"},
    {"DEQUANTIZE", Dequantize},
    {"DIV", Quotient},
    {"ELU", Shared<tensorflow_family::Elu>},
    {"EQUAL", Binary, "equal"},
    {"EXP", Unary, "exp"},
    {"FAKE_QUANT", FakeQuant},
    {"FLOOR", Unary, "floor"},
    {"FLOOR_DIV", Binary, "floor_divide"},
    {"FLOOR_MOD", Binary, "floor_mod"},
    {"GELU", Gelu},
    {"GREATER", Binary, "greater"},
    {"GREATER_EQUAL", Binary, "greater_equal"},
    {"HARD_SWISH", HardSwish},
    {"LEAKY_RELU", LeakyRelu},
    {"LESS", Binary, "less"},
    {"LESS_EQUAL", Binary, "less_equal"},
    {"LOG", Unary, "log"},
    {"LOGICAL_AND", Binary, "logical_and"},
    {"LOGICAL_NOT", Unary, "logical_not"},
    {"LOGICAL_OR", Binary, "logical_or"},
    {"LOGISTIC", Unary, "sigmoid"},
    {"LOG_SOFTMAX", LogSoftmax},
    Moves("MAXIMUM", Binary, "maximum"),
    {"MEAN", Reduce, "mean"},
    Moves("MINIMUM", Binary, "minimum"),
    {"MUL", Arithmetic, "multiply"},
    {"NEG", Unary, "negative"},
    {"NOT_EQUAL", Binary, "not_equal"},
    {"POW", Binary, "power"},
    {"PRELU", Prelu},
    {"REDUCE_ALL", Reduce, "all"},
    {"REDUCE_ANY", Reduce, "any"},
    Moves("REDUCE_MAX", Reduce, "max"),
    Moves("REDUCE_MIN", Reduce, "min"),
    {"REDUCE_PROD", Reduce, "prod"},
    {"RELU", Unary, "nn.relu"},
    {"RELU6", Relu6},
    {"RELU_0_TO_1", Relu0To1},
    {"RELU_N1_TO_1", ReluN1To1},
    {"RIGHT_SHIFT", Binary, "right_shift"},
    {"ROUND", Unary, "round_half_even"},
    {"RSQRT", Unary, "rsqrt"},
    Moves("SELECT", Shared<tensorflow_family::Select>),
    Moves("SELECT_V2", Where),
    {"SIGN", Unary, "sign"},
    {"SIN", Unary, "sin"},
    {"SOFTMAX", Softmax},
    {"SQRT", Unary, "sqrt"},
    {"SQUARE", Shared<tensorflow_family::Square>},
    {"SQUARED_DIFFERENCE", Shared<tensorflow_family::SquaredDifference>},
    {"STABLEHLO_ABS", Unary, "abs"},
    {"STABLEHLO_ADD", Binary, "add"},
    {"STABLEHLO_AND", Logical, "and"},
    {"STABLEHLO_CBRT", Cbrt},
    {"STABLEHLO_CLAMP", Clamp},
    {"STABLEHLO_COMPARE", Compare},
    {"STABLEHLO_CONVERT", Cast},
    {"STABLEHLO_COSINE", Unary, "cos"},
    {"STABLEHLO_DIVIDE", Quotient},
    {"STABLEHLO_EXPONENTIAL", Unary, "exp"},
    {"STABLEHLO_FLOOR", Unary, "floor"},
    {"STABLEHLO_LOG", Unary, "log"},
    {"STABLEHLO_LOGISTIC", Unary, "sigmoid"},
    {"STABLEHLO_MAXIMUM", Binary, "maximum"},
    {"STABLEHLO_MINIMUM", Binary, "minimum"},
    {"STABLEHLO_MULTIPLY", Binary, "multiply"},
    {"STABLEHLO_NEGATE", Unary, "negative"},
    {"STABLEHLO_OR", Logical, "or"},
    {"STABLEHLO_POWER", Binary, "power"},
    {"STABLEHLO_REMAINDER", Binary, "trunc_mod"},
    {"STABLEHLO_RSQRT", Unary, "rsqrt"},
    {"STABLEHLO_SELECT", Where},
    {"STABLEHLO_SHIFT_LEFT", Binary, "left_shift"},
    {"STABLEHLO_SUBTRACT", Binary, "subtract"},
    {"STABLEHLO_TANH", Unary, "tanh"},
    {"SUB", Arithmetic, "subtract"},
    {"SUM", Reduce, "sum"},
    {"TANH", Unary, "tanh"},
};

}  // namespace

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::tflite
