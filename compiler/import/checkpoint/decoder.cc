#include "compiler/import/checkpoint/decoder.h"

#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/expressions.h"
#include "compiler/import/checkpoint/loops.h"
#include "compiler/models/models.h"

namespace rvm::checkpoint {
namespace {

// More tokens than a text has.
constexpr int64_t kNoWindow = int64_t{1} << 62;

class Writer {
 public:
  Writer(const DecoderConfig& config, Weights& weights) : c_(config), weights_(weights) {
    states_ = FloatTensor(absl::StrCat("t, ", c_.width));
    angles_ = FloatTensor(absl::StrCat("t, 1, 1, ", c_.head_size / 2));
    const std::string& key = c_.names.joined_projection.empty() ? c_.names.key : c_.names.joined_projection;
    cache_dtype_ = c_.cache_dtype.value_or(weights.CacheDType(absl::StrCat(c_.names.layer, 0, ".", key)));
    std::vector<std::string> caches(static_cast<size_t>(2 * c_.layers), CacheOf("?"));
    cache_ = absl::StrCat("(", absl::StrJoin(caches, ", "), ")");
  }

  std::string Write() {
    for (int64_t i = 0; i < c_.layers; ++i) WriteLayer(i);
    WriteFinish();
    WriteForward();
    WriteHead();
    WriteEntries();
    return absl::StrCat(weights_.declarations(), Abseil(models::AttentionText()), Abseil(models::DecoderText()), text_);
  }

 private:
  bool is_rotated() const { return c_.positions == 0; }
  bool has_local_layers() const { return !c_.is_local.empty(); }
  bool IsLocal(int64_t layer) const { return has_local_layers() && c_.is_local[static_cast<size_t>(layer)]; }

  // Returns the type of the keys or the values of `tokens` tokens in a layer.
  std::string CacheOf(std::string_view tokens) const {
    return FloatTensor(absl::StrCat(Abseil(tokens), ", ", c_.key_heads, ", ", c_.head_size), cache_dtype_);
  }

  // ---- expressions

  std::string Norm(std::string_view x, std::string_view name) {
    if (c_.centers_norms) return LayerNorm(weights_, x, std::string(name), c_.width, c_.epsilon);
    std::string weight = weights_.Value(absl::StrCat(Abseil(name), ".weight"), {c_.width});
    if (c_.adds_one_to_norms) weight += " + 1f";
    return absl::StrCat("@rms_norm(", Abseil(x), ", ", weight, ", ", FloatText(c_.epsilon), ")");
  }

  std::string Projection(std::string_view x, const std::string& name, int64_t outputs, int64_t inputs) {
    if (!c_.has_transposed_weights) return Dense(weights_, x, name, outputs, inputs);
    std::string y =
        absl::StrCat("nn.matmul(", Abseil(x), ", ", weights_.Value(name + ".weight", {inputs, outputs}), ")");
    return WithBias(weights_, std::move(y), name, outputs);
  }

  // Heads of queries or keys with a norm of their own, if the layer has one.
  std::string HeadNorm(std::string x, const std::string& layer, const std::string& name) {
    if (name.empty() || !weights_.Has(absl::StrCat(layer, name, ".weight"))) return x;
    std::string weight = weights_.Value(absl::StrCat(layer, name, ".weight"), {c_.head_size});
    return absl::StrCat("@head_norm(", x, ", ", weight, c_.adds_one_to_norms ? " + 1f" : "", ", ",
                        FloatText(c_.epsilon), ")");
  }

  std::string Rotated(std::string x) const {
    if (!is_rotated()) return x;
    return absl::StrCat(c_.rotates_pairs ? "@rotate_pairs(" : "@rotate_halves(", x, ", %angles)");
  }

  std::string Heads(std::string_view x, int64_t groups, int64_t heads) const {
    return absl::StrCat("reshape(", Abseil(x), ", newshape=[-1, ", groups, ", ", heads, ", ", c_.head_size, "])");
  }

  // Applies the norm that follows an attention or an MLP, if the layer has one.
  std::string Finished(std::string y, const std::string& layer, const std::string& norm) {
    return norm.empty() ? y : Norm(y, absl::StrCat(layer, norm));
  }

  // ---- definitions

