// com.microsoft: attention of language models, with caches of keys and values.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/onnx/attend.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Operand Sum(NodeContext& c, Operand a, Operand b) { return a == nullptr ? b : b == nullptr ? a : c.Add(a, b); }

// ---- Attention, MultiHeadAttention

Operands Attention(NodeContext& c) {
  if (c.Int("do_rotary", 0) != 0) return {c.Unsupported("rotary embeddings (`do_rotary`)")};
  if (c.HasAttr("qkv_hidden_sizes")) return {c.Unsupported("`qkv_hidden_sizes`")};
  if (c.Int("past_present_share_buffer", 0) != 0) return {c.Unsupported("`past_present_share_buffer`")};
  Operand projected = importing::MatrixProduct(c, c.In(0), c.In(1));
  if (c.Has(2)) projected = c.Add(projected, c.In(2));
  return AttendToProjection(c, projected, 3, 4, c.Has(5) ? c.In(5) : nullptr);
}

// Queries, keys or values, with their part of the bias, as (batch, heads, steps, size).
Operand WithHeads(NodeContext& c, Operand x, int64_t heads, const Dim& first_bias) {
  if (c.failed() || c.RankOf(x) == 4) return x;
  if (c.Has(3)) x = c.Add(x, c.SliceAxis(c.In(3), 0, first_bias, first_bias + c.ExtentOf(x, -1)));
  return HeadsOutside(c, HeadsOf(c, x, heads));
}

Operands MultiHeadAttention(NodeContext& c) {
  if (!c.Has(1) || !c.Has(2) || c.RankOf(c.In(0)) != 3 || c.RankOf(c.In(1)) > 4) {
    return {c.Unsupported("packed queries, keys and values; expected three inputs")};
  }
  if (c.Has(8) || c.Has(9)) return {c.Unsupported("caches that share a buffer (`past_sequence_length`)")};
  if (c.WantsOutput(3)) return {c.Unsupported("products of queries and keys as an output")};
  const int64_t heads = c.Int("num_heads", 0);
  const Dim hidden = c.ExtentOf(c.In(0), -1);
  Operand query = WithHeads(c, c.In(0), heads, 0), key = WithHeads(c, c.In(1), heads, hidden);
  Operand value = WithHeads(c, c.In(2), heads, hidden * 2);
  if (c.failed()) return {};
  Dim past = 0;
  if (c.Has(6) && c.Has(7)) {
    past = c.ExtentOf(c.In(6), 2);
    key = c.Concatenate({c.In(6), key}, 2);
    value = c.Concatenate({c.In(7), value}, 2);
  }
  const Dim keys = c.ExtentOf(key, 2);
  Operand bias = Sum(c, c.Has(5) ? c.In(5) : nullptr, KeyMask(c, 4, c.ExtentOf(query, 0), keys));
  if (c.Int("unidirectional", 0) != 0) bias = Sum(c, bias, CausalMask(c, c.ExtentOf(query, 2), keys, past));
  Operand y = JoinHeads(c, Attend(c, query, key, value, {.scale = c.Float("scale", 0), .bias = bias}));
  return {y, key, value};
}

// ---- RotaryEmbedding

// Rows of a table of angles, by positions (batch, steps).
Operand RowsAt(NodeContext& c, Operand table, Operand positions) {
  return c.Op("take", {table, positions}, {{"axis", 0}});
}

Operands RotaryEmbedding(NodeContext& c) {
  Operand x = c.In(0), positions = c.Cast(c.In(1), kInt64);
  if (c.failed()) return {};
  if (c.Int("is_packed_batching", 0) != 0) return {c.Unsupported("batches without padding (`is_packed_batching`)")};
  const bool is_flat = c.RankOf(x) == 3;
  const Dims shape = c.DimsOf(x);
  if (is_flat) {
    int64_t heads = c.Int("num_heads", 0);
    std::optional<int64_t> width = shape[2].AsConst(), half = c.ExtentOf(c.In(2), -1).AsConst();
    if (heads == 0 && width && half && *half > 0) heads = *width / (2 * *half);
    x = HeadsOf(c, x, heads);
  } else {
    x = HeadsOutside(c, x);
  }
  if (c.failed()) return {};
  // One position is that of the first step.
  if (c.RankOf(positions) == 1) positions = c.Unsqueeze(c.Add(positions, c.Iota(c.ExtentOf(x, 1))), {0});
  Operand y = Rotated(c, x, RowsAt(c, c.In(2), positions), RowsAt(c, c.In(3), positions), c.Int("interleaved", 0) != 0);
  if (c.failed()) return {};
  return {is_flat ? c.Reshape(y, shape) : HeadsOutside(c, y)};
}

