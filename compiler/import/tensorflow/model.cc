#include "compiler/import/tensorflow/model.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/status_macros.h"
#include "compiler/import/wire_reader.h"

namespace rvm::tensorflow {
namespace {

using importing::Field;
using importing::WireReader;
using importing::WireType;
using enum WireType;

// Returns the last field of that number and type.
std::optional<Field> FindField(Bytes message, uint32_t number, WireType type) {
  WireReader reader(message);
  Field field;
  std::optional<Field> found;
  while (reader.Next(field)) {
    if (field.Is(number, type)) found = field;
  }
  return reader.ok() ? found : std::nullopt;
}

std::string_view TextOf(Bytes message, uint32_t number) {
  const std::optional<Field> field = FindField(message, number, kBytes);
  return field ? field->AsText() : std::string_view();
}

// Calls `add(Bytes)` for each submessage of that number; false if the message is malformed.
template <typename Add>
bool ForEachMessage(Bytes message, uint32_t number, const Add& add) {
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(number, kBytes) && !add(field.bytes)) return false;
  }
  return reader.ok();
}

// An entry of a map from texts to messages.
std::pair<std::string_view, Bytes> EntryOf(Bytes message) {
  const std::optional<Field> value = FindField(message, 2, kBytes);
  return {TextOf(message, 1), value ? value->bytes : Bytes()};
}

// ---- graphs

absl::Status Malformed(std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the file is malformed, or cut off: ", Abseil(what)));
}

