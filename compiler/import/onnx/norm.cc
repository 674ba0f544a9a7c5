// Normalisation, softmax, losses.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/norms.h"
#include "compiler/import/onnx/attend.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

using importing::AxesFrom;
using importing::Normalised;

// Returns the dtype in which statistics are computed: float32 for shorter ones.
DataType Stash(NodeContext& c, DataType dtype) {
  return dtype.bits < 32 && c.Int("stash_type", 1) == 1 ? kFloat32 : dtype;
}

Operands BatchNormalization(NodeContext& c) {
  Operand x = c.In(0);
  double epsilon = c.Float("epsilon", 1e-5);
  bool trains = c.Int("training_mode", 0) != 0;
  if (!trains) {
    if (c.num_outputs() > 1 && c.opset() < 14 && c.WantsOutput(1)) return {c.Unsupported("training")};
    Operands args = {x};
    for (size_t i = 1; i < 5; ++i) args.push_back(c.Cast(c.In(i), c.DTypeOf(x)));
    return {c.emit().Field(c.Op("nn.batch_norm", args, {{"epsilon", epsilon}}), 0)};
  }
  ir::AttrValue::List axes = AxesFrom(2, c.RankOf(x));
  axes.insert(axes.begin(), ir::AttrValue(0));
  Operand mean = c.Op("mean", {x}, {{"axis", axes}}), variance = c.Op("variance", {x}, {{"axis", axes}});
  Operand scale = c.Mul(c.Op("rsqrt", {c.Add(variance, c.Number(epsilon, x))}), c.Cast(c.In(1), c.DTypeOf(x)));
  Operand y = c.Mul(c.Sub(x, AlongChannels(c, mean, x)), AlongChannels(c, scale, x));
  y = c.Add(y, AlongChannels(c, c.Cast(c.In(2), c.DTypeOf(x)), x));
  double momentum = c.Float("momentum", 0.9);
  auto running = [&](Operand old, Operand current) {
    current = c.Cast(current, c.DTypeOf(old));
    return c.Add(c.Mul(old, c.Number(momentum, old)), c.Mul(current, c.Number(1 - momentum, old)));
  };
  return {y, running(c.In(3), mean), running(c.In(4), variance)};
}

Operands InstanceNormalization(NodeContext& c) {
  return {c.Op("nn.instance_norm", {c.In(0), c.In(1), c.In(2)}, {{"epsilon", c.Float("epsilon", 1e-5)}})};
}

Operands GroupNormalization(NodeContext& c) {
  Operand x = c.In(0), scale = c.In(1), bias = c.In(2);
  int64_t groups = c.Int("num_groups", 1);
  if (c.opset() < 21) {
    // One scale and bias for each group.
    std::optional<int64_t> channels = c.ExtentOf(x, 1).AsConst();
    if (!channels || groups < 1) return {c.Unsupported("channels whose number is known only when the model runs")};
    auto spread = [&](Operand v) { return c.Op("repeat", {v}, {{"repeats", *channels / groups}, {"axis", 0}}); };
    scale = spread(scale);
    bias = spread(bias);
  }
  return {c.Op("nn.group_norm", {x, scale, bias}, {{"num_groups", groups}, {"epsilon", c.Float("epsilon", 1e-5)}})};
}

Operands LayerNormalization(NodeContext& c) {
  Operand input = c.In(0);
  DataType dtype = c.DTypeOf(input), stash = Stash(c, dtype);
  int64_t rank = c.RankOf(input), axis = c.Axis(c.Int("axis", -1), rank);
  double epsilon = c.Float("epsilon", 1e-5);
  Operand x = c.Cast(input, stash);
  if (axis == rank - 1 && !c.WantsOutput(1) && !c.WantsOutput(2) && dtype == stash && c.RankOf(c.In(1)) == 1) {
    bool has_bias = c.Has(2);
    Operand bias = has_bias ? c.In(2) : c.Op("zeros_like", {c.In(1)});
    return {c.Op("nn.layer_norm", {x, c.In(1), bias}, {{"epsilon", epsilon}, {"center", has_bias}})};
  }
  Normalised result = Normalise(c, x, AxesFrom(axis, rank), epsilon);
  Operand y = c.Mul(c.Cast(result.y, dtype), c.In(1));
  if (c.Has(2)) y = c.Add(y, c.In(2));
  return {y, result.mean, result.inverse};
}

}  // namespace

