#include "serialization/assembly_lexer.h"

#include <optional>

namespace rvm {
namespace {

using Kind = AssemblyToken::Kind;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$'; }
bool IsWordPart(char c) { return IsWordStart(c) || IsDigit(c); }

std::optional<int> HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

}  // namespace

void AssemblyLexer::SkipSpace() {
  for (; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    if (c == ';') {
      while (position_ + 1 < text_.size() && text_[position_ + 1] != '\n') ++position_;
    } else if (c == '\n') {
      ++line_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

AssemblyToken AssemblyLexer::Next() {
  SkipSpace();
  if (position_ >= text_.size()) return {Kind::kEnd, "the end of the text", line_};
  char c = Peek();
  if (c == '"') return Quoted(false);
  if (c == 'x' && Peek(1) == '"') {
    ++position_;
    return Quoted(true);
  }
  size_t begin = position_++;
  if (IsWordStart(c)) {
    while (IsWordPart(Peek())) ++position_;
    return {Kind::kWord, std::string(text_.substr(begin, position_ - begin)), line_};
  }
  bool negative_infinity = c == '-' && Peek() == 'i';
  if (IsDigit(c) || (c == '-' && IsDigit(Peek())) || negative_infinity) {
    // Accepts floats, too: 1.5e-07. Errors in a number are found when it is converted.
    auto is_part = [this] {
      char p = Peek();
      char before = text_[position_ - 1];
      return IsWordPart(p) || p == '.' || ((p == '-' || p == '+') && before == 'e');
    };
    while (is_part()) ++position_;
    return {Kind::kNumber, std::string(text_.substr(begin, position_ - begin)), line_};
  }
  if (c == '-' && Peek() == '>') ++position_;
  if (c == '.' && Peek() == '.' && Peek(1) == '.') position_ += 2;
  return {Kind::kSymbol, std::string(text_.substr(begin, position_ - begin)), line_};
}

AssemblyToken AssemblyLexer::Quoted(bool bytes) {
  AssemblyToken token{bytes ? Kind::kBytes : Kind::kString, "", line_};
  auto bad = [&](const char* what) { return AssemblyToken{Kind::kBad, what, line_}; };
  for (++position_; Peek() != '"';) {
    if (position_ >= text_.size() || Peek() == '\n') return bad("a string without an end");
    bool hex = bytes || (Peek() == '\\' && Peek(1) == 'x');
    if (hex) {
      if (!bytes) position_ += 2;
      std::optional<int> high = HexDigit(Peek());
      std::optional<int> low = HexDigit(Peek(1));
      if (!high || !low) return bad("bytes that are no pairs of hex digits");
      token.text += static_cast<char>(*high * 16 + *low);
      position_ += 2;
    } else if (Peek() == '\\') {
      char escaped = Peek(1);
      if (escaped != 'n' && escaped != '"' && escaped != '\\') return bad("an unknown escape in a string");
      token.text += escaped == 'n' ? '\n' : escaped;
      position_ += 2;
    } else {
      token.text += text_[position_++];
    }
  }
  ++position_;
  return token;
}

}  // namespace rvm