// Reads the nodes, which are the fields `number` of a message, and then what their inputs refer to.
absl::Status ReadNodes(Bytes message, uint32_t number, Graph& graph) {
  std::vector<Bytes> messages;
  const bool is_read = ForEachMessage(message, number, [&](Bytes bytes) {
    messages.push_back(bytes);
    std::optional<Node> node = ReadNode(bytes);
    if (node) graph.nodes.push_back(*std::move(node));
    return node.has_value();
  });
  if (!is_read) return Malformed("a node");
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    graph.nodes_by_name.emplace(graph.nodes[i].name, static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    absl::Status status;
    ForEachMessage(messages[i], 3, [&](Bytes input) {
      const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
      const bool is_control = text.starts_with('^');
      const std::optional<Source> source = FindSource(graph, is_control ? text.substr(1) : text);
      // Functions may name their arguments as control inputs.
      if (is_control) {
        if (source && source->node != Source::kNone) graph.nodes[i].controls.push_back(source->node);
        return true;
      }
      if (source) {
        graph.nodes[i].inputs.push_back(*source);
        return true;
      }
      status = absl::InvalidArgumentError(absl::StrCat("node `", Abseil(graph.nodes[i].name), "` has the input `",
                                                       Abseil(text), "`, which no node of its graph gives"));
      return false;
    });
    RVM_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::StatusOr<Graph> ReadFunction(Bytes message) {
  Graph graph;
  const std::optional<Field> signature = FindField(message, 1, kBytes);
  if (!signature) return Malformed("a function without a signature");
  graph.name = TextOf(signature->bytes, 1);
  std::vector<std::string_view> results;
  bool ok = ForEachMessage(signature->bytes, 2, [&](Bytes argument) {
    graph.arguments.push_back(TextOf(argument, 1));
    return true;
  });
  ok = ok && ForEachMessage(signature->bytes, 3, [&](Bytes result) {
         results.push_back(TextOf(result, 1));
         return true;
       });
  absl::flat_hash_map<std::string_view, std::string_view> sources, controls;
  auto read_entries = [&](uint32_t number, absl::flat_hash_map<std::string_view, std::string_view>& entries) {
    return ForEachMessage(message, number, [&](Bytes entry) {
      const auto [name, value] = EntryOf(entry);
      entries[name] = std::string_view(reinterpret_cast<const char*>(value.data()), value.size());
      return true;
    });
  };
  ok = ok && read_entries(4, sources) && read_entries(6, controls);
  if (!ok) return Malformed("a function");
  RVM_RETURN_IF_ERROR(ReadNodes(message, 3, graph));
  for (std::string_view name : results) {
    const std::optional<Source> source = FindSource(graph, sources[name]);
    if (!source) {
      return absl::InvalidArgumentError(
          absl::StrCat("function `", Abseil(graph.name), "` has the result `", Abseil(name), "`, which no node gives"));
    }
    graph.results.push_back(*source);
  }
  for (const auto& [name, node] : controls) {
    auto found = graph.nodes_by_name.find(node);
    if (found != graph.nodes_by_name.end()) graph.controls.push_back(found->second);
  }
  std::sort(graph.controls.begin(), graph.controls.end());
  return graph;
}

absl::Status ReadGraph(Bytes message, Model& model) {
  RVM_RETURN_IF_ERROR(ReadNodes(message, 1, model.graph));
  absl::Status status;
  const std::optional<Field> library = FindField(message, 2, kBytes);
  if (!library) return absl::OkStatus();
  const bool ok = ForEachMessage(library->bytes, 1, [&](Bytes function) {
    absl::StatusOr<Graph> graph = ReadFunction(function);
    status = graph.status();
    if (graph.ok()) model.functions[graph->name] = *std::move(graph);
    return status.ok();
  });
  RVM_RETURN_IF_ERROR(status);
  return ok ? absl::OkStatus() : Malformed("its functions");
}

// ---- SavedModels

std::vector<Endpoint> ReadEndpoints(Bytes signature, uint32_t number) {
  std::vector<Endpoint> endpoints;
  ForEachMessage(signature, number, [&](Bytes entry) {
    const auto [name, info] = EntryOf(entry);
    endpoints.push_back({name, TextOf(info, 1)});
    return true;
  });
  // Maps have no order: programs that write them differ.
  std::ranges::sort(endpoints, {}, &Endpoint::name);
  return endpoints;
}

bool Serves(Bytes meta_graph) {
  const std::optional<Field> info = FindField(meta_graph, 1, kBytes);
  bool serves = false;
  if (!info) return false;
  ForEachMessage(info->bytes, 4, [&](Bytes tag) {
    serves = serves || std::string_view(reinterpret_cast<const char*>(tag.data()), tag.size()) == "serve";
    return true;
  });
  return serves;
}

absl::StatusOr<Model> ReadSavedModel(Bytes bytes) {
  std::optional<Bytes> chosen;
  const bool ok = ForEachMessage(bytes, 2, [&](Bytes meta_graph) {
    if (!chosen || (!Serves(*chosen) && Serves(meta_graph))) chosen = meta_graph;
    return true;
  });
  if (!ok || !chosen) return Malformed("a SavedModel without a graph");
  Model model{.is_saved_model = true};
  const std::optional<Field> graph = FindField(*chosen, 2, kBytes);
  if (!graph) return Malformed("a SavedModel without a graph");
  RVM_RETURN_IF_ERROR(ReadGraph(graph->bytes, model));
  const bool is_read = ForEachMessage(*chosen, 5, [&](Bytes entry) {
    const auto [name, signature] = EntryOf(entry);
    model.signatures.push_back({name, ReadEndpoints(signature, 1), ReadEndpoints(signature, 2)});
    return true;
  });
  if (!is_read) return Malformed("its signatures");
  if (const std::optional<Field> objects = FindField(*chosen, 7, kBytes)) model.objects = objects->bytes;
  std::ranges::sort(model.signatures, {}, &Signature::name);
  return model;
}

}  // namespace

std::optional<Source> FindSource(const Graph& graph, std::string_view text) {
  Source source;
  const size_t first = text.find(':'), last = text.rfind(':');
  const std::string_view name = text.substr(0, first);
  if (first != std::string_view::npos) {
    const std::string_view number = text.substr(last + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), source.index);
    if (error != std::errc() || end != number.data() + number.size() || source.index < 0) return std::nullopt;
    if (last != first) source.output = text.substr(first + 1, last - first - 1);
  }
  const auto argument = std::ranges::find(graph.arguments, name);
  if (argument != graph.arguments.end()) {
    source.argument = static_cast<int32_t>(argument - graph.arguments.begin());
    return source;
  }
  auto node = graph.nodes_by_name.find(name);
  if (node == graph.nodes_by_name.end()) return std::nullopt;
  source.node = node->second;
  return source;
}

