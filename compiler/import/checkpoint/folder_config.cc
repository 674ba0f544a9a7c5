// config.json of folders as transformers writes them.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/folder_settings.h"
#include "compiler/import/checkpoint/rotation.h"
#include "compiler/import/checkpoint/settings.h"

namespace rvm::checkpoint {
namespace {

// Families of decoders that differ from Llama by what these say.
struct Family {
  std::string_view model_type;
  bool is_gemma = false;  // scaled embeddings, norms of 1 + weight
  bool has_post_norms = false;
  std::string_view activation = "silu";
  int64_t local_period = 0;  // each layer of that number attends to all tokens, the others to a window; 0: see `window`
  bool is_qwen = false;      // a window only if `use_sliding_window`, for layers from `max_window_layers` on
};
constexpr Family kFamilies[] = {
    {"gemma", true, false, "gelu_pytorch_tanh"},
    {"gemma2", true, true, "gelu_pytorch_tanh", 2},
    {"gemma3_text", true, true, "gelu_pytorch_tanh", 6},
    {"llama"},
    {"mistral"},
    {.model_type = "qwen2", .is_qwen = true},
    {.model_type = "qwen3", .is_qwen = true},
};
constexpr std::string_view kGpt2 = "gpt2";

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

std::string FamilyNames() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.push_back(absl::StrCat("`", Abseil(family.model_type), "`"));
  return absl::StrCat(absl::StrJoin(names, ", "), ", `", Abseil(kGpt2), "`, an encoder: ", EncoderFamilies(),
                      ", or an encoder with a decoder: ", EncoderDecoderFamilies());
}

// Rotation: `rope_theta` and `rope_scaling`, or `rope_parameters` with both.
Rotation ReadRotation(const JsonValue& json, Settings& settings, std::string_view prefix, double base,
                      importing::Refusals& refusals) {
  Rotation rotation{.base = base};
  if (json.AsObject() == nullptr) return rotation;
  Settings own = SettingsOf(json, absl::StrCat(Abseil(kConfigFile), ", ", Abseil(prefix)), refusals);
  rotation.base = own.Positive("rope_theta", base);
  std::string_view key = own.Has("rope_type") ? "rope_type" : "type";
  rotation.kind = own.Text(key, "default");
  rotation.factor = own.Positive("factor", 1);
  rotation.low_factor = own.Positive("low_freq_factor", 1);
  rotation.high_factor = own.Positive("high_freq_factor", 4);
  rotation.original_length = own.Positive("original_max_position_embeddings",
                                          settings.Positive("max_position_embeddings", rotation.original_length));
  if (!IsRotationKind(rotation.kind)) own.Unsupported(key, rotation.kind, RotationKinds());
  if (own.Number("partial_rotary_factor", 1) != 1) {
    own.Unsupported("partial_rotary_factor", absl::StrCat(own.Number("partial_rotary_factor", 1)), "1");
  }
  return rotation;
}

const JsonValue& Member(const JsonValue& json, std::string_view name) {
  static constexpr JsonValue kNone;
  const JsonValue* member = json.Find(name);
  return member == nullptr ? kNone : *member;
}

void ReadRotations(const JsonValue& json, Settings& settings, DecoderConfig& config, importing::Refusals& refusals) {
  const double base = settings.Positive("rope_theta", 10000);
  const JsonValue& parameters = Member(json, "rope_parameters");
  Rotation all, local;
  if (parameters.Find("full_attention") != nullptr) {
    all = ReadRotation(Member(parameters, "full_attention"), settings, "rope_parameters", base, refusals);
    local = ReadRotation(Member(parameters, "sliding_attention"), settings, "rope_parameters", base, refusals);
  } else {
    std::string_view name = parameters.is_null() ? "rope_scaling" : "rope_parameters";
    all = ReadRotation(Member(json, name), settings, name, base, refusals);
    local =
        settings.Has("rope_local_base_freq") ? Rotation{.base = settings.Positive("rope_local_base_freq", 10000)} : all;
  }
  if (!IsRotationKind(all.kind) || !IsRotationKind(local.kind)) return;
  config.frequencies = Frequencies(all, config.head_size);
  config.local_frequencies = Frequencies(local, config.head_size);
}

// Layers that attend to a window of tokens.
void ReadWindow(const JsonValue& json, Settings& settings, const Family& family, DecoderConfig& config) {
  const bool has_window = settings.Has("sliding_window") && settings.Flag("use_sliding_window", !family.is_qwen);
  if (!has_window) return;
  config.window = settings.Count("sliding_window");
  const JsonValue* types = json.Find("layer_types");
  const int64_t period = settings.Count("sliding_window_pattern", std::max<int64_t>(family.local_period, 1));
  const int64_t first_local = family.is_qwen ? settings.Count("max_window_layers", 28, Settings::kMaxCount, 0) : 0;
  bool has_local = false;
  for (int64_t i = 0; i < config.layers; ++i) {
    bool is_local = i >= first_local && (family.local_period == 0 || (i + 1) % period != 0);
    if (types != nullptr && types->AsArray() != nullptr && static_cast<size_t>(i) < types->AsArray()->size()) {
      const std::string* type = (*types->AsArray())[static_cast<size_t>(i)].AsString();
      is_local = type != nullptr && *type == "sliding_attention";
      if (type == nullptr || (!is_local && *type != "full_attention")) {
        settings.Unsupported("layer_types", type == nullptr ? "no text" : *type,
                             "`full_attention` or `sliding_attention`");
      }
    }
    has_local = has_local || is_local;
    config.is_local.push_back(is_local);
  }
  if (!has_local) config.is_local.clear();
}

void ReadLlama(const JsonValue& json, Settings& settings, const Family& family, const StoredTensors& tensors,
               DecoderConfig& config, importing::Refusals& refusals) {
  config.layers = settings.Count("num_hidden_layers", std::nullopt, Settings::kMaxLayers);
  config.width = settings.Count("hidden_size");
  config.inner = settings.Count("intermediate_size");
  config.vocabulary = settings.Count("vocab_size");
  config.heads = settings.Count("num_attention_heads");
  config.key_heads = settings.Count("num_key_value_heads", config.heads);
  config.head_size = settings.Has("head_dim") ? settings.Count("head_dim", std::nullopt, Settings::kMaxHeadSize)
                                              : settings.EqualHeads("num_attention_heads", config.width, config.heads);
  config.epsilon = settings.Number("rms_norm_eps", 1e-6);
  config.attention_scale =
      1 / std::sqrt(settings.Positive("query_pre_attn_scalar", static_cast<double>(config.head_size)));
  config.activation = ReadActivation(settings, settings.Has("hidden_activation") ? "hidden_activation" : "hidden_act",
                                     family.activation);
  config.score_cap = settings.Number("attn_logit_softcapping", 0);
  config.logit_cap = settings.Number("final_logit_softcapping", 0);
  config.adds_one_to_norms = family.is_gemma;
  if (family.is_gemma) config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  ReadRotations(json, settings, config, refusals);
  ReadWindow(json, settings, family, config);
  const std::string prefix = PrefixOf(tensors, "model.", "embed_tokens.weight");
  DecoderNames& names = config.names;
  names = {.embedding = prefix + "embed_tokens",
           .norm = prefix + "norm",
           .head = "lm_head",
           .layer = prefix + "layers.",
           .attention_norm = "input_layernorm",
           .query = "self_attn.q_proj",
           .key = "self_attn.k_proj",
           .value = "self_attn.v_proj",
           .output = "self_attn.o_proj",
           .query_norm = "self_attn.q_norm",
           .key_norm = "self_attn.k_norm",
           .mlp_norm = "post_attention_layernorm",
           .gate = "mlp.gate_proj",
           .up = "mlp.up_proj",
           .down = "mlp.down_proj"};
  if (family.has_post_norms) {
    names.attention_post_norm = "post_attention_layernorm";
    names.mlp_norm = "pre_feedforward_layernorm";
    names.mlp_post_norm = "post_feedforward_layernorm";
  }
  if (settings.Flag("tie_word_embeddings", family.is_gemma)) names.head = "";
}

void ReadGpt2(Settings& settings, const StoredTensors& tensors, DecoderConfig& config) {
  config.layers = settings.Count("n_layer", std::nullopt, Settings::kMaxLayers);
  config.width = settings.Count("n_embd");
  config.inner = settings.Count("n_inner", 4 * config.width);
  config.vocabulary = settings.Count("vocab_size");
  config.heads = config.key_heads = settings.Count("n_head");
  config.head_size = settings.EqualHeads("n_head", config.width, config.heads);
  config.positions = settings.Count("n_positions");
  config.epsilon = settings.Number("layer_norm_epsilon", 1e-5);
  config.attention_scale =
      settings.Flag("scale_attn_weights", true) ? 1 / std::sqrt(static_cast<double>(config.head_size)) : 1;
  if (settings.Flag("scale_attn_by_inverse_layer_idx", false))
    settings.Unsupported("scale_attn_by_inverse_layer_idx", "true", "false");
  config.activation = ReadActivation(settings, "activation_function", "gelu_new");
  config.centers_norms = true;
  config.has_transposed_weights = true;
  const std::string prefix = PrefixOf(tensors, "transformer.", "wte.weight");
  config.names = {.embedding = prefix + "wte",
                  .positions = prefix + "wpe",
                  .norm = prefix + "ln_f",
                  .layer = prefix + "h.",
                  .attention_norm = "ln_1",
                  .joined_projection = "attn.c_attn",
                  .output = "attn.c_proj",
                  .mlp_norm = "ln_2",
                  .up = "mlp.c_fc",
                  .down = "mlp.c_proj"};
  if (!settings.Flag("tie_word_embeddings", true)) config.names.head = "lm_head";
}

}  // namespace

DecoderConfig ConfigOfFolder(const JsonValue& json, const JsonValue& generation, const StoredTensors& tensors,
                             importing::Refusals& refusals) {
  DecoderConfig config;
  Settings settings = SettingsOf(json, std::string(kConfigFile), refusals);
  const std::string model_type = settings.Text("model_type", "");
  config.stops = FirstTokens(generation, json, "eos_token_id");
  if (model_type == kGpt2) {
    ReadGpt2(settings, tensors, config);
  } else if (const Family* family = FindFamily(model_type)) {
    ReadLlama(json, settings, *family, tensors, config, refusals);
  } else {
    settings.Unsupported("model_type", model_type, FamilyNames());
  }
  return config;
}

}  // namespace rvm::checkpoint
