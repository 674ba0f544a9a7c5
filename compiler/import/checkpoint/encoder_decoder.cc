#include "compiler/import/checkpoint/encoder_decoder.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/expressions.h"
#include "compiler/import/checkpoint/loops.h"
#include "compiler/models/models.h"

namespace rvm::checkpoint {
namespace {

// Returns sines, then cosines, of the positions divided by powers of 10000.
Literal Sinusoids(int64_t rows, int64_t width) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(rows * width));
  const int64_t half = (width + 1) / 2;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      const int64_t wave = i < half ? i : i - half;
      const double angle =
          static_cast<double>(row) / std::pow(10000.0, 2 * static_cast<double>(wave) / static_cast<double>(width));
      values.push_back(static_cast<float>(i < half ? std::sin(angle) : std::cos(angle)));
    }
  }
  return Literal::FromValues<float>(kFloat32, {rows, width}, values);
}

class Writer {
 public:
  Writer(const EncoderDecoderConfig& config, Weights& weights) : c_(config), weights_(weights) {
    states_ = FloatTensor(absl::StrCat("t, ", c_.width));
    const std::vector<std::string> keys(static_cast<size_t>(2 * c_.decoder.layers), Keys("?", c_.decoder));
    keys_ = absl::StrCat("(", absl::StrJoin(keys, ", "), ")");
    cache_ = absl::StrCat("(", keys_, ", ", keys_, ")");
  }

  std::string Write() {
    for (int64_t i = 0; i < c_.encoder.layers; ++i) WriteEncoderLayer(i);
    for (int64_t i = 0; i < c_.decoder.layers; ++i) WriteDecoderLayer(i);
    WriteEncode();
    WriteStart();
    WriteForward();
    WriteHead();
    text_ += StepText(cache_, c_.vocabulary);
    WriteEntries();
    return absl::StrCat(weights_.declarations(), Abseil(models::AttentionText()), Abseil(models::EncoderDecoderText()),
                        text_);
  }

 private:
  template <typename... Parts>
  void Append(const Parts&... parts) {
    absl::StrAppend(&text_, parts...);
  }

  // ---- types

  // Returns the type of keys or values of that many tokens in a cache.
  std::string Keys(std::string_view tokens, const StackConfig& stack) const {
    return FloatTensor(absl::StrCat(Abseil(tokens), ", ", stack.heads, ", ", c_.head_size), c_.cache_dtype);
  }
  // Returns the type of the masks and biases of scores of `keys` keys.
  std::string Mask(std::string_view keys, const StackConfig& stack) const {
    return FloatTensor(
        absl::StrCat(stack.bucket_count == 0 ? "t, " : absl::StrCat(stack.heads, ", 1, t, "), Abseil(keys)));
  }

  // ---- expressions

  std::string Norm(std::string_view x, const std::string& name) {
    if (c_.centers_norms) return LayerNorm(weights_, x, name, c_.width, c_.epsilon);
    return absl::StrCat("@rms_norm(", Abseil(x), ", ", weights_.Value(name + ".weight", {c_.width}), ", ",
                        FloatText(c_.epsilon), ")");
  }

  // Returns the queries of `x`, scaled.
  std::string Queries(std::string_view x, const std::string& name, const StackConfig& stack) {
    std::string y = absl::StrCat("reshape(", Dense(weights_, x, name, stack.heads * c_.head_size, c_.width),
                                 ", newshape=[-1, ", stack.heads, ", 1, ", c_.head_size, "])");
    return c_.attention_scale == 1 ? y : absl::StrCat(y, " * ", FloatText(c_.attention_scale));
  }

  // Returns the keys or the values of `x`.
  std::string KeysOf(std::string_view x, const std::string& name, const StackConfig& stack) {
    return absl::StrCat("reshape(", Dense(weights_, x, name, stack.heads * c_.head_size, c_.width), ", newshape=[-1, ",
                        stack.heads, ", ", c_.head_size, "])");
  }

  // Returns keys or values as a cache has them.
  std::string Cached(std::string x) const {
    return c_.cache_dtype == kFloat32 ? x : absl::StrCat("cast(", x, ", dtype=\"", c_.cache_dtype.ToString(), "\")");
  }

