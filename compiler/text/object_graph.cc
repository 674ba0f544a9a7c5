#include "compiler/text/object_graph.h"

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "base/tensor_blob.h"
#include "compiler/text/base64.h"

namespace rvm::text {
namespace {

const JsonValue::Array* ArrayOf(const JsonValue* value) { return value == nullptr ? nullptr : value->AsArray(); }

}  // namespace

absl::StatusOr<ObjectGraph> ObjectGraph::Parse(std::string_view json) {
  ObjectGraph graph;
  RVM_ASSIGN_OR_RETURN(graph.json_, ParseJson(json));
  if (ArrayOf(graph.json_.Find("nodes")) == nullptr) return absl::InvalidArgumentError("it has no list `nodes`");
  const JsonValue* root = graph.json_.Find("root");
  if (root != nullptr && root->AsInt() != nullptr) graph.root_ = *root->AsInt();
  if (graph.Find(graph.root_, "type_key") == nullptr) {
    return absl::InvalidArgumentError("its `root` is not the index of a node");
  }
  return graph;
}

const JsonValue* ObjectGraph::Find(NodeId node, std::string_view member) const {
  const JsonValue::Array& nodes = *json_.Find("nodes")->AsArray();
  return node < 0 || node >= static_cast<NodeId>(nodes.size()) ? nullptr
                                                               : nodes[static_cast<size_t>(node)].Find(member);
}

std::string_view ObjectGraph::TypeKey(NodeId node) const {
  const JsonValue* key = Find(node, "type_key");
  return key == nullptr || key->AsString() == nullptr ? std::string_view() : *key->AsString();
}

const std::string* ObjectGraph::Field(NodeId node, std::string_view name) const {
  const JsonValue* fields = Find(node, "attrs");
  const JsonValue* field = fields == nullptr ? nullptr : fields->Find(name);
  return field == nullptr ? nullptr : field->AsString();
}

NodeId ObjectGraph::ToNode(const std::string* index) const {
  NodeId node = kNullNode;
  return index != nullptr && absl::SimpleAtoi(*index, &node) && !TypeKey(node).empty() ? node : kNullNode;
}

std::vector<NodeId> ObjectGraph::Elements(NodeId node) const {
  std::vector<NodeId> elements;
  const JsonValue::Array* data = ArrayOf(Find(node, "data"));
  for (size_t i = 0; data != nullptr && i < data->size(); ++i) {
    const int64_t* index = (*data)[i].AsInt();
    elements.push_back(index == nullptr || TypeKey(*index).empty() ? kNullNode : *index);
  }
  return elements;
}

std::vector<std::pair<std::string, NodeId>> ObjectGraph::Entries(NodeId node) const {
  std::vector<std::pair<std::string, NodeId>> entries;
  const JsonValue::Array* keys = ArrayOf(Find(node, "keys"));
  std::vector<NodeId> values = Elements(node);
  for (size_t i = 0; keys != nullptr && i < keys->size() && i < values.size(); ++i) {
    if (const std::string* key = (*keys)[i].AsString()) entries.emplace_back(*key, values[i]);
  }
  return entries;
}

std::optional<std::string> ObjectGraph::Text(NodeId node) const {
  const JsonValue* text = Find(node, "repr_str");
  if (text != nullptr && text->AsString() != nullptr) return *text->AsString();
  text = Find(node, "repr_b64");
  if (text == nullptr || text->AsString() == nullptr) {
    // A node for the empty string has neither field.
    return TypeKey(node) == "runtime.String" ? std::optional<std::string>("") : std::nullopt;
  }
  absl::StatusOr<std::vector<std::byte>> bytes = DecodeBase64(*text->AsString());
  uint64_t length = 0;  // comes first
  if (!bytes.ok() || bytes->size() < sizeof length) return std::nullopt;
  std::memcpy(&length, bytes->data(), sizeof length);
  if (length != bytes->size() - sizeof length) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->data()) + sizeof length, length);
}

std::vector<std::pair<std::string, std::string>> ObjectGraph::Fields(NodeId node) const {
  std::vector<std::pair<std::string, std::string>> fields;
  const JsonValue* attrs = Find(node, "attrs");
  const JsonValue::Object* object = attrs == nullptr ? nullptr : attrs->AsObject();
  for (size_t i = 0; object != nullptr && i < object->keys.size(); ++i) {
    if (const std::string* text = object->values[i].AsString()) fields.emplace_back(object->keys[i], *text);
  }
  return fields;
}

absl::StatusOr<Literal> ObjectGraph::ConstantTensor(NodeId node) const {
  const std::string* field = Field(node, "data");
  const JsonValue::Array* tensors = ArrayOf(json_.Find("b64ndarrays"));
  uint64_t index = 0;
  bool is_tensor = field != nullptr && absl::SimpleAtoi(*field, &index) && tensors != nullptr &&
                   index < tensors->size() && (*tensors)[index].AsString() != nullptr;
  if (!is_tensor) return absl::NotFoundError("its node does not name a tensor of `b64ndarrays`");
  RVM_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, DecodeBase64(*(*tensors)[index].AsString()));
  return DecodeTensorBlob(bytes);
}

}  // namespace rvm::text
