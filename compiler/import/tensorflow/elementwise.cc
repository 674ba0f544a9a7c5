// Operators that compute each element by itself.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/import/blocks/complex.h"
#include "compiler/import/random_numbers.h"
#include "compiler/import/tensorflow/importer.h"
#include "compiler/import/term.h"

namespace rvm::tensorflow {
namespace {

using importing::Term;

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }
Operands Binary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0), c.In(1)})}; }
Operands Product(NodeContext& c) {
  if (!importing::HasComplex(c.inputs())) return Binary(c);
  return {importing::ComplexOf(c, c.In(0)) * importing::ComplexOf(c, c.In(1))};
}
// Quotients of integers are rounded towards 0.
Operands Quotient(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {c.Op(c.DTypeOf(x).is_float() ? "divide" : "trunc_divide", {x, c.In(1)})};
}
// Returns the dtype of the parts of complex numbers that an attribute names; nullopt for others.
std::optional<DataType> PartTypeAttr(NodeContext& c, std::string_view name) {
  constexpr uint64_t kComplex64 = 8, kComplex128 = 18;
  const uint64_t type = c.node().attr(name).Type().value_or(0);
  if (type == kComplex64) return kFloat32;
  return type == kComplex128 ? std::optional(kFloat64) : std::nullopt;
}
Operands Cast(NodeContext& c) {
  Operand x = c.In(0);
  if (std::optional<DataType> part = PartTypeAttr(c, "DstT")) {
    Operand im = importing::PartOf(c, x, true);
    return {importing::MakeComplex(c, c.Cast(importing::PartOf(c, x, false), *part), c.Cast(im, *part))};
  }
  const DataType dtype = c.TypeAttr("DstT");
  x = importing::PartOf(c, x, false);
  if (c.failed()) return {};
  if (dtype.is_bool() && !c.DTypeOf(x).is_bool()) return {c.Op("not_equal", {x, c.Number(0, x)})};
  return {c.Cast(x, dtype)};
}
Operands Reciprocal(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {x.Like(1) / x};
}
// 0 where the second operand is 0.
Operands UnlessZero(NodeContext& c) {
  const Term x(c, c.In(0)), y(c, c.In(1));
  if (c.failed()) return {};
  const Term result = c.row().variant == "divide" ? x / y : x * y;
  return {Select(y == 0.0, 0.0, result)};
}
// x * log(y), x * log1p(y) or x / y; 0 where x is 0.
Operands TimesLog(NodeContext& c) {
  const Term x(c, c.In(0)), y(c, c.In(1));
  if (c.failed()) return {};
  return {Select(x == 0.0, 0.0, c.row().variant == "divide" ? x / y : x * y.Apply(c.row().variant))};
}
Operands Erfc(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {1.0 - x.Apply("erf")};
}
Operands Relu6(NodeContext& c) { return {c.Op("clip", {c.In(0)}, {{"a_min", 0.0}, {"a_max", 6.0}})}; }
Operands LeakyRelu(NodeContext& c) {
  return {c.Op("nn.leaky_relu", {c.In(0)}, {{"alpha", c.FloatAttr("alpha", 0.2)}})};
}
Operands Selu(NodeContext& c) {
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {Select(x > 0.0, x * kScale, x.Apply("expm1") * (kScale * kAlpha))};
}
Operands Softplus(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {Max(x, x.Like(0)) + Exp(-Abs(x)).Apply("log1p")};
}
Operands Softsign(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {x / (Abs(x) + 1)};
}
Operands ClipByValue(NodeContext& c) { return {c.Op("minimum", {c.Op("maximum", {c.In(0), c.In(1)}), c.In(2)})}; }
Operands ApproximateEqual(NodeContext& c) {
  const Term x(c, c.In(0)), y(c, c.In(1));
  if (c.failed()) return {};
  return {Abs(x - y) < c.FloatAttr("tolerance", 1e-5)};
}
Operands Where(NodeContext& c) { return {c.Where(c.In(0), c.In(1), c.In(2))}; }
Operands Bitcast(NodeContext& c) { return tensorflow_family::Bitcast(c, c.TypeAttr("type")); }
Operands Scores(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)}, {{"axis", -1}})}; }

// Adds a vector along the channels, which are the last axis or the second one.
Operands BiasAdd(NodeContext& c) {
  Operand x = c.In(0), bias = c.In(1);
  if (c.failed()) return {};
  if (c.TextAttr("data_format", "NHWC").starts_with("NC")) {
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < c.RankOf(x) - 1; ++i) axes.push_back(i);
    bias = c.Unsqueeze(bias, axes);
  }
  return {c.Add(x, bias)};
}

