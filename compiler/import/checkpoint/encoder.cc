#include "compiler/import/checkpoint/encoder.h"

#include <cmath>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/expressions.h"
#include "compiler/models/models.h"

namespace rvm::checkpoint {
namespace {

class Writer {
 public:
  Writer(const EncoderConfig& config, Weights& weights) : c_(config), weights_(weights) {
    states_ = FloatTensor(absl::StrCat("b, t, ", c_.width));
  }

  std::string Write() {
    for (int64_t i = 0; i < c_.layers; ++i) WriteLayer(i);
    WriteEmbed();
    WriteEntries();
    return absl::StrCat(weights_.declarations(), Abseil(models::EncoderText()), text_);
  }

 private:
  bool has_types() const { return c_.types > 0; }

  std::string Norm(std::string_view x, const std::string& name) {
    return LayerNorm(weights_, x, name, c_.width, c_.epsilon);
  }

  void WriteLayer(int64_t number) {
    const EncoderNames& names = c_.names;
    const std::string layer = absl::StrCat(names.layer, number, ".");
    const int64_t size = c_.width / c_.heads;
    const std::string heads = FloatTensor(absl::StrCat("b, t, ", c_.heads, ", ", size));
    absl::StrAppend(&text_, "def @layer_", number, "(%x: ", states_, ", %mask: ", FloatTensor("b, 1, 1, t"), ") -> ",
                    states_, " {\n  let %project = fn (%x: ", states_, ") {\n    (");
    for (auto [name, factor, end] :
         {std::tuple{&names.query, true, ",\n     "}, std::tuple{&names.key, false, ",\n     "},
          std::tuple{&names.value, false, ")\n  };\n"}}) {
      absl::StrAppend(&text_, "reshape(", Dense(weights_, "%x", layer + *name, c_.width, c_.width),
                      ", newshape=[0, 0, ", c_.heads, ", ", size, "])");
      if (factor) absl::StrAppend(&text_, " * ", FloatText(1 / std::sqrt(static_cast<double>(size))));
      absl::StrAppend(&text_, end);
    }
    const std::string up = Dense(weights_, "%x", layer + names.up, c_.inner, c_.width);
    auto define = [&](std::string_view name, std::string_view type, std::string_view body) {
      absl::StrAppend(&text_, "  let %", Abseil(name), " = fn (%x: ", Abseil(type), ") { ", Abseil(body), " };\n");
    };
    define("output", heads,
           Dense(weights_, "reshape(%x, newshape=[0, 0, -1])", layer + names.output, c_.width, c_.width));
    define("middle", states_, Norm("%x", layer + names.attention_norm));
    define("mlp", states_,
           Dense(weights_, absl::StrReplaceAll(c_.activation, {{"$", up}}), layer + names.down, c_.width, c_.inner));
    define("last", states_, Norm("%x", layer + names.mlp_norm));
    absl::StrAppend(&text_, "  @encoder_layer(%x, %mask, %project, %output, %middle, %mlp, %last)\n}\n");
  }

  // Returns the parameters of all functions of texts.
  std::string Parameters() const {
    return absl::StrCat("%tokens: Tensor[(b, t), int32], %mask: Tensor[(b, t), bool]",
                        has_types() ? ", %types: Tensor[(b, t), int32]" : "");
  }

  void WriteEmbed() {
    std::string x = weights_.Rows(c_.names.embedding + ".weight", {c_.vocabulary, c_.width}, "%tokens");
    if (has_types())
      absl::StrAppend(&x, " + ", weights_.Rows(c_.names.types + ".weight", {c_.types, c_.width}, "%types"));
    const std::string places = c_.padding ? absl::StrCat("@positions_behind_padding(%tokens, ", *c_.padding, ")")
                                          : "arange(0i64, extent(%tokens, axis=1), 1i64)";
    absl::StrAppend(&x, " + ", weights_.Rows(c_.names.positions + ".weight", {c_.positions, c_.width}, "%places"));
    absl::StrAppend(&text_, "def @states(", Parameters(), ") -> ", states_, " {\n  let %places = ", places, ";\n",
                    "  let %attended = @encoder_mask(%mask);\n  let %x = ", Norm(x, c_.names.embedding_norm), ";\n");
    std::string last = "%x";
    for (int64_t i = 0; i < c_.layers; ++i) {
      absl::StrAppend(&text_, "  let %x", i, " = @layer_", i, "(", last, ", %attended);\n");
      last = absl::StrCat("%x", i);
    }
    absl::StrAppend(&text_, "  ", last, "\n}\n");
  }

  void WriteEntries() {
    const std::string given = absl::StrCat("%tokens, %mask", has_types() ? ", %types" : "");
    const std::string pooled = FloatTensor(absl::StrCat("b, ", c_.width));
    if (c_.has_pooler) {
      absl::StrAppend(&text_, "def @pool(%x: ", states_, ") -> ", pooled, " {\n  tanh(",
                      Dense(weights_, "@first_token(%x)", c_.names.pooler, c_.width, c_.width), ")\n}\n", "def @main(",
                      Parameters(), ") -> (", states_, ", ", pooled, ") {\n  let %x = @states(", given,
                      ");\n  (%x, @pool(%x))\n}\n");
    } else {
      absl::StrAppend(&text_, "def @main(", Parameters(), ") -> ", states_, " { @states(", given, ") }\n");
    }
    // One text alone has no padding.
    const std::string row = FloatTensor(absl::StrCat("t, ", c_.width));
    absl::StrAppend(&text_, "def @text(%tokens: Tensor[(t), int32]", has_types() ? ", %types: Tensor[(t), int32]" : "",
                    ") -> ", row, " {\n  let %batch = expand_dims(%tokens, axis=0);\n",
                    "  squeeze(@states(%batch, ones_like(%batch) == 1",
                    has_types() ? ", expand_dims(%types, axis=0)" : "", "), axis=[0])\n}\n");
  }

  const EncoderConfig& c_;
  Weights& weights_;
  std::string states_;  // type
  std::string text_;
};

}  // namespace

std::string WriteEncoder(const EncoderConfig& config, Weights& weights) { return Writer(config, weights).Write(); }

}  // namespace rvm::checkpoint
