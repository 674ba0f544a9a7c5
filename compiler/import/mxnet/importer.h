// Importer: graphs of MXNet and NNVM as Relay, node by node. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_MXNET_IMPORTER_H_
#define RVM_COMPILER_IMPORT_MXNET_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/mxnet/graph.h"
#include "compiler/import/mxnet/import.h"
#include "compiler/import/mxnet/params.h"

namespace rvm::mxnet {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class NodeContext;

struct OperatorRow {
  std::string_view name;  // "Convolution"
  Operands (*convert)(NodeContext&);
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
};
// Returns the operators that can be imported, by family: one file each, with a table at its end. Those of NNVM stand
// beside those of MXNet.
std::span<const OperatorRow> ElementwiseOperators();
std::span<const OperatorRow> IndexOperators();
std::span<const OperatorRow> LayerOperators();
std::span<const OperatorRow> NormOperators();
std::span<const OperatorRow> RecurrentOperators();
std::span<const OperatorRow> ReduceOperators();
std::span<const OperatorRow> ShapeOperators();

// One node while it is converted, and the steps that it becomes.
class NodeContext : public Steps {
 public:
  // Constants that are joined and cut take their bytes off `copy_budget`.
  NodeContext(Emitter& emit, const Node& node, const OperatorRow& row, Operands inputs, int64_t& copy_budget)
      : Steps(emit), node_(node), row_(row), inputs_(std::move(inputs)), copy_budget_(copy_budget) {}

  const OperatorRow& row() const { return row_; }
  size_t num_inputs() const { return inputs_.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Input `i`; a mistake where it was left out.
  Operand In(size_t i);
  // Returns all inputs; a mistake where there is none, or one was left out.
  const Operands& All();

  // ---- attributes; a mistake where one is malformed. One that is missing or `None` is `otherwise`.
  bool HasAttr(std::string_view name) const { return Attr(name) != nullptr; }
  std::string Text(std::string_view name, std::string_view otherwise) const;
  int64_t Int(std::string_view name, int64_t otherwise);
  // Returns the same; a mistake unless it is from `least` to `greatest`.
  int64_t IntWithin(std::string_view name, int64_t otherwise, int64_t least, int64_t greatest);
  double Float(std::string_view name, double otherwise);
  bool Bool(std::string_view name, bool otherwise);
  DataType DType(std::string_view name, DataType otherwise);
  // Returns a tuple, or one integer. Elements that are `None` are nullopt.
  std::vector<std::optional<int64_t>> OptionalInts(std::string_view name);
  std::vector<int64_t> Ints(std::string_view name);
  // The same with `count` elements, each `otherwise` where the attribute is missing or empty, and one repeated.
  std::vector<int64_t> IntsOf(std::string_view name, size_t count, int64_t otherwise);
  // Axes from the front, in order; all if the attribute is missing or empty. With `exclude` the others.
  std::vector<int64_t> AxesOf(std::string_view name, int64_t rank, bool excludes = false);
  // Refuses an attribute that is given and true.
  void Refuse(std::string_view name);

  // ---- constants
  // The value of a constant, also in another shape; null for other operands.
  const Literal* ConstantOf(Operand x) const;
  // Takes `bytes` off what may be copied; false if too many were.
  bool SpendCopy(int64_t bytes);

  // `x` as integers, for indices that MXNet keeps in floats.
  Operand Indices(Operand x) { return DTypeOf(x).is_integral() ? x : Cast(x, kInt64); }
  // `x` as booleans.
  Operand Condition(Operand x) { return DTypeOf(x).is_bool() ? x : Op("not_equal", {x, Number(0, x)}); }

 private:
  // Returns null if it is missing or `None`.
  const std::string* Attr(std::string_view name) const;
  void FailAttr(std::string_view name, std::string_view expected);

  const Node& node_;
  const OperatorRow& row_;
  Operands inputs_;
  int64_t& copy_budget_;
};

class Importer final : public importing::Frame {
 public:
  // `size` is that of the file of weights, in bytes.
  Importer(const Graph& graph, Params params, const ImportOptions& options, size_t size);

 private:
  absl::StatusOr<ImportedModel> ImportModel() override;
  // Returns whether the value of each variable is used: not that of labels, which only losses read.
  std::vector<bool> FindUsed() const;
  absl::Status ReadVariables();
  absl::Status ReadVariable(size_t number);
  void RefuseVariable(size_t number, const absl::Status& status);
  void ImportNode(size_t number);
  Operands Convert(const Node& node);
  Operand Value(const Entry& entry);

  const Graph& graph_;
  Params params_;
  int64_t copy_budget_;
  std::vector<size_t> param_inputs_;                     // numbers of nodes
  absl::flat_hash_map<std::string, Operand> constants_;  // by names
  std::vector<Operands> values_;                         // by numbers of nodes
  std::vector<bool> is_refused_;                         // a node whose results are placeholders, however many
};

}  // namespace rvm::mxnet

#endif  // RVM_COMPILER_IMPORT_MXNET_IMPORTER_H_
