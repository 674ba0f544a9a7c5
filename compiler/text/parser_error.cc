// The error messages and the error recovery of the parser.
//
// After an undefined name, parsing continues with a placeholder (ErrorExpr, a hole), so one statement may have several
// errors. After a syntax error, it continues after the `;` of the statement, or at the next definition.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/relations.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

bool IsOpening(const Token& token) {
  return token.kind == TokenKind::kPunct &&
         (token.text == "(" || token.text == "[" || token.text == "{" || token.text == "#[");
}
bool IsClosing(const Token& token) {
  return token.kind == TokenKind::kPunct && (token.text == ")" || token.text == "]" || token.text == "}");
}
bool StartsDefinition(const Token& token) { return token.kind == TokenKind::kIdent && token.text == "def"; }

// A token of other languages, and the equivalent in Relay.
struct Habit {
  std::string_view text;
  std::string_view hint;
};
constexpr std::string_view kGradients =
    "`grad(@f)` is a function that gives the result of `@f` and its gradient by each argument; `vjp(@f)` gives its "
    "pullback, `jvp(@f)` the derivative along tangents of the arguments";
constexpr Habit kHabitsAfterExpressions[] = {
    {"[",
     "brackets do not index: `take(%x, 0, axis=0)` is an element of a tensor, `strided_slice(%x, begin=[0], end=[2])` "
     "a "
     "range, `%t.0` a field of a tuple"},
    {"=", "`let %x = 1;` binds a name, `%r := 1` writes to a reference, `==` compares"},
    {"&", "`logical_and(%a, %b)` is true where both are, `bitwise_and(%a, %b)` is of integers"},
    {"and", "`logical_and(%a, %b)` is true where both are"},
    {"or", "`logical_or(%a, %b)` is true where one is"},
};
constexpr Habit kHabitsAsExpressions[] = {
    {"for", "a loop is a function that calls itself"},
    {"while", "a loop is a function that calls itself"},
    {"return", "a block gives its last expression"},
    {"not", "`logical_not(%a)` is true where the other is not"},
    {"lambda", "`fn (%x) { %x + 1 }` is a function without a name"},
    {"gradient", kGradients},
    {"gradients", kGradients},
    {"backward", kGradients},
    {"jacobian", kGradients},
    {"hessian", kGradients},
};

// A name in other languages, and its equivalent in Relay.
struct Synonym {
  std::string_view other;
  std::string_view name;
};
constexpr Synonym kOperatorSynonyms[] = {
    {"true", "True"},
    {"false", "False"},
    {"pow", "power"},
    {"matmul", "nn.matmul"},
    {"max_pool", "nn.max_pool2d"},
    {"neg", "negative"},
    {"arange_like", "arange"},
    {"conv", "nn.conv2d"},
    {"linear", "nn.dense"},
    {"len", "@length"},
};
constexpr Synonym kTypeSynonyms[] = {
    {"float", "float32"}, {"double", "float64"}, {"half", "float16"},  {"int", "int32"},    {"long", "int64"},
    {"short", "int16"},   {"char", "int8"},      {"byte", "uint8"},    {"uint", "uint32"},  {"boolean", "bool"},
    {"Int", "int32"},     {"Bool", "bool"},      {"Float", "float32"}, {"Maybe", "Option"},
};

std::string_view FindSynonym(std::span<const Synonym> synonyms, std::string_view name,
                             std::span<const std::string_view> known) {
  for (const Synonym& synonym : synonyms) {
    bool exists = synonym.other == name && std::find(known.begin(), known.end(), synonym.name) != known.end();
    if (exists) return synonym.name;
  }
  return "";
}

std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// The first known name that differs only in its namespace: `nn.relu` for `relu` and `vision.relu`.
std::string_view FindInOtherNamespace(std::string_view name, std::span<const std::string_view> known) {
  std::string_view found;
  for (std::string_view candidate : known) {
    bool fits = candidate != name && LastPart(candidate) == LastPart(name);
    if (fits && (found.empty() || candidate < found)) found = candidate;
  }
  return found;
}

void AddHint(diagnostics::Diagnostic& diagnostic, std::span<const Habit> habits, std::string_view saw) {
  for (const Habit& habit : habits) {
    if (habit.text == saw) diagnostic.AddNote({}, std::string(habit.hint));
  }
}

// Whether an expression may start with `token`.
bool StartsExpression(const Token& token) {
  if (token.kind == TokenKind::kPunct) return token.text == "(" || token.text == "{" || token.text == "!";
  return token.kind != TokenKind::kEnd && !StartsDefinition(token);
}

}  // namespace

