// FunctionEmitter: reuse of the memory of unpacked cells for cells that are built later.
//
// Reference counting with reuse, as in Perceus (A. Reinking et al., 2021): on every path the shell
// of a cell is reused by the first cell of equal size, or dropped as soon as there can be none.
#include <algorithm>
#include <cstdint>
#include <optional>

#include "compiler/bytecode/function_emitter.h"

namespace rvm::bytecode {

void FunctionEmitter::BindShell(Reg reg, uint32_t begin) {
  std::optional<uint32_t> use = NextCell(FieldsOf(reg), *block_, begin);
  if (!use) {
    code_.Op(Opcode::kDropShell).R(reg);
    registers_.Free(reg);
    return;
  }
  const ir::Var* var = tables_.arena().New<ir::Var>();
  vars_[var] = VarState{reg, registers_.desc(reg).type, block_->id, *use, std::nullopt};
  block_->dying.insert({*use, var});
}

const ir::Var* FunctionEmitter::ShellFor(size_t fields) const {
  for (auto it = block_->dying.lower_bound({position_, nullptr}); it != block_->dying.end() && it->first == position_;
       ++it) {
    Reg reg = vars_.at(it->second).reg;
    if (IsShell(reg) && FieldsOf(reg) == fields) return it->second;
  }
  return nullptr;
}

size_t FunctionEmitter::FieldsOf(Reg shell) const {
  return static_cast<size_t>(tables_.types().desc(registers_.desc(shell).type).dims[0]);
}

std::optional<uint32_t> FunctionEmitter::NextCell(size_t fields, const Block& block, uint32_t begin) const {
  for (uint32_t position : liveness_.CellsMade(fields, begin, block.end)) {
    bool taken = false;
    for (auto it = block.dying.lower_bound({position, nullptr}); it != block.dying.end() && it->first == position;
         ++it) {
      taken |= IsShell(vars_.at(it->second).reg);
    }
    if (!taken) return position;
  }
  return std::nullopt;
}

}  // namespace rvm::bytecode
