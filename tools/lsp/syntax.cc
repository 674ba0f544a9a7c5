#include "tools/lsp/syntax.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::tools::lsp {
namespace {

using text::Token;
using text::TokenKind;

bool IsPunct(const Token& token, std::string_view text) {
  return token.kind == TokenKind::kPunct && token.text == text;
}
bool IsOpening(const Token& token) { return IsPunct(token, "(") || IsPunct(token, "[") || IsPunct(token, "{"); }
bool IsClosing(const Token& token) { return IsPunct(token, ")") || IsPunct(token, "]") || IsPunct(token, "}"); }
bool IsIdent(const Token& token, std::string_view text) {
  return token.kind == TokenKind::kIdent && token.text == text;
}

// Returns the text of `token` with its mark.
std::string Marked(const Token& token) {
  std::string_view mark = token.kind == TokenKind::kLocal ? "%" : token.kind == TokenKind::kGlobal ? "@" : "";
  return absl::StrCat(Abseil(mark), Abseil(token.text));
}

// Returns the kind of the definition whose keyword is at `at`, with brackets open around it; nullopt if none begins
// there.
std::optional<DefinitionKind> KindAt(std::span<const Token> tokens, size_t at, int depth) {
  if (at + 1 >= tokens.size() || tokens[at].kind != TokenKind::kIdent) return std::nullopt;
  const Token& name = tokens[at + 1];
  if (tokens[at].text == "def" && name.kind == TokenKind::kGlobal) return DefinitionKind::kFunction;
  if (depth > 0) return std::nullopt;
  if (tokens[at].text == "free_var" && name.kind == TokenKind::kLocal) return DefinitionKind::kWeight;
  bool is_type = tokens[at].text == "type" || tokens[at].text == "data";
  if (is_type && name.kind == TokenKind::kIdent) return DefinitionKind::kType;
  return std::nullopt;
}

// The index of the last token that begins before `offset`, plus one.
size_t TokensBefore(std::span<const Token> tokens, size_t offset) {
  auto behind = std::lower_bound(tokens.begin(), tokens.end(), offset,
                                 [](const Token& token, size_t at) { return token.span.begin < at; });
  size_t count = static_cast<size_t>(behind - tokens.begin());
  return count > 0 && tokens[count - 1].kind == TokenKind::kEnd ? count - 1 : count;
}

constexpr std::array<std::string_view, 12> kNoCallees = {"if",   "match", "fn",  "fun",      "let",  "else",
                                                         "case", "def",   "ref", "ref_read", "read", "ref_write"};

// Returns the name whose last token is before `end`; "" if there is none that can be called.
std::string CalleeBefore(std::span<const Token> tokens, size_t end) {
  if (end == 0) return "";
  size_t begin = end - 1;
  const Token& last = tokens[begin];
  bool is_marked = last.kind == TokenKind::kLocal || last.kind == TokenKind::kGlobal;
  if (!is_marked && last.kind != TokenKind::kIdent) return "";
  std::string name = Marked(last);
  while (!is_marked && begin >= 2 && IsPunct(tokens[begin - 1], ".") && tokens[begin - 2].kind == TokenKind::kIdent) {
    begin -= 2;
    name = absl::StrCat(Abseil(tokens[begin].text), ".", name);
  }
  bool is_keyword = std::find(kNoCallees.begin(), kNoCallees.end(), name) != kNoCallees.end();
  bool is_definition = begin > 0 && IsIdent(tokens[begin - 1], "def");
  return is_keyword || is_definition ? "" : name;
}

// Returns the attribute that begins at `at`, as in `axis=0` and `a.b=1`; "" if none does.
std::string AttributeAt(std::span<const Token> tokens, size_t at, size_t end) {
  if (at >= end || tokens[at].kind != TokenKind::kIdent) return "";
  std::string name(tokens[at].text);
  for (++at; at + 1 < end && IsPunct(tokens[at], ".") && tokens[at + 1].kind == TokenKind::kIdent; at += 2) {
    absl::StrAppend(&name, ".", Abseil(tokens[at + 1].text));
  }
  return at < end && IsPunct(tokens[at], "=") ? name : "";
}

// The limit on the tokens that are looked at before an offset.
constexpr size_t kMaxTokens = 100000;

}  // namespace

std::vector<Definition> FindDefinitions(std::span<const Token> tokens) {
  std::vector<Definition> found;
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const Token& token = tokens[i];
    std::optional<DefinitionKind> kind = KindAt(tokens, i, depth);
    if (kind) {
      depth = 0;
      ir::Span begin = i > 0 && IsIdent(tokens[i - 1], "extern") ? tokens[i - 1].span : token.span;
      ir::Span name = tokens[i + 1].span;
      found.push_back({*kind, Marked(tokens[i + 1]), name, {begin.source, begin.begin, name.end}});
      ++i;
      continue;
    }
    if (IsOpening(token)) ++depth;
    if (IsClosing(token)) --depth;
    if (found.empty() || token.kind == TokenKind::kEnd || token.kind == TokenKind::kMetadata) continue;
    if (!IsIdent(token, "extern")) found.back().span.end = token.span.end;
    bool is_constructor = found.back().kind == DefinitionKind::kType && depth == 1 && token.kind == TokenKind::kIdent;
    is_constructor = is_constructor && !IsPunct(tokens[i - 1], "->") && !IsPunct(tokens[i - 1], "[");
    if (is_constructor) {
      found.back().constructors.push_back(
          {DefinitionKind::kConstructor, std::string(token.text), token.span, token.span});
    }
  }
  return found;
}

