// Writes a module as Relay text, in one canonical form that reads back to an equal module. Where the predecessor's
// grammar can say the same, the form is in that grammar: projections and blocks in parentheses, no `else if`.
#ifndef RVM_COMPILER_TEXT_PRINTER_H_
#define RVM_COMPILER_TEXT_PRINTER_H_

#include <cstdint>
#include <string>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/text/imports.h"

namespace rvm::text {

// With `sources`, also where the steps come from, as `#[origin = "node `MatMul_3` of model.onnx"]` before the first of
// those that come from one place.
std::string PrintModule(const ir::Module& module, const diagnostics::SourceMap* sources = nullptr);
std::string PrintExpr(const ir::Expr* expr);

// Parses `source` and prints it with its comments, each on a line above what it preceded. The predecessor's comments on
// types (`/* ty=... */`) are left out; references to the metadata section stay, and so does that section.
// Empty if errors were reported. `importer` declares what the text imports; null: imports are errors.
std::string Format(uint32_t source, diagnostics::Diagnostics& diagnostics, Importer* importer = nullptr);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PRINTER_H_
