// Operators that give their first argument, element by element: marks, and copies of values, which nobody can tell from
// the value.
#ifndef RVM_COMPILER_OPS_IDENTITY_H_
#define RVM_COMPILER_OPS_IDENTITY_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "compiler/ir/expr.h"
#include "compiler/ops/op_def.h"

namespace rvm::ops {

// Compute of these operators.
std::vector<te::Tensor> ComputeIdentity(const ComputeContext& context);

// Returns true if the operator's only result is its first argument.
bool IsIdentity(const OpDef& op);

// Returns the argument that a call of an operator gives as field `field` of the tuple of its results; nullopt if the
// call computes the field.
std::optional<size_t> GivenArgument(const ir::Call& call, size_t field);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_IDENTITY_H_
