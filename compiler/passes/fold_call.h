// Computes operator calls at compile time.
#ifndef RVM_COMPILER_PASSES_FOLD_CALL_H_
#define RVM_COMPILER_PASSES_FOLD_CALL_H_

#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {

// The result of `op` on constants and tuples of constants, as a constant or a tuple of constants. Null if an argument
// is something else, if argument or result are large, or if the call fails: then it fails at run time, with a
// backtrace. A constant under another shape shares its elements and may have any size. `type`: of the call.
ir::Expr* FoldCall(const ir::Builder& at, const ops::OpDef& op, const ir::Attrs& attrs,
                   const std::vector<const ir::Expr*>& args, const ir::Type* type);

}  // namespace rvm::passes

#endif  // RVM_COMPILER_PASSES_FOLD_CALL_H_
