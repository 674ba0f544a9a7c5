// Makes global functions of local ones.
#ifndef RVM_COMPILER_PASSES_LAMBDA_LIFT_H_
#define RVM_COMPILER_PASSES_LAMBDA_LIFT_H_

#include "compiler/ir/module.h"

namespace rvm::passes {

// Takes a specialised module. A function literal bound by a let that is only ever called becomes
// a global function, with the variables it captured as parameters in front of its own, and its
// calls pass them. So local loops need no closure and call themselves directly.
ir::Module LambdaLift(const ir::Module& module);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_LAMBDA_LIFT_H_
