// config.json of models of an encoder and a decoder, in folders as transformers writes them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/folder_settings.h"

namespace rvm::checkpoint {
namespace {

// Families that have BART's names of tensors and settings differ by these.
struct Family {
  std::string_view model_type;
  std::string_view activation = "gelu";
  bool has_norms_last = true;
  bool has_embedding_norm = false;
  int64_t first_position = 0;
  bool has_sinusoids = false;
  bool reads_features = false;
};
constexpr std::string_view kT5 = "t5", kMt5 = "mt5", kGated = "gated-";
constexpr int64_t kMaxBuckets = 1 << 16, kMaxDistance = 1 << 16, kMaxVocabulary = 1 << 24;
constexpr int64_t kMaxTable = 1 << 24;  // elements of a table of sines
constexpr Family kFamilies[] = {
    {.model_type = "bart", .has_embedding_norm = true, .first_position = 2},
    {.model_type = "marian", .has_sinusoids = true},
    {.model_type = "whisper", .has_norms_last = false, .reads_features = true},
};

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

// ---- T5

// Returns the buckets of distances from -reach to reach. Half of them are single distances, the others grow like a
// logarithm up to `reach`. An encoder has as many for the keys behind a query; to a decoder these are none.
std::vector<int32_t> BucketsOf(int64_t count, int64_t reach, bool has_keys_behind) {
  const int64_t half = has_keys_behind ? count / 2 : count;
  const int64_t exact = half / 2;
  std::vector<int32_t> buckets;
  for (int64_t distance = -reach; distance <= reach; ++distance) {
    const int64_t length = has_keys_behind ? std::abs(distance) : std::max<int64_t>(-distance, 0);
    int64_t bucket = length;
    if (length >= exact) {
      // In float32, as models are trained.
      const float share = std::log(static_cast<float>(length) / static_cast<float>(exact)) /
                          static_cast<float>(std::log(static_cast<double>(reach) / static_cast<double>(exact)));
      bucket = std::min(exact + static_cast<int64_t>(share * static_cast<float>(half - exact)), half - 1);
    }
    buckets.push_back(static_cast<int32_t>(bucket + (has_keys_behind && distance > 0 ? half : 0)));
  }
  return buckets;
}

StackNames T5Names(std::string_view stack, bool is_decoder, bool is_gated) {
  auto attention = [](std::string_view part) {
    const std::string name = absl::StrCat("layer.", Abseil(part));
    return AttentionNames{.query = name + ".q", .key = name + ".k", .value = name + ".v", .output = name + ".o"};
  };
  const std::string mlp = is_decoder ? "layer.2." : "layer.1.";
  StackNames names = {
      .embedding = "shared",
      .norm = absl::StrCat(Abseil(stack), ".final_layer_norm"),
      .layer = absl::StrCat(Abseil(stack), ".block."),
      .distances = absl::StrCat(Abseil(stack), ".block.0.layer.0.SelfAttention.relative_attention_bias"),
      .self = attention("0.SelfAttention"),
      .cross = attention("1.EncDecAttention"),
      .gate = is_gated ? mlp + "DenseReluDense.wi_0" : "",
      .up = mlp + (is_gated ? "DenseReluDense.wi_1" : "DenseReluDense.wi"),
      .down = mlp + "DenseReluDense.wo",
      .mlp_norm = mlp + "layer_norm"};
  names.self.norm = "layer.0.layer_norm";
  names.cross.norm = "layer.1.layer_norm";
  return names;
}

void ReadT5(Settings& settings, const StoredTensors& tensors, EncoderDecoderConfig& config) {
  config.width = settings.Count("d_model");
  config.head_size = settings.Count("d_kv", std::nullopt, Settings::kMaxHeadSize);
  config.vocabulary = settings.Count("vocab_size", std::nullopt, kMaxVocabulary);
  config.epsilon = settings.Number("layer_norm_epsilon", 1e-6);
  config.centers_norms = false;
  std::string kind = settings.Text("feed_forward_proj", "relu");
  const bool is_gated = kind.starts_with(kGated);
  const std::string activation = is_gated ? kind.substr(kGated.size()) : kind;
  config.activation = ActivationOf(is_gated && activation == "gelu" ? "gelu_new" : activation);
  if (config.activation.empty())
    settings.Unsupported("feed_forward_proj", kind, "`relu`, `gated-gelu` or `gated-silu`");
  const int64_t count = settings.Count("relative_attention_num_buckets", 32, kMaxBuckets, 4);
  const int64_t reach = settings.Count("relative_attention_max_distance", 128, kMaxDistance);
  if (count > 0 && reach > 0 && reach <= count / 2)
    settings.Malformed("relative_attention_max_distance", absl::StrCat("expected more than ", count / 2));
  const int64_t layers = settings.Count("num_layers", std::nullopt, Settings::kMaxLayers);
  for (StackConfig* stack : {&config.encoder, &config.decoder}) {
    const bool is_decoder = stack == &config.decoder;
    stack->layers = is_decoder ? settings.Count("num_decoder_layers", layers, Settings::kMaxLayers) : layers;
    stack->heads = settings.Count("num_heads");
    stack->inner = settings.Count("d_ff");
    stack->bucket_count = count;
    if (count > 0 && reach > count / 2) stack->buckets = BucketsOf(count, reach, !is_decoder);
    stack->names = T5Names(is_decoder ? "decoder" : "encoder", is_decoder, is_gated);
  }
  // Models that were trained with the embedding as head scale its states, even where files have a head. Newer files say
  // so by a setting of its own.
  if (settings.Flag("scale_decoder_outputs", settings.Flag("tie_word_embeddings", true)))
    config.head_scale = 1 / std::sqrt(static_cast<double>(config.width));
  if (tensors.contains("lm_head.weight")) config.head = "lm_head";
}

// ---- BART and those that have its names

StackNames BartNames(const std::string& stack, std::string_view embedding, const Family& family) {
  auto attention = [](const std::string& name, std::string_view norm) {
    return AttentionNames{.query = name + ".q_proj",
                          .key = name + ".k_proj",
                          .value = name + ".v_proj",
                          .output = name + ".out_proj",
                          .norm = std::string(norm)};
  };
  return {.embedding = std::string(embedding),
          .positions = stack + ".embed_positions",
          .embedding_norm = family.has_embedding_norm ? stack + ".layernorm_embedding" : "",
          .norm = family.has_norms_last ? "" : stack + ".layer_norm",
          .layer = stack + ".layers.",
          .self = attention("self_attn", "self_attn_layer_norm"),
          .cross = attention("encoder_attn", "encoder_attn_layer_norm"),
          .up = "fc1",
          .down = "fc2",
          .mlp_norm = "final_layer_norm"};
}

StackConfig ReadStack(Settings& settings, std::string_view stack, int64_t positions, const Family& family) {
  auto count = [&](std::string_view name, std::optional<int64_t> otherwise, int64_t most) {
    return settings.Count(absl::StrCat(Abseil(stack), "_", Abseil(name)), otherwise, most);
  };
  return {.layers = count("layers", std::nullopt, Settings::kMaxLayers),
          .heads = count("attention_heads", std::nullopt, Settings::kMaxCount),
          .inner = count("ffn_dim", std::nullopt, Settings::kMaxCount),
          .positions = positions == 0 ? 0 : positions + family.first_position,
          .first_position = family.first_position};
}

void ReadBart(Settings& settings, const Family& family, const StoredTensors& tensors, EncoderDecoderConfig& config) {
  config.width = settings.Count("d_model");
  config.vocabulary = settings.Count("vocab_size", std::nullopt, kMaxVocabulary);
  config.activation = ReadActivation(settings, "activation_function", family.activation);
  config.has_norms_last = family.has_norms_last;
  config.has_sinusoids = family.has_sinusoids;
  const std::string prefix = PrefixOf(tensors, "model.", "decoder.layers.0.fc1.weight");
  const bool is_shared = tensors.contains(prefix + "shared.weight");
  for (StackConfig* stack : {&config.encoder, &config.decoder}) {
    const std::string name = stack == &config.encoder ? "encoder" : "decoder";
    const std::string positions = family.reads_features
                                      ? (stack == &config.encoder ? "max_source_positions" : "max_target_positions")
                                      : "max_position_embeddings";
    const int64_t most = family.has_sinusoids ? kMaxTable / std::max<int64_t>(config.width, 1) : Settings::kMaxCount;
    *stack = ReadStack(settings, name, settings.Count(positions, std::nullopt, most), family);
    const std::string path = prefix + name;
    stack->names = BartNames(path, is_shared ? prefix + "shared" : path + ".embed_tokens", family);
    if (!family.reads_features && settings.Flag("scale_embedding", false))
      stack->embedding_scale = std::sqrt(static_cast<double>(config.width));
  }
  config.head_size = settings.EqualHeads("decoder_attention_heads", config.width, config.decoder.heads);
  if (config.encoder.heads != config.decoder.heads && config.encoder.heads > 0 && config.decoder.heads > 0) {
    settings.Unsupported("encoder_attention_heads", absl::StrCat(config.encoder.heads),
                         absl::StrCat(config.decoder.heads, ", as the decoder has"));
  }
  config.attention_scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(config.head_size, 1)));
  if (family.reads_features) {
    config.features = settings.Count("num_mel_bins", 80);
    config.front = prefix + "encoder.conv";
  } else {
    config.logits_bias = "final_logits_bias";
  }
  if (!settings.Flag("tie_word_embeddings", true)) config.head = family.reads_features ? "proj_out" : "lm_head";
}

