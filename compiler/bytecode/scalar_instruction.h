// Which operator calls on scalars are single instructions rather than kernels.
#ifndef RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_
#define RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_

#include <optional>

#include "compiler/ir/expr.h"
#include "serialization/isa/isa.h"

namespace rvm::bytecode {

// `dst := opcode a b`, or `dst := opcode a` for unary opcodes.
struct ScalarInstruction {
  Opcode opcode;
  bool unary = false;
  bool swap = false;    // operands exchanged: `a > b` is `b < a`
  bool negate = false;  // followed by not_bool
  bool wrap = false;    // followed by wrap_int to the operands' dtype
};

// Null unless `call` calls an operator on scalars that has an instruction. Casts and copies
// between scalars have one too (Cast, Move).
std::optional<ScalarInstruction> SelectScalar(const ir::Call& call);

// Inline operator calls that need no kernel: scalar instructions, and reshapes, which are views.
bool NeedsNoKernel(const ir::Call& call);

// The conditional branch taken when the comparison `a opcode b` (swap done) is false.
struct InverseBranch {
  Opcode opcode;
  bool swap;
};
std::optional<InverseBranch> BranchIfNot(Opcode comparison, bool negated);

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_
