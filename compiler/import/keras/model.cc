#include "compiler/import/keras/model.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"

namespace rvm::keras {
namespace {

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("its config is malformed: ", Abseil(what)));
}

bool IsLower(char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); }
bool IsUpper(char c) { return absl::ascii_isupper(static_cast<unsigned char>(c)); }

// Returns "conv2d_transpose" for "Conv2DTranspose".
std::string SnakeCase(std::string_view kind) {
  if (kind == "GroupQueryAttention") kind = "GroupedQueryAttention";  // its class has another name than the layer
  // A capital letter and those that follow it are a word, then each capital behind another letter begins one.
  std::string words, result;
  for (size_t i = 0; i < kind.size();) {
    words += kind[i++];
    if (i + 1 >= kind.size() || !IsUpper(kind[i]) || !IsLower(kind[i + 1])) continue;
    words += '_';
    words += kind[i++];
    while (i < kind.size() && IsLower(kind[i])) words += kind[i++];
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && IsUpper(words[i]) && IsLower(words[i - 1])) result += '_';
    result += words[i];
  }
  return absl::AsciiStrToLower(result);
}

// Reads [layer, call, result], and what follows.
std::optional<TensorRef> ReadRef(const JsonValue& json) {
  const JsonValue::Array* items = json.AsArray();
  if (items == nullptr || items->size() < 3) return std::nullopt;
  const std::string* layer = (*items)[0].AsString();
  const int64_t *call = (*items)[1].AsInt(), *result = (*items)[2].AsInt();
  if (layer == nullptr || call == nullptr || result == nullptr || *call < 0 || *result < 0) return std::nullopt;
  return TensorRef{*layer, *call, *result};
}

// Collects the references of a structure of lists and dictionaries of them.
absl::Status ReadRefs(const JsonValue& json, std::vector<TensorRef>& refs) {
  if (std::optional<TensorRef> ref = ReadRef(json)) {
    refs.push_back(*std::move(ref));
    return absl::OkStatus();
  }
  const JsonValue::Array* items = json.AsArray();
  if (const JsonValue::Object* object = json.AsObject()) items = &object->values;
  if (items == nullptr) return Malformed("an input or output of a model is no tensor");
  for (const JsonValue& item : *items) RVM_RETURN_IF_ERROR(ReadRefs(item, refs));
  return absl::OkStatus();
}

// Reads a tensor of Keras 3: {"class_name": "__keras_tensor__", "config": {"keras_history": [layer, call, result]}}.
std::optional<TensorRef> ReadTensor(const JsonValue& json) {
  if (TextOf(&json, "class_name", "") != "__keras_tensor__") return std::nullopt;
  const JsonValue* history = Member(Member(&json, "config"), "keras_history");
  return history == nullptr ? std::nullopt : ReadRef(*history);
}

// Adds the tensors of an argument; returns false if there are none.
bool AddTensors(const JsonValue& json, Argument& argument) {
  if (std::optional<TensorRef> ref = ReadTensor(json)) {
    argument.tensors.push_back(std::move(ref));
    return true;
  }
  const JsonValue::Array* items = json.AsArray();
  if (const JsonValue* tuple = Member(&json, "items")) items = tuple->AsArray();
  if (const JsonValue::Object* object = json.AsObject(); items == nullptr && object != nullptr) {
    items = &object->values;
  }
  if (items == nullptr) return false;
  bool has_tensors = false;
  for (const JsonValue& item : *items) {
    if (AddTensors(item, argument)) {
      has_tensors = true;
    } else {
      argument.tensors.emplace_back(std::nullopt);
    }
  }
  return has_tensors;
}

Argument ReadArgument(std::string keyword, const JsonValue& json) {
  Argument argument{.keyword = std::move(keyword), .value = &json};
  if (!AddTensors(json, argument)) argument.tensors.clear();
  return argument;
}

// Reads {"args": [...], "kwargs": {...}}.
Call ReadCall(const JsonValue& json) {
  Call call;
  const JsonValue *args = Member(&json, "args"), *kwargs = Member(&json, "kwargs");
  if (const JsonValue::Array* items = args == nullptr ? nullptr : args->AsArray()) {
    for (const JsonValue& item : *items) call.push_back(ReadArgument("", item));
  }
  if (const JsonValue::Object* items = kwargs == nullptr ? nullptr : kwargs->AsObject()) {
    for (size_t i = 0; i < items->keys.size(); ++i) call.push_back(ReadArgument(items->keys[i], items->values[i]));
  }
  return call;
}

