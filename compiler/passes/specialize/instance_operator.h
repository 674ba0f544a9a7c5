// What an operator gives in one instance of a polymorphic function, for Specialize.
#ifndef RVM_COMPILER_PASSES_SPECIALIZE_INSTANCE_OPERATOR_H_
#define RVM_COMPILER_PASSES_SPECIALIZE_INSTANCE_OPERATOR_H_

#include "absl/status/statusor.h"
#include "base/dim.h"
#include "compiler/ir/expr.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {

// The type of the call's result, from the types of its arguments; kInvalidArgument with the operator's own message
// if it does not take them.
absl::StatusOr<const ir::Type*> InstanceResult(const ops::OpDef& op, const ir::Call& call, ir::Arena& arena);

// Is a result of type `own` what the program takes it for? Extents may stay unknown until it runs.
DimEquality CompareResults(const ir::Type* own, const ir::Type* claimed);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_SPECIALIZE_INSTANCE_OPERATOR_H_
