// Importer: graphs of ATen operators as Relay, node by node. Internal to this folder; import.h is for others.
//
// A converter gets one node as a NodeContext and gives its outputs. As for ONNX nothing stops at the first node that
// cannot be imported: all reasons are reported together.
#ifndef RVM_COMPILER_IMPORT_TORCH_IMPORTER_H_
#define RVM_COMPILER_IMPORT_TORCH_IMPORTER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/blocks/complex.h"
#include "compiler/import/frame/expression.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/torch/archive.h"
#include "compiler/import/torch/import.h"
#include "compiler/import/torch/program.h"

namespace rvm::torch {

using importing::IsComplex;
using importing::MakeComplex;
using importing::Operand;
using importing::Operands;
using importing::PartOf;
using importing::Steps;

class Importer;
class NodeContext;

using Converter = Operands (*)(NodeContext&);

// One operator of ATen, all of its overloads.
struct OperatorRow {
  std::string_view name;  // "add"; of others than aten with its module, "_operator.mul"
  Converter convert;
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
  bool is_view = false;           // its result may share memory with its input
  bool takes_complex = false;     // it converts complex numbers as well as real ones
};
inline constexpr bool kView = true;

// Returns whether an operator writes to its first argument: "torch.ops.aten.add_.Tensor".
bool Writes(std::string_view target);
// Returns the row of the node's operator; null if there is none.
const OperatorRow* FindRow(const Node& node);
// Returns whether the result of the node shares memory with its first argument.
bool IsView(const Node& node);
// The memory of the result of a node that is a view: that of its first argument, or its own, as where `reshape` must
// copy.
enum class Memory : uint8_t { kShared, kCopied, kUnknown };
Memory MemoryOf(const Node& node, const Graph& graph);
// Returns the outputs of the node, those of lists one by one.
std::vector<const Argument*> OutputsOf(const Node& node);
// Returns the dtype of the parts of a tensor that the graph says is complex; nullopt for others.
std::optional<DataType> PartDTypeOf(const Graph& graph, const std::string& tensor);
// Returns what the node's operator does to complex numbers, or makes them of; null if it is not known.
const OperatorRow* FindComplexRow(const Node& node);
// Returns the operators that can be imported, by family: one file each, with a table at its end.
std::span<const std::span<const OperatorRow>> OperatorFamilies();

namespace convert {

// Refuses an operator with another way out, which the row says.
Operands Refused(NodeContext& c);

// Operators on complex numbers.
std::span<const OperatorRow> ComplexOperators();

#define RVM_FAMILY(name) std::span<const OperatorRow> name();
#include "compiler/import/torch/families.def"
#undef RVM_FAMILY

}  // namespace convert

// The values of one graph's names, and which of these share memory.
struct Scope {
  // A tensor that is a view: an output of a node on its first argument.
  struct View {
    const Node* node = nullptr;
    size_t output = 0;
  };

  // Returns the first of the names of a tensor.
  std::string Canonical(std::string name) const;
  // Returns the name of the tensor whose memory `name` is a view of.
  std::string Root(const std::string& name) const;

  const Graph* graph = nullptr;
  absl::flat_hash_map<std::string, Operand> values;
  absl::flat_hash_map<std::string, std::string> same;  // the other name of a tensor that has two
  absl::flat_hash_map<std::string, View> views;        // by their names
  std::vector<const Node*> viewing;                    // the nodes that made views, in order
  absl::flat_hash_set<std::string> used;               // names that nodes read, or that are outputs
};

// One node while it is converted, and the steps that it becomes.
class NodeContext : public Steps {
 public:
  NodeContext(Importer& importer, const Node& node, Scope& scope, const OperatorRow& row, std::string_view overload);

  const Node& node() const { return node_; }
  const OperatorRow& row() const { return row_; }
  std::string_view overload() const { return overload_; }  // "Tensor" of "aten.add.Tensor"
  size_t num_outputs() const { return node_.outputs.size(); }
  // Returns whether a later node or the graph's result reads it.
  bool WantsOutput(size_t i) const;

  // ---- arguments, by the names of ATen's schemas
  bool Has(std::string_view name) const { return node_.Find(name) != nullptr; }
  const Argument* Find(std::string_view name) const { return node_.Find(name); }
  // Returns a tensor, or a number as a scalar; a mistake where there is none.
  Operand In(std::string_view name);
  Operand In(const Argument& argument);
  // Returns the tensors of a list; null where an optional one is left out.
  Operands List(std::string_view name);
  int64_t Int(std::string_view name, int64_t otherwise);
  bool Bool(std::string_view name, bool otherwise);
  double Float(std::string_view name, double otherwise);
  std::string Text(std::string_view name, std::string_view otherwise);
  // Integers that are known now, one number as a list of one; empty if there are none.
  std::vector<int64_t> Ints(std::string_view name);
  DataType DType(std::string_view name, DataType otherwise);

  // ---- extents
  // An integer as an extent; nullopt if only the running program knows it.
  std::optional<Dim> Extent(const Argument& argument);
  // Returns the list of extents; nullopt if it has one that only the running program knows.
  std::optional<Dims> Extents(std::string_view name);
  // Returns the list as an int64 vector.
  Operand Vector(std::string_view name);

