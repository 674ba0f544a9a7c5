#include "compiler/import/mxnet/graph.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json.h"
#include "base/status_macros.h"

namespace rvm::mxnet {
namespace {

constexpr int64_t kMaxOutputs = 4096;  // of a node

absl::Status Malformed(std::string_view where, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(Abseil(where), ": expected ", Abseil(expected)));
}

// Reads `[node, output]`, which may have a version behind; the node is one of the first `count`.
absl::StatusOr<Entry> ReadEntry(const JsonValue& value, size_t count, std::string_view where) {
  const JsonValue::Array* array = value.AsArray();
  if (array == nullptr || array->size() < 2) return Malformed(where, "a node and the number of its output");
  const int64_t* node = (*array)[0].AsInt();
  const int64_t* output = (*array)[1].AsInt();
  if (node == nullptr || *node < 0 || static_cast<size_t>(*node) >= count) {
    return Malformed(where,
                     count == 0 ? "a node before it; there is none" : absl::StrCat("a node from 0 to ", count - 1));
  }
  if (output == nullptr || *output < 0 || *output >= kMaxOutputs) return Malformed(where, "the number of an output");
  return Entry{static_cast<size_t>(*node), static_cast<size_t>(*output)};
}

// Adds the members of an object of strings. Files of different ages name it `attrs`, `attr` and `param`.
absl::Status ReadAttrs(const JsonValue& node, std::string_view where, Node& result) {
  for (std::string_view member : {"attrs", "param", "attr"}) {
    const JsonValue* value = node.Find(member);
    if (value == nullptr) continue;
    const JsonValue::Object* object = value->AsObject();
    if (object == nullptr) return Malformed(where, "attributes as an object");
    for (size_t i = 0; i < object->keys.size(); ++i) {
      const std::string* text = object->values[i].AsString();
      if (text == nullptr) return Malformed(where, absl::StrCat("a string as `", object->keys[i], "`"));
      result.attrs.emplace_back(object->keys[i], *text);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Node> ReadNode(const JsonValue& value, size_t number) {
  const std::string where = absl::StrCat("node ", number);
  Node node;
  const JsonValue* op = value.Find("op");
  const JsonValue* name = value.Find("name");
  const JsonValue* inputs = value.Find("inputs");
  if (op == nullptr || op->AsString() == nullptr) return Malformed(where, "its operator as a string");
  if (name == nullptr || name->AsString() == nullptr) return Malformed(where, "its name as a string");
  node.op = *op->AsString();
  node.name = *name->AsString();
  RVM_RETURN_IF_ERROR(ReadAttrs(value, where, node));
  if (inputs == nullptr) return node;
  if (inputs->AsArray() == nullptr) return Malformed(where, "its inputs as an array");
  for (const JsonValue& input : *inputs->AsArray()) {
    RVM_ASSIGN_OR_RETURN(Entry entry, ReadEntry(input, number, absl::StrCat("an input of ", where)));
    node.inputs.push_back(entry);
  }
  return node;
}

}  // namespace

const std::string* Node::Find(std::string_view attr) const {
  auto found = std::ranges::find_if(attrs, [&](const auto& pair) { return pair.first == attr; });
  return found == attrs.end() ? nullptr : &found->second;
}

absl::StatusOr<Graph> ReadGraph(importing::Bytes bytes) {
  RVM_ASSIGN_OR_RETURN(JsonValue json, ParseJson({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  const JsonValue* nodes = json.Find("nodes");
  const JsonValue* heads = json.Find("heads");
  if (nodes == nullptr || nodes->AsArray() == nullptr || heads == nullptr || heads->AsArray() == nullptr) {
    return absl::InvalidArgumentError(
        "saw no arrays `nodes` and `heads`; expected the JSON of a graph of MXNet or NNVM");
  }
  Graph graph;
  for (const JsonValue& value : *nodes->AsArray()) {
    RVM_ASSIGN_OR_RETURN(Node node, ReadNode(value, graph.nodes.size()));
    graph.nodes.push_back(std::move(node));
  }
  for (const JsonValue& value : *heads->AsArray()) {
    RVM_ASSIGN_OR_RETURN(Entry head, ReadEntry(value, graph.nodes.size(), "a head"));
    graph.heads.push_back(head);
  }
  if (graph.heads.empty()) return Malformed("`heads`", "at least one result");
  return graph;
}

}  // namespace rvm::mxnet
