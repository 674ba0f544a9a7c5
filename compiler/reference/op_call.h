// Operators of the reference evaluator: each call in a program prepares its computation once for arguments of the same
// types.
#ifndef RVM_COMPILER_REFERENCE_OP_CALL_H_
#define RVM_COMPILER_REFERENCE_OP_CALL_H_

#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "compiler/ops/op_def.h"

namespace rvm::reference {

struct PreparedOp {
  std::vector<DataType> dtypes;
  std::vector<Shape> shapes;
  std::optional<te::Computation> computation;  // nullopt: see OpCall::Call
  bool has_tuple_result = false;
};

// One place where an operator is called.
class OpCall {
 public:
  // Both outlive it.
  OpCall(const ops::OpDef& op, const ir::Attrs& attrs) : op_(&op), attrs_(&attrs) {}

  // As ops::EvaluateOp, of arguments that are tensors; the results are those of a tuple, or one. nullopt where types
  // alone do not determine the computation: then EvaluateOp must do.
  absl::StatusOr<std::optional<std::vector<Literal>>> Call(std::span<const Literal> args);
  // REQUIRES: Call gave results.
  bool has_tuple_result() const { return prepared_->has_tuple_result; }

 private:
  bool Fits(std::span<const Literal> args) const;
  void Prepare(std::span<const Literal> args);

  const ops::OpDef* op_;
  const ir::Attrs* attrs_;
  std::optional<PreparedOp> prepared_;  // for the types of the latest call
};

}  // namespace rvm::reference

#endif  // RVM_COMPILER_REFERENCE_OP_CALL_H_
