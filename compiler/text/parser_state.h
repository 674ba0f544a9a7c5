// Parser: recursive descent over the tokens of one source. Internal to this folder.
// A parse function returns null after it has reported an error; callers pass that on.
#ifndef RVM_COMPILER_TEXT_PARSER_STATE_H_
#define RVM_COMPILER_TEXT_PARSER_STATE_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/module.h"
#include "compiler/text/lexer.h"

namespace rvm::text {

class Parser {
 public:
  Parser(std::vector<Token> tokens, ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : tokens_(std::move(tokens)), module_(module), arena_(*module.arena), diagnostics_(diagnostics) {}

  void ParseAll();  // parser_module.cc

 private:
  // ---- parser_module.cc
  void DeclareAll();
  void SkipDefinition();
  void ParseVersion();
  void ParseAdt();
  void ParseDef();
  void ParseFreeVar();
  bool ParseConstructors(ir::AdtDef& adt);

  // ---- parser_type.cc
  const ir::Type* ParseType();
  const ir::Type* ParseTypeOnThisStack();
  const ir::Type* ParseTensorType();
  const ir::Type* ParseNamedType();
  bool ParseShape(ir::ShapeTerm& shape);
  std::optional<Dim> ParseDim();
  std::optional<Dim> ParseDimProduct();
  std::optional<Dim> ParseDimAtom();
  bool ParseDType(ir::DTypeTerm& dtype);
  bool ParseTypeArg(ir::Kind expected, ir::TypeArg& arg);
  bool ParseTypeArgs(std::string_view close, std::span<const ir::TypeParam* const> params,
                     std::vector<ir::TypeArg>& args);
  // `[A, B: Shape]` or `<a, b : Shape>` if there is one.
  bool ParseTypeParams(std::vector<const ir::TypeParam*>& params);
  bool ParseConstraints(std::vector<ir::TypeConstraint>& constraints);
  ir::TypeParam* FindTypeParam(std::string_view name);

  // ---- parser_expr.cc
  ir::Expr* ParseSequence();
  ir::Expr* ParseExpr();
  ir::Expr* ParseBinary(int min_precedence);
  ir::Expr* ParseUnary();
  ir::Expr* ParsePostfix();
  ir::Expr* ParseAtom();
  ir::Expr* ParseName();
  ir::Expr* ParseIf();
  ir::Expr* ParseMatch();
  bool ParseClause(std::vector<ir::Clause>& clauses);
  ir::Pattern* ParsePattern();
  ir::Pattern* ParsePatternOnThisStack();
  bool ParsePatternFields(ir::Pattern& pattern);
  bool ParseParams(std::vector<ir::Var*>& params, ir::Attrs& attrs);
  ir::Function* ParseFunctionRest(ir::Span begin);  // behind `fn` or `def @f`
  ir::Expr* ParseCallRest(ir::Expr* callee, std::vector<ir::TypeArg> type_args);
  ir::Expr* ParseProjectionRest(ir::Expr* tuple);
  bool AtSequenceEnd() const { return Peek().kind == TokenKind::kEnd || PeekIs("}") || PeekIs(")"); }
  ir::Expr* ParseParenthesised();
  ir::Expr* ParseBlock();  // `{ ... }`
  ir::Expr* ParseRefCall();
  ir::Expr* ParseMeta();
  bool LooksLikeTypeArgs() const;
  bool ParseAttrs(ir::Attrs& attrs);
  bool AtAttr() const { return Peek().kind == TokenKind::kIdent && PeekIs("=", 1); }

  // ---- parser_literal.cc
  ir::Expr* ParseNumber(const Token& token, bool negative);
  ir::Expr* ParseConstant();  // `Constant(...)`
  ir::Expr* MakeScalar(Literal literal, ir::Span span) { return arena_.New<ir::Constant>(std::move(literal), span); }
  std::optional<Literal> ScalarOf(const Token& token, bool negative);
  std::optional<Literal> SpecialFloat(std::string_view text, bool negative);
  bool ParseAttrValue(ir::AttrValue& value);
  std::optional<std::string> Unquote(const Token& token);

  // ---- tokens
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool PeekIs(std::string_view text, size_t ahead = 0) const {
    const Token& token = Peek(ahead);
    return token.text == text && (token.kind == TokenKind::kPunct || token.kind == TokenKind::kIdent);
  }
  Token Take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Accept(std::string_view text) {
    if (!PeekIs(text)) return false;
    Take();
    return true;
  }
  // Reports "saw X; expected Y" unless the next token is `text`.
  bool Expect(std::string_view text);
  std::nullptr_t Unexpected(std::string_view expected);
  ir::Span From(ir::Span begin) const {
    uint32_t end = at_ == 0 ? begin.end : tokens_[at_ - 1].span.end;
    return {begin.source, begin.begin, std::max(end, begin.end)};
  }

  // ---- names
  ir::Var* NewVar(const Token& token, const ir::Type* annotation);
  void Push(ir::Var* var);
  void PopTo(size_t depth);
  ir::Var* FindVar(std::string_view name) const;
  std::nullptr_t UnknownName(ir::Span span, diagnostics::DiagnosticKind kind, std::string_view what,
                             std::string_view name);

  std::vector<Token> tokens_;
  ir::Module& module_;
  ir::Arena& arena_;
  diagnostics::Diagnostics& diagnostics_;
  size_t at_ = 0;
  absl::flat_hash_map<std::string, std::vector<ir::Var*>> locals_;
  std::vector<ir::Var*> scope_;
  std::vector<ir::TypeParam*> type_params_;
  // Dim names not in scope become parameters of the definition being read.
  std::vector<ir::TypeParam*>* implicit_dims_ = nullptr;
  absl::flat_hash_set<std::string> globals_;
  absl::flat_hash_map<std::string, ir::AdtDef*> adts_;
  absl::flat_hash_map<std::string, ir::Constructor*> constructors_;
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PARSER_STATE_H_
