#include "compiler/text/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/text/names.h"

namespace rvm::text {
namespace {

using diagnostics::DiagnosticKind;

bool IsIdentStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsIdent(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Longest first.
constexpr std::array<std::string_view, 8> kTwoCharPuncts = {"->", "=>", "==", "!=", "<=", ">=", ":=", "#["};
constexpr std::string_view kMetadataMark = "#[metadata]";
constexpr std::string_view kOneCharPuncts = "()[]{}<>,;:.=+-*/!|?&";

// Returns a hint for a character that is an operator in other languages.
absl::string_view HintFor(char c) {
  switch (c) {
    case '%': return "; the remainder is `mod(%a, %b)`";
    case '^': return "; expected `power(%a, %b)` or `bitwise_xor(%a, %b)`";
    default: return "";
  }
}

class Lexer {
 public:
  Lexer(uint32_t source, diagnostics::Diagnostics& diagnostics, std::vector<Comment>* comments)
      : source_(source), text_(diagnostics.sources().text(source)), diagnostics_(diagnostics), comments_(comments) {}

  std::vector<Token> Run() {
    while (SkipBlanks()) Next();
    Add(TokenKind::kEnd, text_.size(), text_.size());
    return std::move(tokens_);
  }

 private:
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  ir::Span SpanOf(size_t begin, size_t end) const {
    return {source_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  }
  void Add(TokenKind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, text_.substr(begin, end - begin), SpanOf(begin, end)});
    at_ = end;
  }

  // False at the end of the text.
  bool SkipBlanks() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if ((c == '/' && At(at_ + 1) == '/') || (c == '#' && At(at_ + 1) != '[')) {
        size_t begin = at_;
        at_ = std::min(text_.find('\n', at_), text_.size());
        AddComment(begin);
      } else if (c == '/' && At(at_ + 1) == '*') {
        SkipBlockComment();
      } else {
        return true;
      }
    }
    return false;
  }

  void AddComment(size_t begin) {
    if (comments_ != nullptr) comments_->push_back({text_.substr(begin, at_ - begin), SpanOf(begin, at_)});
  }

