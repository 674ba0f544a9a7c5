// config.json of encoders, in folders as transformers writes them.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/folder_settings.h"

namespace rvm::checkpoint {
namespace {

// Families of encoders. Those whose positions begin behind the padding differ from BERT by that alone.
struct Family {
  std::string_view model_type, prefix;
  bool counts_padding = true;
};
constexpr Family kFamilies[] = {
    {"bert", "bert."},
    {"camembert", "roberta.", false},
    {"distilbert", "distilbert."},
    {"roberta", "roberta.", false},
    {"xlm-roberta", "roberta.", false},
};
constexpr std::string_view kDistilBert = "distilbert", kEmbedding = "embeddings.word_embeddings.weight";

const Family* FindFamily(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  return nullptr;
}

// Refuses a flag that makes another program.
void RefuseFlag(Settings& settings, std::string_view name) {
  if (settings.Flag(name, false)) settings.Unsupported(name, "true", "false");
}

// DistilBERT has BERT's layers under other names, and neither types of tokens nor a pooler.
void ReadDistilBert(Settings& settings, const std::string& prefix, EncoderConfig& config) {
  config.layers = settings.Count("n_layers", 6, Settings::kMaxLayers);
  config.width = settings.Count("dim", 768);
  config.inner = settings.Count("hidden_dim", 3072);
  config.heads = settings.Count("n_heads", 12);
  config.activation = ReadActivation(settings, "activation", "gelu");
  settings.EqualHeads("n_heads", config.width, config.heads);
  config.names.layer = prefix + "transformer.layer.";
  config.names.query = "attention.q_lin";
  config.names.key = "attention.k_lin";
  config.names.value = "attention.v_lin";
  config.names.output = "attention.out_lin";
  config.names.attention_norm = "sa_layer_norm";
  config.names.up = "ffn.lin1";
  config.names.down = "ffn.lin2";
  config.names.mlp_norm = "output_layer_norm";
}

void ReadBert(Settings& settings, const Family& family, const StoredTensors& tensors, const std::string& prefix,
              EncoderConfig& config) {
  config.layers = settings.Count("num_hidden_layers", 12, Settings::kMaxLayers);
  config.width = settings.Count("hidden_size", 768);
  config.inner = settings.Count("intermediate_size", 3072);
  config.heads = settings.Count("num_attention_heads", 12);
  settings.EqualHeads("num_attention_heads", config.width, config.heads);
  config.types = settings.Count("type_vocab_size", 2);
  config.epsilon = settings.Number("layer_norm_eps", 1e-12);
  config.activation = ReadActivation(settings, "hidden_act", "gelu");
  if (!family.counts_padding) config.padding = settings.Count("pad_token_id", 1, Settings::kMaxToken, 0);
  RefuseFlag(settings, "is_decoder");
  RefuseFlag(settings, "add_cross_attention");
  if (std::string kind = settings.Text("position_embedding_type", "absolute"); kind != "absolute")
    settings.Unsupported("position_embedding_type", kind, "`absolute`");
  config.names.types = prefix + "embeddings.token_type_embeddings";
  config.names.pooler = prefix + "pooler.dense";
  config.has_pooler = tensors.contains(config.names.pooler + ".weight");
  config.names.layer = prefix + "encoder.layer.";
  config.names.query = "attention.self.query";
  config.names.key = "attention.self.key";
  config.names.value = "attention.self.value";
  config.names.output = "attention.output.dense";
  config.names.attention_norm = "attention.output.LayerNorm";
  config.names.up = "intermediate.dense";
  config.names.down = "output.dense";
  config.names.mlp_norm = "output.LayerNorm";
}

}  // namespace

bool IsEncoder(std::string_view model_type) { return FindFamily(model_type) != nullptr; }

std::string EncoderFamilies() {
  std::string names;
  for (const Family& family : kFamilies)
    absl::StrAppend(&names, names.empty() ? "`" : ", `", Abseil(family.model_type), "`");
  return names;
}

EncoderConfig EncoderOfFolder(const JsonValue& json, const StoredTensors& tensors, importing::Refusals& refusals) {
  EncoderConfig config;
  Settings settings = SettingsOf(json, std::string(kConfigFile), refusals);
  const Family& family = *FindFamily(settings.Text("model_type", ""));
  const std::string prefix = PrefixOf(tensors, family.prefix, kEmbedding);
  config.vocabulary = settings.Count("vocab_size");
  config.positions = settings.Count("max_position_embeddings", 512);
  config.names.embedding = prefix + "embeddings.word_embeddings";
  config.names.positions = prefix + "embeddings.position_embeddings";
  config.names.embedding_norm = prefix + "embeddings.LayerNorm";
  if (family.model_type == kDistilBert) {
    ReadDistilBert(settings, prefix, config);
  } else {
    ReadBert(settings, family, tensors, prefix, config);
  }
  return config;
}

}  // namespace rvm::checkpoint
