#include "integrations/triton/model_config.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/abseil.h"
#include "base/json_writer.h"
#include "base/status_macros.h"

namespace rvm::triton {
namespace {

constexpr std::string_view kKeyPrefix = "relayvm-public-key ";

absl::Status WrongParameter(std::string_view name, std::string_view value, std::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameter `", Abseil(name), "`: saw `", Abseil(value), "`; expected ", Abseil(expected)));
}

absl::Status ReadInt(std::string_view name, const std::string& value, int64_t most, int64_t& out) {
  if (absl::SimpleAtoi(value, &out) && out >= 1 && out <= most) return absl::OkStatus();
  return WrongParameter(name, value, absl::StrCat("a number from 1 to ", most));
}

absl::Status ReadTime(std::string_view name, const std::string& value, double& out) {
  if (absl::SimpleAtod(value, &out) && out > 0 && out < 1e12) return absl::OkStatus();
  return WrongParameter(name, value, "a positive number of milliseconds");
}

// Reads the texts of key files, with commas between them.
absl::Status ReadKeys(std::string_view name, const std::string& value, std::vector<std::array<uint8_t, 32>>& out) {
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(value, ','))) {
    std::string text(absl::StripAsciiWhitespace(part));
    bool is_key = text.starts_with(kKeyPrefix) && text.size() == kKeyPrefix.size() + 64;
    std::string_view digits = is_key ? std::string_view(text).substr(kKeyPrefix.size()) : std::string_view();
    if (!is_key || !std::all_of(digits.begin(), digits.end(), absl::ascii_isxdigit)) {
      return WrongParameter(name, text, "the line of a .pub file, several between commas");
    }
    std::string bytes = absl::HexStringToBytes(Abseil(digits));
    std::copy(bytes.begin(), bytes.end(), out.emplace_back().begin());
  }
  return absl::OkStatus();
}

absl::Status ReadParameter(const std::string& name, const std::string& value, ModelParameters& out) {
  constexpr int64_t kMaxInt = std::numeric_limits<int64_t>::max();
  if (name == "lanes") return ReadInt(name, value, 1024, out.lanes);
  if (name == "threads") return ReadInt(name, value, 1024, out.threads);
  if (name == "fuel") return ReadInt(name, value, kMaxInt, out.fuel);
  if (name == "memory_limit") return ReadInt(name, value, kMaxInt, out.memory_limit);
  if (name == "time_limit_ms") return ReadTime(name, value, out.time_limit_ms);
  if (name == "trusted_keys") return ReadKeys(name, value, out.trusted_keys);
  if (name == "entry") {
    out.entry = value;
  } else if (name == "device") {
    out.device = value;
  } else if (!name.starts_with("TRITON_")) {  // those are the server's own
    return absl::InvalidArgumentError(
        absl::StrCat("parameter `", name,
                     "` is unknown; expected device, entry, fuel, lanes, memory_limit, threads, time_limit_ms or "
                     "trusted_keys"));
  }
  return absl::OkStatus();
}

JsonValue* FindMember(JsonValue& object, std::string_view key) {
  return const_cast<JsonValue*>(std::as_const(object).Find(key));
}

int64_t MaxBatchSize(const JsonValue& config) {
  const JsonValue* size = config.Find("max_batch_size");
  return size == nullptr || size->AsInt() == nullptr ? 0 : *size->AsInt();
}

// Returns the extents that a configuration lists.
absl::StatusOr<std::vector<int64_t>> ConfigDims(const TensorForm& form, int64_t max_batch_size) {
  if (max_batch_size <= 0) return form.dims;
  if (form.kind != TensorForm::kTensor || form.dims[0] != -1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_batch_size is ", max_batch_size, ", but `", form.name,
        "` has no extent for a batch: expected a tensor whose first extent is not fixed. Leave max_batch_size out: "
        "requests run together in lanes"));
  }
  return std::vector<int64_t>(form.dims.begin() + 1, form.dims.end());
}

JsonValue Text(std::string_view text) { return {std::string(text)}; }

absl::StatusOr<JsonValue> ConfigTensor(const TensorForm& form, int64_t max_batch_size) {
  RVM_ASSIGN_OR_RETURN(std::vector<int64_t> dims, ConfigDims(form, max_batch_size));
  JsonValue::Object tensor = {.keys = {"name", "data_type", "dims"}};
  // A configuration lists one extent at least; `reshape` takes it away again.
  JsonValue::Array extents;
  if (dims.empty()) extents.push_back({int64_t{1}});
  for (int64_t dim : dims) extents.push_back({dim});
  tensor.values = {Text(form.name), Text(form.element->config), {std::move(extents)}};
  if (dims.empty()) {
    tensor.keys.push_back("reshape");
    tensor.values.push_back({JsonValue::Object{.keys = {"shape"}, .values = {{JsonValue::Array()}}}});
  }
  return JsonValue{std::move(tensor)};
}

