#include "compiler/bytecode/emit_program.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "compiler/bytecode/function_emitter.h"
#include "compiler/bytecode/program_tables.h"
#include "compiler/ir/walk.h"

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
  return program;
}

}  // namespace rvm::bytecode
