#include "compiler/bytecode/branch_instruction.h"

#include <cstdint>
#include <limits>

namespace rvm::bytecode {

using enum Opcode;

std::optional<ImmediateBranch> WithImmediate(Opcode branch, int16_t value, bool is_left) {
  if (branch == kBranchEqInt) return ImmediateBranch{kBranchEqImm, value};
  if (branch == kBranchNeInt) return ImmediateBranch{kBranchNeImm, value};
  bool is_strict = branch == kBranchLtInt;
  Opcode opcode = is_left ? kBranchGeImm : kBranchLtImm;
  // `a <= value` is `a < value + 1`, and `value < b` is `b >= value + 1`.
  if (is_strict != is_left) return ImmediateBranch{opcode, value};
  if (value == std::numeric_limits<int16_t>::max()) return std::nullopt;
  return ImmediateBranch{opcode, static_cast<int16_t>(value + 1)};
}

std::optional<InverseBranch> BranchIfNot(Opcode comparison, bool negated) {
  if (negated) return std::nullopt;
  if (comparison == kEqInt) return InverseBranch{kBranchNeInt, false};
  if (comparison == kNeInt) return InverseBranch{kBranchEqInt, false};
  if (comparison == kLtInt) return InverseBranch{kBranchLeInt, true};
  if (comparison == kLeInt) return InverseBranch{kBranchLtInt, true};
  return std::nullopt;
}

std::optional<int16_t> SmallInt(const ir::Expr* atom) {
  const auto* constant = ir::DynCast<ir::Constant>(atom);
  if (constant == nullptr || !constant->literal.dtype().is_integral()) return std::nullopt;
  int64_t value = constant->literal.IntAt(0);
  if (value <= std::numeric_limits<int16_t>::min() || value > std::numeric_limits<int16_t>::max()) return std::nullopt;
  return static_cast<int16_t>(value);
}

}  // namespace rvm::bytecode
