#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/graph_bindings.h"
#include "compiler/text/parser_state.h"
#include "compiler/text/precedence.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

bool IsFunctionKeyword(const Token& token) {
  return token.kind == TokenKind::kIdent && (token.text == "fn" || token.text == "fun");
}

}  // namespace

ir::Expr* Parser::ParseExpr() {
  return WithStack([&] { return PeekIs("let") ? ParseLet() : ParseBinary(1); });
}

// `let %x = e; e` in the place of an expression, without brackets: the lets and graph bindings, and one expression.
ir::Expr* Parser::ParseLet() {
  size_t depth = scope_.size();
  std::vector<Binding> bindings;
  ir::Expr* result = nullptr;
  bool ok = true;
  while (ok && (PeekIs("let") || (Peek().kind == TokenKind::kLocal && PeekIs("=", 1)))) {
    ok = ParseStatement(bindings, result);
  }
  ok = ok && (result = ParseExpr()) != nullptr;
  PopTo(depth);
  return ok ? FoldBindings(bindings, result) : nullptr;
}

// `let %x = e; %0 = e; e; e`: a chain of bindings, folded into nested lets from its end.
ir::Expr* Parser::ParseSequence() {
  size_t depth = scope_.size();
  std::vector<Binding> bindings;
  ir::Expr* result = nullptr;
  bool ok = true;
  while (result == nullptr) {
    uint32_t brackets = depths_[at_];
    if (ParseStatement(bindings, result)) continue;
    ok = false;
    if (!SkipStatement(brackets) || AtSequenceEnd()) break;
  }
  PopTo(depth);
  return ok ? FoldBindings(bindings, result) : nullptr;
}

// `bindings` around `result`.
ir::Expr* Parser::FoldBindings(const std::vector<Binding>& bindings, ir::Expr* result) {
  for (size_t i = bindings.size(); i-- > 0;) {
    const Binding& binding = bindings[i];
    if (binding.pattern == nullptr) {
      result = arena_.New<ir::Let>(binding.var, binding.value, result, binding.span);
      continue;
    }
    std::vector<ir::Clause> clauses = {{binding.pattern, result, binding.span}};
    auto* match = arena_.New<ir::Match>(binding.value, std::move(clauses), true, binding.span);
    match->is_let = true;
    result = match;
  }
  return result;
}

bool Parser::ParseStatement(std::vector<Binding>& bindings, ir::Expr*& result) {
  while (PeekIs("#[")) ParsePragma();
  ir::Span begin = Peek().span;
  bool is_let = Accept("let");
  bool is_graph = !is_let && Peek().kind == TokenKind::kLocal && PeekIs("=", 1);
  if (!is_let && !is_graph) {
    ir::Expr* expr = ParseExpr();
    if (expr == nullptr) return false;
    if (!PeekIs(";")) {
      result = expr;
      return true;
    }
    Token end = Take();
    if (AtSequenceEnd()) {
      Error(end.span, DiagnosticKind::kMissingResult,
            absl::StrCat("saw ", Saw(), " after `;`; expected an expression, the value of the sequence"));
      return false;
    }
    if (ir::OpCallee(expr) != nullptr) discarded_.push_back(expr);
    bindings.push_back({NewVar({TokenKind::kLocal, "_", begin}, nullptr), expr, From(begin)});
    return true;
  }
  bool is_wildcard = PeekIs("_");
  bool is_constructor = Peek().kind == TokenKind::kIdent && !is_wildcard &&
                        (PeekIs("(", 1) || PeekIs(".", 1) || !names_.FindConstructors(Peek().text).empty());
  bool is_pattern = PeekIs("(") || PeekIs("[") || is_constructor;
  if (is_pattern) return ParseLetPattern(begin, bindings);
  if (Peek().kind != TokenKind::kLocal && !is_wildcard && !MarkIsMissing("a variable like `%x`")) return false;
  Token name = TakeName(/*is_bound_here=*/is_let);
  ir::Var* var = NewVar(name, nullptr);
  bool has_type = !is_let || !Accept(":") || (var->annotation = ParseType()) != nullptr;
  bool is_recursive = IsFunctionKeyword(Peek(PeekIs("=") ? 1 : 0)) && !is_wildcard;
  if (is_recursive) Push(var);
  ir::Expr* value = has_type && Expect("=") ? ParseExpr() : nullptr;
  if (!is_recursive && !is_wildcard) Push(var);
  if (value == nullptr) return false;
  if (IsGraphVar(var)) graph_vars_[var->name] = var;
  bindings.push_back({var, value, From(begin)});
  return EndStatement(is_let);
}

