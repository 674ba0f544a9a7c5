// A text as the compiler's first stages see it.
#ifndef RVM_TOOLS_LSP_ANALYSIS_H_
#define RVM_TOOLS_LSP_ANALYSIS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "compiler/diagnostics/diagnostics.h"
#include "compiler/ir/module.h"
#include "compiler/text/lexer.h"
#include "compiler/text/name_places.h"
#include "tools/lsp/syntax.h"

namespace rvm::tools::lsp {

struct Analysis {
  // Lexes, parses and types `text`. Types are missing where errors prevent them, and in a program that imports files,
  // of which only the names are read. `folder`: of the text, for its imports; without one they are errors.
  explicit Analysis(std::string text, const std::optional<std::string>& folder = std::nullopt);
  Analysis(const Analysis&) = delete;
  Analysis& operator=(const Analysis&) = delete;

  std::string_view text() const { return sources.text(source); }
  bool IsHere(ir::Span span) const { return span.source == source; }

  // Returns the place of a name that contains `offset` or ends there; null if there is none.
  const text::NamePlace* NameAt(size_t offset) const;
  // All places of the name at `place`, in the order of the text.
  std::vector<const text::NamePlace*> PlacesOf(const text::NamePlace& place) const;
  // Returns the function that is defined at `definition`; null if it was not read.
  const ir::GlobalFunction* FunctionAt(ir::Span definition) const;
  // Returns the first definition, or constructor in one, of that name with its mark; null if there is none.
  const Definition* FindDefinition(std::string_view name) const;
  // Returns the variables in scope at `offset`, innermost first, each name once.
  std::vector<const ir::Var*> VariablesAt(size_t offset) const;
  // Returns the expression with the least span among those around `offset` that `fits`; null if there is none.
  const ir::Expr* FindExpr(size_t offset, absl::FunctionRef<bool(const ir::Expr&)> fits) const;

  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics{&sources};
  uint32_t source = 0;
  std::vector<text::Token> tokens;
  std::vector<text::Comment> comments;
  std::vector<Definition> definitions;
  text::NamePlaces names;  // `places` are ordered by their begin
  ir::Module module;

 private:
  absl::flat_hash_map<uint32_t, size_t> functions_;  // their indices, by the offset of their names
  absl::flat_hash_map<std::string, const Definition*> definitions_by_name_;
};

// Returns the Prelude, as a program.
const Analysis& PreludeAnalysis();

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_ANALYSIS_H_
