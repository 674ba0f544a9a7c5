// The error messages and the error recovery of the parser.
//
// After an undefined name, parsing continues with a placeholder (ErrorExpr, a hole), so one statement may have several
// errors. After a syntax error, it continues after the `;` of the statement, or at the next definition.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
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
#include "compiler/ops/suggest_operator.h"
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

// Meaning of `expected`, seen `saw` after the token `after` (each may be empty: any), with an example.
struct Expectation {
  std::string_view expected;
  std::string_view saw;
  std::string_view after;
  std::string_view hint;
};
constexpr std::string_view kTensorTypes = "a type of tensors is `Tensor[(2, n), float32]`: its shape and its dtype";
constexpr Expectation kExpectations[] = {
    {"[", "", "Tensor", kTensorTypes},
    {"(", "", "[", kTensorTypes},
    {",", "]", "", kTensorTypes},
    {"(", "", "if", "an `if` is `if (%c) { 1 } else { 2 }`"},
    {"(", "", "fn", "a function with a name is `def @f(%x: int32) { %x }`"},
    {"{", ":", ")", "the type of a result is written `-> int32`; a block is `{ %x }`"},
    {"{", "=>", ")", "the body of a function is a block: `fn (%x) { %x + 1 }`"},
};

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
    {"|", "`logical_or(%a, %b)` is true where one is, `bitwise_or(%a, %b)` is of integers"},
    {"?", "`if (%c) { 1 } else { 2 }` is an expression"},
    {".", "`%t.0` is a field of a tuple; operators are not methods: `transpose(%x)`, `shape_of(%x)`"},
};
constexpr std::string_view kDefinition = "a definition";
constexpr std::string_view kTypeDefinition = "a type is defined by its constructors: `type T { A(int32), B }`";
constexpr std::string_view kFunctionDefinition = "a function is defined by `def @f(%x: int32) -> int32 { %x }`";
constexpr std::string_view kImports = "the operators and the functions of the Prelude need no import";
constexpr Habit kHabitsAsDefinitions[] = {
    {"enum", kTypeDefinition},
    {"struct", kTypeDefinition},
    {"class", kTypeDefinition},
    {"record", kTypeDefinition},
    {"fn", kFunctionDefinition},
    {"fun", kFunctionDefinition},
    {"func", kFunctionDefinition},
    {"function", kFunctionDefinition},
    {"define", kFunctionDefinition},
    {"import", kImports},
    {"from", kImports},
    {"include", kImports},
    {"use", kImports},
    {"using", kImports},
};
constexpr Habit kHabitsAsExpressions[] = {
    {"for", "a loop is a function that calls itself"},
    {"while", "a loop is a function that calls itself"},
    {"return", "a block gives its last expression"},
    {"not", "`logical_not(%a)` is true where the other is not"},
    {"lambda", "`fn (%x) { %x + 1 }` is a function without a name"},
    {"*", "the power is `power(%a, %b)`"},
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
constexpr Synonym kTypeSynonyms[] = {
    {"float", "float32"},  {"double", "float64"}, {"half", "float16"},  {"int", "int32"},    {"long", "int64"},
    {"short", "int16"},    {"char", "int8"},      {"byte", "uint8"},    {"uint", "uint32"},  {"boolean", "bool"},
    {"Int", "int32"},      {"Bool", "bool"},      {"Float", "float32"}, {"Maybe", "Option"}, {"Unit", "()"},
    {"unit", "()"},        {"void", "()"},        {"None", "()"},       {"Array", "Tensor"}, {"array", "Tensor"},
    {"ndarray", "Tensor"}, {"Vector", "Tensor"},  {"Matrix", "Tensor"},
};

std::string_view FindTypeSynonym(std::string_view name) {
  for (const Synonym& synonym : kTypeSynonyms) {
    if (synonym.other == name) return synonym.name;
  }
  return "";
}

void AddHint(diagnostics::Diagnostic& diagnostic, std::span<const Habit> habits, std::string_view saw) {
  for (const Habit& habit : habits) {
    if (habit.text == saw) diagnostic.AddNote({}, std::string(habit.hint));
  }
}

// Returns whether an expression may start with `token`.
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
  if (expected == kDefinition) AddHint(diagnostic, kHabitsAsDefinitions, Peek().text);
  return nullptr;
}

