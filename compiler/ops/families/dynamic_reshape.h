// The type relation of `dyn.reshape`.
#ifndef RVM_COMPILER_OPS_FAMILIES_DYNAMIC_RESHAPE_H_
#define RVM_COMPILER_OPS_FAMILIES_DYNAMIC_RESHAPE_H_

#include "compiler/ops/op_def.h"

namespace rvm::ops {

Solve DynamicReshapeRelation(TypeContext& context);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_FAMILIES_DYNAMIC_RESHAPE_H_
