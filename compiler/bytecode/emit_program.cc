#include "compiler/bytecode/emit_program.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "compiler/bytecode/code_buffer.h"
#include "compiler/bytecode/function_emitter.h"
#include "compiler/bytecode/program_tables.h"
#include "compiler/ir/walk.h"
#include "serialization/function_types.h"

namespace rvm::bytecode {

namespace {

// The emitter looks into the types of values, so types that the format cannot express are reported first.
absl::Status LowerTypes(const ir::Function& function, TypeTable& types) {
  for (const ir::Var* param : function.params) types.Lower(param->type);
  ir::ForEachExpr(function.body, [&](const ir::Expr* expr) {
    bool is_value = expr->expr_kind != ir::ExprKind::kOp && expr->expr_kind != ir::ExprKind::kGlobal &&
                    expr->expr_kind != ir::ExprKind::kConstructor && expr->expr_kind != ir::ExprKind::kFunction;
    if (is_value) types.Lower(expr->type);
    return expr->expr_kind != ir::ExprKind::kFunction;
  });
  return types.status();
}

// A closure that stands for a function of the host, one for each type of functions that entries take. Machines make its
// cells and find the function by the number that a cell holds.
void EmitHostClosure(TypeId type, ProgramTables& tables, Executable& executable) {
  FunctionId id(static_cast<uint32_t>(executable.functions.size()));
  FunctionDesc desc;
  desc.name = "function of the host";
  desc.result = executable.types[type.value].result;
  desc.registers.push_back({type, false});
  std::vector<Reg> args;
  for (TypeId param : executable.types[type.value].fields) {
    args.push_back(Reg(static_cast<uint16_t>(desc.registers.size())));
    desc.registers.push_back({param, false});
  }
  desc.num_params = static_cast<uint16_t>(desc.registers.size());
  Reg self(0), result(desc.num_params);
  desc.registers.push_back({desc.result, false});
  CodeBuffer code;
  code.Op(Opcode::kCallHost).R(result).R(self).Rs(args);
  code.Op(Opcode::kDrop).R(self);
  code.Op(Opcode::kReturn).R(result);
  desc.code = code.Take();
  tables.types().ClosureLayout(type, id, {tables.types().Scalar(kInt64)});
  executable.functions.push_back(std::move(desc));
}

}  // namespace

absl::StatusOr<EmittedProgram> EmitProgram(const ir::Module& module, const std::vector<std::string>& entries,
                                           const diagnostics::SourceMap& sources, const EmitOptions& options) {
  EmittedProgram program;
  ProgramTables tables(*module.arena, sources, options, program);
  tables.AddModule(module);
  for (const std::string& name : entries) {
    Entry entry{name, tables.GlobalByName(name), {}};
    for (const ir::Var* param : module.FindFunction(name)->function->params) entry.param_names.push_back(param->name);
    program.executable.entries.push_back(std::move(entry));
  }
  PendingFunction pending;
  while (tables.TakePending(pending)) {
    RVM_RETURN_IF_ERROR(LowerTypes(*pending.function, tables.types()));
    RVM_ASSIGN_OR_RETURN(FunctionDesc desc, FunctionEmitter(tables, pending).Run());
    tables.Finish(pending.id, std::move(desc));
    RVM_RETURN_IF_ERROR(tables.types().status());
  }
  FunctionTypes types = FunctionTypesOf(program.executable);
  for (uint32_t t = 0; t < types.taken.size(); ++t) {
    if (types.taken[t]) EmitHostClosure(TypeId(t), tables, program.executable);
  }
  RVM_RETURN_IF_ERROR(tables.types().status());
  return program;
}

}  // namespace rvm::bytecode