  void WriteProjections(const std::string& layer) {
    const DecoderNames& names = c_.names;
    const int64_t shared = c_.heads / c_.key_heads;
    absl::StrAppend(&text_, "  let %project = fn (%x: ", states_,
                    ") {\n    let %a = ", Norm("%x", layer + names.attention_norm), ";\n");
    if (names.joined_projection.empty()) {
      for (auto [variable, name, heads] :
           {std::tuple{"%q", &names.query, c_.heads}, std::tuple{"%k", &names.key, c_.key_heads},
            std::tuple{"%v", &names.value, c_.key_heads}}) {
        absl::StrAppend(&text_, "    let ", variable, " = ",
                        Projection("%a", layer + *name, heads * c_.head_size, c_.width), ";\n");
      }
    } else {
      absl::StrAppend(&text_, "    let (%q, %k, %v) = split(",
                      Projection("%a", layer + names.joined_projection, 3 * c_.heads * c_.head_size, c_.width),
                      ", indices_or_sections=3, axis=1);\n");
    }
    std::string query = Rotated(HeadNorm(Heads("%q", c_.key_heads, shared), layer, names.query_norm));
    std::string key = Rotated(HeadNorm(Heads("%k", c_.key_heads, 1), layer, names.key_norm));
    absl::StrAppend(&text_, "    (", query, " * ", FloatText(c_.attention_scale), ", ", key, ",\n      ",
                    Heads("%v", c_.key_heads, 1), ")\n  };\n");
  }

  void WriteMlp(const std::string& layer) {
    const DecoderNames& names = c_.names;
    std::string first = Projection("%a", layer + (names.gate.empty() ? names.up : names.gate), c_.inner, c_.width);
    std::string inner = absl::StrReplaceAll(c_.activation, {{"$", first}});
    if (!names.gate.empty())
      absl::StrAppend(&inner, " * (", Projection("%a", layer + names.up, c_.inner, c_.width), ")");
    absl::StrAppend(
        &text_, "  let %mlp = fn (%x: ", states_, ") {\n    let %a = ", Norm("%x", layer + names.mlp_norm), ";\n    ",
        Finished(Projection(inner, layer + names.down, c_.width, c_.inner), layer, names.mlp_post_norm), "\n  };\n");
  }

  void WriteLayer(int64_t number) {
    const std::string layer = absl::StrCat(c_.names.layer, number, ".");
    const std::string past = CacheOf("n"), all = CacheOf("n + t");
    const int64_t shared = c_.heads / c_.key_heads;
    absl::StrAppend(&text_, "def @layer_", number, "(\n    %x: ", states_, ", %keys: ", past, ", %values: ", past,
                    ",\n");
    if (is_rotated()) absl::StrAppend(&text_, "    %angles: ", angles_, ",\n");
    absl::StrAppend(&text_, "    %mask: ", FloatTensor("t, m"), ")\n    -> (", states_, ", ", all, ", ", all, ") {\n");
    WriteProjections(layer);
    // Queries see keys that are fewer than a window before them.
    const bool is_local = IsLocal(number);
    absl::StrAppend(&text_, "  let %seen = fn (%c: ", CacheOf("?"), ") -> ", CacheOf("?"), " { ",
                    is_local ? absl::StrCat("@last_rows(%c, extent(%mask, axis=1))") : "%c", " };\n");
    const std::string heads = FloatTensor(absl::StrCat("t, ", c_.key_heads, ", ", shared, ", ", c_.head_size));
    absl::StrAppend(&text_, "  let %output = fn (%y: ", heads, ") {\n    ",
                    Finished(Projection("reshape(%y, newshape=[0, -1])", layer + c_.names.output, c_.width,
                                        c_.heads * c_.head_size),
                             layer, c_.names.attention_post_norm),
                    "\n  };\n");
    WriteMlp(layer);
    absl::StrAppend(&text_, "  @decoder_layer(%x, %keys, %values, %mask, ", is_local ? c_.window : kNoWindow,
                    "i64, %project, %seen, %output, %mlp)\n}\n");
  }

  // Writes the function of scores that decoder.relay calls.
  void WriteFinish() {
    const std::string scores = FloatTensor("g, r, t, m");
    absl::StrAppend(&text_, "def @finish(%s: ", scores, ") -> ", scores, " { ",
                    c_.score_cap > 0 ? absl::StrCat("@soft_cap(%s, ", FloatText(c_.score_cap), ")") : "%s", " }\n");
  }