Operands Random(NodeContext& c) {
  Operand shape = c.In(0);
  const DataType dtype = c.TypeAttr("dtype");
  if (c.failed()) return {};
  const std::optional<Dims> dims = c.Symbols(shape);
  if (!dims) return {c.Unsupported("random numbers whose shape only the running program knows")};
  return {importing::DrawNumbers(c, c.OwnKey(), c.row().variant, 0, 1, *dims, dtype)};
}

constexpr OperatorRow kRows[] = {
    {"Abs", Unary, "abs"},
    {"Acos", Unary, "acos"},
    {"Acosh", Unary, "acosh"},
    {"Add", Binary, "add"},
    {"AddN", Shared<tensorflow_family::AddN>},
    {"AddV2", Binary, "add"},
    {"ApproximateEqual", ApproximateEqual},
    {"Asin", Unary, "asin"},
    {"Asinh", Unary, "asinh"},
    {"Atan", Unary, "atan"},
    {"Atan2", Binary, "atan2"},
    {"Atanh", Unary, "atanh"},
    {"BiasAdd", BiasAdd},
    {"BiasAddV1", BiasAdd},
    {"Bitcast", Bitcast},
    {"BitwiseAnd", Binary, "bitwise_and"},
    {"BitwiseOr", Binary, "bitwise_or"},
    {"BitwiseXor", Binary, "bitwise_xor"},
    OfComplex("Cast", Cast),
    {"Ceil", Unary, "ceil"},
    {"ClipByValue", ClipByValue},
    {"Cos", Unary, "cos"},
    {"Cosh", Unary, "cosh"},
    {"Div", Quotient},
    {"DivNoNan", UnlessZero, "divide"},
    {"Elu", Shared<tensorflow_family::Elu>},
    {"Equal", Binary, "equal"},
    {"Erf", Unary, "erf"},
    {"Erfc", Erfc},
    {"Exp", Unary, "exp"},
    {"Expm1", Unary, "expm1"},
    {"Floor", Unary, "floor"},
    {"FloorDiv", Binary, "floor_divide"},
    {"FloorMod", Binary, "floor_mod"},
    {"Greater", Binary, "greater"},
    {"GreaterEqual", Binary, "greater_equal"},
    {"Inv", Reciprocal},
    {"Invert", Unary, "bitwise_not"},
    {"IsFinite", Unary, "isfinite"},
    {"IsInf", Unary, "isinf"},
    {"IsNan", Unary, "isnan"},
    {"LeakyRelu", LeakyRelu},
    {"LeftShift", Binary, "left_shift"},
    {"Less", Binary, "less"},
    {"LessEqual", Binary, "less_equal"},
    {"Log", Unary, "log"},
    {"Log1p", Unary, "log1p"},
    {"LogSoftmax", Scores, "nn.log_softmax"},
    {"LogicalAnd", Binary, "logical_and"},
    {"LogicalNot", Unary, "logical_not"},
    {"LogicalOr", Binary, "logical_or"},
    {"Maximum", Binary, "maximum"},
    {"Minimum", Binary, "minimum"},
    {"Mod", Binary, "trunc_mod"},
    OfComplex("Mul", Product, "multiply"),
    {"MulNoNan", UnlessZero, "multiply"},
    {"Neg", Unary, "negative"},
    {"NotEqual", Binary, "not_equal"},
    {"Pow", Binary, "power"},
    {"RandomStandardNormal", Random, "random.normal"},
    {"RandomUniform", Random, "random.uniform"},
    {"RealDiv", Binary, "divide"},
    {"Reciprocal", Reciprocal},
    {"Relu", Unary, "nn.relu"},
    {"Relu6", Relu6},
    {"RightShift", Binary, "right_shift"},
    {"Rint", Unary, "round_half_even"},
    {"Round", Unary, "round_half_even"},
    {"Rsqrt", Unary, "rsqrt"},
    {"Select", Shared<tensorflow_family::Select>},
    {"SelectV2", Where},
    {"Selu", Selu},
    {"Sigmoid", Unary, "sigmoid"},
    {"Sign", Unary, "sign"},
    {"Sin", Unary, "sin"},
    {"Sinh", Unary, "sinh"},
    {"Softmax", Scores, "nn.softmax"},
    {"Softplus", Softplus},
    {"Softsign", Softsign},
    {"Sqrt", Unary, "sqrt"},
    {"Square", Shared<tensorflow_family::Square>},
    {"SquaredDifference", Shared<tensorflow_family::SquaredDifference>},
    {"Sub", Binary, "subtract"},
    {"Tan", Unary, "tan"},
    {"Tanh", Unary, "tanh"},
    {"TruncateDiv", Quotient},
    {"TruncateMod", Binary, "trunc_mod"},
    {"Xdivy", TimesLog, "divide"},
    {"Xlog1py", TimesLog, "log1p"},
    {"Xlogy", TimesLog, "log"},
};

}  // namespace

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::tensorflow
