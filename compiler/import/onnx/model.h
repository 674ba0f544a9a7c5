// Contents of an .onnx file, uninterpreted: graphs, nodes, attributes, tensors, functions.
//
// Texts and tensors point into the file's bytes, which must outlive the model. Structures are a small multiple of the
// file: a message of n bytes makes one structure, and its numbers stay where they are until somebody asks.
#ifndef RVM_COMPILER_IMPORT_ONNX_MODEL_H_
#define RVM_COMPILER_IMPORT_ONNX_MODEL_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/import/wire_reader.h"

namespace rvm::onnx {

using importing::Bytes;

struct Graph;

// A TensorProto. tensor_data.h reads its elements.
struct Tensor {
  std::string_view name;
  std::vector<int64_t> dims;
  int32_t data_type = 0;  // TensorProto.DataType
  bool is_external = false;
  Bytes message;
};

struct Dimension {
  std::optional<int64_t> value;
  std::string_view param;  // the name of a symbolic extent; "" if it has none
};

enum class TypeForm : uint8_t { kUnknown, kTensor, kSequence, kOptional, kMap, kSparseTensor, kOpaque };

// A TypeProto: `wrappers` around a tensor, outermost first (sequence of optional of ...).
struct TypeInfo {
  std::vector<TypeForm> wrappers;
  TypeForm form = TypeForm::kUnknown;  // of what is innermost
  int32_t data_type = 0;
  bool has_shape = false;
  std::vector<Dimension> shape;
};

struct ValueInfo {
  std::string_view name;
  TypeInfo type;
};

enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kType = 13,
  kTypes = 14,
};

// An AttributeProto. Its values are read on demand.
struct Attribute {
  std::string_view name;
  std::string_view referenced;  // in a function: the attribute of the call that this one is
  AttributeType type = AttributeType::kUndefined;
  Bytes message;
  const Graph* graph = nullptr;  // kGraph

  float Float() const;
  int64_t Int() const;
  std::string_view Text() const;
  std::vector<float> Floats() const;
  std::vector<int64_t> Ints() const;
  std::vector<std::string_view> Texts() const;
  // nullopt if there is none or it is malformed.
  std::optional<onnx::Tensor> Tensor() const;
  std::optional<TypeInfo> Type() const;
};

struct Node {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;  // "" where an optional one is left out
  std::vector<Attribute> attributes;

  const Attribute* Find(std::string_view attribute) const;
};

struct SparseTensor {
  Tensor values, indices;
  std::vector<int64_t> dims;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs;
  std::vector<ValueInfo> values;  // what the model claims of intermediate ones
};

struct OperatorSet {
  std::string_view domain;  // "" is ai.onnx
  int64_t version = 0;
};

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  // without defaults
  std::vector<Attribute> default_attributes;
  std::vector<Node> nodes;
  std::vector<OperatorSet> operator_sets;
};

struct Model {
  int64_t ir_version = 0;
  std::string_view producer;
  std::vector<OperatorSet> operator_sets;
  const Graph* graph = nullptr;
  std::vector<Function> functions;
  std::deque<Graph> graphs;  // all of them, also those of attributes: nesting is no nesting of destructors
};

// kInvalidArgument where the bytes are no model.
absl::StatusOr<Model> ReadModel(Bytes bytes);
// Returns a TensorProto alone, as the files of test data are.
absl::StatusOr<Tensor> ReadTensor(Bytes bytes);

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_MODEL_H_