  // Returns the attention of `x` to keys and values. `bias` is added to the products of queries and keys, or empty.
  std::string Attention(std::string_view x, std::string_view keys, std::string_view values, std::string_view bias,
                        const std::string& layer, const AttentionNames& names, const StackConfig& stack) {
    const std::string y =
        absl::StrCat("@attended(\n    @products(", Queries(x, layer + names.query, stack), ",\n    ", Abseil(keys), ")",
                     bias.empty() ? "" : " + ", Abseil(bias), ", ", Abseil(values), ")");
    return Dense(weights_, absl::StrCat("reshape(", y, ", newshape=[0, -1])"), layer + names.output, c_.width,
                 stack.heads * c_.head_size);
  }

  std::string Mlp(std::string_view x, const std::string& layer, const StackConfig& stack) {
    const StackNames& names = stack.names;
    auto widened = [&](const std::string& name) { return Dense(weights_, x, layer + name, stack.inner, c_.width); };
    std::string inner =
        absl::StrReplaceAll(c_.activation, {{"$", widened(names.gate.empty() ? names.up : names.gate)}});
    if (!names.gate.empty()) absl::StrAppend(&inner, " * (", widened(names.up), ")");
    return Dense(weights_, inner, layer + names.down, c_.width, stack.inner);
  }

  // ---- definitions

  // Defines the states `to`: `from`, and what `part` makes of them. `part` may append definitions of its own.
  void WritePart(std::string_view from, std::string_view to, const std::string& norm,
                 absl::FunctionRef<std::string(std::string_view x)> part) {
    if (c_.has_norms_last) {
      std::string sum = absl::StrCat(Abseil(from), " + ", part(from));
      Append("  let ", Abseil(to), " = ", Norm(sum, norm), ";\n");
    } else {
      const std::string normed = absl::StrCat(Abseil(to), "_in");
      Append("  let ", normed, " = ", Norm(from, norm), ";\n");
      std::string added = part(normed);
      Append("  let ", Abseil(to), " = ", Abseil(from), " + ", added, ";\n");
    }
  }

  void WriteMlp(std::string_view from, const std::string& layer, const StackConfig& stack) {
    WritePart(from, "%y", layer + stack.names.mlp_norm, [&](std::string_view x) { return Mlp(x, layer, stack); });
  }

  void WriteEncoderLayer(int64_t number) {
    const StackConfig& stack = c_.encoder;
    const AttentionNames& names = stack.names.self;
    const std::string layer = absl::StrCat(stack.names.layer, number, ".");
    const bool has_bias = stack.bucket_count > 0;
    Append("def @encoder_", number, "(%x: ", states_, has_bias ? ", %bias: " + Mask("t", stack) : "", ") -> ", states_,
           " {\n");
    WritePart("%x", "%a", layer + names.norm, [&](std::string_view x) {
      return Attention(x, KeysOf(x, layer + names.key, stack), KeysOf(x, layer + names.value, stack),
                       has_bias ? "%bias" : "", layer, names, stack);
    });
    WriteMlp("%a", layer, stack);
    Append("  %y\n}\n");
  }

  void WriteDecoderLayer(int64_t number) {
    const StackConfig& stack = c_.decoder;
    const AttentionNames &self = stack.names.self, &cross = stack.names.cross;
    const std::string layer = absl::StrCat(stack.names.layer, number, ".");
    Append("def @decoder_", number, "(\n    %x: ", states_, ", %keys: ", Keys("n", stack),
           ", %values: ", Keys("n", stack), ",\n    %mask: ", Mask("n + t", stack),
           ", %source_keys: ", Keys("m", stack), ", %source_values: ", Keys("m", stack), ")\n    -> (", states_, ", ",
           Keys("n + t", stack), ", ", Keys("n + t", stack), ") {\n");
    WritePart("%x", "%a", layer + self.norm, [&](std::string_view x) {
      Append("  let %all_keys = concatenate((%keys, ", Cached(KeysOf(x, layer + self.key, stack)), "), axis=0);\n",
             "  let %all_values = concatenate((%values, ", Cached(KeysOf(x, layer + self.value, stack)),
             "), axis=0);\n");
      return Attention(x, "%all_keys", "%all_values", "%mask", layer, self, stack);
    });
    WritePart("%a", "%b", layer + cross.norm, [&](std::string_view x) {
      return Attention(x, "%source_keys", "%source_values", "", layer, cross, stack);
    });
    WriteMlp("%b", layer, stack);
    Append("  (%y, %all_keys, %all_values)\n}\n");
  }

