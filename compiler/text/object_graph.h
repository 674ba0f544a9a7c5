// The predecessor's JSON form of a graph of objects, found in the metadata section of its texts and in files written by
// its `save_json`.
//
//   {"root": 1,
//    "nodes": [{"type_key": ""},
//              {"type_key": "Map", "keys": ["relay.Constant"], "data": [2]},
//              {"type_key": "Array", "data": [3]},
//              {"type_key": "relay.Constant", "attrs": {"data": "0", ...}}],
//    "b64ndarrays": ["..."], ...}
//
// A node is identified by its index. Node 0 is the null object. An index out of range reads as null, so structural
// errors occur only in Parse. Whether the text of a field is an index or a number depends on the type key.
#ifndef RVM_COMPILER_TEXT_OBJECT_GRAPH_H_
#define RVM_COMPILER_TEXT_OBJECT_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/literal.h"

namespace rvm::text {

using NodeId = int64_t;
inline constexpr NodeId kNullNode = 0;

class ObjectGraph {
 public:
  // Returns kInvalidArgument, with the reason, if `json` does not have the form above.
  static absl::StatusOr<ObjectGraph> Parse(std::string_view json);

  NodeId root() const { return root_; }
  std::string_view TypeKey(NodeId node) const;  // "" for null
  // Returns the text of a field; null if the node has none of that name.
  const std::string* Field(NodeId node, std::string_view name) const;
  // Returns the node whose index is the value of the field `name`.
  NodeId Child(NodeId node, std::string_view name) const { return ToNode(Field(node, name)); }
  NodeId ToNode(const std::string* index) const;
  // Returns the elements of an Array; for a Map whose keys are objects: key, value, key, value, ...
  std::vector<NodeId> Elements(NodeId node) const;
  // Returns the keys and values of a Map whose keys are strings.
  std::vector<std::pair<std::string, NodeId>> Entries(NodeId node) const;
  // Returns the text of a string object, or the name of an operator.
  std::optional<std::string> Text(NodeId node) const;
  // Names and texts of all fields, in their order.
  std::vector<std::pair<std::string, std::string>> Fields(NodeId node) const;
  // Returns the tensor of a relay.Constant.
  absl::StatusOr<Literal> ConstantTensor(NodeId node) const;

 private:
  const JsonValue* Find(NodeId node, std::string_view member) const;

  JsonValue json_;
  NodeId root_ = kNullNode;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_OBJECT_GRAPH_H_
