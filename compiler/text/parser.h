// Reads Relay text (grammar.md) into a module. Both spellings are one grammar.
#ifndef RVM_COMPILER_TEXT_PARSER_H_
#define RVM_COMPILER_TEXT_PARSER_H_

#include <cstdint>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::text {

// Adds the definitions of `source` to `module`, and the definitions of the Prelude (compiler/prelude) that `source`
// mentions but does not define. `source` is Relay text or a module in the predecessor's JSON (saved_module.h). A text
// without `def` is an expression and becomes `@main`. Returns false if errors were reported. Parsing continues after an
// error, so one call may report several.
bool ParseModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PARSER_H_
