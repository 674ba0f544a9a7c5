// Attention: dot products and sums of queries and keys, and layers of several heads.
#include "compiler/import/blocks/attention.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/keras/importer.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"

namespace rvm::keras {
namespace {

using importing::Term;

Operand And(LayerContext& c, Operand a, Operand b) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  return c.Op("logical_and", {a, b});
}

// Returns the distance of each query from each key, (queries, keys).
Operand Distances(LayerContext& c, const Dim& queries, const Dim& keys) {
  return c.Sub(c.Unsqueeze(c.Iota(queries), {1}), c.Iota(keys));
}
// Returns which keys do not come behind a query, (queries, keys).
Operand CausalMask(LayerContext& c, const Dim& queries, const Dim& keys) {
  return c.Op("greater_equal", {Distances(c, queries, keys), c.Integer(0)});
}

// Returns the scores of Attention and AdditiveAttention, (batch, queries, keys), for (batch, steps, size).
Operand Scores(LayerContext& c, Operand query, Operand key) {
  Operand scale = c.Weight("scale"), weight = c.Weight("concat_score_weight");
  const std::string mode = c.row().variant == "sum" ? "sum" : c.Text("score_mode", "dot");
  if (mode == "dot") {
    Operand scores = c.Op("nn.matmul", {query, key}, {{"transpose_b", true}});
    return scale == nullptr ? scores : c.Mul(scores, scale);
  }
  const int64_t rank = c.RankOf(query);
  Operand sums = c.Add(c.Unsqueeze(query, {rank - 1}), c.Unsqueeze(key, {rank - 2}));
  if (mode == "concat" && scale != nullptr) sums = c.Mul(sums, scale);
  sums = c.Op("tanh", {sums});
  if (mode == "sum" && scale != nullptr) sums = c.Mul(sums, scale);
  Operand scores = c.Op("sum", {sums}, {{"axis", ir::AttrValue::List{rank}}});
  return weight == nullptr ? scores : c.Mul(scores, weight);
}

Values Attention(LayerContext& c) {
  if (c.inputs().size() < 2) return {{c.Fail("it has fewer than 2 inputs")}};
  Operand query = c.In(0), value = c.In(1), key = c.inputs().size() > 2 ? c.In(2) : value;
  if (c.failed()) return {};
  if (c.RankOf(query) < 3 || c.RankOf(value) < 3) return {{c.Fail("its inputs have fewer than 3 axes")}};
  Operand scores = Scores(c, query, key);
  Operand mask = c.Mask(1) == nullptr || c.failed() ? nullptr : c.Unsqueeze(c.Mask(1), {c.RankOf(c.Mask(1)) - 1});
  if (c.Flag("use_causal_mask") && !c.failed()) {
    mask = And(c, mask, CausalMask(c, c.ExtentOf(scores, -2), c.ExtentOf(scores, -1)));
  }
  if (mask != nullptr && !c.failed()) {
    const double most = c.DTypeOf(scores) == kFloat16 ? 65504 : 1e9;
    scores = c.Where(mask, scores, c.Sub(scores, c.Number(most, scores)));
  }
  Operand weights = c.Op("nn.softmax", {scores}, {{"axis", -1}});
  Operand result = c.Op("nn.matmul", {weights, value});
  if (Operand counts = c.Mask(0); counts != nullptr && !c.failed()) {
    result = c.Where(c.Unsqueeze(counts, {c.RankOf(counts)}), result, c.Number(0, result));
  }
  Values values = {{result, c.Mask(0)}};
  if (c.Flag("return_attention_scores")) values.push_back({weights});
  return values;
}

// ---- several heads

// Returns the last axis of x as heads, by a kernel (size, heads, size of a head).
Operand Projected(LayerContext& c, Operand x, std::string_view part) {
  Operand kernel = c.WeightAt(part, 0);
  if (c.failed()) return x;
  if (c.RankOf(kernel) != 3) return c.Fail("its kernel has not 3 axes");
  const Dims dims = c.DimsOf(kernel);
  Operand matrix = c.Reshape(kernel, {dims[0], importing::Product(std::span(dims).subspan(1))});
  Dims split = c.DimsOf(x);
  split.back() = dims[1];
  split.push_back(dims[2]);
  Operand y = c.Reshape(c.Op("nn.matmul", {x, matrix}), split);
  return c.Bool("use_bias", true) ? c.Add(y, c.WeightAt(part, 1)) : y;
}

// Returns the mask of a call, (batch, queries, keys): what counts of both, what comes before, and what the caller says.
Operand MaskOf(LayerContext& c, const Value& query, const Value& value, const Value* key) {
  const Dim queries = c.ExtentOf(query.tensor, 1), keys = c.ExtentOf(value.tensor, 1);
  Operand mask = nullptr;
  if (query.mask != nullptr) mask = c.Unsqueeze(query.mask, {2});
  if (value.mask != nullptr) mask = And(c, mask, c.Unsqueeze(value.mask, {1}));
  if (key != nullptr && key->mask != nullptr) mask = And(c, mask, c.Unsqueeze(key->mask, {1}));
  if (c.Flag("use_causal_mask")) mask = And(c, mask, c.Unsqueeze(CausalMask(c, queries, keys), {0}));
  if (c.Member("sliding_window") != nullptr) {
    Operand near = c.Op("less", {c.Op("abs", {Distances(c, queries, keys)}), c.Integer(c.Int("sliding_window", 1))});
    mask = And(c, mask, c.Unsqueeze(near, {0}));
  }
  const GivenArgument* given = c.Find("attention_mask", 6);
  if (given != nullptr && given->tensor() != nullptr) mask = And(c, mask, c.Cast(given->tensor(), kBool));
  return mask;
}

Values MultiHeadAttention(LayerContext& c) {
  const GivenArgument *query = c.Find("query", 0), *value = c.Find("value", 1), *key = c.Find("key", 2);
  auto is_given = [](const GivenArgument* argument) { return argument != nullptr && argument->tensor() != nullptr; };
  if (!is_given(query) || !is_given(value)) return {{c.Fail("it has no query or no value")}};
  Value q = query->values[0], v = value->values[0];
  Value k = is_given(key) ? key->values[0] : v;
  q.tensor = c.Computed(q.tensor);
  v.tensor = c.Computed(v.tensor);
  k.tensor = c.Computed(k.tensor);
  if (c.RankOf(q.tensor) != 3 || c.RankOf(v.tensor) != 3 || c.RankOf(k.tensor) != 3) {
    return {{c.Unsupported("attention over several axes")}};
  }
  if (c.Bool("use_gate", false)) return {{c.Unsupported("`use_gate`")}};
  Operand mask = MaskOf(c, q, v, is_given(key) ? &k : nullptr);
  Operand queries = importing::HeadsOutside(c, Projected(c, q.tensor, "query_dense"));
  Operand keys = importing::HeadsOutside(c, Projected(c, k.tensor, "key_dense"));
  Operand values = importing::HeadsOutside(c, Projected(c, v.tensor, "value_dense"));
  if (c.failed()) return {};
  importing::AttendOptions options;
  // A row without any key that counts gives all of them the same weight, as numbers and not infinities do.
  if (mask != nullptr) {
    if (c.RankOf(mask) == 3) mask = c.Unsqueeze(mask, {1});
    options.bias = importing::BiasWhere(c, mask, c.dtype() == kFloat16 ? -3e4 : -1e9);
  }
  Values results;
  Operand attended = importing::Attend(c, queries, keys, values, options);
  Operand kernel = c.WeightAt("output_dense", 0);
  if (c.failed()) return {};
  const Dims dims = c.DimsOf(kernel);
  if (dims.size() != 3) return {{c.Unsupported("results of another form than vectors")}};
  Operand joined = importing::JoinHeads(c, attended);
  Operand y = c.Op("nn.matmul", {joined, c.Reshape(kernel, {dims[0] * dims[1], dims[2]})});
  if (c.Bool("use_bias", true)) y = c.Add(y, c.WeightAt("output_dense", 1));
  results.push_back({y, q.mask});
  if (!c.Flag("return_attention_scores")) return results;
  if (c.ExtentOf(queries, 1) != c.ExtentOf(keys, 1)) return {{c.Unsupported("scores of grouped queries")}};
  Operand scores =
      c.Op("nn.matmul", {c.Mul(queries, importing::ScaleOfSize(c, queries)), keys}, {{"transpose_b", true}});
  if (options.bias != nullptr) scores = c.Add(scores, options.bias);
  results.push_back({c.Op("nn.softmax", {scores}, {{"axis", -1}})});
  return results;
}

constexpr LayerRow kRows[] = {
    {"AdditiveAttention", Attention, "sum"},
    {"Attention", Attention},
    {"GroupQueryAttention", MultiHeadAttention},
    {"MultiHeadAttention", MultiHeadAttention},
};

}  // namespace

std::span<const LayerRow> AttentionLayers() { return kRows; }

}  // namespace rvm::keras
