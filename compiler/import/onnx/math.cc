// Arithmetic element by element: what ONNX calls math, logic and activations.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/saturated_cast.h"

namespace rvm::onnx::convert {
namespace {

// Operators of the opsets before 7 say along which axis the second input is broadcast.
Operand Aligned(NodeContext& c, Operand a, Operand b) {
  if (!c.HasAttr("axis") || c.Int("broadcast", 0) == 0) return b;
  int64_t rank = c.RankOf(a);
  int64_t behind = rank - c.RankOf(b) - c.Axis(c.Int("axis", 0), rank);
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < behind; ++i) axes.push_back(c.RankOf(b) + i);
  return c.Unsqueeze(b, axes);
}

Operand Positive(NodeContext& c, Operand x) { return c.Op("greater", {x, c.Number(0, x)}); }

// alpha * (exp(x) - 1)
Operand ScaledExpm1(NodeContext& c, Operand x, double alpha) { return c.Mul(c.Number(alpha, x), c.Op("expm1", {x})); }

Operands Unary(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }

Operands Binary(NodeContext& c) {
  Operand a = c.In(0), b = Aligned(c, c.In(0), c.In(1));
  return {c.Op(c.row().variant, {a, b})};
}

Operands Variadic(NodeContext& c) {
  Operands inputs = c.All();
  Operand result = inputs.empty() ? c.In(0) : inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) result = c.Op(c.row().variant, {result, inputs[i]});
  return {result};
}

Operands Mean(NodeContext& c) {
  Operand sum = Variadic(c)[0];
  return {c.Div(sum, c.Number(static_cast<double>(c.num_inputs()), sum))};
}

Operands Identity(NodeContext& c) { return {c.In(0)}; }

Operands Pow(NodeContext& c) {
  Operand x = c.In(0), y = c.In(1);
  DataType dtype = c.DTypeOf(x), exponent = c.DTypeOf(y);
  if (dtype == exponent) return {c.Op("power", {x, y})};
  // An integer to a power that is a fraction is computed in the fraction's dtype.
  if (dtype.is_integral() && exponent.is_float()) {
    return {c.Cast(c.Op("power", {c.Cast(x, exponent), y}), dtype)};
  }
  return {c.Op("power", {x, c.Cast(y, dtype)})};
}

Operands Mod(NodeContext& c) { return {c.Op(c.Int("fmod", 0) != 0 ? "trunc_mod" : "floor_mod", {c.In(0), c.In(1)})}; }

Operands BitShift(NodeContext& c) {
  return {c.Op(c.Text("direction", "") == "LEFT" ? "left_shift" : "right_shift", {c.In(0), c.In(1)})};
}

Operands Select(NodeContext& c) { return {c.Where(c.In(0), c.In(1), c.In(2))}; }

Operands CastTo(NodeContext& c) {
  DataType dtype = c.DTypeAttr("to", kFloat32);
  return {c.failed() ? nullptr : CastSaturated(c, c.In(0), dtype)};
}
Operands CastLike(NodeContext& c) { return {CastSaturated(c, c.In(0), c.DTypeOf(c.In(1)))}; }
Operands BitCast(NodeContext& c) {
  DataType dtype = c.DTypeAttr("to", kFloat32);
  return {importing::BitsAs(c, c.In(0), dtype)};
}

Operands Clip(NodeContext& c) {
  Operand x = c.In(0);
  Operand low = c.Has(1) ? c.Scalar(c.In(1)) : c.HasAttr("min") ? c.Number(c.Float("min", 0), x) : nullptr;
  Operand high = c.Has(2) ? c.Scalar(c.In(2)) : c.HasAttr("max") ? c.Number(c.Float("max", 0), x) : nullptr;
  if (low != nullptr) x = c.Op("maximum", {x, low});
  if (high != nullptr) x = c.Op("minimum", {x, high});
  return {x};
}