// Reads a call of Keras 2: [[layer, call, result, {keyword: value}], ...], whose first argument is that tensor or the
// list of them. A keyword's value is a tensor where it is [layer, call, result] with the name of a layer.
absl::StatusOr<Call> ReadOldCall(std::span<const JsonValue> inputs, const Graph& graph) {
  Call call(1);
  for (const JsonValue& input : inputs) {
    std::optional<TensorRef> ref = ReadRef(input);
    if (!ref) return Malformed("an inbound node is neither a call nor a list of tensors");
    call[0].tensors.push_back(std::move(ref));
    const JsonValue::Array& items = *input.AsArray();
    const JsonValue::Object* keywords = items.size() > 3 ? items[3].AsObject() : nullptr;
    for (size_t i = 0; keywords != nullptr && i < keywords->keys.size(); ++i) {
      Argument argument{.keyword = keywords->keys[i], .value = &keywords->values[i]};
      std::vector<TensorRef> refs;
      if (ReadRefs(keywords->values[i], refs).ok()) {
        for (TensorRef& one : refs) {
          if (graph.numbers.contains(one.layer)) argument.tensors.emplace_back(std::move(one));
        }
      }
      call.push_back(std::move(argument));
    }
  }
  return call;
}

absl::Status ReadCalls(const JsonValue& json, const Graph& graph, Layer& layer) {
  const JsonValue* nodes = Member(&json, "inbound_nodes");
  const JsonValue::Array* items = nodes == nullptr ? nullptr : nodes->AsArray();
  if (items == nullptr) return Malformed(absl::StrCat("layer `", layer.name, "` has no list of inbound nodes"));
  for (const JsonValue& item : *items) {
    if (const JsonValue::Array* inputs = item.AsArray()) {
      // One tensor may stand alone.
      RVM_ASSIGN_OR_RETURN(Call call, ReadOldCall(ReadRef(item) ? std::span(&item, 1) : std::span(*inputs), graph));
      layer.calls.push_back(std::move(call));
    } else {
      layer.calls.push_back(ReadCall(item));
    }
  }
  return absl::OkStatus();
}

absl::Status NumberLayers(Graph& graph) {
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    if (graph.numbers.try_emplace(graph.layers[i].name, i).second) continue;
    return Malformed(absl::StrCat("two layers have the name `", graph.layers[i].name, "`"));
  }
  return absl::OkStatus();
}

// Makes the calls of models count from 0. Functional models count from 1: their first call is that which made them.
void CountCallsFromZero(Graph& graph) {
  absl::flat_hash_map<std::string, int64_t> most;
  auto visit = [&](auto visitor) {
    for (TensorRef& ref : graph.outputs) visitor(ref);
    for (Layer& layer : graph.layers) {
      for (Call& call : layer.calls) {
        for (Argument& argument : call) {
          for (std::optional<TensorRef>& ref : argument.tensors) {
            if (ref) visitor(*ref);
          }
        }
      }
    }
  };
  visit([&](const TensorRef& ref) { most[ref.layer] = std::max(most[ref.layer], ref.call); });
  visit([&](TensorRef& ref) {
    const auto number = graph.numbers.find(ref.layer);
    if (number == graph.numbers.end()) return;
    const Layer& layer = graph.layers[number->second];
    if (layer.graph != nullptr && ref.call > 0 && most[ref.layer] == static_cast<int64_t>(layer.calls.size())) {
      --ref.call;
    }
  });
}

// Calls each layer of a Sequential model with the result of the one before.
absl::Status ChainLayers(const JsonValue& config, Graph& graph) {
  graph.input_shape = Member(&config, "build_input_shape");
  if (!graph.layers.empty() && !graph.layers[0].is_input()) {
    if (const JsonValue* shape = Member(graph.layers[0].config, "batch_input_shape")) graph.input_shape = shape;
    Layer input{.kind = "InputLayer", .config = graph.layers[0].config};
    input.name = absl::StrCat(graph.layers[0].name, "_input");
    graph.layers.insert(graph.layers.begin(), std::move(input));
  }
  if (graph.layers.empty()) return Malformed("a Sequential model has no layers");
  for (size_t i = 1; i < graph.layers.size(); ++i) {
    Argument argument;
    argument.tensors.emplace_back(TensorRef{graph.layers[i - 1].name});
    graph.layers[i].calls.push_back({std::move(argument)});
  }
  graph.inputs.push_back({graph.layers.front().name});
  graph.outputs.push_back({graph.layers.back().name});
  return NumberLayers(graph);
}

// Returns true for a function of keras.ops. Older files do not say the module; they have a config with a name and the
// function's own arguments.
bool IsOperation(const JsonValue& json) {
  const std::string module = TextOf(&json, "module", ""), kind = TextOf(&json, "class_name", "");
  if (!module.empty()) {
    return absl::StartsWith(module, "keras.src.ops") || absl::StartsWith(module, "keras.src.activations");
  }
  const JsonValue* config = Member(&json, "config");
  if (config == nullptr || config->AsObject() == nullptr || Member(&json, "inbound_nodes") == nullptr) return false;
  for (std::string_view member : {"trainable", "dtype", "layers", "batch_shape", "batch_input_shape"}) {
    if (config->Find(member) != nullptr) return false;
  }
  return true;
}