// ---- generation

std::optional<int64_t> FirstToken(const JsonValue& json, const JsonValue& generation, std::string_view name) {
  const std::vector<int64_t> tokens = FirstTokens(generation, json, name);
  return tokens.empty() ? std::nullopt : std::optional(tokens.front());
}

// Reads the tokens that begin and end texts, and those that are not chosen.
void ReadTokens(const JsonValue& json, const JsonValue& generation, EncoderDecoderConfig& config) {
  config.starts = FirstTokens(generation, json, "decoder_start_token_id");
  for (int64_t token : FirstTokens(generation, json, "forced_bos_token_id")) config.starts.push_back(token);
  config.stops = FirstTokens(generation, json, "eos_token_id");
  config.suppressed = FirstTokens(generation, json, "suppress_tokens");
  config.suppressed_first = FirstTokens(generation, json, "begin_suppress_tokens");
  if (config.features > 0) {
    config.no_timestamps = FirstToken(json, generation, "no_timestamps_token_id");
    config.latest_start = FirstToken(json, generation, "max_initial_timestamp_index");
  }
  // Words of one token.
  const JsonValue* words = generation.Find("bad_words_ids");
  if (words == nullptr || words->is_null()) words = json.Find("bad_words_ids");
  if (words == nullptr || words->AsArray() == nullptr) return;
  for (const JsonValue& word : *words->AsArray()) {
    const JsonValue::Array* tokens = word.AsArray();
    if (tokens != nullptr && tokens->size() == 1 && (*tokens)[0].AsInt() != nullptr)
      config.suppressed.push_back(*(*tokens)[0].AsInt());
  }
}

}  // namespace

bool IsEncoderDecoder(std::string_view model_type) {
  return model_type == kT5 || model_type == kMt5 || FindFamily(model_type) != nullptr;
}

std::string EncoderDecoderFamilies() {
  std::string names;
  for (const Family& family : kFamilies) absl::StrAppend(&names, "`", Abseil(family.model_type), "`, ");
  return absl::StrCat(names, "`", Abseil(kT5), "`, `", Abseil(kMt5), "`");
}

EncoderDecoderConfig EncoderDecoderOfFolder(const JsonValue& json, const JsonValue& generation,
                                            const StoredTensors& tensors, importing::Refusals& refusals) {
  EncoderDecoderConfig config;
  Settings settings = SettingsOf(json, std::string(kConfigFile), refusals);
  const Family* family = FindFamily(settings.Text("model_type", ""));
  if (family == nullptr) {
    ReadT5(settings, tensors, config);
  } else {
    ReadBart(settings, *family, tensors, config);
  }
  ReadTokens(json, generation, config);
  return config;
}

}  // namespace rvm::checkpoint
