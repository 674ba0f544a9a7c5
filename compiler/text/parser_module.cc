#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/text/graph_bindings.h"
#include "compiler/text/parser.h"
#include "compiler/text/parser_state.h"
#include "compiler/text/prelude_loader.h"
#include "compiler/text/saved_module.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

bool IsAdtKeyword(std::string_view text) { return text == "type" || text == "data"; }
// Keywords that begin a definition; they cannot name a type.
bool IsDefinitionKeyword(std::string_view text) {
  return text == "def" || IsAdtKeyword(text) || text == "extern" || text == "free_var" || text == "import";
}
// `int32`, `float32x4`, `Tensor`, ...
bool IsBuiltInType(std::string_view name) {
  return ParseDataType(name).has_value() || name == "Tensor" || name == "fn" || name == "fun" || name == "ref";
}
bool IsTypeName(const Token& token) { return token.kind == TokenKind::kIdent && !IsDefinitionKeyword(token.text); }

}  // namespace

ir::Var* Parser::NewVar(const Token& token, const ir::Type* annotation) {
  auto* var = arena_.New<ir::Var>(arena_.NextId(), std::string(token.text), annotation, token.span);
  if (token.text != "_") NoteVar(var, token.span);
  return var;
}
void Parser::Push(ir::Var* var) {
  locals_[var->name].push_back(var);
  scope_.push_back(var);
  scope_begins_.push_back(at_ == 0 ? 0 : tokens_[at_ - 1].span.end);
}
void Parser::PopTo(size_t depth) {
  while (scope_.size() > depth) {
    const ir::Var* var = scope_.back();
    locals_[var->name].pop_back();
    left_[var->name] = var->span;
    if (options_.names != nullptr && Peek().span.source == tokens_.front().span.source) {
      options_.names->scopes.push_back({var, scope_begins_.back(), Peek().span.begin});
    }
    scope_.pop_back();
    scope_begins_.pop_back();
  }
}
Token Parser::TakeName(bool is_bound_here) {
  Token name = Take();
  if (!is_bound_here && !has_marked_names_) return name;
  size_t longest = 0;  // tokens behind the first
  const Token* last = &tokens_[at_ - 1];
  auto text_to = [&](const Token& end) {
    return std::string_view(name.text.data(),
                            static_cast<size_t>(end.text.data() + end.text.size() - name.text.data()));
  };
  for (size_t length = 0;;) {
    const Token &mark = Peek(length), &rest = Peek(length + 1);
    bool joins = mark.span.begin == last->span.end && rest.span.begin == mark.span.end;
    bool is_number = rest.kind == TokenKind::kNumber;
    bool is_mark = mark.text == "/" || mark.text == "-" || mark.text == "." || (mark.text == ":" && is_number);
    if (!joins || !is_mark || (!is_number && rest.kind != TokenKind::kIdent)) break;
    length += 2;
    last = &rest;
    if (is_bound_here || FindVar(text_to(rest)) != nullptr) longest = length;
  }
  if (longest == 0) return name;
  has_marked_names_ = true;
  at_ += longest;
  name.text = text_to(tokens_[at_ - 1]);
  name.span.end = tokens_[at_ - 1].span.end;
  return name;
}
ir::Var* Parser::FindVar(std::string_view name) const {
  auto found = locals_.find(Abseil(name));
  return found == locals_.end() || found->second.empty() ? nullptr : found->second.back();
}

// ---- Places of names

void Parser::NotePlace(NamePlace place) {
  if (options_.names != nullptr && place.span.source == tokens_.front().span.source) {
    options_.names->places.push_back(place);
  }
}
void Parser::NoteVar(ir::Var* var, ir::Span span) { NotePlace({NameKind::kVariable, span, var->span, var}); }
void Parser::NoteFunction(const Names::Function& function, ir::Span span) {
  NotePlace({NameKind::kFunction, span, function.span});
}
void Parser::NoteType(const ir::AdtDef* adt, ir::Span span) {
  NotePlace({.kind = NameKind::kType, .span = span, .definition = adt->span, .adt = adt});
}
void Parser::NoteConstructor(const ir::Constructor* constructor, ir::Span span) {
  NotePlace(
      {.kind = NameKind::kConstructor, .span = span, .definition = constructor->span, .constructor = constructor});
}
void Parser::NoteTypeParam(const ir::TypeParam* param, ir::Span span) {
  NotePlace({.kind = NameKind::kTypeParam, .span = span, .definition = param->span, .param = param});
}
void Parser::NoteOp(const ops::OpDef* op, ir::Span span) {
  NotePlace({.kind = NameKind::kOperator, .span = span, .definition = {}, .op = op});
}

