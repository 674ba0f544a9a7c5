#include "compiler/import/checkpoint/import.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json.h"
#include "base/stack_guard.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/import/checkpoint/config.h"
#include "compiler/import/checkpoint/decoder.h"
#include "compiler/import/checkpoint/encoder.h"
#include "compiler/import/checkpoint/encoder_decoder.h"
#include "compiler/import/checkpoint/folder_settings.h"
#include "compiler/import/checkpoint/gguf.h"
#include "compiler/import/checkpoint/weight_form.h"
#include "compiler/import/checkpoint/weights.h"
#include "compiler/import/refusals.h"
#include "compiler/import/safetensors.h"
#include "compiler/ir/walk.h"
#include "compiler/text/parser.h"

namespace rvm::checkpoint {
namespace {

using importing::ImportedModel;
using importing::ImportOptions;
using importing::Refusals;

constexpr std::string_view kConfig = "config.json", kGeneration = "generation_config.json",
                           kWeights = "model.safetensors", kIndex = "model.safetensors.index.json";
// Functions that programs have for their users.
constexpr std::string_view kDecoderEntries[] = {"start", "score",    "read",  "step",
                                                "main",  "complete", "beams", "stream"};
constexpr std::string_view kEncoderEntries[] = {"main", "states", "text"};
constexpr std::string_view kEncoderDecoderEntries[] = {"encode", "start",    "score", "read",  "step",
                                                       "main",   "complete", "beams", "stream"};
constexpr size_t kMaxNamedTensors = 3;
// Integers from 0 on, which old files of encoders have among the weights.
constexpr std::string_view kPositionNumbers = "position_ids";

// ---- the program

// Removes what no entry reaches: parts of other architectures.
void KeepEntries(ir::Module& module, std::span<const std::string_view> entries) {
  absl::flat_hash_set<std::string_view> reached;
  std::vector<std::string_view> open(entries.begin(), entries.end());
  while (!open.empty()) {
    std::string_view name = open.back();
    open.pop_back();
    if (!reached.insert(name).second) continue;
    auto global = std::ranges::find_if(module.functions, [&](const auto& other) { return other.name == name; });
    if (global == module.functions.end()) continue;
    ir::ForEachExpr(global->function->body, [&](const ir::Expr* expr) {
      if (const auto* callee = ir::DynCast<ir::GlobalExpr>(expr)) open.push_back(callee->name);
      return true;
    });
  }
  std::erase_if(module.functions, [&](const auto& global) { return !reached.contains(global.name); });
}

void WarnOfUnused(const Weights& weights, ImportedModel& model) {
  std::vector<std::string> unused = weights.Unused();
  // Tables that follow from the configuration, and copies of the embedding.
  const bool has_shared = weights.Has("shared.weight") || weights.Has("model.shared.weight");
  std::erase_if(unused, [&](const std::string& name) {
    return absl::EndsWith(name, ".rotary_emb.inv_freq") || absl::EndsWith(name, ".attn.bias") ||
           absl::EndsWith(name, ".attn.masked_bias") || name == "rope_freqs.weight" || name == "lm_head.weight" ||
           name == "proj_out.weight" || (absl::EndsWith(name, ".embed_tokens.weight") && has_shared);
  });
  if (unused.empty()) return;
  std::string names;
  for (size_t i = 0; i < std::min(unused.size(), kMaxNamedTensors); ++i) {
    absl::StrAppend(&names, i == 0 ? "`" : ", `", Abseil(ReadableText(unused[i])), "`");
  }
  model.warnings.push_back(absl::StrCat("the architecture does not use ", unused.size(),
                                        unused.size() == 1 ? " tensor: " : " tensors: ", names,
                                        unused.size() > kMaxNamedTensors ? ", ..." : ""));
}

// Refuses sizes that do not fit each other, and numbers that the program cannot have.
void CheckSizes(const DecoderConfig& config, Refusals& refusals) {
  auto refuse = [&](std::string_view what, std::string_view why) {
    refusals.Add("sizes", std::string(what), absl::InvalidArgumentError(Abseil(why)));
  };
  if (config.key_heads > 0 && config.heads % config.key_heads != 0) {
    refuse("heads", absl::StrCat("saw ", config.heads, " heads of queries and ", config.key_heads,
                                 " of keys; expected a multiple"));
  }
  if (config.positions == 0 && config.head_size % 2 != 0)
    refuse("heads", absl::StrCat("saw heads of ", config.head_size, " elements; expected an even number"));
  auto is_finite = [](float x) { return std::isfinite(x); };
  if (!std::ranges::all_of(config.frequencies, is_finite) || !std::ranges::all_of(config.local_frequencies, is_finite))
    refuse("rotation", "its settings give frequencies that are not finite in float32");
  for (int64_t stop : config.stops) {
    if (stop < std::numeric_limits<int32_t>::min() || stop > std::numeric_limits<int32_t>::max())
      refuse("stop tokens", absl::StrCat("saw the token ", stop, "; expected an int32"));
  }
}

// Refuses sizes of an encoder that do not fit each other.
void CheckSizes(const EncoderConfig& config, Refusals& refusals) {
  if (config.heads <= 0 || config.heads > config.width || config.width % config.heads == 0) return;
  refusals.Add("sizes", "heads",
               absl::InvalidArgumentError(absl::StrCat("saw ", config.heads, " heads for states of ", config.width,
                                                       " elements; expected a divisor")));
}

void CheckSizes(const EncoderDecoderConfig& config, Refusals& refusals) {
  auto refuse = [&](std::string_view what, std::string_view why) {
    refusals.Add("sizes", std::string(what), absl::InvalidArgumentError(Abseil(why)));
  };
  if (config.starts.empty()) refuse("tokens", "saw no `decoder_start_token_id`; expected a token");
  if (config.vocabulary == 0) return;
  auto refuse_token = [&](int64_t token) {
    refuse("tokens", absl::StrCat("saw the token ", token, "; expected one of ", config.vocabulary));
  };
  auto is_refused = [&](int64_t token) { return token < 0 || token >= config.vocabulary; };
  for (const auto* tokens : {&config.starts, &config.stops, &config.suppressed, &config.suppressed_first}) {
    auto found = std::ranges::find_if(*tokens, is_refused);
    if (found != tokens->end()) refuse_token(*found);
  }
  if (config.no_timestamps && is_refused(*config.no_timestamps)) refuse_token(*config.no_timestamps);
  if (config.latest_start && is_refused(*config.latest_start)) {
    refuse("tokens", absl::StrCat("saw `max_initial_timestamp_index` ", *config.latest_start,
                                  "; expected a number below ", config.vocabulary));
  }
}

// A program of a model: its text, of weights that it declares, what users call, and its inputs and outputs.
struct Program {
  std::function<std::string(Weights& weights)> write;  // null without sizes: nothing can be said about tensors
  std::span<const std::string_view> entries;
  std::vector<std::string> inputs, outputs;
};

Program ProgramOf(const DecoderConfig& config, Refusals& refusals) {
  CheckSizes(config, refusals);
  Program program{.write = nullptr, .entries = kDecoderEntries, .inputs = {"tokens"}, .outputs = {"logits"}};
  if (config.layers > 0 && config.key_heads > 0 && config.head_size > 0)
    program.write = [&config](Weights& weights) { return WriteDecoder(config, weights); };
  return program;
}

Program ProgramOf(const EncoderConfig& config, Refusals& refusals) {
  CheckSizes(config, refusals);
  Program program{.write = nullptr, .entries = kEncoderEntries, .inputs = {"tokens", "mask"}, .outputs = {"states"}};
  if (config.types > 0) program.inputs.push_back("types");
  if (config.has_pooler) program.outputs.push_back("pooled");
  if (config.layers > 0 && config.heads > 0 && config.width > 0)
    program.write = [&config](Weights& weights) { return WriteEncoder(config, weights); };
  return program;
}

Program ProgramOf(const EncoderDecoderConfig& config, Refusals& refusals) {
  CheckSizes(config, refusals);
  Program program{.write = nullptr,
                  .entries = kEncoderDecoderEntries,
                  .inputs = {config.features == 0 ? "tokens" : "features", "text"},
                  .outputs = {"logits"}};
  auto has_sizes = [](const StackConfig& stack) { return stack.layers > 0 && stack.heads > 0; };
  if (has_sizes(config.encoder) && has_sizes(config.decoder) && config.head_size > 0 && config.vocabulary > 0)
    program.write = [&config](Weights& weights) { return WriteEncoderDecoder(config, weights); };
  return program;
}

// Refuses to round rows for weights that are not quantised.
void CheckActivations(const StoredTensors& tensors, const ImportOptions& options, Refusals& refusals) {
  const bool rounds = options.activation_dtype && *options.activation_dtype != kFloat32;
  const bool has_blocks = std::ranges::any_of(tensors, [](const auto& t) { return RoundedBlock(t.second.type) > 0; });
  if (!rounds || has_blocks) return;
  refusals.Add(
      "activations", options.activation_dtype->ToString(),
      absl::InvalidArgumentError("the model has no quantised weights, which such rows could be multiplied by"));
}

absl::StatusOr<ImportedModel> BuildModel(const Program& program, const StoredTensors& tensors, Refusals& refusals,
                                         const ImportOptions& options) {
  CheckActivations(tensors, options, refusals);
  Weights weights(tensors, refusals, options.release, options.activation_dtype != kFloat32);
  std::string text;
  if (program.write != nullptr) text = program.write(weights);
  if (options.coverage != nullptr) refusals.AddTo(*options.coverage);
  RVM_RETURN_IF_ERROR(importing::Readable(refusals.ToStatus()));
  ImportedModel model;
  diagnostics::Diagnostics diagnostics(options.sources);
  uint32_t source = options.sources->Add(absl::StrCat(options.name, ": program"), std::move(text));
  bool is_read = WithStack([&] { return text::ParseModule(source, model.module, diagnostics); });
  if (!is_read)
    return absl::InternalError(absl::StrCat("the program of the model is malformed\n", diagnostics.Render()));
  KeepEntries(model.module, program.entries);
  WarnOfUnused(weights, model);
  model.weights = weights.TakeValues();
  model.inputs = program.inputs;
  model.outputs = program.outputs;
  return model;
}

absl::Status CheckOptions(const ImportOptions& options) {
  if (options.frozen.empty() && options.shapes.empty()) return absl::OkStatus();
  const std::string& name = options.frozen.empty() ? options.shapes.begin()->first : options.frozen.begin()->first;
  return absl::InvalidArgumentError(
      absl::StrCat("saw an extent or a value for the input `", name, "`; a model of weights has no such options"));
}

// ---- folders

absl::StatusOr<JsonValue> ParseObject(std::string_view name, importing::Bytes bytes) {
  absl::StatusOr<JsonValue> json = ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (!json.ok()) return absl::InvalidArgumentError(absl::StrCat(Abseil(name), ": ", json.status().message()));
  if (json->AsObject() == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(Abseil(name), ": expected a JSON object"));
  return json;
}

// Returns nullopt if the folder has no such file, and an error if it cannot be used.
absl::StatusOr<std::optional<importing::FileBytes>> FindFile(const importing::ExternalFiles& files,
                                                             std::string_view name) {
  absl::StatusOr<importing::FileBytes> file = files(name);
  if (absl::IsNotFound(file.status())) return std::nullopt;
  RVM_RETURN_IF_ERROR(file.status());
  return *std::move(file);
}

absl::Status AddShard(const std::string& name, const importing::ExternalFiles& files, StoredTensors& tensors) {
  RVM_ASSIGN_OR_RETURN(importing::FileBytes file, files(name));
  absl::StatusOr<std::vector<importing::SafetensorsEntry>> entries = importing::ListSafetensors(file.bytes);
  if (!entries.ok()) return absl::InvalidArgumentError(absl::StrCat(name, ": ", entries.status().message()));
  for (importing::SafetensorsEntry& entry : *entries) {
    if (entry.name.ends_with(kPositionNumbers)) continue;
    // A dtype that .safetensors has not may have the name of a type of blocks, which only GGUF has.
    const bool is_known = importing::SafetensorsDType(entry.type).has_value();
    StoredTensor tensor{.type = is_known ? std::move(entry.type) : absl::StrCat("dtype ", entry.type),
                        .shape = std::move(entry.shape),
                        .data = {entry.elements, file.owner}};
    if (!tensors.emplace(entry.name, std::move(tensor)).second)
      return absl::InvalidArgumentError(absl::StrCat(name, ": tensor `", entry.name, "` is in another file, too"));
  }
  return absl::OkStatus();
}

// Returns the files that the index names, each once.
absl::StatusOr<std::vector<std::string>> ShardsOf(const importing::ExternalFiles& files) {
  RVM_ASSIGN_OR_RETURN(std::optional<importing::FileBytes> single, FindFile(files, kWeights));
  if (single) return std::vector<std::string>{std::string(kWeights)};
  RVM_ASSIGN_OR_RETURN(std::optional<importing::FileBytes> file, FindFile(files, kIndex));
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("expected `", Abseil(kWeights), "` or `", Abseil(kIndex), "` beside it; saw neither"));
  }
  RVM_ASSIGN_OR_RETURN(JsonValue index, ParseObject(kIndex, file->bytes));
  const JsonValue* map = index.Find("weight_map");
  const JsonValue::Object* named = map == nullptr ? nullptr : map->AsObject();
  if (named == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(Abseil(kIndex), ": expected an object `weight_map`"));
  std::vector<std::string> names;
  for (const JsonValue& value : named->values) {
    const std::string* name = value.AsString();
    // A name in the folder itself, so that an index does not lead out of it.
    if (name == nullptr || name->empty() || absl::StrContains(*name, '/') || absl::StartsWith(*name, "."))
      return absl::InvalidArgumentError(
          absl::StrCat(Abseil(kIndex), ": expected names of files in the folder in `weight_map`"));
    names.push_back(*name);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

// Refuses weights that another library has quantised.
void CheckQuantization(const JsonValue& config, Refusals& refusals) {
  const JsonValue* quantization = config.Find("quantization_config");
  if (quantization == nullptr || quantization->is_null()) return;
  Settings own = SettingsOf(*quantization, "config.json, quantization_config", refusals);
  own.Unsupported("quant_method", own.Text("quant_method", "unknown"), "weights that are floats");
}

}  // namespace

absl::StatusOr<ImportedModel> ImportTensors(const JsonValue& config, const JsonValue& generation,
                                            const StoredTensors& tensors, const ImportOptions& options) {
  Refusals refusals;
  CheckQuantization(config, refusals);
  const JsonValue* type = config.Find("model_type");
  if (type != nullptr && type->AsString() != nullptr && IsEncoder(*type->AsString())) {
    if (options.cache_dtype) {
      refusals.Add("caches", options.cache_dtype->ToString(),
                   absl::InvalidArgumentError("an encoder has no caches, whose dtype could be chosen"));
    }
    EncoderConfig encoder = EncoderOfFolder(config, tensors, refusals);
    return BuildModel(ProgramOf(encoder, refusals), tensors, refusals, options);
  }
  if (type != nullptr && type->AsString() != nullptr && IsEncoderDecoder(*type->AsString())) {
    EncoderDecoderConfig both = EncoderDecoderOfFolder(config, generation, tensors, refusals);
    both.cache_dtype = options.cache_dtype.value_or(kFloat32);
    return BuildModel(ProgramOf(both, refusals), tensors, refusals, options);
  }
  DecoderConfig decoder = ConfigOfFolder(config, generation, tensors, refusals);
  decoder.cache_dtype = options.cache_dtype;
  return BuildModel(ProgramOf(decoder, refusals), tensors, refusals, options);
}

absl::StatusOr<ImportedModel> ImportFolder(const importing::FileBytes& file, const ImportOptions& options) {
  RVM_RETURN_IF_ERROR(CheckOptions(options));
  RVM_ASSIGN_OR_RETURN(JsonValue config, ParseObject(kConfig, file.bytes));
  if (options.files == nullptr)
    return absl::InvalidArgumentError("weights lie beside a config.json; this one is in memory");
  JsonValue generation;
  RVM_ASSIGN_OR_RETURN(std::optional<importing::FileBytes> other, FindFile(options.files, kGeneration));
  if (other) {
    RVM_ASSIGN_OR_RETURN(generation, ParseObject(kGeneration, other->bytes));
  }
  RVM_ASSIGN_OR_RETURN(std::vector<std::string> shards, ShardsOf(options.files));
  StoredTensors tensors;
  for (const std::string& shard : shards) RVM_RETURN_IF_ERROR(AddShard(shard, options.files, tensors));
  return ImportTensors(config, generation, tensors, options);
}

absl::StatusOr<ImportedModel> ImportGguf(const importing::FileBytes& file, const ImportOptions& options) {
  RVM_RETURN_IF_ERROR(CheckOptions(options));
  RVM_ASSIGN_OR_RETURN(Gguf gguf, ReadGguf(file));
  Refusals refusals;
  DecoderConfig config = ConfigOfGguf(gguf, refusals);
  config.cache_dtype = options.cache_dtype;
  return BuildModel(ProgramOf(config, refusals), gguf.tensors, refusals, options);
}

}  // namespace rvm::checkpoint
