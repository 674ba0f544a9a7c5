// Parser: recursive descent over the tokens of one module. Internal to this folder.
// A parse function reports an error and returns null; its callers then return null too.
#ifndef RVM_COMPILER_TEXT_PARSER_STATE_H_
#define RVM_COMPILER_TEXT_PARSER_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/ir/error_type.h"
#include "compiler/ir/module.h"
#include "compiler/text/import_lines.h"
#include "compiler/text/lexer.h"
#include "compiler/text/metadata.h"
#include "compiler/text/name_places.h"
#include "compiler/text/names.h"
#include "compiler/text/parser.h"
#include "compiler/text/prelude_loader.h"

namespace rvm::text {

// The names of all dtypes, for suggestions.
std::vector<std::string_view> DTypeNames();

class Parser {
 public:
  // `tokens` holds one or more sources, each ending with a kEnd token, whose definitions may mention each other. The
  // first is the program, the others belong to the Prelude.
  Parser(std::vector<Token> tokens, std::optional<Metadata> metadata, Surroundings surroundings, NeededPrelude prelude,
         ir::Module& module, diagnostics::Diagnostics& diagnostics, const ParseOptions& options)
      : tokens_(std::move(tokens)),
        metadata_(std::move(metadata)),
        surroundings_(std::move(surroundings)),
        prelude_(std::move(prelude)),
        module_(module),
        arena_(*module.arena),
        diagnostics_(diagnostics),
        options_(options),
        names_(std::string(options.prefix)) {
    FindSources();
    MeasureDepths();
  }

  void ParseAll();  // parser_module.cc
  // Returns true if a definition was left out, because of errors for which no placeholder can stand.
  bool left_out() const { return left_out_; }
  // Returns true if `span` is in a function whose body a placeholder stands for.
  bool IsReplaced(ir::Span span) const;

 private:
  struct Binding {
    ir::Var* var;
    ir::Expr* value;
    ir::Span span;
    ir::Pattern* pattern = nullptr;  // of `let (%a, %b) = e`; then `var` is null
  };

  // The tokens of one source, from `begin`; the token at `end` is its kEnd.
  struct Source {
    size_t begin;
    size_t end;
  };

  // ---- parser_module.cc
  void FindSources();
  void Enter(const Source& source);
  void DeclareAll();
  void DeclareSurroundings();
  void DeclareSource();
  void DeclareFunction(const Token& name);
  void ParseDefinition(bool adts);
  void DeclareAdt(const Token& name);
  void ParseMainExpression();
  void WarnOfDiscardedValues(int errors_before);
  void SkipDefinition();
  // Skips a definition that has errors.
  void LeaveOut();
  // `#[version = "0.0.5"]`, `#[origin = "..."]`
  void ParsePragma();
  void ReadAdtParams(ir::AdtDef& adt, size_t token);
  void ParseAdt();
  void ParseDef();
  void ParseFreeVar();
  void ParseImport();
  void PlaceGraphVars(ir::Function& function);
  bool ParseConstructors(ir::AdtDef& adt);

  // ---- parser_type.cc
  const ir::Type* ParseType();
  const ir::Type* ParseTypeOnThisStack();
  const ir::Type* ParseTensorType();
  const ir::Type* ParseMetaType();
  const ir::Type* ParseNamedType();
  bool ParseShape(ir::ShapeTerm& shape);
  std::optional<Dim> ParseExtent();
  std::optional<Dim> ParseDim();
  std::optional<Dim> ParseDimProduct();
  std::optional<Dim> ParseDimAtom();
  std::optional<Dim> ParseDimCall(Dim (*function)(const Dim&, const Dim&));
  Dim NamedDim(const std::string& name, ir::Span span);
  bool ParseDType(ir::DTypeTerm& dtype);
  bool ParseTypeArg(ir::Kind expected, ir::TypeArg& arg);
  bool ParseTypeArgs(std::string_view close, std::span<const ir::TypeParam* const> params,
                     std::vector<ir::TypeArg>& args);
  // `[A, B: Shape]` or `<a, b : Shape>` if there is one.
  bool ParseTypeParams(std::vector<const ir::TypeParam*>& params);
  bool ParseConstraints(std::vector<ir::TypeConstraint>& constraints);
  ir::TypeParam* FindTypeParam(std::string_view name);
  void UseAs(ir::TypeParam* param, ir::Kind kind);

