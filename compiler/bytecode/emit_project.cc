// FunctionEmitter: fields of tuples. A tuple that is only projected is unpacked as a whole at the first projection:
// this saves the reference counting of single fields, and frees the tuple's memory early.
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "compiler/bytecode/function_emitter.h"

namespace rvm::bytecode {

absl::Status FunctionEmitter::EmitProject(const ir::Project& project, const ir::Var* var, const Target& target) {
  if (var != nullptr && taken_out_.erase(var) > 0) return absl::OkStatus();
  const auto* source = ir::DynCast<ir::VarExpr>(project.tuple);
  if (var != nullptr && source != nullptr && CanTakeApart(source->var)) {
    TakeApart(source->var);
    taken_out_.erase(var);
    return absl::OkStatus();
  }
  Operands operands;
  Reg tuple = Borrow(project.tuple, operands);
  TypeId tuple_type = registers_.desc(tuple).type;
  TypeId type = tables_.types().desc(tuple_type).fields[project.index];
  LayoutId layout = tables_.types().TupleLayout(tuple_type);
  Reg out = Destination(var, target, type);
  code_.Op(Opcode::kGetField).R(out).R(tuple).Unit(static_cast<uint16_t>(layout.value));
  code_.Unit(static_cast<uint16_t>(project.index));
  Release(operands);
  return Deliver(out, type, var, target);
}

std::span<const Liveness::Projection> FunctionEmitter::ProjectionsOf(const ir::Var* tuple) const {
  return liveness_.Projections(tuple, block_->id, position_, block_->end);
}

// Returns whether all remaining uses of the tuple are projections that this block surely makes, to variables of the
// fields' own types. False if more fields would be dropped than are used.
bool FunctionEmitter::CanTakeApart(const ir::Var* tuple) {
  const VarState& state = vars_.at(tuple);
  std::span<const Liveness::Projection> projections = ProjectionsOf(tuple);
  if (state.owner != block_->id || projections.empty() || projections[0].position != position_ ||
      liveness_.NumUses(tuple, position_, block_->end) != projections.size()) {
    return false;
  }
  const TypeDesc& desc = tables_.types().desc(registers_.desc(state.reg).type);
  std::set<int64_t> taken;
  for (const Liveness::Projection& projection : projections) {
    taken.insert(projection.index);
    TypeId has = desc.fields[static_cast<size_t>(projection.index)];
    TypeId wanted = tables_.types().Lower(projection.var->type);
    if (has != wanted && !tables_.IsAssignable(has, wanted)) return false;
  }
  return desc.fields.size() <= 2 * taken.size();
}

void FunctionEmitter::TakeApart(const ir::Var* tuple) {
  Reg whole = vars_.at(tuple).reg;
  TypeId type = registers_.desc(whole).type;
  const std::vector<TypeId> fields = tables_.types().desc(type).fields;
  auto layout = static_cast<uint16_t>(tables_.types().TupleLayout(type).value);
  std::vector<const ir::Var*> vars(fields.size(), nullptr);
  std::vector<Liveness::Projection> again;
  for (const Liveness::Projection& projection : ProjectionsOf(tuple)) {
    const ir::Var*& var = vars[static_cast<size_t>(projection.index)];
    var == nullptr ? void(var = projection.var) : again.push_back(projection);
  }
  std::vector<Reg> regs;
  for (size_t i = 0; i < fields.size(); ++i) {
    regs.push_back(vars[i] == nullptr ? registers_.Allocate(fields[i]) : Destination(vars[i], Target{}, fields[i]));
  }
  if (NextCell(fields.size(), *block_, position_ + 1)) {
    Reg shell = registers_.Allocate(tables_.types().Shell(fields.size()));
    code_.Op(Opcode::kUnpackShell).Rs(regs).R(shell).R(whole).Unit(layout);
    GiveUp(tuple);
    BindShell(shell, position_ + 1);
  } else {
    code_.Op(Opcode::kUnpack).Rs(regs).R(whole).Unit(layout);
    GiveUp(tuple);
  }
  auto bind = [&](const ir::Var* var, Reg reg, TypeId field) {
    taken_out_.insert(var);
    Bind(var, reg, field);
    DropIfUnused(var);
  };
  for (const Liveness::Projection& projection : again) {
    auto i = static_cast<size_t>(projection.index);
    Reg copy = Destination(projection.var, Target{}, fields[i]);
    code_.Op(Owns(copy) ? Opcode::kRetain : Opcode::kMove).R(copy).R(regs[i]);
    bind(projection.var, copy, fields[i]);
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    if (vars[i] != nullptr) {
      bind(vars[i], regs[i], fields[i]);
    } else {
      if (Owns(regs[i])) code_.Op(Opcode::kDrop).R(regs[i]);
      registers_.Free(regs[i]);
    }
  }
}

}  // namespace rvm::bytecode
