// Tokens of Relay text.
#ifndef RVM_COMPILER_TEXT_LEXER_H_
#define RVM_COMPILER_TEXT_LEXER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"

namespace rvm::text {

enum class TokenKind : uint8_t {
  kEnd,
  kIdent,     // add, List, True; also keywords
  kLocal,     // %x: text without the `%`
  kGlobal,    // @f
  kNumber,    // 1, 1.5f, 2u8: text with its suffix
  kString,    // text with quotes and escapes as written
  kPunct,     // one of the operators and brackets
  kError,     // a malformed token, which the lexer has reported
  kMetadata,  // the text after `#[metadata]`, to the end of the source; the span is that of `#[metadata]`
};

struct Token {
  TokenKind kind;
  std::string_view text;
  ir::Span span;
};

// `// ...`, `# ...` or `/* ... */`, without the end of the line.
struct Comment {
  std::string_view text;
  ir::Span span;
};

// Returns the tokens of the whole source; the last one is kEnd. Reports malformed tokens and continues after them.
// Comments are not tokens; they are appended to `comments` unless it is null.
std::vector<Token> Lex(uint32_t source, diagnostics::Diagnostics& diagnostics,
                       std::vector<Comment>* comments = nullptr);

// Returns the text that a kString token denotes; reports an unknown escape sequence.
std::optional<std::string> Unquote(const Token& token, diagnostics::Diagnostics& diagnostics);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_LEXER_H_
