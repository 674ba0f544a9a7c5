// Facts about a text that its tokens determine, which hold for broken texts as well.
#ifndef RVM_TOOLS_LSP_SYNTAX_H_
#define RVM_TOOLS_LSP_SYNTAX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/span.h"
#include "compiler/text/lexer.h"

namespace rvm::tools::lsp {

enum class DefinitionKind : uint8_t { kFunction, kType, kConstructor, kWeight };

// A definition at the top level, or a constructor in one.
struct Definition {
  DefinitionKind kind;
  std::string name;  // with its mark
  ir::Span name_span;
  ir::Span span;
  std::vector<Definition> constructors = {};
};

std::vector<Definition> FindDefinitions(std::span<const text::Token> tokens);
// Returns the definition that contains `offset`, or null.
const Definition* DefinitionAt(std::span<const Definition> definitions, size_t offset);

// The innermost call whose arguments contain an offset.
struct CallSite {
  std::string callee;                   // `nn.dense`, `@f`, `%g` or `Cons`
  size_t argument = 0;                  // the number of commas before the offset
  std::string attribute;                // the name before `=` in this argument, or ""
  std::vector<std::string> attributes;  // the names of all attributes before the offset
};
std::optional<CallSite> FindCall(std::span<const text::Token> tokens, size_t offset);

// Returns true if a type is expected at `offset`: behind `:` or `->`, or among the arguments of a type.
bool ExpectsType(std::span<const text::Token> tokens, size_t offset);

// The name that ends at `offset` or contains it: letters, digits and dots, with its mark. Begins at `begin`.
struct Word {
  size_t begin;
  size_t end;
  std::string_view text;  // the part before the offset
};
Word WordAt(std::string_view text, size_t offset);

// Returns the comment on the lines directly above the definition that begins at `begin`, without its marks.
std::string CommentAbove(std::string_view text, std::span<const text::Comment> comments, size_t begin);

}  // namespace rvm::tools::lsp

#endif  // RVM_TOOLS_LSP_SYNTAX_H_
