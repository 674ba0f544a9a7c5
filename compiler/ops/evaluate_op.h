// Runs one operator on values through te::Evaluate: for constant folding and the reference
// evaluator.
#ifndef RVM_COMPILER_OPS_EVALUATE_OP_H_
#define RVM_COMPILER_OPS_EVALUATE_OP_H_

#include <span>

#include "absl/status/statusor.h"
#include "base/value.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Arguments are tensors or tuples of tensors; so is the result. Wrong shapes are kInvalidArgument.
absl::StatusOr<Value> EvaluateOp(const OpDef& op, const ir::Attrs& attrs, std::span<const Value> args);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_EVALUATE_OP_H_
