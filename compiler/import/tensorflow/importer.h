// Importer: TensorFlow's graphs as Relay, node by node. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_TENSORFLOW_IMPORTER_H_
#define RVM_COMPILER_IMPORT_TENSORFLOW_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/blocks/tensorflow_family.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/tensorflow/checkpoint.h"
#include "compiler/import/tensorflow/flow.h"
#include "compiler/import/tensorflow/import.h"
#include "compiler/import/tensorflow/model.h"

namespace rvm::tensorflow {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class Importer;
class NodeContext;

struct OperatorRow {
  std::string_view name;  // "Conv2D"
  Operands (*convert)(NodeContext&);
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
  std::string_view outputs = "";  // the names of its outputs where it has several of different names: "values indices"
  bool takes_complex = false;     // computes with complex numbers
};
constexpr OperatorRow OfComplex(std::string_view name, Operands (*convert)(NodeContext&),
                                std::string_view variant = "") {
  return {name, convert, variant, "", true};
}
// Returns whether the operator does the same to both parts of complex numbers: it moves them, or is linear.
bool WorksByParts(std::string_view op);
// The operators that can be imported, by family: one file each, with a table at its end.
#define RVM_TENSORFLOW_FAMILY(name) std::span<const OperatorRow> name##Operators();
#include "compiler/import/tensorflow/families.def"
#undef RVM_TENSORFLOW_FAMILY
const OperatorRow* FindOperator(std::string_view name);

// A graph, or the part of it that is a branch or the body of a loop, while it is imported.
struct Scope {
  const Graph* graph = nullptr;
  Operands arguments;                             // of the function
  absl::flat_hash_map<int32_t, Operands> values;  // of nodes
  const Scope* outer = nullptr;                   // the rest of the graph
};

// A variable of the model.
struct Variable {
  std::string name;
  std::string key;               // of its value in the checkpoint
  std::optional<Literal> first;  // its value in the checkpoint, of state
  bool is_state = false;         // changes in a run, so that @main takes and gives its value
  Operand value = nullptr;       // now; null: not read yet
};
// The variables that arguments of a function are.
using VariableNumbers = std::vector<std::optional<size_t>>;

// One node while it is converted, and the steps that it becomes.
class NodeContext : public tensorflow_family::NodeInputs {
 public:
  // Returns a key for random numbers of one node alone.
  using Key = absl::FunctionRef<Operand(Steps&)>;
  // A node of a graph, and its number there.
  struct Place {
    Importer& importer;
    Scope& scope;
    int32_t number;
  };

  // Without a place the row is of no graph family.
  NodeContext(Emitter& emit, const Node& node, const OperatorRow& row, Operands inputs, Key key,
              std::optional<Place> place);

  const OperatorRow& row() const { return row_; }
  const Node& node() const { return node_; }
  // Returns the inputs from `first` on.
  Operands InputsFrom(size_t first);

  // ---- attributes
  int64_t IntAttr(std::string_view name, int64_t otherwise) const;
  bool BoolAttr(std::string_view name) const { return IntAttr(name, 0) != 0; }
  double FloatAttr(std::string_view name, double otherwise) const;
  std::string_view TextAttr(std::string_view name, std::string_view otherwise) const;
  // Returns the dtype that an attribute names; a mistake if it is missing or Relay has it not.
  DataType TypeAttr(std::string_view name);

  // Returns the axes that input `i` lists, counted from the front of a tensor of that rank.
  std::vector<int64_t> AxesAt(size_t i, int64_t rank);
  // Returns a key for random numbers of this node alone.
  Operand OwnKey() { return key_(*this); }

  // ---- of the operators of graph families
  Importer& importer() const { return place_->importer; }
  Scope& scope() const { return place_->scope; }
  int32_t number() const { return place_->number; }

 private:
  const Node& node_;
  const OperatorRow& row_;
  Key key_;
  std::optional<Place> place_;
};

// Returns what `convert` makes of the inputs of an operator. Where it takes no complex numbers, and works by parts,
// that is the real parts and the imaginary ones alone.
Operands ConvertByParts(Emitter& emit, const OperatorRow& row, Operands inputs,
                        absl::FunctionRef<Operands(Operands)> convert);

// Makes a converter of one that TensorFlow and TensorFlow Lite have in common.
template <Operands (*convert)(tensorflow_family::NodeInputs&)>
Operands Shared(NodeContext& c) {
  return convert(c);
}

class Importer final : public importing::Frame {
 public:
  Importer(const Model& model, const ImportOptions& options);

