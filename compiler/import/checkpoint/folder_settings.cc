#include "compiler/import/checkpoint/folder_settings.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::checkpoint {
namespace {

Setting SettingOf(const JsonValue* json) {
  if (json == nullptr) return {};
  if (const bool* flag = json->AsBool()) return *flag;
  if (const int64_t* number = json->AsInt()) return *number;
  if (const double* number = json->AsDouble()) return *number;
  if (const std::string* text = json->AsString()) return *text;
  return {};
}

// Returns the tokens of a setting that has one or an array of them; none if it is missing.
std::vector<int64_t> TokensOf(const JsonValue& json, std::string_view name) {
  std::vector<int64_t> tokens;
  const JsonValue* setting = json.Find(name);
  if (setting == nullptr) return tokens;
  if (setting->AsInt() != nullptr) tokens.push_back(*setting->AsInt());
  for (const JsonValue& one : setting->AsArray() == nullptr ? JsonValue::Array() : *setting->AsArray()) {
    if (one.AsInt() != nullptr) tokens.push_back(*one.AsInt());
  }
  return tokens;
}

}  // namespace

Settings SettingsOf(const JsonValue& json, std::string file, importing::Refusals& refusals) {
  return Settings(std::move(file), [&json](std::string_view name) { return SettingOf(json.Find(name)); }, refusals);
}

std::string ActivationOf(std::string_view name) {
  if (name == "silu" || name == "swish") return "nn.silu($)";
  if (name == "gelu") return "nn.gelu($)";
  if (name == "relu") return "nn.relu($)";
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return "nn.gelu($, approximate=\"tanh\")";
  }
  return "";
}

std::string ReadActivation(Settings& settings, std::string_view key, std::string_view otherwise) {
  std::string name = settings.Text(key, otherwise);
  std::string activation = ActivationOf(name);
  if (activation.empty()) settings.Unsupported(key, name, "`silu`, `gelu`, `gelu_new`, `gelu_pytorch_tanh` or `relu`");
  return activation;
}

std::vector<int64_t> FirstTokens(const JsonValue& generation, const JsonValue& json, std::string_view name) {
  std::vector<int64_t> tokens = TokensOf(generation, name);
  return tokens.empty() ? TokensOf(json, name) : tokens;
}

std::string PrefixOf(const StoredTensors& tensors, std::string_view prefix, std::string_view name) {
  return tensors.contains(absl::StrCat(Abseil(prefix), Abseil(name))) || !tensors.contains(name) ? std::string(prefix)
                                                                                                 : std::string();
}

}  // namespace rvm::checkpoint