RootMeanSquare NormaliseByRoot(NodeContext& c, Operand input, Operand weight, int64_t axis, double epsilon) {
  DataType dtype = c.DTypeOf(input);
  int64_t rank = c.RankOf(input);
  ir::AttrValue::List axes = AxesFrom(c.Axis(axis, rank), rank);
  Operand x = c.Cast(input, Stash(c, dtype));
  Operand inverse = InverseRoot(c, x, axes, epsilon);
  Operand y = c.Cast(c.Mul(x, inverse), c.DTypeOf(weight));
  return {c.Cast(c.Mul(y, weight), dtype), inverse};
}

namespace {

// SimplifiedLayerNormalization is the name that it had before it was one of ONNX.
Operands RMSNormalization(NodeContext& c) {
  RootMeanSquare result = NormaliseByRoot(c, c.In(0), c.In(1), c.Int("axis", -1), c.Float("epsilon", 1e-5));
  return {result.y, result.inverse};
}

Operands LpNormalization(NodeContext& c) {
  Operand x = c.In(0);
  ir::Attrs attrs = {{"axis", ir::AttrValue::List{c.Axis(c.Int("axis", -1), c.RankOf(x))}}, {"keepdims", true}};
  Operand norm =
      c.Int("p", 2) == 1 ? c.Op("sum", {c.Op("abs", {x})}, attrs) : c.Op("sqrt", {c.Op("sum", {c.Mul(x, x)}, attrs)});
  Operand zero = c.Number(0, x);
  return {c.Where(c.Op("equal", {norm, zero}), zero, c.Div(x, norm))};
}

Operands MeanVarianceNormalization(NodeContext& c) {
  Operand x = c.In(0);
  std::vector<int64_t> named = c.HasAttr("axes") ? c.Ints("axes") : std::vector<int64_t>{0, 2, 3};
  named = c.Axes(named, c.RankOf(x));
  ir::AttrValue::List axes = ir::IntList(named);
  Operand centred = c.Sub(x, Average(c, x, axes));
  Operand deviation = c.Op("sqrt", {Average(c, c.Mul(centred, centred), axes)});
  return {c.Div(centred, c.Add(deviation, c.Number(1e-9, x)))};
}

Operands LRN(NodeContext& c) {
  return {c.Op("nn.lrn", {c.In(0)},
               {{"size", c.Int("size", 1)},
                {"alpha", c.Float("alpha", 1e-4)},
                {"beta", c.Float("beta", 0.75)},
                {"bias", c.Float("bias", 1)}})};
}

Operands Softmax(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x);
  if (c.opset() >= 13) return {c.Op(c.row().variant, {x}, {{"axis", c.Axis(c.Int("axis", -1), rank)}})};
  // Before opset 13 over all axes from that one on.
  const Dims dims = c.DimsOf(x);
  int64_t axis = c.Axis(c.Int("axis", 1), rank);
  if (axis == rank - 1) return {c.Op(c.row().variant, {x}, {{"axis", axis}})};
  Dim rows = 1, columns = 1;
  for (int64_t i = 0; i < rank; ++i) {
    Dim& part = i < axis ? rows : columns;
    part = part * dims[static_cast<size_t>(i)];
  }
  return {c.Reshape(c.Op(c.row().variant, {c.Reshape(x, {rows, columns})}, {{"axis", 1}}), dims)};
}

// ---- losses

Operand NegativeLogLikelihood(NodeContext& c, Operand log_probabilities) {
  Operand labels = c.In(1);
  Operand weights = c.Has(2) ? c.In(2) : nullptr;
  if (weights == nullptr) {
    Dim classes = c.ExtentOf(log_probabilities, 1);
    Operand one = c.Number(1, log_probabilities);
    weights = classes.is_const() ? c.Op("full", {one}, {{"shape", ir::AttrValue::List{classes.constant()}}})
                                 : c.emit().OpAs({classes}, "dyn.full", {one, c.emit().FromDims({{classes}})});
  }
  return c.Op("nn.nll_loss", {log_probabilities, labels, weights},
              {{"reduction", c.Text("reduction", "mean")},
               {"ignore_index", c.HasAttr("ignore_index") ? c.Int("ignore_index", 0) : INT64_MIN / 2}});
}