// `let (%a, %b) = e`, behind its `let`.
bool Parser::ParseLetPattern(ir::Span begin, std::vector<Binding>& bindings) {
  ir::Pattern* pattern = ParsePattern();
  if (pattern == nullptr || !Expect("=")) return false;
  while (pattern->is_parenthesised) pattern = pattern->fields[0];
  ir::Expr* value = ParseExpr();
  if (!BindPattern(*pattern) || value == nullptr) return false;
  bool is_var = pattern->kind == ir::PatternKind::kVar;
  if (pattern->kind == ir::PatternKind::kWildcard) {
    bindings.push_back({NewVar({TokenKind::kLocal, "_", begin}, nullptr), value, From(begin)});
    return EndStatement(true);
  }
  bindings.push_back({is_var ? pattern->var : nullptr, value, From(begin), is_var ? nullptr : pattern});
  return EndStatement(true);
}

// Consumes the `;` after a binding; false if an error was reported.
bool Parser::EndStatement(bool is_let) {
  if (Accept(";")) {
    if (!AtSequenceEnd()) return true;
    Unexpected("an expression after `;`, the value of the sequence", DiagnosticKind::kMissingResult);
    return false;
  }
  // The papers end graph bindings at the end of the line.
  if (!is_let && !AtSequenceEnd()) return true;
  UnendedStatement();
  return PeekIs("let") || Peek().kind == TokenKind::kLocal;  // as if the `;` were there
}

ir::Expr* Parser::ParseBinary(int min_precedence) {
  ir::Expr* left = ParseUnary();
  while (left != nullptr && Peek().kind == TokenKind::kPunct) {
    int precedence = Precedence(Peek().text);
    if (precedence == 0 || precedence < min_precedence) break;
    Token op = Take();
    ir::Expr* right = ParseBinary(precedence + 1);
    if (right == nullptr) return nullptr;
    ir::Span span = From(left->span);
    if (op.text == ":=") {
      left = arena_.New<ir::RefWrite>(left, right, span);
    } else {
      auto* callee = arena_.New<ir::OpExpr>(ops::FindInfix(op.text), op.span);
      NoteOp(callee->op, op.span);
      left = arena_.New<ir::Call>(callee, std::vector<ir::Expr*>{left, right}, ir::Attrs{}, span);
    }
  }
  return left;
}

ir::Expr* Parser::ParseUnary() {
  if (!PeekIs("-") && !PeekIs("!")) return ParsePostfix();
  Token sign = Take();
  if (sign.text == "-" && Peek().kind == TokenKind::kNumber) return ParseNumber(Take(), true);
  if (sign.text == "-" && Peek().kind == TokenKind::kIdent) {
    if (std::optional<Literal> literal = SpecialFloat(Peek().text, true)) {
      Take();
      return MakeConstant(*std::move(literal), From(sign.span));
    }
  }
  ir::Expr* operand = WithStack([&] { return ParseUnary(); });
  if (operand == nullptr) return nullptr;
  if (sign.text == "!") return arena_.New<ir::RefRead>(operand, From(sign.span));
  auto* callee = arena_.New<ir::OpExpr>(ops::FindOp("negative"), sign.span);
  NoteOp(callee->op, sign.span);
  return arena_.New<ir::Call>(callee, std::vector<ir::Expr*>{operand}, ir::Attrs{}, From(sign.span));
}

ir::Expr* Parser::ParsePostfix() {
  ir::Expr* expr = ParseAtom();
  while (expr != nullptr) {
    if (PeekIs("(")) {
      expr = ParseCallRest(expr, {});
    } else if (PeekIs(".") && Peek(1).kind == TokenKind::kNumber) {
      expr = ParseProjectionRest(expr);
    } else if (PeekIs("<") && LooksLikeTypeArgs() && expr->expr_kind != ir::ExprKind::kVar) {
      std::vector<ir::TypeArg> type_args;
      if (!ParseTypeArgs(">", {}, type_args)) return nullptr;
      expr = ParseCallRest(expr, std::move(type_args));
    } else {
      // `Nil` and `Nil()` are the same value.
      auto* constructor = ir::DynCast<ir::ConstructorExpr>(expr);
      if (constructor == nullptr || !constructor->constructor->fields.empty()) return expr;
      return arena_.New<ir::Call>(expr, std::vector<ir::Expr*>{}, ir::Attrs{}, expr->span);
    }
  }
  return nullptr;
}