Operands IsInf(NodeContext& c) {
  Operand x = c.In(0), result = c.Op("isinf", {x});
  if (c.Int("detect_positive", 1) == 0) {
    result = c.Op("logical_and", {result, c.Op("less", {x, c.Number(0, x)})});
  }
  if (c.Int("detect_negative", 1) == 0) result = c.Op("logical_and", {result, Positive(c, x)});
  return {result};
}

Operands Reciprocal(NodeContext& c) { return {c.Div(c.Number(1, c.In(0)), c.In(0))}; }

// ---- activations

Operands Elu(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Where(Positive(c, x), x, ScaledExpm1(c, x, c.Float("alpha", 1)))};
}

Operands Celu(NodeContext& c) {
  Operand x = c.In(0), zero = c.Number(0, x);
  double alpha = c.Float("alpha", 1);
  Operand scaled = ScaledExpm1(c, c.Div(x, c.Number(alpha, x)), alpha);
  return {c.Add(c.Op("maximum", {x, zero}), c.Op("minimum", {zero, scaled}))};
}

Operands Selu(NodeContext& c) {
  Operand x = c.In(0);
  double alpha = c.Float("alpha", 1.67326319217681884765625), gamma = c.Float("gamma", 1.05070102214813232421875);
  return {c.Mul(c.Number(gamma, x), c.Where(Positive(c, x), x, ScaledExpm1(c, x, alpha)))};
}

Operands Gelu(NodeContext& c) { return {c.Op("nn.gelu", {c.In(0)}, {{"approximate", c.Text("approximate", "none")}})}; }

Operands HardSigmoid(NodeContext& c) {
  Operand x = c.In(0);
  Operand y = c.Add(c.Mul(c.Number(c.Float("alpha", 0.2), x), x), c.Number(c.Float("beta", 0.5), x));
  return {c.Op("clip", {y}, {{"a_min", 0.0}, {"a_max", 1.0}})};
}

Operands HardSwish(NodeContext& c) {
  Operand x = c.In(0);
  Operand y = c.Add(c.Mul(c.Number(1.0 / 6, x), x), c.Number(0.5, x));
  return {c.Mul(x, c.Op("clip", {y}, {{"a_min", 0.0}, {"a_max", 1.0}}))};
}

Operands LeakyRelu(NodeContext& c) { return {c.Op("nn.leaky_relu", {c.In(0)}, {{"alpha", c.Float("alpha", 0.01)}})}; }

Operands Mish(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Mul(x, c.Op("tanh", {c.Op("nn.softplus", {x})}))};
}

Operands PRelu(NodeContext& c) {
  Operand x = c.In(0), slope = c.In(1);
  // A vector of the slopes of channels, where the older opsets allow it.
  if (c.opset() < 7 && c.RankOf(slope) == 1 && c.RankOf(x) > 2) {
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < c.RankOf(x) - 1; ++i) axes.push_back(i);
    slope = c.Unsqueeze(slope, axes);
  }
  return {c.Where(c.Op("less", {x, c.Number(0, x)}), c.Mul(x, slope), x)};
}

Operands Shrink(NodeContext& c) {
  Operand x = c.In(0);
  Operand limit = c.Number(c.Float("lambd", 0.5), x), bias = c.Number(c.Float("bias", 0), x);
  Operand above = c.Where(c.Op("greater", {x, limit}), c.Sub(x, bias), c.Number(0, x));
  return {c.Where(c.Op("less", {x, c.Op("negative", {limit})}), c.Add(x, bias), above)};
}

Operands Softsign(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Div(x, c.Add(c.Number(1, x), c.Op("abs", {x})))};
}

Operands Swish(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Mul(x, c.Op("sigmoid", {c.Mul(c.Number(c.Float("alpha", 1), x), x)}))};
}

Operands ThresholdedRelu(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Where(c.Op("greater", {x, c.Number(c.Float("alpha", 1), x)}), x, c.Number(0, x))};
}

// ---- com.microsoft