absl::StatusOr<Model> ReadModel(Bytes bytes) {
  // A SavedModel begins with the number of its version; a GraphDef has no number there.
  WireReader reader(bytes);
  Field field;
  if (!reader.Next(field)) return Malformed("no field");
  if (field.Is(1, kVarint)) return ReadSavedModel(bytes);
  Model model;
  RVM_RETURN_IF_ERROR(ReadGraph(bytes, model));
  if (model.graph.nodes.empty()) {
    return absl::InvalidArgumentError("it is no SavedModel and no GraphDef of TensorFlow: it has no nodes");
  }
  return model;
}

// ---- attributes

std::optional<Node> ReadNode(Bytes message) {
  Node node;
  WireReader reader(message);
  Field field;
  while (reader.Next(field)) {
    if (field.Is(1, kBytes)) node.name = field.AsText();
    if (field.Is(2, kBytes)) node.op = field.AsText();
    if (field.Is(5, kBytes)) node.attrs.push_back(EntryOf(field.bytes));
  }
  return reader.ok() ? std::optional(std::move(node)) : std::nullopt;
}

bool Node::Has(std::string_view name) const {
  return std::ranges::any_of(attrs, [&](const auto& attr) { return attr.first == name; });
}

Attr Node::attr(std::string_view name) const {
  for (const auto& [own, value] : attrs) {
    if (own == name) return Attr(value);
  }
  return Attr();
}

std::optional<int64_t> Attr::Int() const {
  // A condition is a number, too.
  for (uint32_t number : {3u, 5u}) {
    if (std::optional<Field> field = FindField(message_, number, kVarint)) return field->AsInt();
  }
  return std::nullopt;
}
std::optional<float> Attr::Float() const {
  const std::optional<Field> field = FindField(message_, 4, kFixed32);
  return field ? std::optional(field->AsFloat()) : std::nullopt;
}
std::optional<std::string_view> Attr::Text() const {
  const std::optional<Field> field = FindField(message_, 2, kBytes);
  return field ? std::optional(field->AsText()) : std::nullopt;
}
std::optional<uint64_t> Attr::Type() const {
  const std::optional<Field> field = FindField(message_, 6, kVarint);
  return field ? std::optional(field->value) : std::nullopt;
}
std::optional<Bytes> Attr::Tensor() const {
  const std::optional<Field> field = FindField(message_, 8, kBytes);
  return field ? std::optional(field->bytes) : std::nullopt;
}
std::optional<Bytes> Attr::Shape() const {
  const std::optional<Field> field = FindField(message_, 7, kBytes);
  return field ? std::optional(field->bytes) : std::nullopt;
}
std::string_view Attr::Function() const {
  const std::optional<Field> field = FindField(message_, 10, kBytes);
  return field ? TextOf(field->bytes, 1) : std::string_view();
}
std::vector<int64_t> Attr::Ints() const {
  std::vector<int64_t> values;
  const std::optional<Field> list = FindField(message_, 1, kBytes);
  WireReader reader(list ? list->bytes : Bytes());
  Field field;
  while (reader.Next(field)) {
    if (field.number != 3 || (field.type != kVarint && field.type != kBytes)) continue;
    ForEachNumber(field, 0, [&](uint64_t value) { values.push_back(static_cast<int64_t>(value)); });
  }
  return values;
}
std::vector<float> Attr::Floats() const {
  std::vector<float> values;
  const std::optional<Field> list = FindField(message_, 1, kBytes);
  WireReader reader(list ? list->bytes : Bytes());
  Field field;
  while (reader.Next(field)) {
    if (field.number != 4 || (field.type != kFixed32 && field.type != kBytes)) continue;
    ForEachNumber(field, 4, [&](uint64_t value) { values.push_back(Field{.value = value}.AsFloat()); });
  }
  return values;
}
std::vector<std::string_view> Attr::Functions() const {
  std::vector<std::string_view> names;
  const std::optional<Field> list = FindField(message_, 1, kBytes);
  ForEachMessage(list ? list->bytes : Bytes(), 9, [&](Bytes function) {
    names.push_back(TextOf(function, 1));
    return true;
  });
  return names;
}

}  // namespace rvm::tensorflow