  // Returns the biases of scores by the distances of %places from %now.
  std::string DistanceBias(const StackConfig& stack, std::string_view name) {
    const int64_t count = static_cast<int64_t>(stack.buckets.size());
    const std::string buckets = weights_.Declare(absl::StrCat(Abseil(name), ".buckets"),
                                                 Literal::FromValues<int32_t>(kInt32, {count}, stack.buckets));
    const std::string bias =
        weights_.Rows(stack.names.distances + ".weight", {stack.bucket_count, stack.heads}, buckets);
    return absl::StrCat("@distance_bias(%now, %places, ", bias, ", ", count / 2, "i64)");
  }

  // Defines %x: the states `x` with positions, whose numbers %now has.
  void WriteEmbedding(std::string x, const StackConfig& stack) {
    const StackNames& names = stack.names;
    if (stack.embedding_scale != 1) absl::StrAppend(&x, " * ", FloatText(stack.embedding_scale));
    if (stack.positions > 0) {
      const std::string rows =
          stack.first_position == 0 ? "%now" : absl::StrCat("%now + ", stack.first_position, "i64");
      if (c_.has_sinusoids && !weights_.Has(names.positions + ".weight")) {
        std::string& table = sinusoids_[stack.positions];
        if (table.empty()) {
          table = weights_.Declare(absl::StrCat("positions.", stack.positions), Sinusoids(stack.positions, c_.width));
        }
        absl::StrAppend(&x, " + take(", table, ", ", rows, ", axis=0)");
      } else {
        absl::StrAppend(&x, " + ", weights_.Rows(names.positions + ".weight", {stack.positions, c_.width}, rows));
      }
    }
    Append("  let %x = ", names.embedding_norm.empty() ? x : Norm(x, names.embedding_norm), ";\n");
  }

  std::string Tokens(const StackConfig& stack) {
    return weights_.Rows(stack.names.embedding + ".weight", {c_.vocabulary, c_.width}, "%tokens");
  }

  // Returns the states behind two convolutions over frames of features.
  std::string Frames() {
    auto applied = [&](std::string_view function, std::string_view x, int64_t number, int64_t inputs) {
      const std::string name = absl::StrCat(c_.front, number);
      return absl::StrCat(Abseil(function), "(", Abseil(x), ", ",
                          weights_.Value(name + ".weight", {c_.width, inputs, 3}), ", ",
                          weights_.Value(name + ".bias", {c_.width}), ")");
    };
    Append("  let %frames = ",
           applied("@halved_frames_conv", applied("@frames_conv", "%features", 1, c_.features), 2, c_.width), ";\n");
    return "transpose(%frames)";
  }

  // Returns the parameter of the encoder.
  std::string SourceParameter() const {
    return c_.features == 0 ? "%tokens: Tensor[(s), int32]"
                            : absl::StrCat("%features: ", FloatTensor(absl::StrCat(c_.features, ", s")));
  }
  std::string_view source_variable() const { return c_.features == 0 ? "%tokens" : "%features"; }

  void WriteEncode() {
    const StackConfig& stack = c_.encoder;
    Append("def @encode(", SourceParameter(), ") -> ", FloatTensor(absl::StrCat("?, ", c_.width)), " {\n");
    std::string x = c_.features == 0 ? Tokens(stack) : Frames();
    Append("  let %now = arange(0i64, extent(", c_.features == 0 ? "%tokens, axis=0" : "%frames, axis=1",
           "), 1i64);\n");
    WriteEmbedding(std::move(x), stack);
    const bool has_bias = stack.bucket_count > 0;
    if (has_bias) Append("  let %places = %now;\n  let %bias = ", DistanceBias(stack, "encoder"), ";\n");
    std::string last = "%x";
    for (int64_t i = 0; i < stack.layers; ++i) {
      Append("  let %x", i, " = @encoder_", i, "(", last, has_bias ? ", %bias" : "", ");\n");
      last = absl::StrCat("%x", i);
    }
    Append("  ", stack.names.norm.empty() ? last : Norm(last, stack.names.norm), "\n}\n");
  }

