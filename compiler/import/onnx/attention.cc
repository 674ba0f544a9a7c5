// Attention and what stands around it in decoders.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/attend.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// (batch, steps, heads * size) as (batch, heads, steps, size).
Operand SplitHeads(NodeContext& c, Operand x, int64_t heads) {
  const Dims dims = c.DimsOf(x);
  if (dims.size() == 4) return x;
  if (dims.size() != 3 || heads < 1)
    return c.Fail("an input has neither 3 nor 4 axes, or the number of heads is missing");
  return HeadsOutside(c, importing::HeadsOf(c, x, heads));
}

Operand RepeatHeads(NodeContext& c, Operand x, int64_t times) {
  return times == 1 ? x : c.Op("repeat", {x}, {{"repeats", times}, {"axis", 1}});
}

// 0 where attention may look, else -inf; null: everywhere.
Operand Bias(NodeContext& c, Operand query, Operand key, DataType dtype) {
  Operand none = c.emit().Number(-kInfinity, dtype), zero = c.emit().Number(0, dtype);
  Dim steps = c.ExtentOf(query, 2), total = c.ExtentOf(key, 2);
  Operand bias = nullptr;
  auto add = [&](Operand more) { bias = bias == nullptr ? more : c.Add(bias, more); };
  if (c.Has(3)) {
    Operand mask = c.In(3);
    Dim missing = total - c.ExtentOf(mask, -1);
    bool is_bool = c.DTypeOf(mask).is_bool();
    if (is_bool) mask = c.Where(mask, zero, none);
    if (missing.is_const() && missing.constant() > 0) {
      ir::AttrValue::List widths(static_cast<size_t>(c.RankOf(mask)), ir::AttrValue::List{0, 0});
      widths.back() = ir::AttrValue::List{0, missing.constant()};
      mask = c.Op("nn.pad", {mask, c.Number(-kInfinity, mask)}, {{"pad_width", widths}});
    }
    add(c.Cast(mask, dtype));
  }
  if (c.Int("is_causal", 0) != 0) {
    Dim past = c.Has(4) ? c.ExtentOf(c.In(4), 2) : Dim(0);
    Operand last = c.Unsqueeze(c.Add(c.Iota(steps), c.emit().FromDim(past)), {1});
    add(c.Where(c.Op("less_equal", {c.Iota(total), last}), zero, none));
  }
  if (c.Has(6)) {
    Operand lengths = c.Unsqueeze(c.Cast(c.In(6), kInt64), {1, 2, 3});
    add(c.Where(c.Op("less", {c.Iota(total), lengths}), zero, none));
  }
  return bias;
}

Operands Attention(NodeContext& c) {
  int64_t q_heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
  bool is_flat = c.RankOf(c.In(0)) == 3;
  Operand query = SplitHeads(c, c.In(0), q_heads), key = SplitHeads(c, c.In(1), kv_heads);
  Operand value = SplitHeads(c, c.In(2), kv_heads);
  if (c.failed()) return {};
  auto extended = [&](size_t past, Operand x) {
    return c.Has(past) ? c.Op("concatenate", {c.emit().Tuple({c.In(past), x})}, {{"axis", 2}}) : x;
  };
  key = extended(4, key);
  value = extended(5, value);
  Operand present_key = key, present_value = value;
  DataType dtype = c.DTypeOf(query);
  Operand bias = Bias(c, query, key, dtype);

  std::optional<int64_t> queries = c.ExtentOf(query, 1).AsConst(), keys = c.ExtentOf(key, 1).AsConst();
  if (queries && keys && *queries != *keys) {
    if (*keys == 0 || *queries % *keys != 0) return {c.Fail("heads of queries are no multiple of heads of keys")};
    key = RepeatHeads(c, key, *queries / *keys);
    value = RepeatHeads(c, value, *queries / *keys);
  }
  std::optional<int64_t> size = c.ExtentOf(query, 3).AsConst();
  Operand scale;
  if (c.HasAttr("scale")) {
    scale = c.Number(std::sqrt(c.Float("scale", 1)), query);
  } else if (size) {
    scale = c.Number(std::pow(static_cast<double>(*size), -0.25), query);
  } else {
    Operand extent = c.Cast(c.emit().FromDim(c.ExtentOf(query, 3)), dtype);
    scale = c.Op("power", {extent, c.Number(-0.25, query)});
  }
  constexpr int64_t kTransposed[] = {0, 1, 3, 2};
  Operand products = c.Op("nn.matmul", {c.Mul(query, scale), c.Mul(c.Transpose(key, kTransposed), scale)});
  if (double cap = c.Float("softcap", 0); cap > 0) {
    Operand limit = c.Number(cap, products);
    products = c.Mul(c.Op("tanh", {c.Div(products, limit)}), limit);
  }
  Operand scores = bias == nullptr ? products : c.Add(products, bias);
  DataType precision = c.DTypeAttr("softmax_precision", dtype);
  // A causal mask alone leaves each query a key.
  bool masked = c.Has(3) || c.Has(6);
  Operand weights = c.Cast(c.Op("nn.softmax", {c.Cast(scores, precision)}, {{"axis", 3}, {"masked", masked}}), dtype);
  Operand y = c.Op("nn.matmul", {weights, value});
  if (is_flat) y = JoinHeads(c, y);
  int64_t mode = c.Int("qk_matmul_output_mode", 0);
  return {y, present_key, present_value, mode == 3 ? weights : mode == 2 ? scores : products};
}

