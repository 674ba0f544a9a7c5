// Selects the instructions of operator calls that need no kernel.
#ifndef RVM_COMPILER_OPS_SELECT_SCALAR_H_
#define RVM_COMPILER_OPS_SELECT_SCALAR_H_

#include <optional>

#include "compiler/ir/expr.h"
#include "compiler/ops/scalar_instruction.h"

namespace rvm::ops {

// Returns the instruction of a call of an operator on scalars, or nullopt if the call has none. Casts and copies
// between scalars have one, too (Cast, Move).
std::optional<ScalarInstruction> SelectScalar(const ir::Call& call);

// Returns true for inline operator calls without a kernel: scalar instructions, reshapes, which are views, and
// identities.
bool NeedsNoKernel(const ir::Call& call);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_SELECT_SCALAR_H_
