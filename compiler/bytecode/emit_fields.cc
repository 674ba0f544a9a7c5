// FunctionEmitter: results that are returned field by field. The tuple is built only where it is used as a whole.
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "compiler/bytecode/function_emitter.h"

namespace rvm::bytecode {

bool FunctionEmitter::IsCallForFields(const ir::Expr* expr) {
  const ir::GlobalExpr* callee = ir::GlobalCallee(expr);
  return callee != nullptr && tables_.function(tables_.GlobalByName(callee->name)).returns_fields;
}

// `let %t = f(...); let %a = %t.0; let %b = %t.1; ...`: the fields go straight to the variables that project them.
absl::Status FunctionEmitter::EmitCallWithProjections(const ir::Let& let, const ir::Expr** next) {
  const auto& call = *ir::Cast<ir::Call>(let.value);
  FunctionId callee = tables_.GlobalByName(ir::GlobalCallee(&call)->name);
  TypeId tuple = tables_.function(callee).result;
  const std::vector<TypeId> types = tables_.types().desc(tuple).fields;
  std::vector<const ir::Var*> vars(types.size(), nullptr);
  const ir::Expr* rest = let.body;
  uint32_t projections = FollowProjections(let.var, &rest, vars);
  Mark(call.span);
  if (liveness_.num_uses(let.var) != projections) return EmitStep(let.value, let.var, Target{});
  *next = rest;
  position_ = next_position_++;
  next_position_ += projections;
  Operands operands;
  RVM_ASSIGN_OR_RETURN(std::vector<Reg> args, TakeArgs(callee, call.args, operands));
  Release(operands);
  std::vector<Reg> regs = CallForFields(callee, args, vars);
  for (size_t i = 0; i < regs.size(); ++i) {
    if (vars[i] != nullptr) {
      RVM_RETURN_IF_ERROR(Deliver(regs[i], types[i], vars[i], Target{}));
    } else {
      if (Owns(regs[i])) code_.Op(Opcode::kDrop).R(regs[i]);
      registers_.Free(regs[i]);
    }
  }
  return absl::OkStatus();
}

// Returns the registers of the fields, those that `vars` want where it names some.
std::vector<Reg> FunctionEmitter::CallForFields(FunctionId callee, const std::vector<Reg>& args,
                                                const std::vector<const ir::Var*>& vars) {
  const std::vector<TypeId> types = tables_.types().desc(tables_.function(callee).result).fields;
  std::vector<Reg> regs;
  for (size_t i = 0; i < types.size(); ++i) {
    const ir::Var* var = vars.empty() ? nullptr : vars[i];
    regs.push_back(var == nullptr ? registers_.Allocate(types[i]) : Destination(var, Target{}, types[i]));
  }
  code_.Op(Opcode::kCallFields).Rs(regs).U32(callee.value).Rs(args);
  return regs;
}

absl::Status FunctionEmitter::DeliverFields(const std::vector<Reg>& fields, TypeId tuple, const ir::Var* var,
                                            const Target& target) {
  if (returns_fields_ && var == nullptr && target.is_tail) return ReturnFields(fields);
  for (Reg reg : fields) registers_.Free(reg);
  Reg out = Destination(var, target, tuple);
  code_.Op(Opcode::kMakeCell).R(out).Unit(static_cast<uint16_t>(tables_.types().TupleLayout(tuple).value)).Rs(fields);
  return Deliver(out, tuple, var, target);
}

absl::Status FunctionEmitter::ReturnFields(std::vector<Reg> fields) {
  const std::vector<TypeId> types = tables_.types().desc(result_type_).fields;
  std::vector<Reg> taken = fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(fields[i], Coerce(fields[i], registers_.desc(fields[i]).type, types[i]));
    if (fields[i].value != taken[i].value) registers_.Free(fields[i]);
  }
  code_.Op(Opcode::kReturnFields).Rs(fields);
  for (Reg reg : taken) registers_.Free(reg);
  return absl::OkStatus();
}

absl::Status FunctionEmitter::ReturnTuple(const ir::Tuple& tuple) {
  const std::vector<TypeId> types = tables_.types().desc(result_type_).fields;
  Operands operands;
  std::vector<Reg> regs;
  for (size_t i = 0; i < tuple.fields.size(); ++i) {
    RVM_ASSIGN_OR_RETURN(Reg reg, Consume(tuple.fields[i], types[i], operands, tuple.fields, i));
    regs.push_back(reg);
  }
  code_.Op(Opcode::kReturnFields).Rs(regs);
  Release(operands);
  return absl::OkStatus();
}

absl::Status FunctionEmitter::ReturnFieldsOf(Reg tuple) {
  TypeId type = registers_.desc(tuple).type;
  std::vector<Reg> fields;
  for (TypeId field : std::vector<TypeId>(tables_.types().desc(type).fields)) {
    fields.push_back(registers_.Allocate(field));
  }
  code_.Op(Opcode::kUnpack).Rs(fields).R(tuple).Unit(static_cast<uint16_t>(tables_.types().TupleLayout(type).value));
  return ReturnFields(std::move(fields));
}

}  // namespace rvm::bytecode