Operands NegativeLogLikelihoodLoss(NodeContext& c) { return {NegativeLogLikelihood(c, c.In(0))}; }

Operands SoftmaxCrossEntropyLoss(NodeContext& c) {
  Operand log_probabilities = c.Op("nn.log_softmax", {c.In(0)}, {{"axis", 1}});
  return {NegativeLogLikelihood(c, log_probabilities), log_probabilities};
}

// ---- com.microsoft

Operands SkipLayerNormalization(NodeContext& c) {
  Operand sum = c.Add(c.In(0), c.In(1));
  if (c.Has(4)) sum = c.Add(sum, c.In(4));
  bool has_beta = c.Has(3);
  Operand beta = has_beta ? c.In(3) : c.Op("zeros_like", {c.In(2)});
  Operand y =
      c.Op("nn.layer_norm", {sum, c.In(2), beta}, {{"epsilon", c.Float("epsilon", 1e-12)}, {"center", has_beta}});
  if (c.WantsOutput(1) || c.WantsOutput(2)) return {y, c.Unsupported("mean and deviation as outputs"), nullptr, sum};
  return {y, nullptr, nullptr, sum};
}

Operands SkipSimplifiedLayerNormalization(NodeContext& c) {
  Operand sum = c.Add(c.In(0), c.In(1));
  if (c.Has(3)) sum = c.Add(sum, c.In(3));
  if (c.WantsOutput(1)) return {nullptr, c.Unsupported("the mean as an output")};
  RootMeanSquare result = NormaliseByRoot(c, sum, c.In(2), -1, c.Float("epsilon", 1e-12));
  return {result.y, nullptr, result.inverse, sum};
}

Operands EmbedLayerNormalization(NodeContext& c) {
  Operand ids = c.In(0);
  auto rows = [&](size_t table, Operand index) {
    return c.Op("take", {c.In(table), index}, {{"axis", 0}, {"mode", "wrap"}});
  };
  Operand sum = rows(2, ids);
  Operand places = c.Has(8) ? rows(3, c.In(8)) : c.SliceAxis(c.In(3), 0, 0, c.ExtentOf(ids, 1));
  sum = c.Add(sum, places);
  if (c.Has(1) && c.Has(4)) sum = c.Add(sum, rows(4, c.In(1)));
  Operand y = c.Op("nn.layer_norm", {sum, c.In(5), c.In(6)}, {{"epsilon", c.Float("epsilon", 1e-12)}});
  if (!c.WantsOutput(1)) return {y, nullptr, sum};
  Operand mask = c.Has(7) ? c.In(7) : c.Op("zeros_like", {ids});
  return {y, c.Op("sum", {mask}, {{"axis", ir::AttrValue::List{1}}}), sum};
}

constexpr OperatorRow kRows[] = {
    {"BatchNormalization", BatchNormalization},
    {"GroupNormalization", GroupNormalization},
    {"InstanceNormalization", InstanceNormalization},
    {"LRN", LRN},
    {"LayerNormalization", LayerNormalization},
    {"LogSoftmax", Softmax, "nn.log_softmax"},
    {"LpNormalization", LpNormalization},
    {"MeanVarianceNormalization", MeanVarianceNormalization},
    {"NegativeLogLikelihoodLoss", NegativeLogLikelihoodLoss},
    {"RMSNormalization", RMSNormalization},
    {"SimplifiedLayerNormalization", RMSNormalization},
    {"Softmax", Softmax, "nn.softmax"},
    {"SoftmaxCrossEntropyLoss", SoftmaxCrossEntropyLoss},
    {"com.microsoft.EmbedLayerNormalization", EmbedLayerNormalization},
    {"com.microsoft.SkipLayerNormalization", SkipLayerNormalization},
    {"com.microsoft.SkipSimplifiedLayerNormalization", SkipSimplifiedLayerNormalization},
};

}  // namespace

std::span<const OperatorRow> NormOperators() { return kRows; }

}  // namespace rvm::onnx::convert