  // Writes @start: the cache of no tokens, with keys and values of the source.
  void WriteStart() {
    const StackConfig& stack = c_.decoder;
    std::vector<std::string> none, source;
    for (int64_t i = 0; i < stack.layers; ++i) {
      const std::string layer = absl::StrCat(stack.names.layer, i, ".");
      for (const std::string* name : {&stack.names.cross.key, &stack.names.cross.value}) {
        none.push_back(EmptyCache(stack.heads, c_.head_size, c_.cache_dtype));
        source.push_back(Cached(KeysOf("%states", layer + *name, stack)));
      }
    }
    Append("def @start(%states: ", FloatTensor(absl::StrCat("m, ", c_.width)), ") -> ", cache_,
           " {\n  let %own: ", keys_, " = (", absl::StrJoin(none, ", "), ");\n  let %source: ", keys_, " = (",
           absl::StrJoin(source, ",\n    "), ");\n  (%own, %source)\n}\n");
  }

  void WriteForward() {
    const StackConfig& stack = c_.decoder;
    Append("def @forward(%cache: ", cache_, ", %tokens: Tensor[(t), int32]) -> (", cache_, ", ", states_, ") {\n",
           "  let (%own, %source) = %cache;\n  let %past = extent(%own.0, axis=0);\n"
           "  let %count = extent(%tokens, axis=0);\n"
           "  let %places = arange(0i64, %past + %count, 1i64);\n"
           "  let %now = arange(0i64, %count, 1i64) + %past;\n  let %mask = @causal_mask(%now, %places)");
    if (stack.bucket_count > 0) Append(" + ", DistanceBias(stack, "decoder"));
    Append(";\n");
    WriteEmbedding(Tokens(stack), stack);
    std::vector<std::string> caches;
    std::string last = "%x";
    for (int64_t i = 0; i < stack.layers; ++i) {
      Append("  let (%x", i, ", %k", i, ", %v", i, ") = @decoder_", i, "(", last, ", %own.", 2 * i, ", %own.",
             2 * i + 1, ", %mask, %source.", 2 * i, ", %source.", 2 * i + 1, ");\n");
      caches.push_back(absl::StrCat("%k", i, ", %v", i));
      last = absl::StrCat("%x", i);
    }
    Append("  let %next: ", keys_, " = (", absl::StrJoin(caches, ", "), ");\n  ((%next, %source), ",
           stack.names.norm.empty() ? last : Norm(last, stack.names.norm), ")\n}\n");
  }

  void WriteHead() {
    const std::string& own =
        c_.head.empty() || !weights_.Has(c_.head + ".weight") ? c_.decoder.names.embedding : c_.head;
    const std::string x = c_.head_scale == 1 ? "%x" : absl::StrCat("%x * ", FloatText(c_.head_scale));
    std::string y = Dense(weights_, x, own, c_.vocabulary, c_.width);
    if (!c_.logits_bias.empty()) absl::StrAppend(&y, " + ", weights_.Value(c_.logits_bias, {1, c_.vocabulary}));
    Append("def @head(%x: ", states_, ") -> ", FloatTensor(absl::StrCat("t, ", c_.vocabulary)), " { ", y, " }\n");
  }

