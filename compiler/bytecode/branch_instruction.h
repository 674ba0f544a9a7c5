// Selects the conditional branches that comparisons of scalars fuse with.
#ifndef RVM_COMPILER_BYTECODE_BRANCH_INSTRUCTION_H_
#define RVM_COMPILER_BYTECODE_BRANCH_INSTRUCTION_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/expr.h"
#include "serialization/isa/isa.h"

namespace rvm::bytecode {

// The conditional branch taken when the comparison `a opcode b` (swap done) is false.
struct InverseBranch {
  Opcode opcode;
  bool swap;
};
std::optional<InverseBranch> BranchIfNot(Opcode comparison, bool negated);

// A comparison of an integer with an immediate.
struct ImmediateBranch {
  Opcode opcode;
  int16_t value;
};
// Returns `branch`, of two integers, with its left or right operand known to be `value`.
std::optional<ImmediateBranch> WithImmediate(Opcode branch, int16_t value, bool is_left);

// Returns the value of a rank-0 integer constant if the value and its negative fit an immediate.
std::optional<int16_t> SmallInt(const ir::Expr* atom);

}  // namespace rvm::bytecode

#endif  // RVM_COMPILER_BYTECODE_BRANCH_INSTRUCTION_H_
