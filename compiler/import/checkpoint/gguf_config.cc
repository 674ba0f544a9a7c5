// Metadata of GGUF files.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/rotation.h"
#include "compiler/import/checkpoint/settings.h"

namespace rvm::checkpoint {
namespace {

constexpr std::string_view kGemma2 = "gemma2", kGemma3 = "gemma3", kGpt2 = "gpt2", kLlama = "llama";
constexpr std::string_view kArchitectures[] = {"gemma", kGemma2, kGemma3, kGpt2, kLlama, "qwen2", "qwen3"};
// Layers of the models of a family whose scale of attention is that of the width, not of the heads.
constexpr int64_t kGemma2Large = 46, kGemma3Large = 62;

int64_t RowsOf(const Gguf& file, std::string_view tensor) {
  auto it = file.tensors.find(tensor);
  return it == file.tensors.end() || it->second.shape.size() != 2 ? 0 : it->second.shape[0];
}

// Divides frequencies by the factors in a tensor of the file.
void Divide(const StoredTensor& tensor, std::vector<float>& frequencies, importing::Refusals& refusals) {
  if (tensor.type != "F32" || tensor.data.bytes.size() != 4 * frequencies.size()) {
    refusals.Add("tensor", "`rope_freqs.weight`",
                 absl::InvalidArgumentError(absl::StrCat("it has ", ShapeToString(tensor.shape), " of ", tensor.type,
                                                         "; expected ", frequencies.size(), " of F32")));
    return;
  }
  for (size_t i = 0; i < frequencies.size(); ++i) {
    float factor = 1;
    std::memcpy(&factor, tensor.data.bytes.data() + 4 * i, 4);
    frequencies[i] /= factor;
  }
}

void ReadRotations(const Gguf& file, Settings& settings, const std::string& family, DecoderConfig& config,
                   importing::Refusals& refusals) {
  Rotation rotation{.base = settings.Positive("rope.freq_base", 10000)};
  Rotation local{.base = family == kGemma3 ? settings.Positive("rope.freq_base_swa", 10000) : rotation.base};
  rotation.kind = settings.Text("rope.scaling.type", "none");
  if (rotation.kind == "none") rotation.kind = "default";
  rotation.factor = settings.Positive("rope.scaling.factor", 1);
  if (rotation.kind != "default" && rotation.kind != "linear") {
    settings.Unsupported("rope.scaling.type", rotation.kind, "`none` or `linear`");
    return;
  }
  if (int64_t size = settings.Count("rope.dimension_count", config.head_size); size != config.head_size) {
    settings.Unsupported("rope.dimension_count", absl::StrCat(size), absl::StrCat(config.head_size));
  }
  config.frequencies = Frequencies(rotation, config.head_size);
  config.local_frequencies = Frequencies(local, config.head_size);
  auto factors = file.tensors.find("rope_freqs.weight");
  if (factors != file.tensors.end()) Divide(factors->second, config.frequencies, refusals);
}

void ReadGemma(Settings& settings, const std::string& family, DecoderConfig& config) {
  config.activation = "nn.gelu($, approximate=\"tanh\")";
  config.embedding_scale = std::sqrt(static_cast<double>(config.width));
  if (family != kGemma2 && family != kGemma3) return;
  config.names.attention_post_norm = "post_attention_norm";
  config.names.mlp_post_norm = "post_ffw_norm";
  config.score_cap = settings.Number("attn_logit_softcapping", 0);
  config.logit_cap = settings.Number("final_logit_softcapping", 0);
  if (config.layers == (family == kGemma2 ? kGemma2Large : kGemma3Large) && config.heads > 0) {
    config.attention_scale = 1 / std::sqrt(static_cast<double>(config.width / config.heads));
  }
  config.window = settings.Count("attention.sliding_window");
  const int64_t period = family == kGemma2 ? 2 : 6;
  for (int64_t i = 0; i < config.layers; ++i) config.is_local.push_back((i + 1) % period != 0);
}

void ReadDecoder(const Gguf& file, Settings& settings, const std::string& family, DecoderConfig& config,
                 importing::Refusals& refusals) {
  config.layers = settings.Count("block_count", std::nullopt, Settings::kMaxLayers);
  config.width = settings.Count("embedding_length");
  config.inner = settings.Count("feed_forward_length");
  config.vocabulary = RowsOf(file, "token_embd.weight");
  config.heads = settings.Count("attention.head_count");
  config.key_heads = settings.Count("attention.head_count_kv", config.heads);
  config.head_size = settings.Has("attention.key_length")
                         ? settings.Count("attention.key_length", std::nullopt, Settings::kMaxHeadSize)
                         : settings.EqualHeads("attention.head_count", config.width, config.heads);
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.head_size));
  config.activation = "nn.silu($)";
  config.names = {.embedding = "token_embd",
                  .norm = "output_norm",
                  .head = "output",
                  .layer = "blk.",
                  .attention_norm = "attn_norm",
                  .query = "attn_q",
                  .key = "attn_k",
                  .value = "attn_v",
                  .output = "attn_output",
                  .query_norm = "attn_q_norm",
                  .key_norm = "attn_k_norm",
                  .mlp_norm = "ffn_norm",
                  .gate = "ffn_gate",
                  .up = "ffn_up",
                  .down = "ffn_down"};
  if (family == kGpt2) {
    config.epsilon = settings.Number("attention.layer_norm_epsilon", 1e-5);
    config.positions = settings.Count("context_length");
    config.activation = "nn.gelu($, approximate=\"tanh\")";
    config.centers_norms = true;
    config.names.positions = "position_embd";
    config.names.joined_projection = "attn_qkv";
    config.names.gate = config.names.query_norm = config.names.key_norm = "";
    // The joined projection has three equal parts.
    if (config.heads > 0 && config.key_heads > 0 && config.key_heads != config.heads)
      settings.Unsupported("attention.head_count_kv", absl::StrCat(config.key_heads), absl::StrCat(config.heads));
    return;
  }
  config.epsilon = settings.Number("attention.layer_norm_rms_epsilon", 1e-6);
  config.rotates_pairs = family == kLlama;
  if (family.starts_with("gemma")) ReadGemma(settings, family, config);
  ReadRotations(file, settings, family, config, refusals);
  if (int64_t experts = settings.Count("expert_count", 0, Settings::kMaxCount, 0); experts > 0) {
    settings.Unsupported("expert_count", absl::StrCat(experts), "a model without experts");
  }
}

}  // namespace

DecoderConfig ConfigOfGguf(const Gguf& file, importing::Refusals& refusals) {
  DecoderConfig config;
  Settings all("metadata", [&](std::string_view name) { return file.Find(name); }, refusals);
  const std::string family = all.Text("general.architecture", "");
  if (std::ranges::find(kArchitectures, family) == std::end(kArchitectures)) {
    all.Unsupported(
        "general.architecture", family,
        absl::StrCat(
            "one of ",
            absl::StrJoin(std::vector<std::string>(std::begin(kArchitectures), std::end(kArchitectures)), ", ")));
    return config;
  }
  Settings settings(
      absl::StrCat("metadata ", family),
      [&](std::string_view name) { return file.Find(absl::StrCat(family, ".", Abseil(name))); }, refusals);
  ReadDecoder(file, settings, family, config, refusals);
  for (std::string_view key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    Setting setting = file.Find(key);
    const auto* stop = std::get_if<int64_t>(&setting);
    if (stop != nullptr && std::ranges::find(config.stops, *stop) == config.stops.end()) config.stops.push_back(*stop);
  }
  return config;
}

}  // namespace rvm::checkpoint