// ---- Definitions

void Parser::FindSources() {
  size_t begin = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (tokens_[i].kind != TokenKind::kEnd) continue;
    sources_.push_back({begin, i});
    begin = i + 1;
  }
  Enter(sources_.front());
}
void Parser::Enter(const Source& source) {
  source_ = source;
  at_ = source.begin;
  names_.set_in_prelude(source.begin != sources_.front().begin);
}

// Declares all names before definitions are parsed, because definitions may refer to later ones.
void Parser::DeclareAll() {
  DeclareSurroundings();
  for (const Source& source : sources_) {
    Enter(source);
    DeclareSource();
    if (&source != &sources_.front()) continue;
    for (const std::string& type : prelude_.shared_types) names_.ShareWithPrelude(type);
    names_.set_mentioned(std::move(prelude_.mentioned_types));
  }
}

void Parser::DeclareSurroundings() {
  for (const Surroundings::Type& type : surroundings_.types) {
    std::string_view name = type.name;
    bool is_of_prelude = name.starts_with(kPreludePrefix);
    if (type.is_imported || is_of_prelude) {
      names_.ImportType(name, type.adt);
      continue;
    }
    names_.DefineType(name, type.adt);
    for (ir::Constructor* constructor : type.adt->constructors) names_.DefineConstructor(constructor);
  }
  for (const Surroundings::Function& function : surroundings_.functions) {
    const Names::Function* first = names_.ImportFunction(function.name, function.name_in_module, function.span);
    if (first == nullptr) continue;
    std::string what = absl::StrCat("function `@", function.name, "`");
    Duplicate(function.span, DiagnosticKind::kDuplicateFunction, what, first->span);
  }
  for (ir::Var* var : surroundings_.free_vars) Push(var);
}

void Parser::DeclareSource() {
  int depth = 0;
  for (size_t i = source_.begin; i < source_.end; ++i) {
    const Token& token = tokens_[i];
    if (token.text == "{") ++depth;
    if (token.text == "}") --depth;
    const Token& name = tokens_[i + 1];
    bool is_def = token.kind == TokenKind::kIdent && token.text == "def" && name.kind == TokenKind::kGlobal;
    if (is_def) depth = 0;  // functions do not nest: braces before are not closed
    if (depth != 0 || token.kind != TokenKind::kIdent) continue;
    bool is_adt = IsAdtKeyword(token.text) && IsTypeName(name);
    if (is_def) DeclareFunction(name);
    if (is_adt) DeclareAdt(name);
  }
}

void Parser::DeclareFunction(const Token& name) {
  const Names::Function* first = names_.DefineFunction(name.text, name.span);
  NotePlace({NameKind::kFunction, name.span, name.span});
  if (first == nullptr) return;
  std::string what = absl::StrCat("function `@", Abseil(name.text), "`");
  Duplicate(name.span, DiagnosticKind::kDuplicateFunction, what, first->span);
}

void Parser::DeclareAdt(const Token& name) {
  if (IsBuiltInType(name.text)) {
    Error(name.span, DiagnosticKind::kReservedName,
          absl::StrCat("`", Abseil(name.text), "` is a type of the language; expected another name"));
  }
  const std::vector<std::string>& shared = prelude_.shared_types;
  bool is_shared =
      source_.begin == sources_.front().begin && std::find(shared.begin(), shared.end(), name.text) != shared.end();
  std::string name_of_prelude = absl::StrCat(Abseil(kPreludePrefix), Abseil(name.text));
  // The type of the Prelude that another file of the program uses already.
  ir::AdtDef* of_prelude = is_shared ? names_.FindType(name_of_prelude) : nullptr;
  ir::AdtDef* adt = of_prelude == nullptr ? arena_.New<ir::AdtDef>() : of_prelude;
  if (of_prelude == nullptr) adt->span = name.span;
  NoteType(adt, name.span);
  const ir::AdtDef* first =
      of_prelude == nullptr ? names_.DefineType(name.text, adt) : names_.UseTypeOfPrelude(name.text, adt);
  if (first != nullptr) {
    std::string what = absl::StrCat("type `", Abseil(name.text), "`");
    return Duplicate(name.span, DiagnosticKind::kDuplicateType, what, first->span);
  }
  if (of_prelude != nullptr) return;
  adt->name = is_shared && !options_.prefix.empty() ? name_of_prelude : names_.TypeNameInModule(name.text);
  module_.adts.push_back(adt);
  ReadAdtParams(*adt, static_cast<size_t>(&name - tokens_.data()) + 1);
}

