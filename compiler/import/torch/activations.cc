// Activations, softmax, dropout.
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

Operand Clip(NodeContext& c, Operand x, double low, double high) {
  return c.Op("clip", {x}, {{"a_min", low}, {"a_max", high}});
}

Operand ScaledExpm1(NodeContext& c, Operand x, double scale) { return c.Mul(c.Op("expm1", {x}), c.Number(scale, x)); }

Operand IsPositive(NodeContext& c, Operand x) { return c.Op("greater", {x, c.Number(0, x)}); }

Operands Relu6(NodeContext& c) { return {Clip(c, c.In("self"), 0, 6)}; }
Operands Hardtanh(NodeContext& c) { return {Clip(c, c.In("self"), c.Float("min_val", -1), c.Float("max_val", 1))}; }

Operands Hardsigmoid(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Div(Clip(c, c.Add(x, c.Number(3, x)), 0, 6), c.Number(6, x))};
}

Operands Hardswish(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Mul(x, c.Div(Clip(c, c.Add(x, c.Number(3, x)), 0, 6), c.Number(6, x)))};
}

Operands LeakyRelu(NodeContext& c) {
  return {c.Op("nn.leaky_relu", {c.In("self")}, {{"alpha", c.Float("negative_slope", 0.01)}})};
}

Operands Elu(NodeContext& c) {
  Operand x = c.In("self");
  double alpha = c.Float("alpha", 1), scale = c.Float("scale", 1), input_scale = c.Float("input_scale", 1);
  Operand scaled = input_scale == 1 ? x : c.Mul(x, c.Number(input_scale, x));
  Operand positive = scale == 1 ? x : c.Mul(x, c.Number(scale, x));
  return {c.Where(IsPositive(c, x), positive, ScaledExpm1(c, scaled, alpha * scale))};
}

Operands Selu(NodeContext& c) {
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  Operand x = c.In("self");
  return {c.Where(IsPositive(c, x), c.Mul(x, c.Number(kScale, x)), ScaledExpm1(c, x, kAlpha * kScale))};
}

Operands Celu(NodeContext& c) {
  Operand x = c.In("self");
  double alpha = c.Float("alpha", 1);
  return {c.Where(IsPositive(c, x), x, ScaledExpm1(c, c.Div(x, c.Number(alpha, x)), alpha))};
}

Operands Gelu(NodeContext& c) {
  return {c.Op("nn.gelu", {c.In("self")}, {{"approximate", c.Text("approximate", "none")}})};
}

Operands Softplus(NodeContext& c) { return {c.Op("nn.softplus", {c.In("self")}, {{"beta", c.Float("beta", 1)}})}; }

Operands Mish(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Mul(x, c.Op("tanh", {c.Op("nn.softplus", {x})}))};
}

Operands Softsign(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Div(x, c.Add(c.Op("abs", {x}), c.Number(1, x)))};
}

Operands LogSigmoid(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Op("negative", {c.Op("nn.softplus", {c.Op("negative", {x})})})};
}

// Returns a slope for each channel, or one for all.
Operands Prelu(NodeContext& c) {
  Operand x = c.In("self"), slope = c.In("weight");
  std::vector<int64_t> axes;
  for (int64_t i = 1; i < c.RankOf(x) - 1 && c.RankOf(slope) == 1; ++i) axes.push_back(i);
  return {c.Where(IsPositive(c, x), x, c.Mul(x, c.Unsqueeze(slope, axes)))};
}

Operands Threshold(NodeContext& c) {
  Operand x = c.In("self");
  Operand limit = c.Cast(c.In("threshold"), c.DTypeOf(x)), value = c.Cast(c.In("value"), c.DTypeOf(x));
  return {c.Where(c.Op("greater", {x, limit}), x, value)};
}

Operands Glu(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(x));
  Dim extent = c.ExtentOf(x, axis), half = FloorDiv(extent, 2);
  return {c.Mul(c.SliceAxis(x, axis, 0, half), c.Op("sigmoid", {c.SliceAxis(x, axis, half, extent)}))};
}

Operands SoftmaxWith(NodeContext& c, ir::Attrs attrs) {
  Operand x = c.In("self");
  if (c.Bool("half_to_float", false)) x = c.Cast(x, kFloat32);
  x = c.Floating(c.Cast(x, c.DType("dtype", c.DTypeOf(x))));
  if (c.RankOf(x) == 0) return {c.Number(c.row().variant == "nn.softmax" ? 1 : 0, x)};
  attrs.Set("axis", c.Axis(c.Int("dim", -1), c.RankOf(x)));
  return {c.Op(c.row().variant, {x}, std::move(attrs))};
}

Operands Softmax(NodeContext& c) { return SoftmaxWith(c, {}); }
// 0 where all elements are -inf.
Operands SafeSoftmax(NodeContext& c) { return SoftmaxWith(c, {{"masked", true}}); }

Operands Hardshrink(NodeContext& c) {
  Term x(c, c.In("self"));
  double bound = std::abs(c.Float("lambd", 0.5));
  return {Select(Abs(x) <= bound, 0, x)};
}

Operands Softshrink(NodeContext& c) {
  Term x(c, c.In("self"));
  double bound = c.Float("lambd", 0.5);
  return {Select(x > bound, x - bound, Select(x < -bound, x + bound, x * 0))};
}

// Returns the gradients of softmax and log_softmax, from their results.
Operands SoftmaxGradient(NodeContext& c) {
  Term gradient(c, c.In("grad_output")), y(c, c.In("output"));
  if (c.failed() || c.RankOf(y) == 0) return {c.failed() ? nullptr : gradient * 0};
  ir::Attrs along = {{"axis", ir::AttrValue::List{c.Axis(c.Int("dim", -1), c.RankOf(y))}}, {"keepdims", true}};
  bool is_log = c.row().variant == "log";
  Term sum(c, c.Op("sum", {is_log ? gradient : gradient * y}, along));
  return {c.Cast(is_log ? gradient - Exp(y) * sum : (gradient - sum) * y, c.DType("input_dtype", c.DTypeOf(y)))};
}

constexpr OperatorRow kRows[] = {
    {"celu", Celu},
    {"elu", Elu},
    {"gelu", Gelu},
    {"glu", Glu},
    {"hardsigmoid", Hardsigmoid},
    {"hardswish", Hardswish},
    {"hardtanh", Hardtanh},
    {"hardshrink", Hardshrink},
    {"leaky_relu", LeakyRelu},
    {"log_sigmoid", LogSigmoid},
    {"mish", Mish},
    {"prelu", Prelu},
    {"relu6", Relu6},
    {"selu", Selu},
    {"softplus", Softplus},
    {"softshrink", Softshrink},
    {"softsign", Softsign},
    {"threshold", Threshold},
    {"softmax", Softmax, "nn.softmax"},
    {"_softmax", Softmax, "nn.softmax"},
    {"_safe_softmax", SafeSoftmax, "nn.softmax"},
    {"log_softmax", Softmax, "nn.log_softmax"},
    {"_log_softmax", Softmax, "nn.log_softmax"},
    {"_softmax_backward_data", SoftmaxGradient},
    {"_log_softmax_backward_data", SoftmaxGradient, "log"},
};

}  // namespace

std::span<const OperatorRow> ActivationsOperators() { return kRows; }

}  // namespace rvm::torch::convert