const Definition* DefinitionAt(std::span<const Definition> definitions, size_t offset) {
  auto behind = std::upper_bound(definitions.begin(), definitions.end(), offset,
                                 [](size_t at, const Definition& definition) { return at < definition.span.begin; });
  return behind == definitions.begin() ? nullptr : &*std::prev(behind);
}

std::optional<CallSite> FindCall(std::span<const Token> tokens, size_t offset) {
  size_t end = TokensBefore(tokens, offset);
  int depth = 0;
  CallSite call;
  size_t argument_begin = end;  // the first token of the argument that contains the offset
  bool has_begin = false;
  for (size_t i = end; i-- > 0 && end - i < kMaxTokens;) {
    const Token& token = tokens[i];
    if (IsIdent(token, "def")) return std::nullopt;
    if (IsClosing(token)) {
      // The offset is behind this bracket, unless the bracket is the token that it is in.
      ++depth;
      continue;
    }
    if (depth > 0) {
      if (IsOpening(token)) --depth;
      continue;
    }
    if (IsPunct(token, "{") || IsPunct(token, ";")) return std::nullopt;
    bool ends_item = IsPunct(token, ",") || IsOpening(token);
    if (ends_item && !has_begin) {
      argument_begin = i + 1;
      has_begin = true;
    }
    if (IsPunct(token, ",")) ++call.argument;
    if (ends_item) {
      std::string attribute = AttributeAt(tokens, i + 1, end);
      if (!attribute.empty()) call.attributes.push_back(std::move(attribute));
    }
    if (!IsOpening(token)) continue;
    call.callee = IsPunct(token, "(") ? CalleeBefore(tokens, i) : "";
    if (!call.callee.empty()) {
      call.attribute = AttributeAt(tokens, argument_begin, end);
      return call;
    }
    // The bracket is part of an argument of a call around it.
    call = {};
    has_begin = false;
  }
  return std::nullopt;
}

bool ExpectsType(std::span<const Token> tokens, size_t offset) {
  size_t end = TokensBefore(tokens, offset);
  if (end == 0) return false;
  if (IsPunct(tokens[end - 1], ":") || IsPunct(tokens[end - 1], "->")) return true;
  int depth = 0;
  for (size_t i = end; i-- > 0 && end - i < kMaxTokens;) {
    const Token& token = tokens[i];
    if (IsClosing(token)) ++depth;
    if (depth == 0 && (IsPunct(token, "{") || IsPunct(token, ";") || IsPunct(token, "="))) return false;
    if (!IsOpening(token)) continue;
    if (depth-- > 0) continue;
    depth = 0;
    if (i == 0) return false;
    if (IsPunct(token, "[")) return tokens[i - 1].kind == TokenKind::kIdent;
    if (IsPunct(tokens[i - 1], ":") || IsPunct(tokens[i - 1], "->")) return true;
  }
  return false;
}

Word WordAt(std::string_view text, size_t offset) {
  auto is_part = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
  size_t begin = offset, end = offset;
  while (begin > 0 && is_part(text[begin - 1])) --begin;
  if (begin > 0 && (text[begin - 1] == '%' || text[begin - 1] == '@')) --begin;
  bool is_marked = begin < offset && (text[begin] == '%' || text[begin] == '@');
  while (end < text.size() && is_part(text[end]) && !(is_marked && text[end] == '.')) ++end;
  return {begin, end, text.substr(begin, offset - begin)};
}

std::string CommentAbove(std::string_view text, std::span<const text::Comment> comments, size_t begin) {
  std::vector<std::string> lines;
  auto next = std::lower_bound(comments.begin(), comments.end(), begin,
                               [](const text::Comment& comment, size_t at) { return comment.span.begin < at; });
  while (next != comments.begin()) {
    const text::Comment& comment = *--next;
    std::string_view between = text.substr(comment.span.end, begin - comment.span.end);
    bool is_next_line = std::count(between.begin(), between.end(), '\n') == 1 &&
                        between.find_first_not_of(" \t\r\n") == std::string_view::npos;
    size_t line = text.substr(0, comment.span.begin).rfind('\n');
    line = line == std::string_view::npos ? 0 : line + 1;
    std::string_view before = text.substr(line, comment.span.begin - line);
    if (!is_next_line || before.find_first_not_of(" \t") != std::string_view::npos) break;
    std::string_view shown = comment.text;
    if (shown.starts_with("// ----")) break;
    if (shown.starts_with("/*")) {
      shown.remove_prefix(2);
      if (shown.ends_with("*/")) shown.remove_suffix(2);
    }
    while (!shown.empty() && (shown.front() == '/' || shown.front() == '#')) shown.remove_prefix(1);
    lines.emplace_back(absl::StripAsciiWhitespace(Abseil(shown)));
    begin = comment.span.begin;
  }
  std::string joined;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    absl::StrAppend(&joined, joined.empty() ? "" : "\n", *line);
  }
  return joined;
}

}  // namespace rvm::tools::lsp