void Parser::MeasureDepths() {
  uint32_t depth = 0;
  depths_.reserve(tokens_.size());
  for (const Token& token : tokens_) {
    if (IsClosing(token) && depth > 0) --depth;
    depths_.push_back(depth);
    if (IsOpening(token)) ++depth;
    if (token.kind == TokenKind::kEnd) depth = 0;
  }
}

bool Parser::SkipStatement(uint32_t depth) {
  for (; Peek().kind != TokenKind::kEnd && !StartsDefinition(Peek()) && depths_[at_] >= depth; Take()) {
    if (depths_[at_] != depth || !PeekIs(";")) continue;
    Take();
    return true;
  }
  return false;
}

std::string Parser::Saw() const {
  const Token& token = Peek();
  return token.kind == TokenKind::kEnd ? "the end of the text"
                                       : absl::StrCat("`",
                                                      token.kind == TokenKind::kLocal    ? "%"
                                                      : token.kind == TokenKind::kGlobal ? "@"
                                                                                         : "",
                                                      Abseil(token.text), "`");
}

std::nullptr_t Parser::Unexpected(std::string_view expected, DiagnosticKind kind) {
  if (Peek().kind == TokenKind::kError) return nullptr;
  auto& diagnostic = Error(Peek().span, kind, absl::StrCat("saw ", Saw(), "; expected ", Abseil(expected)));
  if (expected == "an expression") AddHint(diagnostic, kHabitsAsExpressions, Peek().text);
  return nullptr;
}

bool Parser::Expect(std::string_view text, DiagnosticKind kind) {
  if (Accept(text)) return true;
  Unexpected(absl::StrCat("`", Abseil(text), "`"), kind);
  return false;
}

std::nullptr_t Parser::Unclosed(std::string_view close, ir::Span open) {
  if (Peek().kind == TokenKind::kError) return nullptr;
  auto& diagnostic = Error(Peek().span, DiagnosticKind::kMissingClosingBracket,
                           absl::StrCat("saw ", Saw(), "; expected `", Abseil(close), "`"));
  diagnostic.AddNote(open, "it closes this");
  if (close == "}") AddHint(diagnostic, kHabitsAfterExpressions, Peek().text);
  return nullptr;
}

bool Parser::Separator(std::string_view close, ir::Span open) {
  if (PeekIs(close) || Accept(",")) return true;
  const Token& next = Peek();
  bool is_next_item = StartsExpression(next) && next.text != "{" && next.text != "let";
  if (!is_next_item) return Unclosed(close, open) != nullptr;
  return Unexpected(absl::StrCat("`,` or `", Abseil(close), "`"), DiagnosticKind::kMissingComma) != nullptr;
}

void Parser::UnendedStatement() {
  if (Peek().kind == TokenKind::kError) return;
  ir::Span last = tokens_[at_ == source_.begin ? at_ : at_ - 1].span;
  auto& diagnostic = Error({last.source, last.end, last.end}, DiagnosticKind::kMissingSemicolon,
                           absl::StrCat("saw ", Saw(), "; expected `;` before it"));
  AddHint(diagnostic, kHabitsAfterExpressions, Peek().text);
  // `%x %2`
  bool is_remainder =
      Peek().kind == TokenKind::kLocal && absl::ascii_isdigit(static_cast<unsigned char>(Peek().text[0]));
  if (is_remainder) diagnostic.AddNote({}, "the remainder is `mod(%a, %b)`");
}

void Parser::Duplicate(ir::Span span, DiagnosticKind kind, std::string_view what, ir::Span first) {
  auto& diagnostic = Error(span, kind, absl::StrCat(Abseil(what), " is defined twice"));
  if (first.valid()) diagnostic.AddNote(first, "it is defined here first");
}

void Parser::Unknown(ir::Span span, DiagnosticKind kind, std::string_view what, std::string_view name,
                     std::vector<std::string_view> known) {
  std::string_view bare = name.starts_with('%') || name.starts_with('@') ? name.substr(1) : name;
  std::string_view near;
  if (kind == DiagnosticKind::kUnknownOperator) near = FindSynonym(kOperatorSynonyms, name, known);
  if (kind == DiagnosticKind::kUnknownType || kind == DiagnosticKind::kUnknownDType) {
    near = FindSynonym(kTypeSynonyms, name, known);
  }
  if (near.empty()) near = FindInOtherNamespace(name, known);
  // A name of one letter is equally near to every other such name, so it gets no suggestion.
  if (near.empty() && bare.size() > 1) near = NearestName(name, known);
  auto& diagnostic = Error(span, kind,
                           absl::StrCat("no ", Abseil(what), " is named `", Abseil(name), "`",
                                        near.empty() ? "" : absl::StrCat("; did you mean `", Abseil(near), "`?")));
  if (kind == DiagnosticKind::kUnknownOperator) AddHint(diagnostic, kHabitsAsExpressions, name);
}