absl::Status Complete(JsonValue& config, std::string_view key, const std::vector<TensorForm>& forms) {
  JsonValue* member = FindMember(config, key);
  if (member != nullptr && member->AsArray() != nullptr && !member->AsArray()->empty()) return absl::OkStatus();
  JsonValue::Array tensors;
  for (const TensorForm& form : forms) {
    RVM_ASSIGN_OR_RETURN(JsonValue tensor, ConfigTensor(form, MaxBatchSize(config)));
    tensors.push_back(std::move(tensor));
  }
  if (member == nullptr) {
    auto& object = std::get<JsonValue::Object>(config.value);
    object.keys.emplace_back(key);
    member = &object.values.emplace_back();
  }
  member->value = std::move(tensors);
  return absl::OkStatus();
}

std::string StringMember(const JsonValue& object, std::string_view key) {
  const JsonValue* member = object.Find(key);
  return member == nullptr || member->AsString() == nullptr ? "" : *member->AsString();
}

// Checks the tensors of a configuration; returns their names.
absl::StatusOr<std::vector<std::string>> CheckTensors(const JsonValue& config, std::string_view key,
                                                      const std::vector<TensorForm>& forms) {
  std::vector<std::string> names, known;
  for (const TensorForm& form : forms) known.push_back(form.name);
  const JsonValue* member = config.Find(key);
  if (member == nullptr || member->AsArray() == nullptr) return names;
  for (const JsonValue& tensor : *member->AsArray()) {
    std::string name = StringMember(tensor, "name"), type = StringMember(tensor, "data_type");
    auto form = std::find_if(forms.begin(), forms.end(), [&](const TensorForm& f) { return f.name == name; });
    if (form == forms.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Abseil(key), " `", name, "` of the configuration: the program's are ", absl::StrJoin(known, ", ")));
    }
    if (type != form->element->config) {
      return absl::InvalidArgumentError(absl::StrCat(Abseil(key), " `", name, "` of the configuration: saw ", type,
                                                     "; expected ", Abseil(form->element->config)));
    }
    RVM_RETURN_IF_ERROR(ConfigDims(*form, MaxBatchSize(config)).status());
    names.push_back(name);
  }
  return names;
}

void Write(JsonWriter& json, const JsonValue& value) {
  if (value.is_null()) json.Null();
  if (const bool* flag = value.AsBool()) json.Bool(*flag);
  if (const int64_t* number = value.AsInt()) json.Int(*number);
  if (const double* number = value.AsDouble()) json.Exact(*number);
  if (const std::string* text = value.AsString()) json.String(*text);
  if (const JsonValue::Array* items = value.AsArray()) {
    json.BeginArray();
    for (const JsonValue& item : *items) Write(json, item);
    json.EndArray();
  }
  if (const JsonValue::Object* object = value.AsObject()) {
    json.BeginObject();
    for (size_t i = 0; i < object->keys.size(); ++i) Write(json.Key(object->keys[i]), object->values[i]);
    json.EndObject();
  }
}

}  // namespace

absl::StatusOr<ModelParameters> ReadParameters(const JsonValue& config) {
  ModelParameters out;
  const JsonValue* parameters = config.Find("parameters");
  const JsonValue::Object* object = parameters == nullptr ? nullptr : parameters->AsObject();
  if (object == nullptr) return out;
  for (size_t i = 0; i < object->keys.size(); ++i) {
    RVM_RETURN_IF_ERROR(ReadParameter(object->keys[i], StringMember(object->values[i], "string_value"), out));
  }
  return out;
}

absl::Status CompleteConfig(JsonValue& config, const EntryForms& forms) {
  if (config.AsObject() == nullptr) return absl::InternalError("the configuration is no JSON object");
  RVM_RETURN_IF_ERROR(Complete(config, "input", forms.inputs));
  return Complete(config, "output", forms.outputs);
}

absl::Status CheckConfig(const JsonValue& config, const EntryForms& forms) {
  RVM_ASSIGN_OR_RETURN(std::vector<std::string> inputs, CheckTensors(config, "input", forms.inputs));
  RVM_RETURN_IF_ERROR(CheckTensors(config, "output", forms.outputs).status());
  for (const TensorForm& form : forms.inputs) {
    if (std::find(inputs.begin(), inputs.end(), form.name) == inputs.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the configuration has no input `", form.name,
                                                     "`, which the program takes; expected all inputs, or none"));
    }
  }
  return absl::OkStatus();
}

std::string JsonText(const JsonValue& value) {
  JsonWriter json;
  Write(json, value);
  return json.TakeText();
}

}  // namespace rvm::triton
