// Which operator calls on scalars are single instructions rather than kernels.
#ifndef RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_
#define RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/expr.h"
#include "compiler/ops/scalar_instruction.h"
#include "serialization/isa/isa.h"

namespace rvm::bytecode {

using ops::ScalarInstruction;

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

// `branch` (of two integers) with one of them, the left or the right one, known to be `value`.
struct ImmediateBranch {
  Opcode opcode;
  int16_t value;
};
std::optional<ImmediateBranch> WithImmediate(Opcode branch, int16_t value, bool is_left);

// The value of a rank-0 integer constant whose negative fits an immediate too.
std::optional<int16_t> SmallInt(const ir::Expr* atom);

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_SCALAR_INSTRUCTION_H_