// ---- GroupQueryAttention

// Says what of the operator is not imported; null if nothing.
Operand RefuseQueryGroups(NodeContext& c) {
  constexpr std::pair<size_t, std::string_view> kInputs[] = {{12, "caches of integers (`k_scale`)"},
                                                             {13, "caches of integers (`v_scale`)"},
                                                             {16, "padded chunks (`query_seqlens`)"}};
  for (const auto& [input, what] : kInputs) {
    if (c.Has(input)) return c.Unsupported(std::string(what));
  }
  if (c.Int("sliding_window_cache", 0) != 0) return c.Unsupported("caches of a window (`sliding_window_cache`)");
  if (c.WantsOutput(3)) return c.Unsupported("products of queries and keys as an output (`qk_output`)");
  return nullptr;
}

class QueryGroups {
 public:
  explicit QueryGroups(NodeContext& c)
      : c_(c), heads_(c.Int("num_heads", 0)), kv_heads_(c.Int("kv_num_heads", 0)), has_past_(c.Has(3) && c.Has(4)) {}

  Operands Convert() {
    if (heads_ < 1 || kv_heads_ < 1 || heads_ % kv_heads_ != 0) {
      return {c_.Fail(absl::StrCat("`num_heads` is ", heads_, " and `kv_num_heads` is ", kv_heads_,
                                   "; expected a multiple of the other, 1 or more"))};
    }
    SplitInputs();
    if (c_.failed()) return {};
    steps_ = c_.ExtentOf(query_, 1);
    past_ = has_past_ ? c_.ExtentOf(c_.In(3), 2) : Dim(0);
    FindPositions();
    Prepare();
    if (c_.failed()) return {};
    Operand key = Extended(3, HeadsOutside(c_, key_)), value = Extended(4, HeadsOutside(c_, value_));
    if (c_.failed()) return {};
    AttendOptions options{.scale = c_.Float("scale", 0), .softcap = c_.Float("softcap", 0), .bias = Bias(key)};
    if (c_.Has(11)) {
      options.sink = c_.In(11);
    } else if (c_.Int("smooth_softmax", 0) == 1) {
      Dims heads = {heads_};
      options.sink = c_.BroadcastTo(c_.emit().Number(0, kFloat32), heads);
    }
    return {JoinHeads(c_, Attend(c_, HeadsOutside(c_, query_), key, value, options)), key, value};
  }

 private:
  // Queries, keys and values as (batch, steps, heads, size), which may be side by side in the first input.
  void SplitInputs() {
    query_ = c_.In(0);
    if (c_.Has(1) && c_.Has(2)) {
      key_ = c_.In(1), value_ = c_.In(2);
    } else {
      const Dim size = FloorDiv(c_.ExtentOf(query_, -1), heads_ + 2 * kv_heads_);
      const Dim first = size * heads_, second = size * (heads_ + kv_heads_), end = size * (heads_ + 2 * kv_heads_);
      Operand all = query_;
      query_ = c_.SliceAxis(all, 2, 0, first);
      key_ = c_.SliceAxis(all, 2, first, second);
      value_ = c_.SliceAxis(all, 2, second, end);
    }
    query_ = HeadsOf(c_, query_, heads_);
    key_ = HeadsOf(c_, key_, kv_heads_);
    value_ = HeadsOf(c_, value_, kv_heads_);
  }

  // A cache that keeps its extent has room for the new steps; another one grows by them, and if there is but one
  // sequence, all of it is in use.
  void FindPositions() {
    is_fixed_ = has_past_ && c_.OutputExtentIsOfInput(1, 3, 2);
    const Dim batch = c_.ExtentOf(query_, 0);
    is_one_ = batch == Dim(1) && !is_fixed_;
    Operand first;  // position of the first new step, by sequence: (batch, 1)
    if (is_one_) {
      first = c_.Unsqueeze(c_.emit().FromDim(past_), {0, 1});
    } else {
      Operand totals = c_.Reshape(c_.Cast(c_.In(5), kInt64), {batch, 1});
      Operand before = c_.Sub(totals, c_.emit().FromDim(steps_ - 1));
      first = c_.Op("maximum", {before, c_.Integer(0)});
    }
    first_ = first;
    positions_ = c_.Add(first, c_.Unsqueeze(c_.Iota(steps_), {0}));
  }

