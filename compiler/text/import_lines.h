// Finds the imports of a text and the names that they bring. Internal to this folder.
#ifndef RVM_COMPILER_TEXT_IMPORT_LINES_H_
#define RVM_COMPILER_TEXT_IMPORT_LINES_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/module.h"
#include "compiler/text/imports.h"
#include "compiler/text/lexer.h"
#include "compiler/text/parser.h"

namespace rvm::text {

// Returns true if an import begins at `at`: `import` followed by a string.
bool StartsImport(std::span<const Token> tokens, size_t at);

struct ImportLines {
  std::vector<ImportLine> lines;
  absl::flat_hash_map<size_t, size_t> ends;  // for the first token of each line: the token behind it
};
// Returns the imports of a text, in order. Reports syntax errors in them.
ImportLines ReadImportLines(std::span<const Token> tokens, diagnostics::Diagnostics& diagnostics);

// The definitions of the module that the text being read can use, besides its own and those of the Prelude.
struct Surroundings {
  struct Function {
    std::string name;            // for the text
    std::string name_in_module;  // not the name of a function if the file was not read
    ir::Span span;
  };
  std::vector<Function> functions;
  struct Type {
    std::string name;
    ir::AdtDef* adt;
    bool is_imported;  // its constructors are written with the name of the type
  };
  std::vector<Type> types;
  std::vector<ir::Var*> free_vars;
  absl::flat_hash_map<size_t, size_t> import_ends;  // see ImportLines
  bool has_imports = false;
  // The functions, by their names in the module, that are kept even if the text does not call them.
  std::vector<std::string> roots;
};

// Reads the imports of a text, which adds definitions to `module`. Reports errors; the text cannot be parsed then.
Surroundings FindSurroundings(std::span<const Token> tokens, ir::Module& module, diagnostics::Diagnostics& diagnostics,
                              const ParseOptions& options);

// Removes the functions that no function in `roots` uses, directly or not, and the prefix `prelude.` from names that
// the program does not have without it. `roots`: names in the module.
void FinishImports(std::span<const std::string> roots, ir::Module& module);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_IMPORT_LINES_H_
