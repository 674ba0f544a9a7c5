#include "compiler/bytecode/emit_program.h"

#include <utility>

#include "base/status_macros.h"
#include "compiler/bytecode/function_emitter.h"
#include "compiler/bytecode/program_tables.h"

namespace rvm::bytecode {

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
    RVM_ASSIGN_OR_RETURN(FunctionDesc desc, FunctionEmitter(tables, pending).Run());
    tables.Finish(pending.id, std::move(desc));
    RVM_RETURN_IF_ERROR(tables.types().status());
  }
  return program;
}

}  // namespace rvm::bytecode