// Returns whether the next `<` opens type arguments: a matching `>` is followed by `(`, and only types are between
// them.
bool Parser::LooksLikeTypeArgs() const {
  constexpr std::string_view kPuncts[] = {"(", ")", "[", "]", ",", "?", "->"};
  for (size_t i = 1;; ++i) {
    const Token& token = Peek(i);
    if (depths_[at_ + i] < depths_[at_]) return false;
    bool is_punct = token.kind == TokenKind::kPunct;
    if (is_punct && token.text == ">") return depths_[at_ + i] == depths_[at_] && PeekIs("(", i + 1);
    bool fits = token.kind == TokenKind::kNumber || token.kind == TokenKind::kIdent ||
                (is_punct && std::find(std::begin(kPuncts), std::end(kPuncts), token.text) != std::end(kPuncts));
    if (!fits) return false;
  }
}

ir::Expr* Parser::ParseProjectionRest(ir::Expr* tuple) {
  Take();
  Token index = Take();
  uint32_t value = 0;
  if (!absl::SimpleAtoi(Abseil(index.text), &value)) {
    Error(index.span, DiagnosticKind::kBadFieldIndex,
          absl::StrCat("`.", Abseil(index.text), "` is not a field; expected an index like `.0`"));
    return ErrorExpr(From(tuple->span));
  }
  return arena_.New<ir::Project>(tuple, value, From(tuple->span));
}

ir::Expr* Parser::ParseCallRest(ir::Expr* callee, std::vector<ir::TypeArg> type_args) {
  ir::Span open = Peek().span;
  if (!Expect("(")) return nullptr;
  std::vector<ir::Expr*> args;
  ir::Attrs attrs;
  while (!Accept(")")) {
    if (AtAttr()) {
      if (!ParseAttrs(attrs, open)) return nullptr;
      continue;
    }
    if (AtMetaAttrs()) {
      if (!ParseMetaAttrs(*callee, attrs) || !Separator(")", open)) return nullptr;
      continue;
    }
    if (Peek().kind == TokenKind::kString) {
      return Unexpected("an argument, or an attribute with its name, such as `dtype=\"int32\"`");
    }
    if (!attrs.empty()) return Unexpected("an attribute or `)`", DiagnosticKind::kPositionalAfterAttribute);
    ir::Expr* arg = ParseExpr();
    if (arg == nullptr) return nullptr;
    args.push_back(arg);
    if (!Separator(")", open)) return nullptr;
  }
  auto* call = arena_.New<ir::Call>(callee, std::move(args), std::move(attrs), From(callee->span));
  call->explicit_type_args = std::move(type_args);
  MoveExtentsToArguments(*call);
  return call;
}

ir::Expr* Parser::ParseAtom() {
  const Token& token = Peek();
  switch (token.kind) {
    case TokenKind::kNumber: return ParseNumber(Take(), false);
    case TokenKind::kLocal: return MarkedVar(TakeName(/*is_bound_here=*/false));
    case TokenKind::kGlobal: {
      Token name = Take();
      const Names::Function* function = names_.FindFunction(name.text);
      if (function == nullptr) {
        UnknownFunction(name);
        return ErrorExpr(name.span);
      }
      NoteFunction(*function, name.span);
      return arena_.New<ir::GlobalExpr>(function->name, name.span);
    }
    case TokenKind::kIdent: break;
    case TokenKind::kEnd:
    case TokenKind::kString:
    case TokenKind::kPunct:
    case TokenKind::kError:
    case TokenKind::kMetadata:
      if (PeekIs("(")) return ParseParenthesised();
      if (PeekIs("{")) return ParseBlock();
      if (PeekIs("[")) return ParseList();
      return Unexpected("an expression", DiagnosticKind::kMissingExpression);
  }
  if (IsFunctionKeyword(token)) return ParseFunctionRest(Take().span);
  if (token.text == "if") return ParseIf();
  if (token.text == "match") return ParseMatch();
  if (AtMeta()) return ParseMetaConstant();
  bool is_call = PeekIs("(", 1);
  if (is_call && (token.text == "ref" || token.text == "ref_read" || token.text == "read" || token.text == "ref_write"))
    return ParseRefCall();
  if (is_call && token.text == "Constant" && names_.FindConstructors("Constant").empty()) return ParseConstant();
  return ParseName();
}

// The use of a variable written with its `%`.
ir::Expr* Parser::MarkedVar(const Token& name) {
  ir::Var* var = FindVar(name.text);
  if (auto graph = graph_vars_.find(Abseil(name.text)); var == nullptr && graph != graph_vars_.end()) {
    var = graph->second;
    used_out_of_scope_.push_back(var);
  }
  if (var != nullptr) {
    NoteVar(var, name.span);
    return arena_.New<ir::VarExpr>(var, name.span);
  }
  UnknownVariable(name);
  return ErrorExpr(name.span);
}

