// Prints every word of the tables that tests must cover, one per line: `opcode Move move`,
// `operator nn.dense`, `diagnostic TypeMismatch type-mismatch`, with `has-example` behind it where its row has one.
#include <iostream>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ops/op_def.h"

int main() {
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) std::cout << "opcode " #Name " " << mnemonic << "\n";
#include "serialization/isa/isa.def"
  for (rvm::diagnostics::DiagnosticKind kind : rvm::diagnostics::AllDiagnosticKinds()) {
    std::cout << "diagnostic " << DiagnosticName(kind) << " " << DiagnosticTag(kind)
              << (DiagnosticExample(kind).empty() ? "" : " has-example") << "\n";
  }
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) std::cout << "operator " << op->name << "\n";
  return 0;
}