void Parser::UnknownVariable(const Token& name) {
  absl::string_view text = Abseil(name.text);
  if (auto left = left_.find(text); left != left_.end()) {
    Error(name.span, DiagnosticKind::kVariableOutOfScope, absl::StrCat("`%", text, "` is not in scope here"))
        .AddNote(left->second, "it is bound here, and its scope ends before");
    return;
  }
  std::vector<std::string> shown;
  for (const ir::Var* var : scope_) shown.push_back("%" + var->name);
  if (names_.FindFunction(name.text) != nullptr) shown.push_back(absl::StrCat("@", text));
  std::vector<std::string_view> known(shown.begin(), shown.end());
  Unknown(name.span, DiagnosticKind::kUnknownVariable, "variable", absl::StrCat("%", text), std::move(known));
}

void Parser::UnknownFunction(const Token& name) {
  std::vector<std::string> shown;
  for (std::string_view function : names_.Functions()) shown.push_back(absl::StrCat("@", Abseil(function)));
  std::vector<std::string_view> known(shown.begin(), shown.end());
  Unknown(name.span, DiagnosticKind::kUnknownFunction, "function", absl::StrCat("@", Abseil(name.text)),
          std::move(known));
}

bool Parser::ReportKind(const Token& name, ir::Kind expected) {
  bool is_adt = names_.FindType(name.text) != nullptr;
  bool is_relation = !is_adt && ops::FindOp(name.text) == nullptr && ops::FindRelation(name.text) != nullptr;
  if (!is_adt && !is_relation) return false;
  Error(name.span, DiagnosticKind::kKindMismatch,
        absl::StrCat("`", Abseil(name.text), "` has kind `",
                     Abseil(ir::KindName(is_adt ? ir::Kind::kAdtHandle : ir::Kind::kConstraint)), "`; expected `",
                     Abseil(ir::KindName(expected)), "`"));
  return true;
}

void Parser::UnknownType(const Token& name) {
  if (ReportKind(name, ir::Kind::kType)) return;
  std::vector<std::string_view> known = DTypeNames();
  for (std::string_view type : names_.Types()) known.push_back(type);
  for (const ir::TypeParam* param : type_params_) known.push_back(param->name);
  known.push_back("Tensor");
  Unknown(name.span, DiagnosticKind::kUnknownType, "type", name.text, std::move(known));
  // Skips the type arguments: nothing can be checked without the type.
  if (!PeekIs("[") && !PeekIs("<")) return;
  uint32_t depth = depths_[at_];
  bool is_bracket = PeekIs("[");
  do Take();
  while (Peek().kind != TokenKind::kEnd && (is_bracket ? depths_[at_] > depth : !PeekIs(">")));
  Take();
}

void Parser::UnknownConstructor(ir::Span span, std::string_view name) {
  Unknown(span, DiagnosticKind::kUnknownConstructor, "constructor", name, names_.Constructors());
}

void Parser::AmbiguousConstructor(const Token& name, const std::vector<ir::Constructor*>& candidates) {
  std::string types, spellings;
  for (const ir::Constructor* constructor : candidates) {
    absl::StrAppend(&types, types.empty() ? "`" : " and of `", constructor->adt->name, "`");
    absl::StrAppend(&spellings, spellings.empty() ? "`" : " or `", constructor->adt->name, ".", constructor->name, "`");
  }
  auto& diagnostic =
      Error(name.span, DiagnosticKind::kAmbiguousConstructor,
            absl::StrCat("`", Abseil(name.text), "` is a constructor of ", types, "; write ", spellings));
  for (const ir::Constructor* constructor : candidates) {
    diagnostic.AddNote(constructor->span, absl::StrCat("it is a constructor of `", constructor->adt->name, "` here"));
  }
}

void Parser::UnknownWord(ir::Span span, std::string_view name) {
  if (absl::ascii_isupper(static_cast<unsigned char>(name[0]))) return UnknownConstructor(span, name);
  std::vector<std::string_view> known;
  for (const ops::OpDef* op : ops::AllOps()) known.push_back(op->name);
  known.push_back("True");
  known.push_back("False");
  for (std::string_view function : names_.Functions()) known.push_back(function);
  Unknown(span, DiagnosticKind::kUnknownOperator, "operator", name, std::move(known));
}

}  // namespace rvm::text