  // ---- dtypes
  // The dtype that ATen computes these in, and the operands in it.
  DataType Promoted(std::span<const Operand> operands);
  void Promote(std::vector<Operand*> operands);
  // Integers as float32.
  Operand Floating(Operand x);
  // Returns the dtype that the file says output `i` has; nullopt if it is no tensor, or of a dtype that Relay has not.
  std::optional<DataType> OutputDType(size_t i) const;

  // Returns the numbers of the complex ones among the tensors and complex numbers of the arguments, in their order.
  std::vector<size_t> ComplexInputs();
  // Converts the node as one of real numbers, with `real(x, i)` as its tensor `i` in place of x, in their order.
  // Numbers become zero if `drops_numbers`.
  Operands ByReals(const std::function<Operand(Operand x, size_t i)>& real, bool drops_numbers = false);

  // Returns the dtype that the file says the parts of output `i` have; nullopt if it is not complex.
  std::optional<DataType> OutputPartDType(size_t i) const;

  // Returns a key for the random numbers of this node alone, split off that of @main's argument `seed`.
  Operand Key();

  // Returns whether the file says that an argument has its elements one behind the other, from the beginning of its
  // memory.
  bool IsDense(std::string_view name) const;

  // From here on the program goes on only where the scalar `condition` is true.
  void Assert(Operand condition, std::string what);

  // ---- subgraphs, whose operators have no names for arguments
  const Argument* Positional(size_t position) const;
  const Graph* GraphArg(size_t position);  // null, and a mistake, if it is none
  Operands Values(size_t position);        // of a list; empty if it is none
  // `is_block`: it runs in a block of its own, of a branch or a loop.
  Operands Body(const Graph& graph, const Operands& inputs, bool is_block = true);

 private:
  Importer& importer_;
  const Node& node_;
  Scope& scope_;
  const OperatorRow& row_;
  std::string_view overload_;
  absl::flat_hash_set<Operand> numbers_;  // operands that were numbers
};

// Returns the name of an extent that is a symbol alone; "" for others.
std::string PlainSymbol(std::string_view extent);

class Importer final : public importing::Frame {
 public:
  Importer(const Archive& archive, const ImportOptions& options);

 private:
  friend class NodeContext;

  absl::StatusOr<ImportedModel> ImportModel() override;
  // ---- inputs
  std::optional<Dim> DimOfExpression(std::string_view text);
  Dim DimOf(const TensorMeta::Extent& extent, std::string_view input, size_t axis);
  absl::Status ReadShapes();
  // Returns the value that the options give to an input; null if they give none.
  absl::StatusOr<Operand> Frozen(const std::string& name);
  absl::Status AddParam(const InputSpec& input);
  absl::Status ReadInputs(Scope& scope);
  void FindMutations();
  Operand Weight(const InputSpec& input);
  // The parameters, checked as the export's ranges and guards say.
  void CheckRanges(Scope& scope);
  void CheckGuards(Scope& scope);
  Operand GuardLeaf(const importing::Expression& leaf, const Scope& scope);
  Operand GuardValue(const importing::Expression& expression, const Scope& scope);
  Operand* CheckedInput(const importing::Expression& guard, Scope& scope, int64_t& axis);

  // ---- nodes
  void ImportNodes(const Graph& graph, Scope& scope);
  void ImportNode(const Node& node, Scope& scope);
  Operands Convert(const Node& node, Scope& scope);
  // Returns the converter of the node; null, and a mistake, if there is none.
  const OperatorRow* RowOf(const Node& node, Scope& scope);
  void CheckWrite(const Node& node, Scope& scope);
  // Gives a tensor another value, and so the tensors that share memory with it.
  void Write(const std::string& name, Operand value, Scope& scope);
  Operand WithPart(const Scope::View& view, Operand value, Scope& scope);
  Operand Completed(Operand result, const Argument& output, const Scope& scope);
  Operand CompletedTensor(Operand result, const TensorMeta& meta, DataType dtype);
  bool IsNamed(const Dim& dim) const;
  bool IsInferred(Operand operand, const Dims& dims);
  Operands Body(const Graph& graph, const Operands& inputs, bool is_block);
  // The first of `outputs` only exists where all that was asserted holds.
  void CheckAssertions(std::vector<Operand>& outputs);
  Operand Value(const Argument& argument, const Scope& scope);
  std::string Origin(const Node& node) const;
  void Refuse(const Node& node, const absl::Status& status);
  Operands Outputs(const Scope& scope, ImportedModel& result);
  void DefineInitialState();

  const Archive& archive_;
  const Program& program_;
  std::vector<const InputSpec*> param_inputs_;           // the parameters, in their order
  absl::flat_hash_map<std::string, Dim> dims_;           // by the names of symbols
  absl::flat_hash_map<std::string, Operand> weight_at_;  // by places in the archive
  absl::flat_hash_set<std::string> mutated_;             // names of inputs of the graph that nodes write to
  struct Assertion {
    Operand condition;
    std::string what;
  };
  std::vector<Assertion> assertions_;  // of the graph that is being imported
  std::vector<std::string> warnings_;
  int depth_ = 0;
  int block_depth_ = 0;  // of bodies that run in blocks of their own
};

}  // namespace rvm::torch

#endif  // RVM_COMPILER_IMPORT_TORCH_IMPORTER_H_
