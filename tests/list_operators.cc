// Prints docs/operators.md: every operator of the table, with its inputs and attributes.
#include <iostream>
#include <string>

#include "compiler/ops/op_def.h"

namespace {

// A `|` would end the table's cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string Inputs(const rvm::ops::OpDef& op) {
  std::string cell;
  for (const rvm::ops::Input& input : op.inputs) {
    if (!cell.empty()) cell += "<br>";
    cell += "`" + std::string(input.name) + "` " + Cell(input.doc);
  }
  return cell;
}

std::string Attributes(const rvm::ops::OpDef& op) {
  std::string cell;
  for (const rvm::ops::AttrSpec& attr : op.attrs) {
    if (!cell.empty()) cell += "<br>";
    cell += "`" + std::string(attr.name);
    if (!attr.default_text.empty()) cell += "=" + std::string(attr.default_text);
    cell += "` " + Cell(attr.doc);
  }
  return cell;
}

}  // namespace

int main() {
  std::cout
      << "# The operators\n\n"
         "Generated from the tables in `compiler/ops`; a test compares the two (`tests/documents_test.py` says how\n"
         "to rewrite this page). An attribute without `=` must be given. Shapes may be symbolic everywhere unless\n"
         "a description says otherwise; indices out of range are clamped, nothing reads outside a tensor.\n\n"
         "The predecessor's `vm.`, `memory.` and device operators have no counterpart: they were its compiler's\n"
         "own, and here what they did is instructions (docs/isa.md).\n\n"
         "| operator | value | inputs | attributes |\n|---|---|---|---|\n";
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) {
    std::cout << "| `" << op->name << "`" << (op->infix.empty() ? "" : ", infix `" + Cell(op->infix) + "`") << " | "
              << Cell(op->summary) << " | " << Inputs(*op) << " | " << Attributes(*op) << " |\n";
  }
  return 0;
}
