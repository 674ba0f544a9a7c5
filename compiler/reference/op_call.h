// Operator calls of the reference evaluator. A call site caches its computation for the types of its arguments.
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

// A call site of an operator.
class OpCall {
 public:
  // Both outlive it.
  OpCall(const ops::OpDef& op, const ir::Attrs& attrs) : op_(&op), attrs_(&attrs) {}

  // Like ops::EvaluateOp, for tensor arguments. Returns the fields of a tuple, or one result. nullopt if the argument
  // types do not determine the computation; the caller then uses EvaluateOp.
  absl::StatusOr<std::optional<std::vector<Literal>>> Call(std::span<const Literal> args);
  // REQUIRES: Call returned results.
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