  // Declares a constant that makes logits of those tokens -inf.
  std::string Suppression(std::string_view name, const std::vector<int64_t>& tokens) {
    std::vector<float> values(static_cast<size_t>(c_.vocabulary));
    for (int64_t token : tokens) {
      if (token < 0 || token >= c_.vocabulary) continue;  // refused
      values[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
    }
    return weights_.Declare(name, Literal::FromValues<float>(kFloat32, {c_.vocabulary}, values));
  }

  void WriteEntries() {
    const int64_t count = static_cast<int64_t>(c_.starts.size());
    std::vector<int32_t> starts(c_.starts.begin(), c_.starts.end());
    const std::string start = weights_.Declare("text.start", Literal::FromValues<int32_t>(kInt32, {count}, starts));
    const std::string given = absl::StrCat(SourceParameter(), ", %text: Tensor[(p), int32]");
    const std::string cache = absl::StrCat("@start(@encode(", Abseil(source_variable()), "))");
    const std::string text = absl::StrCat("concatenate((", start, ", %text), axis=0)");
    Append("def @main(", given, ") -> ", FloatTensor(absl::StrCat(count, " + p, ", c_.vocabulary)), " {\n  (@score(",
           cache, ", ", text, ")).1\n}\n");
    Loops loops{.parameters = given,
                .begin = absl::StrCat("@read(", cache, ", ", text, ")"),
                .step = "@step",
                .stops = c_.stops};
    if (!c_.suppressed.empty() || !c_.suppressed_first.empty() || c_.no_timestamps) WriteChoices(loops);
    text_ += LoopText(loops);
  }

  // Writes functions around the steps of loops, which leave out tokens that are not chosen.
  void WriteChoices(Loops& loops) {
    std::string later = "%logits";
    if (!c_.suppressed.empty()) absl::StrAppend(&later, " + ", Suppression("text.suppressed", c_.suppressed));
    std::string first = later;
    if (!c_.suppressed_first.empty()) {
      std::vector<int64_t> tokens = c_.suppressed;
      tokens.insert(tokens.end(), c_.suppressed_first.begin(), c_.suppressed_first.end());
      first = absl::StrCat("%logits + ", Suppression("text.suppressed_first", tokens));
    }
    if (c_.no_timestamps) {
      WriteTimedChoices(first, later);
    } else {
      WriteBothChoices(cache_, "  let (%next, %logits) = %read;\n", first,
                       "  let (%next, %logits) = @step(%state, %token);\n", later);
    }
    loops.step = "@choices";
    loops.begin = absl::StrCat("@first_choices(", loops.begin, ", %text)");
  }

  // Writes the functions that also keep the rule of timestamps: their state is the cache and the state of the text.
  void WriteTimedChoices(std::string_view first, std::string_view later) {
    const int64_t first_time = std::clamp<int64_t>(*c_.no_timestamps, 0, c_.vocabulary) + 1;
    const int64_t latest_start = std::clamp<int64_t>(c_.latest_start.value_or(c_.vocabulary), 0, c_.vocabulary);
    const int64_t stop = c_.stops.empty() ? first_time : c_.stops.front();
    auto timed = [&](std::string_view logits) {
      return absl::StrCat("@timestamps(", Abseil(logits), ", %next.1, ", first_time, ", ", stop, ", ",
                          first_time + latest_start, ")");
    };
    WriteBothChoices(absl::StrCat("(", cache_, ", (int32, int32))"),
                     absl::StrCat("  let (%cache, %logits) = %read;\n  let %next = (%cache, @timestamps_behind(%text, ",
                                  first_time, ", ", stop, "));\n"),
                     timed(first),
                     absl::StrCat("  let (%own, %times) = %state;\n  let (%cache, %logits) = @step(%own, %token);\n",
                                  "  let %next = (%cache, @timestamps_after(%times, %token, ", first_time, "));\n"),
                     timed(later));
  }

  // `begin` and `step` define %logits and %next, a state; `first` and `later` are the logits of the tokens that may
  // follow.
  void WriteBothChoices(std::string_view state, std::string_view begin, std::string_view first, std::string_view step,
                        std::string_view later) {
    const std::string logits = FloatTensor(absl::StrCat(c_.vocabulary));
    Append("def @first_choices(%read: (", cache_, ", ", logits, "), %text: Tensor[(p), int32]) -> (", Abseil(state),
           ", ", logits, ") {\n", Abseil(begin), "  (%next, ", Abseil(first), ")\n}\n");
    Append("def @choices(%state: ", Abseil(state), ", %token: int32) -> (", Abseil(state), ", ", logits, ") {\n",
           Abseil(step), "  (%next, ", Abseil(later), ")\n}\n");
  }

  const EncoderDecoderConfig& c_;
  Weights& weights_;
  std::map<int64_t, std::string> sinusoids_;  // the constants of both stacks, by their numbers of positions
  std::string states_, keys_, cache_;         // types; of the cache: keys and values of tokens, and those of the source
  std::string text_;
};

}  // namespace

std::string WriteEncoderDecoder(const EncoderDecoderConfig& config, Weights& weights) {
  return Writer(config, weights).Write();
}

}  // namespace rvm::checkpoint