  // ---- parser_expr.cc
  ir::Expr* ParseSequence();
  ir::Expr* ParseExpr();
  ir::Expr* ParseLet();
  ir::Expr* FoldBindings(const std::vector<Binding>& bindings, ir::Expr* result);
  ir::Expr* ParseBinary(int min_precedence);
  ir::Expr* ParseUnary();
  ir::Expr* ParsePostfix();
  ir::Expr* ParseAtom();
  ir::Expr* ParseName();
  // Consumes `Nil` or `List.Nil` and returns the constructor; null if the next tokens name none. Reports a name that is
  // ambiguous and returns the first constructor of that name.
  ir::Constructor* AcceptConstructor();
  ir::Constructor* AcceptQualifiedConstructor();
  // Consumes the name of a type, which may have the name of a file, as in `step.Config`.
  Token TakeTypeName();
  ir::Expr* ParseIf();
  bool ParseLetPattern(ir::Span begin, std::vector<Binding>& bindings);
  bool EndStatement(bool is_let);
  bool ParseParams(std::vector<ir::Var*>& params, ir::Attrs& attrs);
  // After `fn` or `def @f`. With `keep_signature`, a body with syntax errors becomes a placeholder, and
  // `*keep_signature` is set.
  ir::Function* ParseFunctionRest(ir::Span begin, bool* keep_signature = nullptr);
  ir::Expr* ParseCallRest(ir::Expr* callee, std::vector<ir::TypeArg> type_args);
  ir::Expr* ParseProjectionRest(ir::Expr* tuple);
  bool AtSequenceEnd() const { return Peek().kind == TokenKind::kEnd || PeekIs("}") || PeekIs(")"); }
  // Reads one statement of a sequence into `bindings`, or its value into `result`; false after an error.
  bool ParseStatement(std::vector<Binding>& bindings, ir::Expr*& result);
  ir::Expr* ParseParenthesised();
  ir::Expr* ParseBlock();  // `{ ... }`
  ir::Expr* ParseRefCall();
  ir::Expr* MarkedVar(const Token& name);
  bool LooksLikeTypeArgs() const;

  // ---- parser_meta.cc: attributes and references to the metadata section
  bool AtMeta() const { return PeekIs("meta") && PeekIs("[", 1); }
  std::optional<MetaReference> ParseMetaReference();
  static bool NamesExtent(const MetaReference& reference) {
    return reference.kind == "tir.Var" || reference.kind == "tir.SizeVar";
  }
  ir::Expr* ParseMetaConstant();
  const Metadata* MetadataFor(const MetaReference& reference);
  bool AtMetaAttrs() const;
  bool ParseMetaAttrs(const ir::Expr& callee, ir::Attrs& attrs);
  bool ParseMetaValue(ir::AttrValue& value);
  // Returns the number of tokens in the name, such as `relay.reshape_only`, of the attribute that begins here; 0 if
  // none does.
  size_t AttrNameLength() const;
  bool AtAttr() const { return AttrNameLength() > 0; }
  bool ParseAttrs(ir::Attrs& attrs, ir::Span open);
  bool SkipParamAttrs();  // `{virtual_device=meta[VirtualDevice][0]}`

  // ---- parser_extents.cc
  void MoveExtentsToArguments(ir::Call& call);
  ir::Expr* AttributeAsArgument(const ir::AttrValue& value, ir::Span span, int depth);
  ir::Expr* ExtentNamed(const std::string& name, ir::Span span);

  // ---- parser_pattern.cc
  ir::Expr* ParseMatch();
  bool ParseClause(std::vector<ir::Clause>& clauses, ir::Span open);
  bool BindPattern(const ir::Pattern& root);
  ir::Pattern* ParsePattern();
  ir::Pattern* ParsePatternOnThisStack();
  ir::Pattern* ParseListPattern();
  void AsError(ir::Pattern& pattern);
  bool ParsePatternFields(ir::Pattern& pattern);
  bool AtLiteralPattern() const;
  ir::Pattern* ParseLiteralPattern();

