// Importer: TensorFlow Lite graphs as Relay, node by node. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_
#define RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/blocks/tensorflow_family.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/tflite/import.h"
#include "compiler/import/tflite/model.h"

namespace rvm::tflite {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class Importer;
class NodeContext;

struct OperatorRow {
  std::string_view name;  // "CONV_2D"
  Operands (*convert)(NodeContext&);
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
  bool moves = false;             // elements only, so that those of quantised tensors stay integers
  bool takes_complex = false;     // computes with complex numbers, of which others that move elements move both parts
};
constexpr OperatorRow OfComplex(std::string_view name, Operands (*convert)(NodeContext&),
                                std::string_view variant = "") {
  return {name, convert, variant, false, true};
}
constexpr OperatorRow Moves(std::string_view name, Operands (*convert)(NodeContext&), std::string_view variant = "") {
  return {name, convert, variant, true};
}
// The names of operators of TensorFlow begin with that of their row.
inline constexpr std::string_view kFlex = "CUSTOM.Flex";
// The operators that can be imported, by family: one file each, with a table at its end.
#define RVM_TFLITE_FAMILY(name) std::span<const OperatorRow> name##Operators();
#include "compiler/import/tflite/families.def"
#undef RVM_TFLITE_FAMILY
// Operators that compute with the integers of quantised tensors. One that neither has a row here nor moves elements
// alone computes with floats: its quantised inputs are dequantised, and its results are quantised again.
std::span<const OperatorRow> QuantisedOperators();
std::span<const OperatorRow> QuantisedLayerOperators();

// A graph while it is imported.
struct Scope {
  const Graph* graph = nullptr;
  absl::flat_hash_map<int32_t, Operand> values;  // by numbers of tensors
};

// A variable of the model: a resource with a name, or a tensor that keeps its value between runs.
struct Variable {
  std::string name;
  const Tensor* like = nullptr;  // a tensor of its type; null: no node reads or writes it
  bool is_state = false;         // changes in a run, so that @main takes and gives its value
  Operand value = nullptr;       // now
};

// One node while it is converted, and the steps that it becomes.
class NodeContext : public tensorflow_family::NodeInputs {
 public:
  NodeContext(Importer& importer, Scope& scope, const Node& node, const OperatorRow& row, Operands inputs);

  const OperatorRow& row() const { return row_; }
  const Node& node() const { return node_; }
  const Table& options() const { return node_.options; }
  size_t num_outputs() const { return node_.outputs.size(); }
  // Returns the tensor that input or output `i` is; a mistake, and null, if there is none.
  const Tensor* Input(size_t i);
  const Tensor* Output(size_t i);
  // Returns the dtype of output `i`; a mistake if Relay has it not.
  DataType OutputDType(size_t i);
  // Returns `x` after the fused activation of that field of the options.
  Operand Activated(Operand x, int field);
  // Returns x after the activation of that number in the schema.
  Operand Activation(Operand x, int kind);
  // Returns the outputs of a graph of the model.
  Operands Body(size_t graph, const Operands& inputs);
  // Makes `value` what the variable that input `i` is has from now on.
  void Assign(size_t i, Operand value);
  // Returns a key for random numbers of this node alone.
  Operand Key();

  Importer& importer() { return importer_; }

 private:
  Importer& importer_;
  Scope& scope_;
  const Node& node_;
  const OperatorRow& row_;
};

// Makes a converter of one that TensorFlow and TensorFlow Lite have in common.
template <Operands (*convert)(tensorflow_family::NodeInputs&)>
Operands Shared(NodeContext& c) {
  return convert(c);
}

class Importer final : public importing::Frame {
 public:
  // `size` is that of the file, in bytes.
  Importer(const Model& model, const ImportOptions& options, size_t size);

  // ---- for converters
  const Model& model() const { return model_; }
  // Returns the outputs of a graph; a mistake if there is none of that number, or it gets another number of inputs.
  Operands Body(size_t graph, const Operands& inputs);
  // Returns the floats that integers stand for, with the scales of a tensor.
  Operand Dequantised(Operand value, const Tensor& tensor);
  // Returns the numbers of the resources that nodes of these graphs, and of those that they call, write to.
  std::vector<size_t> WrittenBy(std::span<const size_t> graphs) const;
  std::vector<Variable>& variables() { return variables_; }
  Variable& variable(size_t number) { return variables_[number]; }
  std::optional<size_t> FindResource(const Node& handle) const;

 private:
  friend class NodeContext;

  // A function of the program: a signature, or the first graph of a model without any.
  struct Entry {
    std::string name;  // of the function
    size_t graph = 0;
    const Signature* signature = nullptr;
  };

  absl::StatusOr<ImportedModel> ImportModel() override;
  // ---- the model: variables.cc
  void FindVariables();
  void AddResource(const Graph& graph, const Node& handle);
  void FindKept(const Graph& graph);
  void AddStateParams();
  void DefineInitialState();
  Operand FirstValue(const Variable& variable);
  void Walk(size_t graph, std::set<size_t>& seen) const;

  // ---- entries: entries.cc
  absl::Status ChooseEntries();
  absl::Status CheckInputs();
  const Graph& GraphOf(const Entry& entry) const { return model_.graphs[entry.graph]; }
  std::string_view NameOf(const Entry& entry, int32_t tensor) const;
  // Adds the parameters of an entry, or values of frozen inputs; returns the tensors that are parameters.
  absl::StatusOr<std::vector<int32_t>> ReadInputs(const Entry& entry);
  void BindInputs(const Entry& entry, std::span<const int32_t> tensors, const Operands& params, Scope& scope);
  Operands Outputs(const Entry& entry, Scope& scope);
  absl::Status ImportEntry(const Entry& entry, ImportedModel& result);
  void NameEntry(const Entry& entry, ImportedModel& result) const;

  void ImportNodes(Scope& scope);
  void ImportNode(const Node& node, Scope& scope);
  Operands Convert(const Node& node, Scope& scope);
  // Returns the value of a tensor: of a node, or a constant. Null, and a mistake, if it has none.
  Operand Value(int32_t number, Scope& scope);
  absl::StatusOr<Operand> Constant(const Tensor& tensor);
  absl::StatusOr<Operand> NewConstant(const Tensor& tensor);
  Operands ThroughFloats(const Node& node, const OperatorRow& row, Scope& scope, Operands inputs);
  std::string Label(const Node& node, const Scope& scope) const;
  const Model& model_;
  int64_t constant_budget_;  // bytes of constants that may still be copied: tensors may share them
  std::vector<Entry> entries_;
  absl::flat_hash_map<const Tensor*, Operand> constants_;
  // Constants by their bytes, type and shape: graphs have tensors of their own for the weights that they share.
  std::map<std::tuple<const uint8_t*, int, std::vector<int64_t>>, Operand> shared_constants_;
  std::vector<Variable> variables_;
  std::map<std::pair<std::string, std::string>, size_t> resources_;  // numbers of variables, by container and name
  absl::flat_hash_map<const Tensor*, size_t> tensor_variables_;      // numbers of variables
  std::vector<size_t> initialisers_;                                 // graphs that CALL_ONCE runs
  int depth_ = 0;                                                    // of graphs in graphs
};

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_
