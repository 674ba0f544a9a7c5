// Parts of reading a config.json that configurations of all kinds of models have in common.
#ifndef RVM_COMPILER_IMPORT_CHECKPOINT_FOLDER_SETTINGS_H_
#define RVM_COMPILER_IMPORT_CHECKPOINT_FOLDER_SETTINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "compiler/import/checkpoint/settings.h"
#include "compiler/import/checkpoint/stored_tensor.h"
#include "compiler/import/refusals.h"

namespace rvm::checkpoint {

inline constexpr std::string_view kConfigFile = "config.json";

// Returns the settings of an object, which must outlive them. `file` names it in messages.
Settings SettingsOf(const JsonValue& json, std::string file, importing::Refusals& refusals);
// Returns the activation of that name as a Relay expression of `$`; empty: unknown.
std::string ActivationOf(std::string_view name);
// Returns the activation that a setting names as a Relay expression of `$`. Refuses an unknown one.
std::string ReadActivation(Settings& settings, std::string_view key, std::string_view otherwise);
// Returns the tokens of a setting, one or an array of them, in the first of both files that has some; none if neither
// does.
std::vector<int64_t> FirstTokens(const JsonValue& generation, const JsonValue& json, std::string_view name);
// Returns `prefix`, or "" if the tensor `name` is there without it.
std::string PrefixOf(const StoredTensors& tensors, std::string_view prefix, std::string_view name);

}  // namespace rvm::checkpoint

#endif  // RVM_COMPILER_IMPORT_CHECKPOINT_FOLDER_SETTINGS_H_