  void WriteForward() {
    absl::StrAppend(&text_, "def @forward(%cache: ", cache_, ", %tokens: Tensor[(t), int32]) -> (", cache_, ", ",
                    states_,
                    ") {\n  let %past = extent(%cache.0, axis=0);\n  let %count = extent(%tokens, axis=0);\n"
                    "  let %places = arange(0i64, %past + %count, 1i64);\n"
                    "  let %now = arange(0i64, %count, 1i64) + %past;\n"
                    "  let %mask = @causal_mask(%now, %places);\n");
    if (is_rotated()) {
      std::string frequencies = weights_.Declare("rotation.frequencies", FrequencyTensor(c_.frequencies));
      absl::StrAppend(&text_, "  let %angles = @angles(%now, ", frequencies, ");\n");
    }
    if (has_local_layers()) {
      absl::StrAppend(&text_, "  let %local_places = arange(maximum(%past - ", c_.window - 1,
                      "i64, 0i64), %past + %count, 1i64);\n  let %local_mask = @window_mask(%now, %local_places, ",
                      c_.window, "i64);\n");
      if (is_rotated()) {
        std::string frequencies = weights_.Declare("rotation.local_frequencies", FrequencyTensor(c_.local_frequencies));
        absl::StrAppend(&text_, "  let %local_angles = @angles(%now, ", frequencies, ");\n");
      }
    }
    std::string x = weights_.Rows(c_.names.embedding + ".weight", {c_.vocabulary, c_.width}, "%tokens");
    if (c_.embedding_scale != 1) absl::StrAppend(&x, " * ", FloatText(c_.embedding_scale));
    if (!is_rotated()) {
      std::string places = weights_.Rows(c_.names.positions + ".weight", {c_.positions, c_.width}, "%now");
      absl::StrAppend(&x, " + ", places);
    }
    absl::StrAppend(&text_, "  let %x = ", x, ";\n");
    std::vector<std::string> caches;
    x = "%x";
    for (int64_t i = 0; i < c_.layers; ++i) {
      const std::string kind = IsLocal(i) ? "%local_" : "%";
      absl::StrAppend(&text_, "  let (%x", i, ", %k", i, ", %v", i, ") = @layer_", i, "(", x, ", %cache.", 2 * i,
                      ", %cache.", 2 * i + 1, ", ", is_rotated() ? kind + "angles, " : "", kind, "mask);\n");
      caches.push_back(absl::StrCat("%k", i, ", %v", i));
      x = absl::StrCat("%x", i);
    }
    absl::StrAppend(&text_, "  ((", absl::StrJoin(caches, ", "), "), ", Norm(x, c_.names.norm), ")\n}\n");
  }

  static Literal FrequencyTensor(const std::vector<float>& values) {
    return Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(values.size())}, values);
  }

  void WriteHead() {
    const bool is_tied = c_.names.head.empty() || !weights_.Has(c_.names.head + ".weight");
    std::string y = Product(weights_, "%x", is_tied ? c_.names.embedding : c_.names.head, c_.vocabulary, c_.width);
    if (c_.logit_cap > 0) y = absl::StrCat("@soft_cap(", y, ", ", FloatText(c_.logit_cap), ")");
    absl::StrAppend(&text_, "def @head(%x: ", states_, ") -> ", FloatTensor(absl::StrCat("t, ", c_.vocabulary)), " { ",
                    y, " }\n");
  }

  void WriteEntries() {
    const std::string none = EmptyCache(c_.key_heads, c_.head_size, cache_dtype_);
    absl::StrAppend(&text_, "def @start() -> ", cache_, " { (",
                    absl::StrJoin(std::vector<std::string>(static_cast<size_t>(2 * c_.layers), none), ", "), ") }\n",
                    StepText(cache_, c_.vocabulary), "def @main(%tokens: Tensor[(t), int32]) -> ",
                    FloatTensor(absl::StrCat("t, ", c_.vocabulary)), " { (@score(@start(), %tokens)).1 }\n",
                    LoopText({.parameters = "%tokens: Tensor[(t), int32]",
                              .begin = "@read(@start(), %tokens)",
                              .step = "@step",
                              .stops = c_.stops}));
  }

  const DecoderConfig& c_;
  Weights& weights_;
  DataType cache_dtype_;
  std::string states_, angles_, cache_;  // types
  std::string text_;
};

}  // namespace

std::string WriteDecoder(const DecoderConfig& config, Weights& weights) { return Writer(config, weights).Write(); }

}  // namespace rvm::checkpoint
