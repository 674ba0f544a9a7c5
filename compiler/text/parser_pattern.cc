// Matches and patterns.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

ir::Expr* Parser::ParseMatch() {
  ir::Span begin = Take().span;
  bool is_complete = !Accept("?");
  ir::Expr* value = ParsePostfix();
  ir::Span open = Peek().span;
  if (value == nullptr || !Expect("{")) return nullptr;
  std::vector<ir::Clause> clauses;
  while (!Accept("}")) {
    if (Peek().kind == TokenKind::kEnd) return Unclosed("}", open);
    if (!ParseClause(clauses, open)) return nullptr;
  }
  return arena_.New<ir::Match>(value, std::move(clauses), is_complete, From(begin));
}

// `p => e,`, `case p { e }` or `| p -> e`.
bool Parser::ParseClause(std::vector<ir::Clause>& clauses, ir::Span open) {
  ir::Span begin = Peek().span;
  bool is_case = Accept("case");
  bool is_bar = !is_case && Accept("|");
  size_t depth = scope_.size();
  ir::Pattern* pattern = ParsePattern();
  if (pattern == nullptr) return false;
  if (!BindPattern(*pattern)) return false;
  if (!is_case && !Expect(is_bar ? "->" : "=>", DiagnosticKind::kMissingArrow)) return false;
  ir::Expr* body = is_case || PeekIs("{") ? ParseBlock() : ParseSequence();
  PopTo(depth);
  if (body == nullptr) return false;
  clauses.push_back({pattern, body, From(begin)});
  bool ends = Accept(",") || is_case || PeekIs("}") || PeekIs("|") || tokens_[at_ - 1].text == "}";
  return ends || Separator("}", open);
}

ir::Pattern* Parser::ParsePattern() {
  return WithStack([&] { return ParsePatternOnThisStack(); });
}

ir::Pattern* Parser::ParsePatternOnThisStack() {
  auto* pattern = arena_.New<ir::Pattern>();
  pattern->span = Peek().span;
  if (Accept("_")) return pattern;
  if (PeekIs("(")) {
    pattern->kind = ir::PatternKind::kTuple;
    if (!ParsePatternFields(*pattern)) return nullptr;
    pattern->is_parenthesised = pattern->fields.size() == 1 && tokens_[at_ - 2].text != ",";
    return pattern;
  }
  if (PeekIs("[")) return ParseListPattern();
  if (AtLiteralPattern()) return ParseLiteralPattern();
  if (Peek().kind != TokenKind::kLocal && Peek().kind != TokenKind::kIdent) {
    return Unexpected("a pattern", DiagnosticKind::kMissingPattern);
  }
  if (const ir::Constructor* constructor = AcceptConstructor()) {
    pattern->kind = ir::PatternKind::kConstructor;
    pattern->constructor = constructor;
    if (PeekIs("(") && !ParsePatternFields(*pattern)) return nullptr;
    pattern->span = From(pattern->span);
    return pattern;
  }
  Token name = Peek().kind == TokenKind::kLocal ? TakeName(/*is_bound_here=*/true) : Take();
  bool names_variable = name.kind == TokenKind::kLocal || (name.text[0] >= 'a' && name.text[0] <= 'z' && !PeekIs("("));
  if (!names_variable) {
    UnknownConstructor(name.span, name.text);
    // The fields are parsed nevertheless, because they bind variables.
    if (PeekIs("(") && !ParsePatternFields(*pattern)) return nullptr;
    AsError(*pattern);
    return pattern;
  }
  const ir::Type* annotation = nullptr;
  if (Accept(":") && (annotation = ParseType()) == nullptr) return nullptr;
  if (name.text == "_") return pattern;
  pattern->kind = ir::PatternKind::kVar;
  pattern->var = NewVar(name, annotation);
  return pattern;
}

