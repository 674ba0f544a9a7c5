// Importer: ONNX graphs as Relay, node by node. Internal to this folder; import.h is for others.
//
// A converter gets one node as a NodeContext and gives its outputs. Nothing stops at the first node that cannot be
// imported: its outputs become placeholders, nodes that use those are skipped, and all reasons are reported together.
#ifndef RVM_COMPILER_IMPORT_ONNX_IMPORTER_H_
#define RVM_COMPILER_IMPORT_ONNX_IMPORTER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/model.h"
#include "compiler/import/onnx/tensor_data.h"

namespace rvm::onnx {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::PackedForm;
using importing::QuantisedForm;
using importing::Refusals;
using importing::Steps;

class Importer;
class NodeContext;

using Converter = Operands (*)(NodeContext&);

// One operator of ONNX, as of an opset.
struct OperatorRow {
  std::string_view name;  // "Gelu"; of others than ai.onnx with its domain, "com.microsoft.Gelu"
  Converter convert;
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
  int64_t since = 1;              // the opset from which on it means that
};
// Returns the operators that can be imported, by family: one file each, with a table at its end.
std::span<const std::span<const OperatorRow>> OperatorFamilies();

namespace convert {

#define RVM_FAMILY(name) std::span<const OperatorRow> name();
#include "compiler/import/onnx/families.def"
#undef RVM_FAMILY

}  // namespace convert

// The names that a graph's nodes see: their own graph's, then those around it.
struct Scope {
  const Scope* outer = nullptr;
  absl::flat_hash_map<std::string_view, Operand> values;  // null: an input that the call of the function leaves out
  // Call of a function whose body is imported: its attributes replace those that nodes refer to.
  const Node* call = nullptr;
  const Scope* call_scope = nullptr;
  const Function* function = nullptr;
  const Graph* graph = nullptr;  // of a subgraph
  std::span<const OperatorSet> operator_sets;

  // Null if there is no such name, or the call of the function leaves that input out.
  Operand Find(std::string_view name) const;
  bool Defines(std::string_view name) const;
};

// One node while it is converted, and the steps that it becomes.
class NodeContext : public Steps {
 public:
  NodeContext(Importer& importer, const Node& node, Scope& scope, const OperatorRow& row, int64_t opset);

  const Node& node() const { return node_; }
  const OperatorRow& row() const { return row_; }
  int64_t opset() const { return opset_; }

  // ---- inputs and outputs
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Input `i`; a mistake where it was left out. Integers of fewer than 8 bits are one in a byte.
  Operand In(size_t i);
  // Input `i` as int32. A constant of fewer than 8 bits stays packed in the program, in the form that kernels expand:
  // turned, if it is a matrix whose columns are summed up.
  Operand Wide(size_t i, bool sums_columns);
  // Returns whether input `i` is a constant of integers of fewer than 8 bits.
  bool IsPacked(size_t i) const { return Has(i) && inputs_[i]->packed.has_value(); }
  // Input `i`, a constant of fewer than 8 bits as one of bytes.
  Operand InBytes(size_t i);
  // All of them; a mistake where one was left out, or there is none.
  Operands All();
  // Returns whether the model declares one name, or one number, for `axis` of output `output` of the node and of its
  // input `input`, which are an output and an input of the model.
  bool OutputExtentIsOfInput(size_t output, size_t input, size_t axis) const;
  bool WantsOutput(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }

  // ---- attributes
  bool HasAttr(std::string_view name) const { return Find(name) != nullptr; }
  int64_t Int(std::string_view name, int64_t otherwise) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> Ints(std::string_view name) const;  // empty if there is none
  std::vector<float> Floats(std::string_view name) const;
  std::vector<std::string_view> Texts(std::string_view name) const;
  std::optional<Literal> TensorAttr(std::string_view name);
  // Returns the constant that a tensor attribute of integers of fewer than 8 bits is; null for other attributes.
  Operand PackedAttr(std::string_view name);
  const Attribute* Find(std::string_view name) const;
  const Graph* GraphAttr(std::string_view name);  // null, and a mistake, if there is none
  // Returns the dtype that an attribute numbers; a mistake if Relay has it not.
  DataType DTypeAttr(std::string_view name, DataType otherwise);

  // ---- random numbers
  // A key for the numbers of this node alone: of its attribute `seed`, or split off that of the model's argument
  // `seed`.
  Operand Key();

  // ---- subgraphs
  // The outputs of `graph` where its inputs are `inputs`.
  Operands Body(const Graph& graph, const Operands& inputs);

 private:
  Importer& importer_;
  const Node& node_;
  Scope& scope_;
  const OperatorRow& row_;
  int64_t opset_;
  Operands inputs_;
};

class Importer final : public importing::Frame {
 public:
  Importer(const Model& model, const ImportOptions& options);

 private:
  friend class NodeContext;

  absl::StatusOr<ImportedModel> ImportModel() override;
  absl::Status ReadInputs();
  absl::Status ReadShapes();
  absl::StatusOr<const ir::Type*> TypeOf(const ValueInfo& value);

  // ---- extents.cc
  Dim DimOf(const Dimension& dimension, std::string_view input, size_t axis);
  // Reads the shapes that the model claims for intermediate values.
  void ReadClaims();
  // `operand`, the value `name` of the main graph, with checks of claimed extents that the importer does not know.
  Operand WithClaimedExtents(std::string_view name, Operand operand);

  // Returns the value that the options give to `input`; null if they give none.
  absl::StatusOr<Operand> Frozen(const ValueInfo& input);
  void AddInitializers(const Graph& graph, Scope& scope);
  // Returns a constant of integers of fewer than 8 bits.
  absl::StatusOr<Operand> PackedConstant(const Tensor& tensor, const PackedDataType& type);
  // The initializers of a subgraph, which are read once however often it is converted.
  void AddSubgraphInitializers(const Graph& graph, Scope& scope);
  void ImportNodes(std::span<const Node> nodes, Scope& scope);
  void ImportNode(const Node& node, Scope& scope);
  // "MatMul node `/proj` of model.onnx".
  std::string Origin(const Node& node, const Scope& scope) const;
  Operands Convert(const Node& node, Scope& scope);
  Operands CallFunction(const Function& function, const Node& node, Scope& scope);
  Operands Body(const Graph& graph, const Operands& inputs, const Scope& outer);
  const Function* FindFunction(const Node& node) const;
  // Null if there is none.
  const OperatorRow* FindOperator(const Node& node, const Scope& scope) const;
  // Reports unsupported features of a node that is skipped because one of its inputs failed.
  void Survey(const Node& node, const Scope& scope);
  void Refuse(const Node& node, const absl::Status& status);
  Operand Output(const ValueInfo& output, const Scope& scope);

  const Model& model_;
  std::vector<const ValueInfo*> param_inputs_;                // the parameters, in their order
  absl::flat_hash_map<std::string_view, Operand> constants_;  // inputs that are no parameters
  absl::flat_hash_map<const Graph*, absl::flat_hash_map<std::string_view, Operand>> initializers_;  // of subgraphs
  absl::flat_hash_map<std::string_view, const ValueInfo*> claims_;  // by the names of values
  int call_depth_ = 0, subgraph_depth_ = 0;
};

}  // namespace rvm::onnx

#endif  // RVM_COMPILER_IMPORT_ONNX_IMPORTER_H_