Operands FastGelu(NodeContext& c) {
  Operand x = c.Has(1) ? c.Add(c.In(0), c.In(1)) : c.In(0);
  return {c.Op("nn.gelu", {x}, {{"approximate", "tanh"}})};
}

Operands BiasGelu(NodeContext& c) { return {c.Op("nn.gelu", {c.Add(c.In(0), c.In(1))}, {{"approximate", "none"}})}; }

Operands QuickGelu(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Mul(x, c.Op("sigmoid", {c.Mul(c.Number(c.Float("alpha", 1.702), x), x)}))};
}

constexpr OperatorRow kRows[] = {
    {"Abs", Unary, "abs"},
    {"Acos", Unary, "acos"},
    {"Acosh", Unary, "acosh"},
    {"Asin", Unary, "asin"},
    {"Asinh", Unary, "asinh"},
    {"Atan", Unary, "atan"},
    {"Atanh", Unary, "atanh"},
    {"BitwiseNot", Unary, "bitwise_not"},
    {"Ceil", Unary, "ceil"},
    {"Cos", Unary, "cos"},
    {"Cosh", Unary, "cosh"},
    {"Erf", Unary, "erf"},
    {"Exp", Unary, "exp"},
    {"Floor", Unary, "floor"},
    {"IsNaN", Unary, "isnan"},
    {"Log", Unary, "log"},
    {"Neg", Unary, "negative"},
    {"Not", Unary, "logical_not"},
    {"Relu", Unary, "nn.relu"},
    {"Round", Unary, "round_half_even"},
    {"Sigmoid", Unary, "sigmoid"},
    {"Sign", Unary, "sign"},
    {"Sin", Unary, "sin"},
    {"Sinh", Unary, "sinh"},
    {"Softplus", Unary, "nn.softplus"},
    {"Sqrt", Unary, "sqrt"},
    {"Tan", Unary, "tan"},
    {"Tanh", Unary, "tanh"},
    {"Add", Binary, "add"},
    {"And", Binary, "logical_and"},
    {"BitwiseAnd", Binary, "bitwise_and"},
    {"BitwiseOr", Binary, "bitwise_or"},
    {"BitwiseXor", Binary, "bitwise_xor"},
    {"Div", Binary, "divide"},
    {"Equal", Binary, "equal"},
    {"Greater", Binary, "greater"},
    {"GreaterOrEqual", Binary, "greater_equal"},
    {"Less", Binary, "less"},
    {"LessOrEqual", Binary, "less_equal"},
    {"Mul", Binary, "multiply"},
    {"Or", Binary, "logical_or"},
    {"Sub", Binary, "subtract"},
    {"Xor", Binary, "logical_xor"},
    {"Max", Variadic, "maximum"},
    {"Min", Variadic, "minimum"},
    {"Sum", Variadic, "add"},
    {"Mean", Mean, "add"},
    {"BitCast", BitCast},
    {"BitShift", BitShift},
    {"Cast", CastTo},
    {"CastLike", CastLike},
    {"Celu", Celu},
    {"Clip", Clip},
    {"Elu", Elu},
    {"Gelu", Gelu},
    {"HardSigmoid", HardSigmoid},
    {"HardSwish", HardSwish},
    {"Identity", Identity},
    {"IsInf", IsInf},
    {"LeakyRelu", LeakyRelu},
    {"Mish", Mish},
    {"Mod", Mod},
    {"PRelu", PRelu},
    {"Pow", Pow},
    {"Reciprocal", Reciprocal},
    {"Selu", Selu},
    {"Shrink", Shrink},
    {"Softsign", Softsign},
    {"Swish", Swish},
    {"ThresholdedRelu", ThresholdedRelu},
    {"Where", Select},
    {"com.microsoft.BiasGelu", BiasGelu},
    {"com.microsoft.FastGelu", FastGelu},
    {"com.microsoft.Gelu", Gelu},
    {"com.microsoft.QuickGelu", QuickGelu},
};

}  // namespace

std::span<const OperatorRow> MathOperators() { return kRows; }

}  // namespace rvm::onnx::convert