  // Normalises and rotates the heads of queries and keys.
  void Prepare() {
    if (c_.Has(14) && c_.Has(15)) {
      const double epsilon = c_.Float("qk_norm_epsilon", 1e-6);
      query_ = NormaliseByRoot(c_, query_, c_.In(14), 3, c_.Float("q_norm_epsilon", epsilon)).y;
      key_ = NormaliseByRoot(c_, key_, c_.In(15), 3, c_.Float("k_norm_epsilon", epsilon)).y;
    }
    if (c_.Int("do_rotary", 0) == 0) return;
    Operand positions = c_.Has(9) ? c_.Cast(c_.In(9), kInt64) : positions_;
    Operand cosine = RowsAt(c_, c_.In(7), positions), sine = RowsAt(c_, c_.In(8), positions);
    const bool interleaved = c_.Int("rotary_interleaved", 0) != 0;
    query_ = Rotated(c_, query_, cosine, sine, interleaved);
    key_ = Rotated(c_, key_, cosine, sine, interleaved);
  }

  // Returns the cache of input `past` with the new steps, (batch, heads, steps, size).
  Operand Extended(size_t past, Operand x) {
    if (!has_past_ || c_.failed()) return x;
    Operand cache = c_.In(past);
    if (is_fixed_) {
      Operand places = c_.BroadcastTo(c_.Unsqueeze(positions_, {1, 3}), c_.DimsOf(x));
      return c_.Op("scatter_elements", {cache, places, x}, {{"axis", 2}});
    }
    Operand both = c_.Concatenate({cache, x}, 2);
    both = c_.Op("check_extent", {both, c_.Scalar(c_.Cast(c_.In(6), kInt64))},
                 {{"axis", 2}, {"what", "the cache with the new steps, and `total_sequence_length`"}});
    if (is_one_ || c_.failed()) return both;
    // New steps follow what is in use of the cache of their sequence.
    const Dims dims = c_.DimsOf(both);
    Operand at = c_.Unsqueeze(c_.Iota(dims[2]), {0});
    Operand moved = c_.Sub(c_.Add(at, c_.emit().FromDim(past_)), first_);
    moved = c_.Op("minimum", {moved, c_.emit().FromDim(past_ + steps_ - 1)});
    Operand from = c_.Where(c_.Op("less", {at, first_}), at, moved);
    return c_.Op("gather", {both, c_.BroadcastTo(c_.Unsqueeze(from, {1, 3}), dims)}, {{"axis", 2}});
  }

  // Returns what is added to products, which hides keys behind a query, before its window, and not in use.
  Operand Bias(Operand key) {
    Operand at = c_.Iota(c_.ExtentOf(key, 2)), step = c_.Unsqueeze(positions_, {1, 3});
    Operand bias = c_.Has(10) ? c_.In(10) : nullptr;
    if (c_.Int("causal", 1) == 0) {
      if (is_one_) return bias;
      Operand total = c_.Unsqueeze(c_.Add(first_, c_.emit().FromDim(steps_)), {2, 3});
      return Sum(c_, bias, BiasWhere(c_, c_.Op("less", {at, total}), -kInfinity));
    }
    const int64_t window = c_.Int("local_window_size", -1);
    // The only step sees all keys.
    if (is_one_ && steps_ == Dim(1) && window < 0) return bias;
    Operand is_seen = c_.Op("less_equal", {at, step});
    if (window >= 0) {
      is_seen = c_.Op("logical_and", {is_seen, c_.Op("greater", {at, c_.Sub(step, c_.Integer(window))})});
    }
    return Sum(c_, bias, BiasWhere(c_, is_seen, -kInfinity));
  }

  NodeContext& c_;
  int64_t heads_, kv_heads_;
  bool has_past_;
  bool is_fixed_ = false, is_one_ = false;
  Operand query_ = nullptr, key_ = nullptr, value_ = nullptr;
  Operand first_ = nullptr, positions_ = nullptr;  // (batch, 1), (batch, steps)
  Dim steps_, past_;
};

Operands GroupQueryAttention(NodeContext& c) {
  if (Operand refused = RefuseQueryGroups(c)) return {refused};
  return QueryGroups(c).Convert();
}

constexpr OperatorRow kRows[] = {
    {"com.microsoft.Attention", Attention},
    {"com.microsoft.GroupQueryAttention", GroupQueryAttention},
    {"com.microsoft.MultiHeadAttention", MultiHeadAttention},
    {"com.microsoft.RotaryEmbedding", RotaryEmbedding},
};

}  // namespace

std::span<const OperatorRow> LanguageOperators() { return kRows; }

}  // namespace rvm::onnx::convert