// Reads the type parameters at `token` before any body is parsed, because types may refer to later ones.
void Parser::ReadAdtParams(ir::AdtDef& adt, size_t token) {
  size_t at = std::exchange(at_, token);
  size_t outer = type_params_.size();
  std::vector<ir::TypeParam*> params;
  if (ParseTypeParams(adt.type_params)) {
    params.assign(type_params_.begin() + static_cast<ptrdiff_t>(outer), type_params_.end());
    adt_heads_[&adt] = {at_, std::move(params)};
  }
  type_params_.resize(outer);
  at_ = at;
}

// Moves to the next definition at the top level.
void Parser::SkipDefinition() {
  int depth = 0;
  while (Peek().kind != TokenKind::kEnd) {
    const Token& token = Peek();
    if (token.text == "{") ++depth;
    if (token.text == "}") --depth;
    bool starts = token.kind == TokenKind::kIdent && IsDefinitionKeyword(token.text);
    if (starts && (depth <= 0 || token.text == "def")) return;
    Take();
  }
}

bool Parser::IsReplaced(ir::Span span) const {
  return std::any_of(replaced_.begin(), replaced_.end(), [&](ir::Span function) {
    return span.source == function.source && span.begin >= function.begin && span.begin <= function.end;
  });
}

void Parser::LeaveOut() {
  left_out_ = true;
  SkipDefinition();
}

void Parser::ParsePragma() {
  ir::Span begin = Take().span;  // #[
  if (Accept("version") && Expect("=")) {
    Token version = Take();
    if (version.text != "\"0.0.5\"") {
      diagnostics_.Error(version.span, DiagnosticKind::kBadVersion,
                         absl::StrCat("the text has format version ", Abseil(version.text), "; expected \"0.0.5\""));
    }
    Expect("]");
    return;
  }
  if (Accept("origin") && Expect("=")) {
    if (Peek().kind != TokenKind::kString) {
      Unexpected("a string, the place that what follows comes from");
    } else if (std::optional<std::string> origin = Unquote(Take(), diagnostics_)) {
      diagnostics_.sources().MarkOrigin(begin.source, Peek().span.end, *std::move(origin));
    }
    Expect("]");
    return;
  }
  Error(From(begin), DiagnosticKind::kUnknownPragma,
        absl::StrCat("saw the pragma `#[", Abseil(Peek().text),
                     "`; expected `#[version = \"0.0.5\"]`, `#[origin = \"...\"]`, or `#[metadata]` ", "at the end"));
  while (Peek().kind != TokenKind::kEnd && !Accept("]")) Take();
}

void Parser::ParseAdt() {
  ir::Span begin = Peek().span;
  bool is_extern = Accept("extern");
  if (!IsAdtKeyword(Peek().text)) {
    Error(begin, DiagnosticKind::kMissingName,
          "saw `extern` alone; expected the name of a type, as in `extern type T`");
    left_out_ = true;
    return;
  }
  Take();  // type, data
  if (!IsTypeName(Peek())) {
    Unexpected("the name of a type", DiagnosticKind::kMissingName);
    left_out_ = true;
    return;
  }
  Token name = Take();
  ir::AdtDef* found = names_.FindType(name.text);
  // Null for a duplicate and after unmatched braces, both of which were already reported.
  auto head = found == nullptr ? adt_heads_.end() : adt_heads_.find(found);
  if (head == adt_heads_.end() || found->span != name.span) return SkipDefinition();
  ir::AdtDef& adt = *found;
  adt.is_extern = is_extern;
  at_ = head->second.behind_params;
  size_t outer = type_params_.size();
  type_params_.insert(type_params_.end(), head->second.params.begin(), head->second.params.end());
  bool ok = PeekIs("{") ? ParseConstructors(adt) : !PeekIs("=");
  if (PeekIs("=") && !ok) Unexpected("`{` and constructors, as in `type T { A(int32), B }`");
  type_params_.resize(outer);
  ok ? static_cast<void>(Accept(";")) : LeaveOut();
}

