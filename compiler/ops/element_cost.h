// The cost of operators.
#ifndef RVM_COMPILER_OPS_ELEMENT_COST_H_
#define RVM_COMPILER_OPS_ELEMENT_COST_H_

#include <cstdint>

#include "compiler/ir/expr.h"

namespace rvm::ops {

// Returns the cost of an element of the result, in additions (te::OperationCost). REQUIRES: the call of an elementwise
// operator, of tensors of known rank.
int64_t ElementCost(const ir::Call& call);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_ELEMENT_COST_H_
