// Reads Relay text (grammar.md) into a module. Both spellings are one grammar.
#ifndef RVM_COMPILER_TEXT_PARSER_H_
#define RVM_COMPILER_TEXT_PARSER_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/text/imports.h"
#include "compiler/text/name_places.h"

namespace rvm::text {

struct ParseOptions {
  // Set after errors that leave the module with all its definitions: placeholders of the error type (ir/error_type.h)
  // stand for what could not be read, such as the body of a function, and typing::InferTypes can report further errors.
  bool* has_placeholders = nullptr;
  // Called with the name of each unknown variable; a text that is not empty becomes a note.
  std::function<std::string(std::string_view name)> note_of_unknown;
  // Receives the places of names in the program, also those in definitions with errors, up to the error.
  NamePlaces* names = nullptr;
  // Reads the files that the text imports. Null: an import is an error.
  Importer* importer = nullptr;
  // Imports that the text does not have; one of a name that the text also imports takes its place.
  std::span<const ImportLine> imports = {};
  // The prefix of the names of an imported file in the module: its `@main` is called `@PREFIX`, its `@f` `@PREFIX.f`;
  // what it uses of the Prelude is called `@prelude.f`. Empty for the program itself.
  std::string_view prefix = {};
};

// Adds the definitions of `source` to `module`, and the definitions of the Prelude (compiler/prelude) that `source`
// mentions but does not define. `source` is Relay text or a module in the predecessor's JSON (saved_module.h). A text
// without `def` is an expression and becomes `@main`. Returns false if errors were reported. Parsing continues after an
// error, so one call may report several.
//
bool ParseModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics,
                 const ParseOptions& options = {});

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PARSER_H_
