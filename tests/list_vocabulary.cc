// Prints every word of the tables that tests must cover, one per line: `opcode Move move`,
// `operator nn.dense`, `diagnostic TypeMismatch type-mismatch`.
#include <iostream>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ops/op_def.h"

int main() {
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) std::cout << "opcode " #Name " " << mnemonic << "\n";
#include "serialization/isa/isa.def"
#define RVM_DIAGNOSTIC(Name, summary) \
  std::cout << "diagnostic " #Name " " << DiagnosticTag(rvm::diagnostics::DiagnosticKind::k##Name) << "\n";
#include "compiler/diagnostics/diagnostic_kind.def"
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) std::cout << "operator " << op->name << "\n";
  return 0;
}