bool Parser::MarkIsMissing(std::string_view expected) {
  constexpr std::string_view kBehindNames[] = {"=", ":", ",", ")"};
  const Token& behind = Peek(1);
  bool is_name = Peek().kind == TokenKind::kIdent && behind.kind == TokenKind::kPunct &&
                 std::find(std::begin(kBehindNames), std::end(kBehindNames), behind.text) != std::end(kBehindNames);
  if (!is_name) return Unexpected(expected, DiagnosticKind::kMissingName) != nullptr;
  Error(Peek().span, DiagnosticKind::kMissingName,
        absl::StrCat("saw ", Saw(), "; expected ", Abseil(expected), AsSuggestion(Peek().text, "%")));
  return true;
}

bool Parser::Expect(std::string_view text, DiagnosticKind kind) {
  if (Accept(text)) return true;
  if (Peek().kind == TokenKind::kError) return false;
  auto& diagnostic = Error(Peek().span, kind, absl::StrCat("saw ", Saw(), "; expected `", Abseil(text), "`"));
  for (const Expectation& expectation : kExpectations) {
    bool fits = expectation.expected == text && (expectation.saw.empty() || expectation.saw == Peek().text);
    if (fits && !expectation.after.empty()) fits = at_ > source_.begin && tokens_[at_ - 1].text == expectation.after;
    if (!fits) continue;
    diagnostic.AddNote({}, std::string(expectation.hint));
    break;
  }
  return false;
}

