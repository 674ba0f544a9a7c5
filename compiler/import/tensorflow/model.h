// Model: the contents of a SavedModel or of a GraphDef. Texts and messages lie in the bytes that were read, which must
// outlive it.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_MODEL_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/data_type.h"
#include "base/literal.h"
#include "compiler/import/file_bytes.h"

namespace rvm::tensorflow {

using importing::Bytes;

// An AttrValue. Its accessors give nullopt, or nothing, if it has another kind or is malformed.
class Attr {
 public:
  explicit Attr(Bytes message = {}) : message_(message) {}

  std::optional<int64_t> Int() const;
  std::optional<float> Float() const;
  std::optional<std::string_view> Text() const;
  std::optional<uint64_t> Type() const;             // a number of TensorFlow's DataType
  std::optional<Bytes> Tensor() const;              // a TensorProto
  std::optional<Bytes> Shape() const;               // a TensorShapeProto
  std::string_view Function() const;                // its name
  std::vector<int64_t> Ints() const;                // of a list
  std::vector<float> Floats() const;                // of a list
  std::vector<std::string_view> Functions() const;  // of a list

 private:
  Bytes message_;
};

// Source of a tensor: output `index` of a node, or an argument of the function.
struct Source {
  static constexpr int32_t kNone = -1;
  int32_t node = kNone;
  int32_t argument = kNone;
  std::string_view output;  // name of an output, of which `index` counts the tensors; "" if it counts all
  int32_t index = 0;
};

struct Node {
  std::string_view name, op;
  std::vector<Source> inputs;
  std::vector<int32_t> controls;  // nodes that run before it
  std::vector<std::pair<std::string_view, Bytes>> attrs;

  bool Has(std::string_view attr) const;
  Attr attr(std::string_view name) const;  // an empty one if it is missing
};

// The graph of a model, or the body of a function.
struct Graph {
  std::string_view name;  // of the function
  std::vector<std::string_view> arguments;
  std::vector<Node> nodes;
  std::vector<Source> results;    // of a function
  std::vector<int32_t> controls;  // nodes that a call of the function runs, too
  absl::flat_hash_map<std::string_view, int32_t> nodes_by_name;
};

// A TensorInfo: an input or an output of a signature.
struct Endpoint {
  std::string_view name;    // in the signature
  std::string_view tensor;  // "serving_default_x:0"
};
struct Signature {
  std::string_view name;
  std::vector<Endpoint> inputs, outputs;
};

struct Model {
  bool is_saved_model = false;
  Graph graph;
  absl::flat_hash_map<std::string_view, Graph> functions;
  std::vector<Signature> signatures;
  Bytes objects;  // the SavedObjectGraph of a SavedModel, see saved_objects.h
};

// Reads a SavedModel, of which it takes the graph that serves, or a GraphDef.
absl::StatusOr<Model> ReadModel(Bytes bytes);

// Reads a NodeDef without its inputs; nullopt if it is malformed.
std::optional<Node> ReadNode(Bytes message);

// Returns the source that a text such as "node", "node:1" or "node:output:1" names; nullopt if there is none.
std::optional<Source> FindSource(const Graph& graph, std::string_view text);

// Returns the dtype of that number in TensorFlow's DataType; nullopt if Relay has it not.
std::optional<DataType> ToDataType(uint64_t type);
std::string TypeName(uint64_t type);

// Reads a TensorShapeProto: -1 for unknown extents, nullopt for an unknown rank.
std::optional<std::vector<int64_t>> ReadShape(Bytes message);

// Reads a TensorProto. Complex elements are pairs along a last axis.
absl::StatusOr<Literal> ReadTensor(Bytes message);
bool HasComplexElements(Bytes tensor);
// Reads the texts of a TensorProto of them.
absl::StatusOr<std::vector<std::string_view>> ReadTexts(Bytes message);

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_MODEL_H_