// `Cons(A, List[A]), Nil` or `Cons : (a, List[a]) -> List`.
bool Parser::ParseConstructors(ir::AdtDef& adt) {
  ir::Span open = Take().span;
  while (!Accept("}")) {
    if (Peek().kind == TokenKind::kEnd) return Unclosed("}", open) != nullptr;
    if (Peek().kind != TokenKind::kIdent) {
      return Unexpected("a constructor or `}`", DiagnosticKind::kMissingName) != nullptr;
    }
    Token name = Take();
    if (IsBuiltInType(name.text)) {
      Error(name.span, DiagnosticKind::kReservedName,
            absl::StrCat("`", Abseil(name.text),
                         "` is a type, not a name for a constructor; the fields of a constructor ",
                         "are written in parentheses, as in `Cons(int32, List[int32])`"));
    }
    auto* constructor = arena_.New<ir::Constructor>();
    constructor->name = std::string(name.text);
    constructor->span = name.span;
    constructor->adt = &adt;
    constructor->tag = static_cast<uint32_t>(adt.constructors.size());
    NoteConstructor(constructor, name.span);
    bool seed = Accept(":");
    if (PeekIs("(")) {
      ir::Span fields = Take().span;
      while (!Accept(")")) {
        const ir::Type* field = ParseType();
        if (field == nullptr) return false;
        constructor->fields.push_back(field);
        if (!Separator(")", fields)) return false;
      }
    }
    if (seed) {
      if (!Expect("->", DiagnosticKind::kMissingArrow)) return false;
      if (names_.FindType(Peek().text) != &adt) return Unexpected(absl::StrCat("`", adt.name, "`")) != nullptr;
      NoteType(&adt, Take().span);
      if (Accept("[")) {
        while (Peek().kind != TokenKind::kEnd && !Accept("]")) Take();
      }
    }
    Accept(",");
    for (const ir::Constructor* other : adt.constructors) {
      if (other->name != constructor->name) continue;
      std::string what = absl::StrCat("constructor `", constructor->name, "`");
      Duplicate(name.span, DiagnosticKind::kDuplicateConstructor, what, other->span);
    }
    names_.DefineConstructor(constructor);
    adt.constructors.push_back(constructor);
  }
  return true;
}

void Parser::ParseFreeVar() {
  Take();
  if (Peek().kind != TokenKind::kLocal) {
    Unexpected("a variable like `%w`", DiagnosticKind::kMissingName);
    return LeaveOut();
  }
  Token name = TakeName(/*is_bound_here=*/true);
  const ir::Type* annotation = nullptr;
  if (Accept(":") && (annotation = ParseType()) == nullptr) return LeaveOut();
  Accept(";");
  ir::Var* var = NewVar(name, annotation);
  if (const ir::Var* first = FindVar(var->name)) {
    std::string what = absl::StrCat("free variable `%", var->name, "`");
    return Duplicate(name.span, DiagnosticKind::kDuplicateWeight, what, first->span);
  }
  module_.free_vars.push_back(var);
  Push(var);
  if (!options_.prefix.empty()) var->name = absl::StrCat(Abseil(options_.prefix), ".", var->name);
}

