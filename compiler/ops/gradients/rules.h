// The gradient rules of operators, which their entries name (OpDef::gradient). In the formulas x, a, b are arguments, y
// is the result and d its adjoint. Kinks: `relu`, `abs` and `clip` as PyTorch; equal extremes share.
#ifndef RVM_COMPILER_OPS_GRADIENTS_RULES_H_
#define RVM_COMPILER_OPS_GRADIENTS_RULES_H_

#include "compiler/ops/op_def.h"

namespace rvm::ops {

#define RVM_GRADIENT(name) void name##Gradient(Pullback& p);
#include "compiler/ops/gradients/rules.def"
#undef RVM_GRADIENT

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GRADIENTS_RULES_H_
