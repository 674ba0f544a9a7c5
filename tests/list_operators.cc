// Prints docs/operators.md: every operator of the table, with its inputs, attributes and examples.
// With --examples only these, a line each: operator, call, result; tabs between them. With --gradients the operators
// that have a gradient rule, a line each.
#include <iostream>
#include <string>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace {

// Returns a `|` would end the table's cell.
std::string Cell(std::string_view text) {
  std::string cell;
  for (char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

std::string Inputs(const rvm::ops::OpDef& op) {
  std::string cell;
  for (const rvm::ops::Input& input : op.inputs) {
    if (!cell.empty()) cell += "<br>";
    cell += "`" + std::string(input.name) + "` " + Cell(input.doc) + (input.is_optional ? "; may be left out" : "");
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

std::string Examples(const rvm::ops::OpDef& op) {
  std::string cell;
  for (const rvm::ops::Example& example : op.examples) {
    cell += "<br>`" + Cell(example.call) + "` is `" + Cell(example.result) + "`";
  }
  return cell;
}

void PrintExamples() {
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) {
    for (const rvm::ops::Example& example : op->examples) {
      std::cout << op->name << '\t' << example.call << '\t' << example.result << '\n';
    }
  }
}

void PrintGradients() {
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) {
    if (op->gradient != nullptr) std::cout << op->name << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--examples") {
    PrintExamples();
    return 0;
  }
  if (argc == 2 && std::string_view(argv[1]) == "--gradients") {
    PrintGradients();
    return 0;
  }
  std::cout
      << "# The operators\n\n"
         "Generated from the tables in `compiler/ops`; `tests/documents_test.py` compares the two and says how to\n"
         "rewrite this page. An attribute without `=` is required. Shapes may be symbolic everywhere unless a\n"
         "description says otherwise. Indices out of range are clamped: nothing reads outside a tensor.\n\n"
         "Sums: the error of `sum`, `mean`, `variance` and `nn.global_avg_pool2d` of n <= 1024 floats is at most\n"
         "n * 2^-24 times the sum of the magnitudes. More floats, or a number of them that is unknown at compile\n"
         "time, are summed in float64: the error is at most 2^-23 times that sum (and one rounding, for float16).\n"
         "This holds at each level, for portable files and for the reference evaluator.\n\n"
         "The predecessor's `vm.`, `memory.` and device operators have no counterpart: its compiler inserts\n"
         "them, and here they are instructions (docs/isa.md).\n\n"
         "| operator | value | inputs | attributes |\n|---|---|---|---|\n";
  for (const rvm::ops::OpDef* op : rvm::ops::AllOps()) {
    std::cout << "| `" << op->name << "`" << (op->infix.empty() ? "" : ", infix `" + Cell(op->infix) + "`") << " | "
              << Cell(op->summary) << Examples(*op) << " | " << Inputs(*op) << " | " << Attributes(*op) << " |\n";
  }
  return 0;
}