  // ---- parser_literal.cc
  ir::Expr* ParseNumber(const Token& token, bool negative);
  ir::Expr* ParseList();  // `[a, b]`
  // The constructors of the Prelude's `List`; null if it was not read.
  struct ListConstructors {
    ir::Constructor* cons = nullptr;
    ir::Constructor* nil = nullptr;
  };
  ListConstructors FindListConstructors() const;
  ir::Expr* ParseConstant();  // `Constant(...)`
  bool ParseElements(std::vector<Literal>& values, Shape& lengths);
  // `is_wide`: an integer without suffix may also be one that only uint64 holds.
  std::optional<Literal> ParseElement(bool is_wide = false);
  ir::Expr* MakeConstant(Literal literal, ir::Span span) { return arena_.New<ir::Constant>(std::move(literal), span); }
  std::optional<Literal> ScalarOf(const Token& token, bool negative, bool is_wide = false);
  static std::optional<Literal> SpecialFloat(std::string_view text, bool negative);
  bool ParseAttrValue(ir::AttrValue& value);

  // ---- parser_error.cc: error messages and error recovery
  diagnostics::Diagnostic& Error(ir::Span span, diagnostics::DiagnosticKind kind, std::string message) {
    return diagnostics_.Error(span, kind, std::move(message));
  }
  // "saw X; expected Y" at the next token. This and the next functions report nothing if that is a kError token.
  std::nullptr_t Unexpected(std::string_view expected,
                            diagnostics::DiagnosticKind kind = diagnostics::DiagnosticKind::kSyntaxError);
  std::string Saw() const;
  // At a name without its mark `%`, reports that and returns true, so that it can be read as if the mark were there. At
  // another token reports "saw X; expected Y" and returns false.
  bool MarkIsMissing(std::string_view expected);
  // Reports that the bracket at `open` is not closed by `close` here.
  std::nullptr_t Unclosed(std::string_view close, ir::Span open);
  // After an item of a list: consumes a comma, or accepts `close` without consuming it; reports any other token.
  bool Separator(std::string_view close, ir::Span open);
  // Reports that the statement before the next token has no `;`.
  void UnendedStatement();
  // Reports a second definition of `what`, at `span`; the first is at `first`.
  void Duplicate(ir::Span span, diagnostics::DiagnosticKind kind, std::string_view what, ir::Span first);
  void UnknownVariable(const Token& name);
  void UnknownFunction(const Token& name);
  // Reports a name without a mark: an operator, a constructor, or a function or variable whose mark is missing.
  void UnknownWord(ir::Span span, std::string_view name);
  void UnknownConstructor(ir::Span span, std::string_view name);
  void AmbiguousConstructor(const Token& name, const std::vector<ir::Constructor*>& candidates);
  // Reports a word with which other languages begin a definition, and returns true, if one is here.
  bool ReportHabitAsDefinition();
  // Reports a name whose kind no type parameter can have: a type definition or a relation.
  bool ReportKind(const Token& name, ir::Kind expected);
  void UnknownType(const Token& name);
  // Reports that no `what` is called `name`; suggests `near` unless that is empty.
  diagnostics::Diagnostic& Unknown(ir::Span span, diagnostics::DiagnosticKind kind, std::string_view what,
                                   std::string_view name, std::string_view near);
  // The names that may be meant: `%x` for variables and `@f` for functions of the program.
  std::vector<std::string> MarkedVariables() const;
  std::vector<std::string> MarkedFunctions() const;
  std::vector<std::string_view> KnownConstructors() const;
  static std::string_view NearestType(std::string_view name, std::vector<std::string_view> known);
  // Returns a placeholder for an expression with an error: a variable of the error type.
  ir::Expr* ErrorExpr(ir::Span span);
  const ir::Type* ErrorType() { return ir::MakeErrorType(arena_); }
  // Moves to the token after the `;` that ends the statement whose first token was at `depth`; false if there is none.
  bool SkipStatement(uint32_t depth);
  void MeasureDepths();

