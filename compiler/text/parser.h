// Reads Relay text (grammar.md) into a module. Both spellings are one grammar.
#ifndef RVM_COMPILER_TEXT_PARSER_H_
#define RVM_COMPILER_TEXT_PARSER_H_

#include <cstdint>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"

namespace rvm::text {

// The source is Relay text or a module in the predecessor's JSON (saved_module.h). Adds the definitions of `source` to
// `module`, and those of the Prelude (compiler/prelude) that it mentions and does not define. A source without `def` is
// an expression and becomes `@main`. False if errors were reported; several are, one per definition.
bool ParseModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PARSER_H_
