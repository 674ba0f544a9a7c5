// Prints every word of the tables that tests must cover, one per line: `opcode Move move`,
// `operator nn.dense`, `diagnostic TypeMismatch type-mismatch`.
#include <cctype>
#include <iostream>
#include <string>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace {

// "TypeMismatch" -> "type-mismatch", as messages show it.
std::string Kebab(std::string_view name) {
  std::string text;
  for (char c : name) {
    bool is_upper = std::isupper(static_cast<unsigned char>(c)) != 0;
    if (is_upper && !text.empty()) text += '-';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return text;
}

}  // namespace

int main() {
#define RVM_OP(code, Name, mnemonic, operands, flow, semantics) std::cout << "opcode " #Name " " << mnemonic << "\n";
#include "serialization/isa/isa.def"
#define RVM_DIAGNOSTIC(Name, summary) std::cout << "diagnostic " #Name " " << Kebab(#Name) << "\n";
#include "compiler/diagnostics/diagnostic_kind.def"
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) std::cout << "operator " << op->name << "\n";
  return 0;
}
