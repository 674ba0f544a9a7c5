// Importer: TensorFlow Lite graphs as Relay, node by node. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_
#define RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_

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
#include "compiler/import/tflite/import.h"
#include "compiler/import/tflite/model.h"

namespace rvm::tflite {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class NodeContext;

struct OperatorRow {
  std::string_view name;  // "CONV_2D"
  Operands (*convert)(NodeContext&);
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
};
// The operators that can be imported, by family: one file each, with a table at its end.
std::span<const OperatorRow> ElementwiseOperators();
std::span<const OperatorRow> LayerOperators();
std::span<const OperatorRow> ShapeOperators();

// One node while it is converted, and the steps that it becomes.
class NodeContext : public Steps {
 public:
  NodeContext(Emitter& emit, const Graph& graph, const Node& node, const OperatorRow& row, Operands inputs)
      : Steps(emit), graph_(graph), node_(node), row_(row), inputs_(std::move(inputs)) {}

  const OperatorRow& row() const { return row_; }
  const Table& options() const { return node_.options; }
  size_t num_inputs() const { return inputs_.size(); }
  size_t num_outputs() const { return node_.outputs.size(); }
  bool Has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  // Input `i`; a mistake where it was left out.
  Operand In(size_t i);
  // The tensor that output `i` is; a mistake, and null, if there is none.
  const Tensor* Output(size_t i);
  // The dtype of output `i`; a mistake if Relay has it not.
  DataType OutputDType(size_t i);
  // The integers of input `i`, which have to be known now; a mistake that names `what` if they are not.
  std::vector<int64_t> Ints(size_t i, std::string_view what);
  // The one integer of input `i`.
  int64_t Int(size_t i, std::string_view what);
  // Returns `x` after the fused activation of that field of the options.
  Operand Activated(Operand x, int field);

 private:
  const Graph& graph_;
  const Node& node_;
  const OperatorRow& row_;
  Operands inputs_;
};

class Importer final : public importing::Frame {
 public:
  // `size` is that of the file, in bytes.
  Importer(const Model& model, const ImportOptions& options, size_t size);

 private:
  absl::StatusOr<ImportedModel> ImportModel() override;
  absl::Status ReadInputs();
  void ImportNode(const Node& node);
  Operands Convert(const Node& node);
  // The value of a tensor: of a node, or a constant. Null, and a mistake, if it has none.
  Operand Value(int32_t number);
  absl::StatusOr<Operand> Constant(const Tensor& tensor);
  std::string Label(const Node& node) const;

  const Graph& graph_;
  int64_t constant_budget_;                       // bytes of constants that may still be copied: tensors may share them
  std::vector<int32_t> param_inputs_;             // numbers of tensors
  absl::flat_hash_map<int32_t, Operand> values_;  // by numbers of tensors
};

}  // namespace rvm::tflite

#endif  // RVM_COMPILER_IMPORT_TFLITE_IMPORTER_H_
