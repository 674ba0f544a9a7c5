// Tokens of Relay text.
#ifndef RVM_COMPILER_TEXT_LEXER_H_
#define RVM_COMPILER_TEXT_LEXER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/diagnostics/diagnostics.h"

namespace rvm::text {

enum class TokenKind : uint8_t {
  kEnd,
  kIdent,     // add, List, True; also keywords
  kLocal,     // %x: text without the sign
  kGlobal,    // @f
  kNumber,    // 1, 1.5f, 2u8: text with its suffix
  kString,    // text with quotes and escapes as written
  kPunct,     // one of the operators and brackets
  kMetadata,  // what stands behind `#[metadata]`, to the end of the text; its span is that of the mark
};

struct Token {
  TokenKind kind;
  std::string_view text;
  ir::Span span;
};

// `// ...`, `# ...` or `/* ... */`, without the line's end.
struct Comment {
  std::string_view text;
  ir::Span span;
};

// The whole source; ends with a kEnd token. Reports bad bytes and goes on behind them.
// Comments are no tokens; they go to `comments` if that is given.
std::vector<Token> Lex(uint32_t source, diagnostics::Diagnostics& diagnostics,
                       std::vector<Comment>* comments = nullptr);

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_LEXER_H_