void Parser::ParseDef() {
  ir::Span begin = Take().span;
  if (Peek().kind != TokenKind::kGlobal) {
    std::string name = Peek().kind == TokenKind::kIdent ? std::string(Peek().text) : "";
    Unexpected(absl::StrCat("a global name like `@main`", AsSuggestion(name, "@")), DiagnosticKind::kMissingName);
    return LeaveOut();
  }
  Token name = Take();
  std::vector<ir::TypeParam*> dims;
  implicit_dims_ = &dims;
  left_.clear();
  graph_vars_.clear();
  size_t outer = type_params_.size();
  bool is_replaced = false;
  ir::Function* function = ParseFunctionRest(begin, &is_replaced);
  type_params_.resize(outer);
  implicit_dims_ = nullptr;
  if (function == nullptr || is_replaced) used_out_of_scope_.clear();
  if (function == nullptr) return LeaveOut();
  if (is_replaced) {
    SkipDefinition();
    replaced_.push_back({begin.source, begin.begin, Peek().span.begin});
  }
  PlaceGraphVars(*function);
  function->type_params.insert(function->type_params.end(), dims.begin(), dims.end());
  Accept(";");
  // A name with several definitions, which is an error, refers to the first.
  const Names::Function* first = names_.FindFunction(name.text);
  if (first != nullptr && first->span == name.span) module_.functions.push_back({first->name, function, name.span});
}

// Moves the graph bindings that are used outside the block that binds them to a block that contains all uses.
void Parser::PlaceGraphVars(ir::Function& function) {
  std::vector<ir::Var*> vars = std::exchange(used_out_of_scope_, {});
  int errors = diagnostics_.errors();
  if (!vars.empty()) PlaceGraphBindings(function, vars, diagnostics_);
  left_out_ |= diagnostics_.errors() != errors;
}

void Parser::ParseAll() {
  while (PeekIs("#[")) ParsePragma();
  sources_.front().begin = at_;
  DeclareAll();
  for (bool adts : {true, false}) {  // types before the functions that match on them
    for (const Source& source : sources_) {
      Enter(source);
      while (Peek().kind != TokenKind::kEnd) ParseDefinition(adts);
    }
  }
}

// Parses the definition that begins here if it is a type definition (`adts`) or another one (not `adts`); otherwise
// skips it. Types are parsed first.
void Parser::ParseDefinition(bool adts) {
  size_t begin = at_;
  int errors = diagnostics_.errors();
  bool is_adt = IsAdtKeyword(Peek().text) || PeekIs("extern");
  if (auto adt = adt_ends_.find(begin); is_adt && adt != adt_ends_.end()) {
    at_ = adt->second;
  } else if (is_adt != adts) {
    Take();
    SkipDefinition();
  } else if (adts) {
    ParseAdt();
    adt_ends_[begin] = at_;
  } else if (PeekIs("def")) {
    ParseDef();
  } else if (PeekIs("free_var")) {
    ParseFreeVar();
  } else if (PeekIs("import")) {
    ParseImport();
  } else if (PeekIs("#[")) {
    ParsePragma();
  } else {
    ParseMainExpression();
  }
  WarnOfDiscardedValues(errors);
}

// Imports have been read already; see FindSurroundings.
void Parser::ParseImport() {
  if (auto end = surroundings_.import_ends.find(at_); end != surroundings_.import_ends.end()) {
    at_ = end->second;
    return;
  }
  Take();
  if (Peek().kind != TokenKind::kError) {
    Error(Peek().span, DiagnosticKind::kSyntaxError,
          absl::StrCat("saw ", Saw(), "; expected a file in quotes, as in `import \"step.onnx\" as @step;`"))
        .AddNote({}, "the operators and the functions of the Prelude need no import");
  }
  LeaveOut();
}

// With a syntax error in the definition, it is uncertain which expressions are statements.
void Parser::WarnOfDiscardedValues(int errors_before) {
  std::vector<const ir::Expr*> calls = std::exchange(discarded_, {});
  if (diagnostics_.errors() != errors_before) return;
  for (const ir::Expr* call : calls) {
    diagnostics_.Warning(
        call->span, DiagnosticKind::kDiscardedValue,
        absl::StrCat("the value of `", Abseil(ir::OpCallee(call)->name),
                     "` is not used, and operators have no effects; bind it with `let`, or delete it"));
  }
}

