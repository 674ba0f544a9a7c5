// FunctionEmitter: memory of cells taken apart, passed on to cells made later.
//
// Reference counting with reuse, as in Perceus (A. Reinking et al., 2021): on every path the shell
// of a cell goes to the first cell of equal size, or is dropped as soon as none will come.
#include <algorithm>

#include "compiler/bytecode/function_emitter.h"

namespace rvm::bytecode {

void FunctionEmitter::BindShell(Reg reg) {
  std::optional<uint32_t> use = NextCell(reg, *block_);
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
    if (IsShell(reg) && tables_.types().desc(registers_.desc(reg).type).dims[0] == static_cast<int64_t>(fields)) {
      return it->second;
    }
  }
  return nullptr;
}

std::optional<uint32_t> FunctionEmitter::NextCell(Reg shell, const Block& block) const {
  auto fields = static_cast<size_t>(tables_.types().desc(registers_.desc(shell).type).dims[0]);
  for (uint32_t position : liveness_.CellsMade(fields, block.begin, block.end)) {
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
