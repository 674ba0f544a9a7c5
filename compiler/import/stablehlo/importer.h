// Importer: StableHLO as Relay, operation by operation. Internal to this folder; import.h is for others.
#ifndef RVM_COMPILER_IMPORT_STABLEHLO_IMPORTER_H_
#define RVM_COMPILER_IMPORT_STABLEHLO_IMPORTER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "compiler/import/frame/frame.h"
#include "compiler/import/stablehlo/exported.h"
#include "compiler/import/stablehlo/import.h"
#include "compiler/import/stablehlo/module.h"

namespace rvm::stablehlo {

using importing::Emitter;
using importing::Operand;
using importing::Operands;
using importing::Steps;

class Importer;
class NodeContext;

// How an operator treats tensors in the place of the scalars of a body; see NodeContext::OnTensors.
enum class Lanes : uint8_t { kNone, kElementwise };

struct OperatorRow {
  std::string_view name;  // "add"
  Operands (*convert)(NodeContext&);
  std::string_view variant = "";  // what a converter of several operators asks for: an operator of Relay, or a mode
  Lanes lanes = Lanes::kNone;
};
// Returns the operators that can be imported, by family: one file each, with a table at its end.
std::span<const OperatorRow> ComplexOperators();  // of complex numbers alone
std::span<const OperatorRow> ControlOperators();
std::span<const OperatorRow> ElementwiseOperators();
std::span<const OperatorRow> IndexOperators();
std::span<const OperatorRow> OrderOperators();
std::span<const OperatorRow> ProductOperators();
std::span<const OperatorRow> ReduceOperators();
std::span<const OperatorRow> ShapeOperators();
std::span<const OperatorRow> WindowOperators();

// Returns the row of an operator, of real numbers or of complex ones; null if there is none.
const OperatorRow* FindOperator(std::string_view name, bool is_complex);

// One operation while it is converted, and the steps that it becomes.
class NodeContext : public Steps {
 public:
  NodeContext(Importer& importer, const Operation& op, const OperatorRow& row, Operands inputs);

  const Operation& op() const { return op_; }
  const OperatorRow& row() const { return row_; }
  // Tensors stand in the place of the scalars of a body.
  bool is_on_tensors() const;

  // ---- operands and results
  size_t num_inputs() const { return inputs_.size(); }
  // Input `i`; a mistake where there is none.
  Operand In(size_t i);
  Operands Inputs(size_t begin, size_t end) const;
  // Input `i`, or the constant scalar that it is a broadcast of.
  Operand ScalarOrIn(size_t i);
  // Returns the dtype of result `i`; a mistake if Relay does not have it, or there is none.
  DataType ResultDType(size_t i = 0);
  // Returns the extents of result `i`; unknown ones are `?`.
  Dims ResultDims(size_t i = 0);

  // Returns what the operation gives for other inputs, as one of real numbers.
  Operands OnReals(Operands inputs);

  // ---- attributes
  std::vector<int64_t> Ints(std::string_view name);  // none where it is missing
  int64_t Int(std::string_view name, int64_t otherwise);
  std::string_view Text(std::string_view name);

  // ---- bodies
  size_t num_regions() const { return op_.regions.size(); }
  // Returns the results of a region, or of a function, for these arguments.
  Operands Body(size_t region, const Operands& arguments);
  Operands CallFunction(std::string_view name, const Operands& arguments);
  // Returns the results of a region on scalars, computed for all elements of tensors at once.
  Operands OnTensors(size_t region, const Operands& arguments);
  // Returns the same of other values that a region computes, by their numbers.
  Operands ValuesOnTensors(size_t region, const Operands& arguments, std::span<const int32_t> numbers);

  // ---- notes about operands
  void NoteSplat(Operand tensor, Operand scalar);
  // Notes that an operand has the numbers 0, 1, ... along an axis.
  void NoteIota(Operand tensor, int64_t axis);
  bool IsIota(Operand tensor, int64_t axis) const;
  // Fails the program, when it runs, unless `condition` holds.
  void Check(Operand condition, std::string message);
  // Returns the extent that is named so, as the inputs of the program have it; nullopt if none has.
  std::optional<Dim> NamedExtent(std::string_view name);
  const Module& module() const;

 private:
  Importer& importer_;
  const Operation& op_;
  const OperatorRow& row_;
  Operands inputs_;
};

class Importer final : public importing::Frame {
 public:
  Importer(const Module& module, const Exported& exported, const ImportOptions& options);

 private:
  friend class NodeContext;
  struct Condition {
    Operand holds;
    std::string message;
  };

  absl::StatusOr<ImportedModel> ImportModel() override;
  absl::Status ReadInputs();
  absl::Status ReadInput(size_t i);
  // Returns argument `i` of `main` for what an input gives: complex numbers come as pairs along a last axis.
  Operand Argument(size_t i, Operand given);
  // The names of the inputs, as far as the file has them.
  std::vector<std::string> InputNames() const;
  std::vector<std::string> ExtentTexts(size_t input) const;
  void NoteOutputs(ImportedModel& result) const;
  void CountOperations(const Block& block);

  Operands Run(const Block& block, const Operands& arguments);
  void ImportOperation(const Operation& op);
  Operands Convert(const Operation& op);
  // Compares a result with the type that the file gives it, and takes over the extents that only the file knows.
  Operand Checked(Operand result, const Type& type, size_t number);
  Operands CheckConditions(Operands results);

  const Module& module_;
  const Exported& exported_;
  const Block& main_;
  std::vector<std::string> input_names_;
  std::vector<size_t> param_inputs_;               // numbers of arguments of `main`
  Operands values_;                                // by their numbers
  absl::flat_hash_map<Operand, Operand> splats_;   // the scalars that operands are broadcasts of
  absl::flat_hash_map<Operand, int64_t> iotas_;    // the axes along which operands count
  absl::flat_hash_map<std::string, Dim> named_;    // extents of the inputs
  absl::flat_hash_set<const Operation*> refused_;  // bodies are converted more than once
  absl::flat_hash_set<const Operation*> running_;  // functions
  std::vector<Condition> conditions_;
  bool on_tensors_ = false;
  int region_depth_ = 0;  // of regions around what is imported
};

}  // namespace rvm::stablehlo

#endif  // RVM_COMPILER_IMPORT_STABLEHLO_IMPORTER_H_