  // ---- tokens
  const Token& Peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, source_.end)]; }
  bool PeekIs(std::string_view text, size_t ahead = 0) const {
    const Token& token = Peek(ahead);
    return token.text == text && (token.kind == TokenKind::kPunct || token.kind == TokenKind::kIdent);
  }
  Token Take() { return tokens_[at_ < source_.end ? at_++ : at_]; }
  bool Accept(std::string_view text) {
    if (!PeekIs(text)) return false;
    Take();
    return true;
  }
  // Reports "saw X; expected Y" unless the next token is `text`.
  bool Expect(std::string_view text, diagnostics::DiagnosticKind kind = diagnostics::DiagnosticKind::kSyntaxError);
  // Consumes the closing bracket `close`, or reports that the bracket at `open` is unclosed.
  bool ExpectClose(std::string_view close, ir::Span open) { return Accept(close) || Unclosed(close, open) != nullptr; }
  ir::Span From(ir::Span begin) const {
    uint32_t end = at_ == source_.begin ? begin.end : tokens_[at_ - 1].span.end;
    return {begin.source, begin.begin, std::max(end, begin.end)};
  }

  // ---- names
  // Consumes the name of a variable. Names may contain punctuation, as in `%block1/conv-1/bias:0`. A binding takes the
  // longest possible name, a use the longest name that is in scope.
  Token TakeName(bool is_bound_here);
  ir::Var* NewVar(const Token& token, const ir::Type* annotation);
  void Push(ir::Var* var);
  void PopTo(size_t depth);
  ir::Var* FindVar(std::string_view name) const;
  // Adds a place to ParseOptions::names.
  void NotePlace(NamePlace place);
  void NoteVar(ir::Var* var, ir::Span span);
  void NoteFunction(const Names::Function& function, ir::Span span);
  void NoteType(const ir::AdtDef* adt, ir::Span span);
  void NoteConstructor(const ir::Constructor* constructor, ir::Span span);
  void NoteTypeParam(const ir::TypeParam* param, ir::Span span);
  void NoteOp(const ops::OpDef* op, ir::Span span);

  std::vector<Token> tokens_;
  std::vector<uint32_t> depths_;  // the number of brackets open at each token
  std::optional<Metadata> metadata_;
  Surroundings surroundings_;
  NeededPrelude prelude_;
  ir::Module& module_;
  ir::Arena& arena_;
  diagnostics::Diagnostics& diagnostics_;
  const ParseOptions& options_;
  std::vector<Source> sources_;
  Source source_ = {0, 0};  // the source being read
  size_t at_ = 0;
  bool left_out_ = false;
  std::vector<ir::Span> replaced_;  // functions with a placeholder for their body
  bool has_type_error_ = false;     // in a dtype, shape or extent of the type being read
  ir::Var* error_var_ = nullptr;    // the variable of ErrorExpr
  absl::flat_hash_map<std::string, std::vector<ir::Var*>> locals_;
  std::vector<ir::Var*> scope_;
  std::vector<uint32_t> scope_begins_;               // the offset behind the binding of each variable of scope_
  absl::flat_hash_map<std::string, ir::Span> left_;  // variables of the definition being read that went out of scope
  absl::flat_hash_map<std::string, ir::Var*> graph_vars_;  // the graph bindings of the definition being read
  std::vector<const ir::Expr*> discarded_;   // calls of operators that are statements of the definition being read
  std::vector<ir::Var*> used_out_of_scope_;  // those of graph_vars_ that were used out of scope
  bool has_marked_names_ = false;
  std::vector<ir::TypeParam*> type_params_;
  absl::flat_hash_set<const ir::TypeParam*> declared_types_;  // parameters declared as `A: Type`
  // Dim names that are not in scope become type parameters of the definition being read. Null: they are errors.
  std::vector<ir::TypeParam*>* implicit_dims_ = nullptr;
  Names names_;
  struct AdtHead {
    size_t behind_params = 0;  // the token there
    std::vector<ir::TypeParam*> params;
  };
  absl::flat_hash_map<const ir::AdtDef*, AdtHead> adt_heads_;
  absl::flat_hash_map<size_t, size_t> adt_ends_;  // of those that were read, from their first token: that behind them
};

}  // namespace rvm::text

#endif  // RVM_COMPILER_TEXT_PARSER_STATE_H_