// Returns a constant, constructor or operator.
ir::Expr* Parser::ParseName() {
  ir::Span begin = Peek().span;
  if (const ir::Constructor* constructor = AcceptConstructor()) {
    return arena_.New<ir::ConstructorExpr>(constructor, From(begin));
  }
  Token first = Take();
  if (first.text == "True" || first.text == "False") {
    return MakeConstant(Literal::ScalarInt(kBool, first.text == "True"), first.span);
  }
  if (std::optional<Literal> special = SpecialFloat(first.text, false))
    return MakeConstant(*std::move(special), first.span);
  std::string name(first.text);
  while (PeekIs(".") && Peek(1).kind == TokenKind::kIdent) {
    Take();
    absl::StrAppend(&name, ".", Abseil(Take().text));
  }
  if (const ops::OpDef* op = ops::FindOp(name)) {
    NoteOp(op, From(first.span));
    return arena_.New<ir::OpExpr>(op, From(first.span));
  }
  // The papers write variables and functions without `%` and `@`.
  if (ir::Var* var = FindVar(name)) {
    NoteVar(var, first.span);
    return arena_.New<ir::VarExpr>(var, first.span);
  }
  if (const Names::Function* function = names_.FindFunction(name)) {
    NoteFunction(*function, first.span);
    return arena_.New<ir::GlobalExpr>(function->name, first.span);
  }
  UnknownWord(From(first.span), name);
  return ErrorExpr(From(first.span));
}

// `List.Nil`, or `step.Config.Small` of a type that is imported.
ir::Constructor* Parser::AcceptQualifiedConstructor() {
  if (!PeekIs(".", 1) || Peek(2).kind != TokenKind::kIdent) return nullptr;
  std::string type(Peek().text);
  size_t last = 2;  // the token that names the constructor
  for (; PeekIs(".", last + 1) && Peek(last + 2).kind == TokenKind::kIdent; last += 2)
    absl::StrAppend(&type, ".", Abseil(Peek(last).text));
  const ir::AdtDef* adt = names_.FindType(type);
  if (adt == nullptr) return nullptr;
  for (ir::Constructor* constructor : adt->constructors) {
    if (constructor->name != Peek(last).text) continue;
    const Token& before = Peek(last - 2);
    NoteType(adt, {Peek().span.source, Peek().span.begin, before.span.end});
    NoteConstructor(constructor, Peek(last).span);
    at_ += last + 1;
    return constructor;
  }
  return nullptr;
}

ir::Constructor* Parser::AcceptConstructor() {
  if (Peek().kind != TokenKind::kIdent) return nullptr;
  if (ir::Constructor* qualified = AcceptQualifiedConstructor()) return qualified;
  std::vector<ir::Constructor*> candidates = names_.FindConstructors(Peek().text);
  if (candidates.empty()) return nullptr;
  Token name = Take();
  if (candidates.size() > 1) AmbiguousConstructor(name, candidates);
  NoteConstructor(candidates.front(), name.span);
  return candidates.front();
}

// `(e)`, `()`, `(e,)`, `(e, e)`.
ir::Expr* Parser::ParseParenthesised() {
  ir::Span begin = Take().span;
  std::vector<ir::Expr*> fields;
  bool comma = false;
  while (!Accept(")")) {
    // `(let %x = 1; %x)` is a sequence; after a comma it would be misleading.
    ir::Expr* field = fields.empty() ? ParseSequence() : ParseExpr();
    if (field == nullptr) return nullptr;
    fields.push_back(field);
    comma = PeekIs(",");
    if (!Separator(")", begin)) return nullptr;
  }
  if (fields.size() == 1 && !comma) return fields[0];
  return arena_.New<ir::Tuple>(std::move(fields), From(begin));
}

ir::Expr* Parser::ParseBlock() {
  ir::Span open = Peek().span;
  if (!Expect("{")) return nullptr;
  ir::Expr* body = WithStack([&] { return ParseSequence(); });
  if (body == nullptr || Accept("}")) return body;
  bool is_statement = Peek().kind != TokenKind::kPunct && Peek().kind != TokenKind::kEnd && !PeekIs("def") &&
                      Peek().text != "type" && Peek().text != "data";
  if (!is_statement) return Unclosed("}", open);
  UnendedStatement();
  return nullptr;
}