  void SkipBlockComment() {
    size_t begin = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      if (text_[at_] == '/' && At(at_ + 1) == '*') {
        ++depth;
        at_ += 2;
      } else if (text_[at_] == '*' && At(at_ + 1) == '/') {
        at_ += 2;
        if (--depth == 0) return AddComment(begin);
      } else {
        ++at_;
      }
    }
    diagnostics_.Error(SpanOf(begin, begin + 2), DiagnosticKind::kUnterminatedComment,
                       "this comment has no end; expected `*/`");
  }

  void Next() {
    size_t begin = at_;
    char c = text_[at_];
    if (IsIdentStart(c)) return Add(TokenKind::kIdent, begin, BeginsType() ? EndOfPath(begin) : EndOfName(begin));
    if ((c == '%' || c == '@') && IsIdent(At(at_ + 1))) {
      size_t end = c == '@' ? EndOfPath(at_ + 1) : EndOfName(at_ + 1);
      Add(c == '%' ? TokenKind::kLocal : TokenKind::kGlobal, begin, end);
      tokens_.back().text.remove_prefix(1);
      return;
    }
    if (IsDigit(c)) return Number();
    if (c == '"') return String();
    if (text_.substr(at_).starts_with(kMetadataMark)) {
      Add(TokenKind::kMetadata, begin, begin + kMetadataMark.size());
      tokens_.back().text = text_.substr(at_);
      at_ = text_.size();
      return;
    }
    for (std::string_view punct : kTwoCharPuncts) {
      if (text_.substr(at_, 2) == punct) return Add(TokenKind::kPunct, begin, begin + 2);
    }
    if (kOneCharPuncts.find(c) != std::string_view::npos) return Add(TokenKind::kPunct, begin, begin + 1);
    size_t end = at_ + 1;
    while ((static_cast<unsigned char>(At(end)) & 0xc0) == 0x80) ++end;  // the rest of a UTF-8 character
    diagnostics_.Error(
        SpanOf(begin, end), DiagnosticKind::kBadCharacter,
        absl::StrCat("unexpected character `", absl::string_view(text_.data() + begin, end - begin), "`", HintFor(c)));
    Add(TokenKind::kError, begin, end);
  }

  // A name of the Prelude with its prefix, as in `prelude.List`, is one token.
  size_t EndOfName(size_t at) const {
    if (text_.substr(at).starts_with(kPreludePrefix) && IsIdent(At(at + kPreludePrefix.size()))) {
      at += kPreludePrefix.size();
    }
    while (IsIdent(At(at))) ++at;
    return at;
  }

  // A name with the names of the files that it is imported from, as in `step.f`.
  size_t EndOfPath(size_t at) const {
    for (at = EndOfName(at); At(at) == '.' && IsIdentStart(At(at + 1));) at = EndOfName(at + 1);
    return at;
  }
  // Returns true if the name of a type that is defined comes next.
  bool BeginsType() const {
    return !tokens_.empty() && tokens_.back().kind == TokenKind::kIdent &&
           (tokens_.back().text == "type" || tokens_.back().text == "data");
  }

  void Number() {
    size_t begin = at_, end = at_;
    while (IsDigit(At(end))) ++end;
    // After a dot comes a field index: `%x.0.1` does not contain the number 0.1.
    bool is_field = !tokens_.empty() && tokens_.back().text == "." && tokens_.back().span.end == begin;
    if (is_field) return Add(TokenKind::kNumber, begin, end);
    if (At(end) == '.' && IsDigit(At(end + 1))) {
      ++end;
      while (IsDigit(At(end))) ++end;
    } else if (At(end) == '.' && !IsIdent(At(end + 1)) && At(end + 1) != '.') {
      ++end;  // `1.`
    }
    if ((At(end) == 'e' || At(end) == 'E') &&
        (IsDigit(At(end + 1)) || ((At(end + 1) == '-' || At(end + 1) == '+') && IsDigit(At(end + 2))))) {
      end += 2;
      while (IsDigit(At(end))) ++end;
    }
    while (IsIdent(At(end))) ++end;  // the suffix
    Add(TokenKind::kNumber, begin, end);
  }

  void String() {
    size_t begin = at_, end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
    if (At(end) != '"') {
      end = std::min(end, text_.size());
      diagnostics_.Error(SpanOf(begin, end), DiagnosticKind::kUnterminatedString,
                         "this string has no end; expected `\"`");
      return Add(TokenKind::kError, begin, end);
    }
    Add(TokenKind::kString, begin, end + 1);
  }

  uint32_t source_;
  std::string_view text_;
  diagnostics::Diagnostics& diagnostics_;
  std::vector<Comment>* comments_;
  size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Lex(uint32_t source, diagnostics::Diagnostics& diagnostics, std::vector<Comment>* comments) {
  return Lexer(source, diagnostics, comments).Run();
}

std::optional<std::string> Unquote(const Token& token, diagnostics::Diagnostics& diagnostics) {
  std::string_view text = token.text.substr(1, token.text.size() - 2);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result.push_back(text[i]);
      continue;
    }
    char escape = text[++i];
    if (escape == 'n')
      result.push_back('\n');
    else if (escape == 't')
      result.push_back('\t');
    else if (escape == 'r')
      result.push_back('\r');
    else if (escape == '0')
      result.push_back('\0');
    else if (escape == '\\' || escape == '"' || escape == '\'')
      result.push_back(escape);
    else if (escape == 'x' && i + 2 < text.size() && std::isxdigit(text[i + 1]) && std::isxdigit(text[i + 2])) {
      result.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      diagnostics.Error(token.span, DiagnosticKind::kBadEscape,
                        absl::StrCat("unknown escape `\\", std::string(1, escape),
                                     "`; expected one of \\n \\t \\r \\0 \\\\ \\\" \\' \\xHH"));
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace rvm::text