std::nullptr_t Parser::Unclosed(std::string_view close, ir::Span open) {
  if (Peek().kind == TokenKind::kError) return nullptr;
  auto& diagnostic = Error(Peek().span, DiagnosticKind::kMissingClosingBracket,
                           absl::StrCat("saw ", Saw(), "; expected `", Abseil(close), "`"));
  diagnostic.AddNote(open, "it closes this");
  if (close == "}") AddHint(diagnostic, kHabitsAfterExpressions, Peek().text);
  bool is_shape = PeekIs("[") && at_ > source_.begin && ParseDataType(tokens_[at_ - 1].text).has_value();
  if (is_shape) diagnostic.AddNote({}, std::string(kTensorTypes));
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

ir::Expr* Parser::ErrorExpr(ir::Span span) {
  if (error_var_ == nullptr) {
    error_var_ = NewVar({TokenKind::kLocal, "_", {}}, ErrorType());
    module_.free_vars.push_back(error_var_);
  }
  return arena_.New<ir::VarExpr>(error_var_, span);
}

diagnostics::Diagnostic& Parser::Unknown(ir::Span span, DiagnosticKind kind, std::string_view what,
                                         std::string_view name, std::string_view near) {
  return Error(span, kind, absl::StrCat("no ", Abseil(what), " is named `", Abseil(name), "`", AsSuggestion(near)));
}

std::vector<std::string> Parser::MarkedVariables() const {
  std::vector<std::string> marked;
  for (const ir::Var* var : scope_) marked.push_back(absl::StrCat("%", var->name));
  return marked;
}

std::vector<std::string> Parser::MarkedFunctions() const {
  std::vector<std::string> marked;
  for (std::string_view function : names_.Functions()) marked.push_back(absl::StrCat("@", Abseil(function)));
  return marked;
}

void Parser::UnknownVariable(const Token& name) {
  absl::string_view text = Abseil(name.text);
  if (auto left = left_.find(text); left != left_.end()) {
    Error(name.span, DiagnosticKind::kVariableOutOfScope, absl::StrCat("`%", text, "` is not in scope here"))
        .AddNote(left->second, "it is bound here, and its scope ends before");
    return;
  }
  std::string marked = absl::StrCat("%", text);
  std::vector<std::string> variables = MarkedVariables();
  std::vector<std::string_view> known(variables.begin(), variables.end());
  std::string_view near = NearestName(marked, known);
  std::string function = names_.FindFunction(name.text) != nullptr ? absl::StrCat("@", text) : "";
  if (near.empty()) near = function;
  ops::Suggestion op = PeekIs("(") ? ops::SuggestOperator(name.text) : ops::Suggestion{};
  if (near.empty() && op.distance == 0) near = op.name;
  auto& diagnostic = Unknown(name.span, DiagnosticKind::kUnknownVariable, "variable", marked, near);
  std::string note = options_.note_of_unknown ? options_.note_of_unknown(name.text) : "";
  if (!note.empty()) diagnostic.AddNote({}, std::move(note));
}

void Parser::UnknownFunction(const Token& name) {
  std::string marked = absl::StrCat("@", Abseil(name.text));
  std::vector<std::string> functions = MarkedFunctions();
  if (FindVar(name.text) != nullptr) functions.push_back(absl::StrCat("%", Abseil(name.text)));
  std::vector<std::string_view> known = GetPreludeNames().functions;
  known.insert(known.end(), functions.begin(), functions.end());
  std::string_view near = NearestName(marked, known);
  ops::Suggestion op = ops::SuggestOperator(name.text);
  if (near.empty() && op.distance == 0) near = op.name;
  Unknown(name.span, DiagnosticKind::kUnknownFunction, "function", marked, near);
}

bool Parser::ReportHabitAsDefinition() {
  bool begins_definition = Peek(1).kind == TokenKind::kIdent || Peek(1).kind == TokenKind::kGlobal;
  if (Peek().kind != TokenKind::kIdent || !begins_definition) return false;
  for (const Habit& habit : kHabitsAsDefinitions) {
    if (habit.text != Peek().text) continue;
    Unexpected(kDefinition);
    return true;
  }
  return false;
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

std::string_view Parser::NearestType(std::string_view name, std::vector<std::string_view> known) {
  std::string_view synonym = FindTypeSynonym(name);
  return synonym.empty() ? NearestName(name, known) : synonym;
}

void Parser::UnknownType(const Token& name) {
  if (ReportKind(name, ir::Kind::kType)) return;
  std::vector<std::string_view> known = DTypeNames();
  for (std::string_view type : names_.Types()) known.push_back(type);
  for (std::string_view type : GetPreludeNames().types) known.push_back(type);
  for (const ir::TypeParam* param : type_params_) known.push_back(param->name);
  known.push_back("Tensor");
  Unknown(name.span, DiagnosticKind::kUnknownType, "type", name.text, NearestType(name.text, std::move(known)));
  // Skips the type arguments: nothing can be checked without the type.
  if (!PeekIs("[") && !PeekIs("<")) return;
  uint32_t depth = depths_[at_];
  bool is_bracket = PeekIs("[");
  do Take();
  while (Peek().kind != TokenKind::kEnd && (is_bracket ? depths_[at_] > depth : !PeekIs(">")));
  Take();
}

std::vector<std::string_view> Parser::KnownConstructors() const {
  std::vector<std::string_view> known = names_.Constructors();
  const std::vector<std::string_view>& prelude = GetPreludeNames().constructors;
  known.insert(known.end(), prelude.begin(), prelude.end());
  return known;
}

void Parser::UnknownConstructor(ir::Span span, std::string_view name) {
  Unknown(span, DiagnosticKind::kUnknownConstructor, "constructor", name, NearestName(name, KnownConstructors()));
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
  std::vector<std::string> marked = MarkedVariables();
  for (std::string& function : MarkedFunctions()) marked.push_back(std::move(function));
  std::vector<std::string_view> known = KnownConstructors();
  known.insert(known.end(), marked.begin(), marked.end());
  for (std::string_view function : GetPreludeNames().functions) known.push_back(function);
  for (std::string_view constant : {"True", "False"}) known.push_back(constant);
  std::string_view near = NearestName(name, known);
  ops::Suggestion op = ops::SuggestOperator(name);
  bool is_op = op.distance == 0 || near.empty() || op.distance < NameDistance(name, near);
  if (is_op) near = op.name;
  bool is_constructor = absl::ascii_isupper(static_cast<unsigned char>(name[0]));
  auto& diagnostic =
      Unknown(span, is_constructor ? DiagnosticKind::kUnknownConstructor : DiagnosticKind::kUnknownOperator,
              is_constructor ? "constructor" : (PeekIs("(") ? "operator" : "operator or variable"), name, near);
  AddHint(diagnostic, kHabitsAsExpressions, name);
  if (is_op && !op.hint.empty()) diagnostic.AddNote({}, std::string(op.hint));
}

}  // namespace rvm::text