Operands FlexAttention(NodeContext& c) {
  Operand query = c.In(0), key = c.In(1), value = c.In(2);
  DataType dtype = c.DTypeOf(query);
  std::optional<int64_t> queries = c.ExtentOf(query, 1).AsConst(), keys = c.ExtentOf(key, 1).AsConst();
  if (queries && keys && *keys > 0 && *queries != *keys) {
    key = RepeatHeads(c, key, *queries / *keys);
    value = RepeatHeads(c, value, *queries / *keys);
  }
  DataType precision = c.DTypeAttr("softmax_precision", dtype == kFloat64 ? kFloat64 : kFloat32);
  query = c.Cast(query, precision);
  Operand scores = c.Op("nn.matmul", {query, c.Cast(key, precision)}, {{"transpose_b", true}});
  Operand scale = c.HasAttr("scale") ? c.Number(c.Float("scale", 1), query)
                                     : c.Op("rsqrt", {c.Cast(c.emit().FromDim(c.ExtentOf(query, 3)), precision)});
  scores = c.Mul(scores, scale);
  auto modified = [&](std::string_view attribute, Operand x) {
    if (!c.HasAttr(attribute)) return x;
    const Graph* graph = c.GraphAttr(attribute);
    Operands results = graph == nullptr ? Operands() : c.Body(*graph, {x});
    return results.size() == 1 ? results[0] : c.Fail("a graph that changes scores gives not one output");
  };
  scores = modified("score_mod", scores);
  if (c.failed() || scores->is_placeholder) return {};
  ir::Attrs attrs = {{"axis", 3}, {"masked", c.HasAttr("score_mod")}};
  Operand weights = modified("prob_mod", c.Op("nn.softmax", {scores}, attrs));
  if (c.failed() || weights->is_placeholder) return {};
  return {c.Cast(c.Op("nn.matmul", {c.Cast(weights, c.DTypeOf(value)), value}), dtype)};
}

Operands RotaryEmbedding(NodeContext& c) {
  Operand input = c.In(0);
  const Dims original = c.DimsOf(input);
  bool is_flat = original.size() == 3;
  int64_t heads = c.Int("num_heads", 0);
  if (is_flat && heads < 1) return {c.Fail("`num_heads` is missing")};
  Operand x = is_flat ? importing::HeadsOf(c, input, heads) : HeadsOutside(c, input);
  if (c.failed()) return {};
  const int64_t part = c.Int("rotary_embedding_dim", 0);
  auto angles = [&](size_t i) {
    Operand table = c.Has(3) ? c.Op("take", {c.In(i), c.In(3)}, {{"axis", 0}}) : c.In(i);
    return c.SliceAxis(table, 2, 0, FloorDiv(part == 0 ? c.ExtentOf(x, 3) : Dim(part), 2));
  };
  Operand y = Rotated(c, x, angles(1), angles(2), c.Int("interleaved", 0) != 0);
  return {is_flat ? c.Reshape(y, original) : HeadsOutside(c, y)};
}

Operands TensorScatter(NodeContext& c) {
  Operand cache = c.In(0), update = c.In(1);
  int64_t rank = c.RankOf(cache), axis = c.Axis(c.Int("axis", -2), rank);
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < rank; ++i) behind.push_back(i);
  Operand places = c.Iota(c.ExtentOf(update, axis));
  for (int64_t i = axis + 1; i < rank; ++i) places = c.Unsqueeze(places, {c.RankOf(places)});
  if (c.Has(2)) places = c.Add(places, c.Unsqueeze(c.Cast(c.In(2), kInt64), behind));
  if (c.Text("mode", "linear") == "circular") {
    places = c.Op("floor_mod", {places, c.emit().FromDim(c.ExtentOf(cache, axis))});
  }
  places = c.BroadcastTo(places, c.DimsOf(update));
  return {c.Op("scatter_elements", {cache, places, update}, {{"axis", axis}})};
}

Operands CausalConvWithState(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1);
  Dim channels = c.ExtentOf(weight, 0), taps = c.ExtentOf(weight, 2);
  Operand padded = c.Has(3) ? c.Op("concatenate", {c.emit().Tuple({c.In(3), x})}, {{"axis", 2}})
                            : importing::PadBy(c, x, 0, {0, 0, 0, 0, taps - 1, 0});
  Operand y;
  if (channels.is_const() && taps.is_const()) {
    y = c.Op("nn.conv1d", {padded, weight}, {{"groups", channels.constant()}});
  } else {
    Operand places = importing::GatherWindows(c, padded, {taps},
                                              {.axes = 1, .kernel = {}, .strides = {1}, .dilations = {1}, .pads = {}});
    y = c.Op("einsum", {c.emit().Tuple({places, c.Squeeze(weight, {1})})}, {{"equation", "bcpu,cu->bcp"}});
  }
  if (c.Has(2)) y = c.Op("nn.bias_add", {y, c.In(2)}, {{"axis", 1}});
  std::string activation = c.Text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = c.Op("nn.silu", {y});
  } else if (activation != "none") {
    return {c.Unsupported(absl::StrCat("activation ", activation))};
  }
  Dim total = c.ExtentOf(padded, 2);
  return {y, c.SliceAxis(padded, 2, total - (taps - 1), total)};
}

constexpr OperatorRow kRows[] = {
    {"Attention", Attention},
    {"CausalConvWithState", CausalConvWithState},
    {"RotaryEmbedding", RotaryEmbedding},
    {"TensorScatter", TensorScatter},
    {"ai.onnx.preview.FlexAttention", FlexAttention},
};

}  // namespace

std::span<const OperatorRow> AttentionOperators() { return kRows; }

}  // namespace rvm::onnx::convert