// Reads the layers of a list; their weights have paths below `path`.
absl::StatusOr<std::vector<Layer>> ReadLayers(const JsonValue& list, std::string_view path) {
  std::vector<Layer> layers;
  absl::flat_hash_map<std::string, int> used;
  const JsonValue::Array* items = list.AsArray();
  if (items == nullptr) return Malformed("layers are no list");
  for (const JsonValue& item : *items) {
    // Operations have no weights, and take no names away.
    const std::string kind = TextOf(&item, "class_name", "");
    const std::string own = IsOperation(item) ? SnakeCase(kind) : NameOfWeights(kind, used);
    RVM_ASSIGN_OR_RETURN(Layer layer, ReadLayer(item, absl::StrCat(Abseil(path), "/", own)));
    layers.push_back(std::move(layer));
  }
  return layers;
}

absl::Status ReadGraph(const JsonValue& config, bool is_sequential, std::string_view path, Graph& graph) {
  const JsonValue* layers = Member(&config, "layers");
  if (layers == nullptr && is_sequential) layers = &config;  // Keras 2.0: the list alone
  if (layers == nullptr) return Malformed("a model has no layers");
  RVM_ASSIGN_OR_RETURN(graph.layers,
                       ReadLayers(*layers, absl::StrCat(Abseil(path), path.empty() ? "" : "/", "layers")));
  if (is_sequential) return ChainLayers(config, graph);
  RVM_RETURN_IF_ERROR(NumberLayers(graph));
  for (size_t i = 0; i < graph.layers.size(); ++i) {
    RVM_RETURN_IF_ERROR(ReadCalls((*layers->AsArray())[i], graph, graph.layers[i]));
  }
  const JsonValue *inputs = Member(&config, "input_layers"), *outputs = Member(&config, "output_layers");
  if (inputs == nullptr || outputs == nullptr) return Malformed("a model has no inputs or no outputs");
  RVM_RETURN_IF_ERROR(ReadRefs(*inputs, graph.inputs));
  RVM_RETURN_IF_ERROR(ReadRefs(*outputs, graph.outputs));
  CountCallsFromZero(graph);
  return absl::OkStatus();
}

// Returns true for a class that is not part of Keras. Keras 2 writes "Package>Class" for classes that were registered.
bool IsCustom(const JsonValue& json) {
  const std::string module = TextOf(&json, "module", "");
  if (absl::StrContains(TextOf(&json, "registered_name", ""), ">")) return true;
  if (absl::StrContains(TextOf(&json, "class_name", ""), ">")) return true;
  return !module.empty() && module != "keras" && !absl::StartsWith(module, "keras.") &&
         !absl::StartsWith(module, "tf_keras.");
}

}  // namespace

const JsonValue* Member(const JsonValue* config, std::string_view name) {
  const JsonValue* member = config == nullptr ? nullptr : config->Find(name);
  return member == nullptr || member->is_null() ? nullptr : member;
}

bool BoolOf(const JsonValue* config, std::string_view name, bool otherwise) {
  const JsonValue* member = Member(config, name);
  return member == nullptr || member->AsBool() == nullptr ? otherwise : *member->AsBool();
}

std::string TextOf(const JsonValue* config, std::string_view name, std::string_view otherwise) {
  const JsonValue* member = Member(config, name);
  return member == nullptr || member->AsString() == nullptr ? std::string(otherwise) : *member->AsString();
}

std::string NameOfWeights(std::string_view kind, absl::flat_hash_map<std::string, int>& used) {
  std::string name = SnakeCase(kind);
  if (const int before = used[name]++; before > 0) absl::StrAppend(&name, "_", before);
  return name;
}

absl::StatusOr<Layer> ReadLayer(const JsonValue& json, std::string path) {
  Layer layer;
  layer.kind = TextOf(&json, "class_name", "");
  // Files have the name of the layer or that of its class.
  if (layer.kind == "GroupedQueryAttention") layer.kind = "GroupQueryAttention";
  layer.config = Member(&json, "config");
  const bool is_sequential = layer.kind == "Sequential";  // in Keras 2.0 its config is a list
  const bool has_config = layer.config != nullptr && (is_sequential || layer.config->AsObject() != nullptr);
  if (layer.kind.empty() || !has_config) return Malformed("a layer has no class or no config");
  layer.name = TextOf(layer.config, "name", TextOf(&json, "name", ""));
  layer.is_operation = IsOperation(json);
  layer.is_custom = IsCustom(json);
  layer.path = std::move(path);
  if (!is_sequential && layer.kind != "Functional" && layer.kind != "Model") return layer;
  if (layer.kind == "Model" && Member(layer.config, "layers") == nullptr) return layer;
  layer.graph = std::make_unique<Graph>();
  RVM_RETURN_IF_ERROR(ReadGraph(*layer.config, is_sequential, layer.path, *layer.graph));
  return layer;
}

}  // namespace rvm::keras
