// Normalisation.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/norms.h"
#include "compiler/import/shapes.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/norms.h"

namespace rvm::torch::convert {
namespace {

using importing::AxesFrom;
using importing::Normalised;

// Sums of half floats are too coarse to normalise by.
DataType Precision(DataType dtype) { return dtype.bits < 32 ? kFloat32 : dtype; }

// Scaled and shifted along axis 1.
Operand Affine(NodeContext& c, Operand y, Operand x) {
  if (c.Has("weight")) y = c.Mul(y, AlongChannels(c, c.Cast(c.In("weight"), c.DTypeOf(y)), x));
  if (c.Has("bias")) y = c.Add(y, AlongChannels(c, c.Cast(c.In("bias"), c.DTypeOf(y)), x));
  return y;
}

// (batch, groups, rest) normalised over the rest, in the shape of x again.
Normalised NormaliseGroups(NodeContext& c, Operand x, const Dim& groups, double epsilon) {
  const Dims dims = c.DimsOf(x);
  if (dims.size() < 2) return {c.Fail("its input has fewer than 2 axes"), nullptr, nullptr};
  Dim rest = importing::Product(std::span(dims).subspan(2));
  Dims split = {dims[0], groups, FloorDiv(dims[1], groups) * rest};
  Normalised result = Normalise(c, c.Reshape(x, split), {2}, epsilon);
  result.y = c.Reshape(result.y, dims);
  return result;
}

Operand Vector(NodeContext& c, Operand x) { return c.Reshape(x, {c.ExtentOf(x, 1)}); }

// Moving statistics after a batch, whose `own` ones have extents of 1 beside the channels.
Operand Moved(NodeContext& c, const char* name, Operand own) {
  Operand old = c.In(name), batch = c.Cast(Vector(c, own), c.DTypeOf(old));
  double momentum = c.Float("momentum", 0.1);
  return c.Add(c.Mul(old, c.Number(1 - momentum, old)), c.Mul(batch, c.Number(momentum, old)));
}

// Normalised by the statistics of the batch: these, too, and the moving ones where there are any.
Operands TrainingNorm(NodeContext& c, Operand x, Operand wide, double epsilon) {
  ir::AttrValue::List axes = AxesFrom(2, c.RankOf(x));
  axes.insert(axes.begin(), ir::AttrValue(0));
  Normalised result = Normalise(c, wide, axes, epsilon);
  Operands results = {c.Cast(Affine(c, result.y, x), c.DTypeOf(x)), Vector(c, result.mean), Vector(c, result.inverse)};
  if (c.row().variant == "reserve") results.push_back(c.emit().Constant(Literal::Full(kUInt8, {0}, 0)));
  if (c.failed() || !c.Has("running_mean")) return results;
  Dim count = c.ExtentOf(x, 0);
  for (int64_t i = 2; i < c.RankOf(x); ++i) count = count * c.ExtentOf(x, i);
  Operand total = c.Cast(c.emit().FromDim(count), c.DTypeOf(wide));
  Operand variance = Average(c, c.Op("power", {c.Sub(wide, result.mean), c.Number(2, wide)}), axes);
  variance = c.Div(c.Mul(variance, total), c.Sub(total, c.Number(1, wide)));
  results.push_back(Moved(c, "running_mean", result.mean));
  results.push_back(Moved(c, "running_var", variance));
  return results;
}

// With the moving statistics, or with those of the batch: in training, and where there are no others.
Operands BatchNorm(NodeContext& c) {
  Operand x = c.In("input");
  DataType dtype = c.DTypeOf(x);
  double epsilon = c.Float("eps", 1e-5);
  std::string_view name = c.row().name;
  bool is_functional = name.ends_with("_functional"), is_update = name.find("with_update") != std::string_view::npos;
  bool trains = c.Bool("training", is_update);
  if (trains && c.Has("running_mean") && !is_functional) {
    return {c.Unsupported(
        "training, which changes the moving statistics; call `eval()` of the module before it is exported, "
        "or save `exported.run_decompositions()`")};
  }
  Operand wide = c.Cast(x, Precision(dtype));
  if (trains || !c.Has("running_mean")) return TrainingNorm(c, x, wide, epsilon);
  Operand mean = c.Cast(c.In("running_mean"), c.DTypeOf(wide)), variance = c.Cast(c.In("running_var"), c.DTypeOf(wide));
  auto given = [&](const char* parameter, const char* otherwise) {
    return c.Has(parameter) ? c.Cast(c.In(parameter), c.DTypeOf(wide)) : c.Op(otherwise, {mean});
  };
  Operand y = c.Op("nn.batch_norm", {wide, given("weight", "ones_like"), given("bias", "zeros_like"), mean, variance},
                   {{"epsilon", epsilon}});
  Operand none = c.emit().Constant(Literal::Full(Precision(dtype), {0}, 0));
  return {c.Cast(c.emit().Field(y, 0), dtype), none, none, c.In("running_mean"), c.In("running_var")};
}

// layer_norm and native_layer_norm, which also gives the mean and the inverse deviation.
Operands LayerNorm(NodeContext& c) {
  Operand x = c.In("input");
  DataType dtype = c.DTypeOf(x);
  const Argument* shape = c.Find("normalized_shape");
  int64_t rank = c.RankOf(x), count = shape == nullptr ? 1 : static_cast<int64_t>(shape->list.size());
  if (c.failed() || count > rank) return {c.failed() ? nullptr : c.Fail("its shape has more axes than its input")};
  double epsilon = c.Float("eps", 1e-5);
  bool wants_statistics = c.WantsOutput(1) || c.WantsOutput(2);
  bool is_plain = count == 1 && !wants_statistics && c.Has("weight") && dtype == Precision(dtype);
  if (is_plain) {
    bool has_bias = c.Has("bias");
    Operand gamma = c.In("weight"), beta = has_bias ? c.In("bias") : c.Op("zeros_like", {gamma});
    return {c.Op("nn.layer_norm", {x, gamma, beta}, {{"epsilon", epsilon}, {"center", has_bias}})};
  }
  Normalised result = Normalise(c, c.Cast(x, Precision(dtype)), AxesFrom(rank - count, rank), epsilon);
  Operand y = result.y;
  if (c.Has("weight")) y = c.Mul(y, c.Cast(c.In("weight"), c.DTypeOf(y)));
  if (c.Has("bias")) y = c.Add(y, c.Cast(c.In("bias"), c.DTypeOf(y)));
  return {c.Cast(y, dtype), result.mean, result.inverse};
}

Operands RmsNorm(NodeContext& c) {
  Operand input = c.In("input");
  DataType dtype = c.DTypeOf(input);
  const Argument* shape = c.Find("normalized_shape");
  int64_t rank = c.RankOf(input), count = shape == nullptr ? 1 : static_cast<int64_t>(shape->list.size());
  if (c.failed() || count > rank) return {c.failed() ? nullptr : c.Fail("its shape has more axes than its input")};
  Operand x = c.Cast(input, Precision(dtype));
  double epsilon = c.Float("eps", dtype == kFloat64 ? 2.220446049250313e-16 : 1.1920928955078125e-07);
  Operand y = c.Mul(x, InverseRoot(c, x, AxesFrom(rank - count, rank), epsilon));
  if (c.Has("weight")) y = c.Mul(y, c.Cast(c.In("weight"), c.DTypeOf(y)));
  return {c.Cast(y, dtype)};
}

// Returns the slices along an axis whose p-norm is greater than `maxnorm`, scaled to it.
Operands Renorm(NodeContext& c) {
  const int64_t axis = c.Int("dim", 0);
  Operand x = importing::SwapAxes(c, c.In("self"), 0, axis);
  const Dims dims = c.DimsOf(x);
  if (c.failed() || dims.size() < 2) return {c.failed() ? nullptr : c.Fail("its input has fewer than 2 axes")};
  Operand rows = c.Reshape(x, {dims[0], importing::Product(std::span(dims).subspan(1))});
  Operand norm = PNormAlong(c, rows, c.Float("p", 2), 1, /*keepdims=*/true);
  Operand bound = c.Number(c.Float("maxnorm", 1), rows);
  Operand scale = c.Div(bound, c.Add(norm, c.Number(1e-7, rows)));
  scale = c.Where(c.Op("greater", {norm, bound}), scale, c.Number(1, rows));
  return {importing::SwapAxes(c, c.Reshape(c.Mul(rows, scale), dims), 0, axis)};
}

// Returns the operator of Relay that normalises groups or instances; null if it does not give all that is read.
Operand NormByOperator(NodeContext& c, std::string_view op, Operand x, ir::Attrs attrs) {
  const DataType dtype = c.DTypeOf(x);
  const bool wants_statistics = c.WantsOutput(1) || c.WantsOutput(2);
  if (c.failed() || wants_statistics || c.RankOf(x) < 3 || dtype != Precision(dtype)) return nullptr;
  const std::optional<int64_t> channels = c.ExtentOf(x, 1).AsConst();
  if (!channels) return nullptr;
  // A missing one is a vector that the operator does not read.
  auto vector = [&](const char* name) {
    return c.Has(name) ? c.Cast(c.In(name), dtype) : c.emit().Constant(Literal::Full(dtype, {*channels}, 0));
  };
  attrs.Set("epsilon", c.Float("eps", 1e-5));
  attrs.Set("scale", c.Has("weight"));
  attrs.Set("center", c.Has("bias"));
  return c.Op(op, {x, vector("weight"), vector("bias")}, std::move(attrs));
}

// group_norm and native_group_norm, which names its arguments otherwise.
Operands GroupNorm(NodeContext& c) {
  Operand x = c.In("input");
  DataType dtype = c.DTypeOf(x);
  int64_t groups = c.Has("num_groups") ? c.Int("num_groups", 1) : c.Int("group", 1);
  if (c.failed() || groups < 1) return {c.failed() ? nullptr : c.Fail("it has no groups")};
  if (Operand y = NormByOperator(c, "nn.group_norm", x, {{"num_groups", groups}})) return {y};
  Normalised result = NormaliseGroups(c, c.Cast(x, Precision(dtype)), groups, c.Float("eps", 1e-5));
  if (c.failed()) return {};
  Operand y = c.Cast(Affine(c, result.y, x), dtype);
  return {y, c.Squeeze(result.mean, {2}), c.Squeeze(result.inverse, {2})};
}

Operands InstanceNorm(NodeContext& c) {
  Operand x = c.In("input");
  DataType dtype = c.DTypeOf(x);
  if (!c.Bool("use_input_stats", true)) return {c.Unsupported("moving statistics of instances")};
  if (Operand y = NormByOperator(c, "nn.instance_norm", x, {})) return {y};
  Normalised result = NormaliseGroups(c, c.Cast(x, Precision(dtype)), c.ExtentOf(x, 1), c.Float("eps", 1e-5));
  return {c.failed() ? nullptr : c.Cast(Affine(c, result.y, x), dtype)};
}

constexpr OperatorRow kRows[] = {
    {"_batch_norm_with_update", BatchNorm, "reserve"},
    {"_batch_norm_with_update_functional", BatchNorm, "reserve"},
    {"_native_batch_norm_legit", BatchNorm},
    {"_native_batch_norm_legit_functional", BatchNorm},
    {"_native_batch_norm_legit_no_training", BatchNorm},
    {"batch_norm", BatchNorm},
    {"group_norm", GroupNorm},
    {"native_batch_norm", BatchNorm},
    {"instance_norm", InstanceNorm},
    {"layer_norm", LayerNorm},
    {"native_group_norm", GroupNorm},
    {"native_layer_norm", LayerNorm},
    {"renorm", Renorm},
    {"rms_norm", RmsNorm},
};

}  // namespace

std::span<const OperatorRow> NormOperators() { return kRows; }

}  // namespace rvm::torch::convert
