// The places of the subexpressions of an expression. Internal to this folder.
#ifndef RVM_COMPILER_DRIVER_EXPR_CHILDREN_H_
#define RVM_COMPILER_DRIVER_EXPR_CHILDREN_H_

#include <vector>

#include "compiler/ir/expr.h"

namespace rvm::driver {

// Appends to `out`, which makes a walk over a whole program a loop.
void AppendChildren(ir::Expr* expr, std::vector<ir::Expr**>& out);

}  // namespace rvm::driver

#endif  // RVM_COMPILER_DRIVER_EXPR_CHILDREN_H_