// Makes the pattern, which has an error, one that matches everything; its variables have the error type.
void Parser::AsError(ir::Pattern& pattern) {
  pattern.kind = ir::PatternKind::kWildcard;
  std::vector<const ir::Pattern*> pending = {&pattern};
  while (!pending.empty()) {
    const ir::Pattern* part = pending.back();
    pending.pop_back();
    pending.insert(pending.end(), part->fields.begin(), part->fields.end());
    if (part->var == nullptr) continue;
    part->var->annotation = ErrorType();
    module_.free_vars.push_back(part->var);  // type inference does not look for them in a wildcard
  }
}

// `[p, q]`.
ir::Pattern* Parser::ParseListPattern() {
  ir::Pattern list;
  list.span = Peek().span;
  ir::Span open = Take().span;
  while (!Accept("]")) {
    ir::Pattern* element = ParsePattern();
    if (element == nullptr) return nullptr;
    list.fields.push_back(element);
    if (!Separator("]", open)) return nullptr;
  }
  auto [cons, nil] = FindListConstructors();
  auto* pattern = arena_.New<ir::Pattern>(list);
  if (nil == nullptr) return pattern;
  auto make = [&](const ir::Constructor* constructor, std::vector<ir::Pattern*> fields, ir::Span span) {
    auto* made = arena_.New<ir::Pattern>();
    made->kind = ir::PatternKind::kConstructor;
    made->span = span;
    made->constructor = constructor;
    made->fields = std::move(fields);
    return made;
  };
  pattern = make(nil, {}, From(list.span));
  for (size_t i = list.fields.size(); i-- > 0;) {
    ir::Span rest{list.span.source, list.fields[i]->span.begin, pattern->span.end};
    pattern = make(cons, {list.fields[i], pattern}, rest);
  }
  pattern->span = From(list.span);
  pattern->is_list = true;
  return pattern;
}

// Brings the variables of a pattern into scope, in order.
bool Parser::BindPattern(const ir::Pattern& root) {
  std::vector<const ir::Pattern*> pending = {&root};
  absl::flat_hash_map<std::string_view, const ir::Var*> bound;
  while (!pending.empty()) {
    const ir::Pattern* pattern = pending.back();
    pending.pop_back();
    if (ir::Var* var = pattern->var) {
      auto [first, is_new] = bound.emplace(var->name, var);
      if (!is_new) {
        std::string what = absl::StrCat("`%", var->name, "` of this pattern");
        Duplicate(var->span, DiagnosticKind::kDuplicatePatternVariable, what, first->second->span);
      }
      Push(var);
    }
    pending.insert(pending.end(), pattern->fields.rbegin(), pattern->fields.rend());
  }
  return true;
}

bool Parser::ParsePatternFields(ir::Pattern& pattern) {
  ir::Span open = Take().span;
  while (!Accept(")")) {
    ir::Pattern* field = ParsePattern();
    if (field == nullptr) return false;
    pattern.fields.push_back(field);
    if (!Separator(")", open)) return false;
  }
  pattern.span = From(pattern.span);
  return true;
}

bool Parser::AtLiteralPattern() const {
  if (Peek().kind == TokenKind::kNumber || PeekIs("True") || PeekIs("False")) return true;
  if (PeekIs("-")) return Peek(1).kind == TokenKind::kNumber || PeekIs("inff", 1);
  return Peek().kind == TokenKind::kIdent && SpecialFloat(Peek().text, false).has_value();
}

// `0`, `-1i64`, `True`.
ir::Pattern* Parser::ParseLiteralPattern() {
  ir::Span begin = Peek().span;
  std::optional<Literal> literal = ParseElement();
  auto* pattern = arena_.New<ir::Pattern>();
  pattern->span = From(begin);
  if (!literal) return pattern;  // was reported
  if (literal->dtype().is_float()) {
    Error(pattern->span, DiagnosticKind::kFloatPattern,
          "saw a floating-point number as a pattern; expected an integer, `True` or `False`: compare with `if`");
    return pattern;
  }
  pattern->kind = ir::PatternKind::kLiteral;
  pattern->literal = arena_.New<Literal>(*std::move(literal));
  return pattern;
}

}  // namespace rvm::text