  // ---- for converters
  const Model& model() const { return model_; }
  Emitter& emitter() { return emit_; }
  // Returns the function of that name; null, and a mistake, if there is none.
  const Graph* FunctionNamed(std::string_view name);
  // Returns the results of a function; a mistake if it takes another number of arguments or calls itself.
  Operands Call(const Graph& function, const Operands& arguments);
  // Imports the nodes that these tensors depend on, and returns the tensors.
  Operands Evaluate(Scope& scope, std::span<const Source> wanted, bool with_controls);
  // Returns the number of the variable of that name; nullopt if there is none.
  std::optional<size_t> FindVariable(std::string_view name) const;
  Operand ReadVariable(size_t number);
  size_t num_variables() const { return variables_.size(); }
  Variable& variable(size_t number) { return variables_[number]; }
  // Returns the variables that a call of the function may write to.
  std::vector<size_t> WrittenBy(const Graph& function, const Operands& arguments);
  // Returns true inside of loops and branches of the first generation.
  bool is_in_frame() const { return frames_ > 0; }
  // Returns a tensor that was imported; null, and a mistake, if it is not there.
  Operand Value(const Source& source, const Scope& scope);
  const Flow& FlowOf(const Graph& graph);
  Operand Key(Steps& c);

 private:
  absl::StatusOr<ImportedModel> ImportModel() override;

  // ---- the model: inputs.cc
  struct Port {
    std::string_view name;
    Source source;
  };
  // A function of the program: a signature, or a graph without any.
  struct Entry {
    std::string name;  // of the function
    std::vector<Port> inputs, outputs;
  };
  absl::Status ChooseEntries();
  absl::StatusOr<std::vector<const Signature*>> ChooseSignatures() const;
  absl::Status AddSignature(const Signature& signature, std::string function);
  void AddGraph();
  absl::Status CheckInputs();
  // Adds the parameters of an entry, or values of frozen inputs; returns the inputs that are parameters.
  absl::StatusOr<std::vector<const Port*>> ReadInputs(const Entry& entry, Scope& scope);
  absl::StatusOr<bool> ReadInput(const Port& port, Scope& scope);
  void CountReachable();

  // ---- variables: variables.cc
  void FindVariables();
  void FindCaptured();
  void FindRestored(const Graph& graph, const VariableNumbers& arguments, int depth);
  std::optional<size_t> VariableOf(const Graph& graph, const VariableNumbers& arguments, const Source& source) const;
  void FindWritten(const Graph& graph, const VariableNumbers& arguments, const std::vector<bool>& nodes, int depth,
                   std::set<size_t>& written);
  std::vector<bool> ReachableNodes() const;
  absl::StatusOr<Literal> StoredValue(const Variable& variable);
  void FindState();
  void AddStateParams();
  void DefineInitialState();

  // ---- nodes
  bool HasEffect(const Node& node);
  std::optional<std::vector<int32_t>> OrderOf(const Scope& scope, std::span<const Source> wanted, bool with_controls);
  void ImportNode(int32_t number, Scope& scope);
  Operands Convert(int32_t number, Scope& scope);
  Operands Outputs(const Entry& entry, Scope& scope);
  absl::Status ImportEntry(const Entry& entry, ImportedModel& result);

  const Model& model_;
  std::vector<Entry> entries_;
  std::vector<Variable> variables_;
  absl::flat_hash_map<std::string_view, size_t> variable_numbers_;  // by names of nodes, and names that nodes share
  std::optional<absl::StatusOr<Checkpoint>> checkpoint_;
  absl::flat_hash_map<const Graph*, std::unique_ptr<const Flow>> flows_;
  absl::flat_hash_map<std::string_view, bool> effects_;  // of functions
  int restored_budget_ = 1000;                           // of functions that are searched for the keys of variables
  int written_budget_ = 10'000;                          // of functions that are searched for variables they write to
  int depth_ = 0;                                        // of functions in functions
  int frames_ = 0;                                       // of loops and branches in each other
};

}  // namespace rvm::tensorflow

#endif  // RVM_COMPILER_IMPORT_TENSORFLOW_IMPORTER_H_
