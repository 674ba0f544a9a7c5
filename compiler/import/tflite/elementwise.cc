// Operators that compute each element by itself, and reductions.
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "compiler/import/term.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

using importing::Term;

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }
Operands Binary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0), c.In(1)})}; }
Operands Arithmetic(NodeContext& c) { return {c.Activated(c.Op(c.row().variant, {c.In(0), c.In(1)}), 0)}; }

Operand Clip(NodeContext& c, double least, double greatest) {
  return c.Op("clip", {c.In(0)}, {{"a_min", least}, {"a_max", greatest}});
}
Operands Relu6(NodeContext& c) { return {Clip(c, 0, 6)}; }
Operands ReluN1To1(NodeContext& c) { return {Clip(c, -1, 1)}; }

Operands Square(NodeContext& c) { return {c.Mul(c.In(0), c.In(0))}; }
Operands SquaredDifference(NodeContext& c) {
  Operand difference = c.Sub(c.In(0), c.In(1));
  return {c.Mul(difference, difference)};
}
Operands LeakyRelu(NodeContext& c) {
  return {c.Op("nn.leaky_relu", {c.In(0)}, {{"alpha", static_cast<double>(c.options().Number<float>(0, 0))}})};
}
Operands Elu(NodeContext& c) {
  const Term x(c, c.In(0));
  return {Select(x > 0.0, x, x.Apply("expm1"))};
}
Operands Prelu(NodeContext& c) {
  const Term x(c, c.In(0));
  return {Select(x < 0.0, x * Term(c, c.In(1)), x)};
}
Operands HardSwish(NodeContext& c) {
  const Term x(c, c.In(0));
  return {x * Min(Max(x + 3, x.Like(0)), x.Like(6)) * (1.0 / 6)};
}
Operands AddN(NodeContext& c) {
  Operand sum = c.In(0);
  for (size_t i = 1; i < c.num_inputs(); ++i) sum = c.Add(sum, c.In(i));
  return {sum};
}
Operands Cast(NodeContext& c) { return {c.Cast(c.In(0), c.OutputDType(0))}; }
// float16 weights are dequantised by name alone; integers have their scales in the tensor.
Operands Dequantize(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed() || c.DTypeOf(x).is_float()) return {c.Cast(x, kFloat32)};
  return {c.Unsupported("quantised activations; convert the model with floats")};
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
    {"ADD_N", AddN},
    {"ARG_MAX", ArgReduce, "argmax"},
    {"ARG_MIN", ArgReduce, "argmin"},
    {"CAST", Cast},
    {"CEIL", Unary, "ceil"},
    {"COS", Unary, "cos"},
    {"DEQUANTIZE", Dequantize},
    {"DIV", Arithmetic, "divide"},
    {"ELU", Elu},
    {"EQUAL", Binary, "equal"},
    {"EXP", Unary, "exp"},
    {"FLOOR", Unary, "floor"},
    {"FLOOR_DIV", Binary, "floor_divide"},
    {"FLOOR_MOD", Binary, "floor_mod"},
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
    {"MAXIMUM", Binary, "maximum"},
    {"MEAN", Reduce, "mean"},
    {"MINIMUM", Binary, "minimum"},
    {"MUL", Arithmetic, "multiply"},
    {"NEG", Unary, "negative"},
    {"NOT_EQUAL", Binary, "not_equal"},
    {"POW", Binary, "power"},
    {"PRELU", Prelu},
    {"REDUCE_ANY", Reduce, "any"},
    {"REDUCE_MAX", Reduce, "max"},
    {"REDUCE_MIN", Reduce, "min"},
    {"REDUCE_PROD", Reduce, "prod"},
    {"RELU", Unary, "nn.relu"},
    {"RELU6", Relu6},
    {"RELU_N1_TO_1", ReluN1To1},
    {"ROUND", Unary, "round_half_even"},
    {"RSQRT", Unary, "rsqrt"},
    {"SELECT", Where},
    {"SELECT_V2", Where},
    {"SIN", Unary, "sin"},
    {"SOFTMAX", Softmax},
    {"SQRT", Unary, "sqrt"},
    {"SQUARE", Square},
    {"SQUARED_DIFFERENCE", SquaredDifference},
    {"SUB", Arithmetic, "subtract"},
    {"SUM", Reduce, "sum"},
    {"TANH", Unary, "tanh"},
};

}  // namespace

std::span<const OperatorRow> ElementwiseOperators() { return kRows; }

}  // namespace rvm::tflite