void Parser::ParseMainExpression() {
  ir::Span begin = Peek().span;
  if (PeekIs("}") || PeekIs(")") || PeekIs("]")) {
    Error(begin, DiagnosticKind::kUnmatchedBracket,
          absl::StrCat("saw `", Abseil(Peek().text), "`, which closes no bracket; expected a definition"));
    Take();
    return LeaveOut();
  }
  if (ReportHabitAsDefinition()) {
    Take();
    return LeaveOut();
  }
  ir::Expr* body = ParseSequence();
  if (body == nullptr) return LeaveOut();
  if (const Names::Function* main = names_.FindFunction("main")) {
    Error(From(begin), DiagnosticKind::kExpressionBesideMain,
          "an expression stands beside a definition of `@main`; expected one of them")
        .AddNote(main->span, "`@main` is defined here");
    return SkipDefinition();
  }
  auto* main = arena_.New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::vector<ir::Var*>{}, nullptr, body,
                                        From(begin));
  PlaceGraphVars(*main);
  names_.DefineFunction("main", From(begin));
  module_.functions.push_back({names_.FunctionNameInModule("main"), main, From(begin)});
}

namespace {

// Returns true if a placeholder stands for what has an error of that kind, so that types can still be inferred.
bool HasPlaceholder(DiagnosticKind kind) {
  constexpr DiagnosticKind kKinds[] = {
      DiagnosticKind::kUnknownVariable,    DiagnosticKind::kUnknownFunction,  DiagnosticKind::kUnknownOperator,
      DiagnosticKind::kUnknownConstructor, DiagnosticKind::kUnknownType,      DiagnosticKind::kUnknownDType,
      DiagnosticKind::kUnknownShape,       DiagnosticKind::kUnknownDim,       DiagnosticKind::kVariableOutOfScope,
      DiagnosticKind::kMissingName,        DiagnosticKind::kBadLiteralSuffix,
  };
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds);
}

bool HaveAllPlaceholders(const Parser& parser, const diagnostics::Diagnostics& diagnostics) {
  return std::all_of(diagnostics.all().begin(), diagnostics.all().end(),
                     [&](const diagnostics::Diagnostic& diagnostic) {
                       return diagnostic.severity != diagnostics::Severity::kError || HasPlaceholder(diagnostic.kind) ||
                              parser.IsReplaced(diagnostic.span);
                     });
}

}  // namespace

bool ParseModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics,
                 const ParseOptions& options) {
  int before = diagnostics.errors();
  if (IsSavedModule(diagnostics.sources().text(source))) return ReadSavedModule(source, module, diagnostics);
  std::vector<Token> tokens = Lex(source, diagnostics);
  std::optional<Metadata> metadata;
  if (tokens.size() > 1 && tokens[tokens.size() - 2].kind == TokenKind::kMetadata) {
    const Token& section = tokens[tokens.size() - 2];
    absl::StatusOr<Metadata> read = Metadata::Parse(section.text);
    if (read.ok()) {
      metadata = *std::move(read);
    } else {
      diagnostics.Error(section.span, DiagnosticKind::kBadMetadata,
                        absl::StrCat("the metadata section is not a graph of nodes: ", read.status().message()));
      return false;
    }
    tokens.erase(tokens.end() - 2);
  }
  Surroundings surroundings = FindSurroundings(tokens, module, diagnostics, options);
  // After an error in an import the names that it would bring are not known.
  if (surroundings.has_imports && diagnostics.errors() != before) return false;
  NeededPrelude prelude = FindNeededPrelude(tokens, surroundings);
  if (!prelude.text.empty()) {
    std::vector<Token> more = Lex(diagnostics.sources().Add("<prelude>", prelude.text), diagnostics);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  bool is_joined = surroundings.has_imports && options.prefix.empty();
  std::vector<std::string> roots = surroundings.roots;
  Parser parser(std::move(tokens), std::move(metadata), std::move(surroundings), std::move(prelude), module,
                diagnostics, options);
  parser.ParseAll();
  bool ok = diagnostics.errors() == before;
  if (is_joined) {
    for (const ir::GlobalFunction& function : module.functions) {
      if (function.span.source == source) roots.push_back(function.name);
    }
    FinishImports(roots, module);
  }
  if (options.has_placeholders != nullptr) {
    *options.has_placeholders = !ok && !parser.left_out() && HaveAllPlaceholders(parser, diagnostics);
  }
  return ok;
}

}  // namespace rvm::text