// A chain of `else if` is read in a loop and folded from its end.
ir::Expr* Parser::ParseIf() {
  struct Arm {
    ir::Expr* condition;
    ir::Expr* body;
    ir::Span span;
  };
  std::vector<Arm> arms;
  ir::Expr* result = nullptr;
  do {
    ir::Span begin = Peek().span;
    if (!PeekIs("if")) {
      if ((result = ParseBlock()) == nullptr) return nullptr;
      break;
    }
    Take();
    ir::Span open = Peek().span;
    if (!Expect("(")) return nullptr;
    ir::Expr* condition = ParseExpr();
    if (condition == nullptr || !ExpectClose(")", open)) return nullptr;
    ir::Expr* body = ParseBlock();
    if (body == nullptr || !Expect("else", DiagnosticKind::kMissingElse)) return nullptr;
    arms.push_back({condition, body, begin});
  } while (true);
  for (size_t i = arms.size(); i-- > 0;) {
    result = arena_.New<ir::If>(arms[i].condition, arms[i].body, result, From(arms[i].span));
  }
  return result;
}

// Parameters, then attributes, up to `)`.
bool Parser::ParseParams(std::vector<ir::Var*>& params, ir::Attrs& attrs) {
  ir::Span open = Peek().span;
  if (!Expect("(")) return false;
  while (!Accept(")")) {
    if (AtAttr()) {
      if (!ParseAttrs(attrs, open)) return false;
      continue;
    }
    bool is_wildcard = PeekIs("_");
    if (Peek().kind != TokenKind::kLocal && !is_wildcard && !MarkIsMissing("a parameter like `%x` or `)`")) {
      return false;
    }
    Token name = TakeName(/*is_bound_here=*/true);
    if (PeekIs("{") && !SkipParamAttrs()) return false;
    const ir::Type* annotation = nullptr;
    if (Accept(":") && (annotation = ParseType()) == nullptr) return false;
    for (const ir::Var* other : params) {
      if (other->name == name.text && name.text != "_") {
        std::string what = absl::StrCat("parameter `%", other->name, "`");
        Duplicate(name.span, DiagnosticKind::kDuplicateParameter, what, other->span);
      }
    }
    params.push_back(NewVar(name, annotation));
    if (!Separator(")", open)) return false;
  }
  return true;
}

ir::Function* Parser::ParseFunctionRest(ir::Span begin, bool* keep_signature) {
  size_t outer_types = type_params_.size();
  size_t depth = scope_.size();
  std::vector<const ir::TypeParam*> type_params;
  std::vector<ir::Var*> params;
  ir::Attrs attrs;
  const ir::Type* result = nullptr;
  std::vector<ir::TypeConstraint> constraints;
  bool ok = ParseTypeParams(type_params) && ParseParams(params, attrs) &&
            (!Accept("->") || (result = ParseType()) != nullptr) && ParseConstraints(constraints);
  ir::Expr* body = nullptr;
  if (ok) {
    for (ir::Var* param : params) Push(param);
    body = ParseBlock();
    if (body == nullptr && keep_signature != nullptr) {
      *keep_signature = true;
      body = ErrorExpr(Peek().span);
    }
  }
  PopTo(depth);
  type_params_.resize(outer_types);
  if (body == nullptr) return nullptr;
  auto* function = arena_.New<ir::Function>(std::move(type_params), std::move(params), result, body, From(begin));
  function->attrs = std::move(attrs);
  function->constraints = std::move(constraints);
  return function;
}

ir::Expr* Parser::ParseRefCall() {
  Token name = Take();
  size_t arity = name.text == "ref_write" ? 2 : 1;
  ir::Span open = Take().span;
  std::vector<ir::Expr*> args;
  while (!Accept(")")) {
    ir::Expr* arg = ParseExpr();
    if (arg == nullptr) return nullptr;
    args.push_back(arg);
    if (!Separator(")", open)) return nullptr;
  }
  ir::Span span = From(name.span);
  if (args.size() != arity) {
    Error(span, DiagnosticKind::kWrongNumberOfArguments,
          absl::StrCat("`", Abseil(name.text), "` is called with ", args.size(), " argument",
                       args.size() == 1 ? "" : "s", "; expected ", arity));
    return ErrorExpr(span);
  }
  if (name.text == "ref") return arena_.New<ir::RefCreate>(args[0], span);
  if (name.text == "ref_read" || name.text == "read") return arena_.New<ir::RefRead>(args[0], span);
  return arena_.New<ir::RefWrite>(args[0], args[1], span);
}

}  // namespace rvm::text
