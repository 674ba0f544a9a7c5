// Evaluates one operator with te::Evaluate, for constant folding and the reference evaluator.
#ifndef RVM_COMPILER_OPS_EVALUATE_OP_H_
#define RVM_COMPILER_OPS_EVALUATE_OP_H_

#include <span>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Arguments and result are tensors or tuples of tensors. Returns kInvalidArgument for shapes that do not fit.
// `literal` as int64, like `cast` gives it.
Literal ToIntegers(const Literal& literal);

absl::StatusOr<Value> EvaluateOp(const OpDef& op, const ir::Attrs& attrs, std::span<const Value> args);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_EVALUATE_OP_H_
