// Normalisations and softmax.
#include "compiler/import/blocks/norms.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/checks.h"
#include "compiler/import/mxnet/importer.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"

namespace rvm::mxnet {
namespace {

using importing::KnownExtent;
using importing::Term;

// Returns a vector in the shape that broadcasts along `axis` of a tensor of that rank.
Operand Along(NodeContext& c, Operand vector, int64_t axis, int64_t rank) {
  Dims around(static_cast<size_t>(rank), Dim(1));
  around[static_cast<size_t>(axis)] = c.ExtentOf(vector, 0);
  return c.Reshape(vector, around);
}

// x * gamma + beta, two vectors along `axis`.
Operand Affine(NodeContext& c, Operand x, Operand gamma, Operand beta, int64_t axis) {
  const int64_t rank = c.RankOf(x);
  if (c.failed() || c.RankOf(gamma) != 1 || c.RankOf(beta) != 1) return c.Fail("its scale or its shift is no vector");
  return c.Add(c.Mul(x, Along(c, gamma, axis, rank)), Along(c, beta, axis, rank));
}

Operand BatchNormalised(NodeContext& c, double epsilon, bool is_scaled, bool is_centred) {
  ir::Attrs attrs = {{"axis", c.Int("axis", 1)}, {"epsilon", epsilon}, {"scale", is_scaled}, {"center", is_centred}};
  Operand results = c.Op("nn.batch_norm", {c.In(0), c.In(1), c.In(2), c.In(3), c.In(4)}, std::move(attrs));
  return c.failed() ? results : c.emit().Field(results, 0);
}
// Returns the moving statistics; with `fix_gamma` no scale.
Operands BatchNorm(NodeContext& c) {
  c.Refuse("output_mean_var");
  return {BatchNormalised(c, c.Float("eps", 1e-3), !c.Bool("fix_gamma", true), true)};
}
Operands NnvmBatchNorm(NodeContext& c) {
  return {BatchNormalised(c, c.Float("epsilon", 1e-5), c.Bool("scale", true), c.Bool("center", true))};
}

Operands InstanceNorm(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const auto axes = importing::AxesFrom(2, c.RankOf(x));
  Operand y = Normalise(c, x, axes, c.Float("eps", 1e-3)).y;
  return {Affine(c, y, c.In(1), c.In(2), 1)};
}

Operands LayerNorm(NodeContext& c) {
  c.Refuse("output_mean_var");
  Operand x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", -1), c.RankOf(x));
  if (c.failed()) return {};
  Operand y = Normalise(c, x, {axis}, c.Float("eps", 1e-5)).y;
  return {Affine(c, y, c.In(1), c.In(2), axis)};
}

// Groups of channels, whose scales and shifts are by group.
Operands GroupNorm(NodeContext& c) {
  c.Refuse("output_mean_var");
  Operand x = c.In(0);
  const int64_t groups = c.IntWithin("num_groups", 1, 1, int64_t{1} << 30);
  const std::optional<int64_t> channels = KnownExtent(c, x, 1, "input");
  if (!channels) return {};
  if (*channels % groups != 0) return {c.Fail(absl::StrCat(*channels, " channels are not ", groups, " groups"))};
  const Dims dims = c.DimsOf(x);
  Dims grouped = dims;
  grouped[1] = *channels / groups;
  grouped.insert(grouped.begin() + 1, Dim(groups));
  const auto axes = importing::AxesFrom(2, static_cast<int64_t>(grouped.size()));
  Operand y = Normalise(c, c.Reshape(x, grouped), axes, c.Float("eps", 1e-5)).y;
  return {c.Reshape(Affine(c, y, c.In(1), c.In(2), 1), dims)};
}

Operands L2Normalization(NodeContext& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  const std::string mode = c.Text("mode", "instance");
  const int64_t rank = c.RankOf(x), first = mode == "spatial" ? 2 : 1, end = mode == "channel" ? 2 : rank;
  if (mode != "instance" && mode != "channel" && mode != "spatial") {
    return {c.Fail(absl::StrCat("`mode`: saw `", ReadableText(mode.substr(0, 40)), "`"))};
  }
  const Term sum(c, c.Op("sum", {x * x}, {{"axis", importing::AxesFrom(first, end)}, {"keepdims", true}}));
  return {x / Sqrt(sum + c.Float("eps", 1e-10))};
}
Operands NnvmL2Normalize(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> axes = c.AxesOf("axis", c.RankOf(x));
  return {c.Op("nn.l2_normalize", {x}, {{"eps", c.Float("eps", 1e-12)}, {"axis", ir::IntList(axes)}})};
}

Operands Lrn(NodeContext& c) {
  const bool is_nnvm = c.row().variant == "nnvm";
  return {c.Op("nn.lrn", {c.In(0)},
               {{"size", c.IntWithin(is_nnvm ? "size" : "nsize", 5, 1, 1 << 20)},
                {"axis", is_nnvm ? c.Int("axis", 1) : 1},
                {"bias", c.Float(is_nnvm ? "bias" : "knorm", 2)},
                {"alpha", c.Float("alpha", 1e-4)},
                {"beta", c.Float("beta", 0.75)}})};
}

// ---- softmax

Operands Softmax(NodeContext& c) {
  c.Refuse("use_length");
  Operand x = c.In(0);
  const double temperature = c.Float("temperature", 1);
  if (temperature != 1) x = c.Div(x, c.Number(temperature, x));
  if (c.row().variant == "negative") x = c.Op("negative", {x});
  const std::string_view op = c.row().variant == "log" ? "nn.log_softmax" : "nn.softmax";
  Operand y = c.Op(op, {x}, {{"axis", c.Int("axis", -1)}});
  return {c.HasAttr("dtype") ? c.Cast(y, c.DType("dtype", kFloat32)) : y};
}

// Softmax over all axes but that of the batch.
Operand FlatSoftmax(NodeContext& c, Operand x) {
  const Dims dims = c.DimsOf(x);
  if (c.failed() || dims.size() < 2) return c.Op("nn.softmax", {x}, {{"axis", -1}});
  Operand rows = c.Reshape(x, {dims[0], importing::Product(std::span(dims).subspan(1))});
  return c.Reshape(c.Op("nn.softmax", {rows}, {{"axis", 1}}), dims);
}

Operands SoftmaxOutput(NodeContext& c) {
  Operand x = c.In(0);
  if (c.Bool("multi_output", false)) return {c.Op("nn.softmax", {x}, {{"axis", 1}})};
  if (c.Bool("preserve_shape", false)) return {c.Op("nn.softmax", {x}, {{"axis", -1}})};
  return {FlatSoftmax(c, x)};
}
Operands SoftmaxActivation(NodeContext& c) {
  const int64_t axis = c.Text("mode", "instance") == "channel" ? 1 : -1;
  return {c.Op("nn.softmax", {c.In(0)}, {{"axis", axis}})};
}

constexpr OperatorRow kRows[] = {
    {"BatchNorm", BatchNorm},
    {"BatchNorm_v1", BatchNorm},
    {"GroupNorm", GroupNorm},
    {"InstanceNorm", InstanceNorm},
    {"L2Normalization", L2Normalization},
    {"LRN", Lrn},
    {"LayerNorm", LayerNorm},
    {"Softmax", SoftmaxOutput},
    {"SoftmaxActivation", SoftmaxActivation},
    {"SoftmaxOutput", SoftmaxOutput},
    {"batch_norm", NnvmBatchNorm},
    {"l2_normalize", NnvmL2Normalize},
    {"log_softmax", Softmax, "log"},
    {"lrn", Lrn, "nnvm"},
    {"softmax", Softmax},
    {"softmin", Softmax, "negative"},
};

}  // namespace

std::span<const OperatorRow> NormOperators() { return kRows; }

}  // namespace rvm::mxnet
