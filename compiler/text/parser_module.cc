#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/edit_distance.h"
#include "compiler/ops/op_def.h"
#include "compiler/text/parser.h"
#include "compiler/text/parser_state.h"
#include "compiler/text/prelude_loader.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

namespace {

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }
bool IsAdtKeyword(std::string_view text) { return text == "type" || text == "data"; }

}  // namespace

std::nullptr_t Parser::Unexpected(std::string_view expected) {
  const Token& token = Peek();
  std::string saw = token.kind == TokenKind::kEnd ? "the end of the text" : absl::StrCat("`", Abseil(token.text), "`");
  diagnostics_.Error(token.span, DiagnosticKind::kSyntaxError,
                     absl::StrCat("saw ", saw, "; expected ", Abseil(expected)));
  return nullptr;
}

bool Parser::Expect(std::string_view text) {
  if (Accept(text)) return true;
  Unexpected(absl::StrCat("`", Abseil(text), "`"));
  return false;
}

std::nullptr_t Parser::UnknownName(ir::Span span, DiagnosticKind kind, std::string_view what, std::string_view name) {
  std::vector<std::string_view> known;
  if (what == "variable") {
    for (const ir::Var* var : scope_) known.push_back(var->name);
  } else if (what == "type") {
    for (const auto& [adt, def] : adts_) known.push_back(adt);
  } else {
    for (const auto& global : globals_) known.push_back(global);
    for (const auto& [constructor, def] : constructors_) known.push_back(constructor);
    for (const ops::OpDef* op : ops::AllOps()) known.push_back(op->name);
  }
  std::sort(known.begin(), known.end());
  std::string_view near = NearestName(name, known);
  diagnostics_.Error(span, kind,
                     absl::StrCat("no ", Abseil(what), " is named `", Abseil(name), "`",
                                  near.empty() ? "" : absl::StrCat("; did you mean `", Abseil(near), "`?")));
  return nullptr;
}

ir::Var* Parser::NewVar(const Token& token, const ir::Type* annotation) {
  return arena_.New<ir::Var>(arena_.NextId(), std::string(token.text), annotation, token.span);
}
void Parser::Push(ir::Var* var) {
  locals_[var->name].push_back(var);
  scope_.push_back(var);
}
void Parser::PopTo(size_t depth) {
  while (scope_.size() > depth) {
    locals_[scope_.back()->name].pop_back();
    scope_.pop_back();
  }
}
ir::Var* Parser::FindVar(std::string_view name) const {
  auto found = locals_.find(absl::string_view(name.data(), name.size()));
  return found == locals_.end() || found->second.empty() ? nullptr : found->second.back();
}

// Names first: definitions may refer to later ones.
void Parser::DeclareAll() {
  for (const ir::AdtDef* adt : module_.adts) {
    adts_[adt->name] = const_cast<ir::AdtDef*>(adt);
    for (ir::Constructor* constructor : adt->constructors) constructors_[constructor->name] = constructor;
  }
  for (const ir::GlobalFunction& function : module_.functions) globals_.insert(function.name);
  for (ir::Var* var : module_.free_vars) Push(var);
  int depth = 0;
  for (size_t i = 0; i + 1 < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (token.text == "{") ++depth;
    if (token.text == "}") --depth;
    if (depth != 0 || token.kind != TokenKind::kIdent) continue;
    const Token& name = tokens_[i + 1];
    bool is_def = token.text == "def" && name.kind == TokenKind::kGlobal;
    bool is_adt = IsAdtKeyword(token.text) && name.kind == TokenKind::kIdent;
    bool is_new = is_def ? globals_.insert(std::string(name.text)).second : true;
    if (is_adt) {
      is_new = !adts_.contains(absl::string_view(name.text.data(), name.text.size()));
      if (is_new) {
        ir::AdtDef* adt = arena_.New<ir::AdtDef>();
        adt->name = std::string(name.text);
        adt->span = name.span;
        adts_[adt->name] = adt;
        module_.adts.push_back(adt);
      }
    }
    if (!is_new) {
      diagnostics_.Error(name.span, DiagnosticKind::kDuplicateName,
                         absl::StrCat("`", Abseil(name.text), "` is defined twice"));
    }
  }
}

// To the next definition on the top level.
void Parser::SkipDefinition() {
  int depth = 0;
  while (Peek().kind != TokenKind::kEnd) {
    const Token& token = Peek();
    if (token.text == "{") ++depth;
    if (token.text == "}") --depth;
    bool starts = token.kind == TokenKind::kIdent && (token.text == "def" || IsAdtKeyword(token.text) ||
                                                      token.text == "extern" || token.text == "free_var");
    if (starts && (depth <= 0 || token.text == "def")) return;
    Take();
  }
}

void Parser::ParseVersion() {
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
  diagnostics_.Error(From(begin), DiagnosticKind::kSyntaxError,
                     "saw an unknown pragma; expected `#[version = \"0.0.5\"]`");
  while (Peek().kind != TokenKind::kEnd && !Accept("]")) Take();
}

void Parser::ParseAdt() {
  bool is_extern = Accept("extern");
  Take();  // type, data
  if (Peek().kind != TokenKind::kIdent) {
    Unexpected("the name of a type");
    return;
  }
  Token name = Take();
  auto found = adts_.find(absl::string_view(name.text.data(), name.text.size()));
  ir::AdtDef& adt = *found->second;
  if (!adt.constructors.empty()) return SkipDefinition();  // a duplicate, reported before
  adt.is_extern = is_extern;
  size_t outer = type_params_.size();
  if (ParseTypeParams(adt.type_params) && (!PeekIs("{") || (Take(), ParseConstructors(adt)))) {
    type_params_.resize(outer);
    Accept(";");
    return;
  }
  type_params_.resize(outer);
  SkipDefinition();
}

// `Cons(A, List[A]), Nil` or `Cons : (a, List[a]) -> List`.
bool Parser::ParseConstructors(ir::AdtDef& adt) {
  while (!Accept("}")) {
    if (Peek().kind != TokenKind::kIdent) return Unexpected("a constructor or `}`") != nullptr;
    Token name = Take();
    auto* constructor = arena_.New<ir::Constructor>();
    constructor->name = std::string(name.text);
    constructor->span = name.span;
    constructor->adt = &adt;
    constructor->tag = static_cast<uint32_t>(adt.constructors.size());
    bool seed = Accept(":");
    if (Accept("(")) {
      while (!Accept(")")) {
        const ir::Type* field = ParseType();
        if (field == nullptr) return false;
        constructor->fields.push_back(field);
        if (!PeekIs(")") && !Expect(",")) return false;
      }
    }
    if (seed) {
      if (!Expect("->") || Peek().text != adt.name) return Unexpected(absl::StrCat("`", adt.name, "`")) != nullptr;
      Take();
      if (Accept("[")) {
        while (Peek().kind != TokenKind::kEnd && !Accept("]")) Take();
      }
    }
    Accept(",");
    if (!constructors_.try_emplace(constructor->name, constructor).second) {
      diagnostics_.Error(name.span, DiagnosticKind::kDuplicateName,
                         absl::StrCat("constructor `", constructor->name, "` is defined twice"));
    }
    adt.constructors.push_back(constructor);
  }
  return true;
}

void Parser::ParseFreeVar() {
  Take();
  if (Peek().kind != TokenKind::kLocal) {
    Unexpected("a variable");
    return SkipDefinition();
  }
  Token name = Take();
  const ir::Type* annotation = nullptr;
  if (Accept(":") && (annotation = ParseType()) == nullptr) return SkipDefinition();
  Accept(";");
  ir::Var* var = NewVar(name, annotation);
  if (FindVar(var->name) != nullptr) {
    diagnostics_.Error(name.span, DiagnosticKind::kDuplicateName, absl::StrCat("`%", var->name, "` is declared twice"));
    return;
  }
  module_.free_vars.push_back(var);
  Push(var);
}

void Parser::ParseDef() {
  ir::Span begin = Take().span;
  if (Peek().kind != TokenKind::kGlobal) {
    Unexpected("a global name like `@main`");
    return SkipDefinition();
  }
  Token name = Take();
  std::vector<ir::TypeParam*> dims;
  implicit_dims_ = &dims;
  size_t outer = type_params_.size();
  ir::Function* function = ParseFunctionRest(begin);
  type_params_.resize(outer);
  implicit_dims_ = nullptr;
  if (function == nullptr) return SkipDefinition();
  function->type_params.insert(function->type_params.end(), dims.begin(), dims.end());
  Accept(";");
  if (module_.FindFunction(name.text) == nullptr)
    module_.functions.push_back({std::string(name.text), function, name.span});
}

void Parser::ParseAll() {
  while (PeekIs("#[")) ParseVersion();
  DeclareAll();
  size_t start = at_;
  for (bool adts : {true, false}) {  // types before the functions that match on them
    at_ = start;
    while (Peek().kind != TokenKind::kEnd) {
      if (IsAdtKeyword(Peek().text) || PeekIs("extern")) {
        adts ? ParseAdt() : (Take(), SkipDefinition());
      } else if (adts) {
        PeekIs("def") ? (Take(), SkipDefinition()) : (Take(), SkipDefinition());
      } else if (PeekIs("def")) {
        ParseDef();
      } else if (PeekIs("free_var")) {
        ParseFreeVar();
      } else {
        ir::Span begin = Peek().span;
        ir::Expr* body = ParseSequence();
        if (body == nullptr) {
          SkipDefinition();
        } else if (module_.FindFunction("main") != nullptr) {
          diagnostics_.Error(body->span, DiagnosticKind::kDuplicateName,
                             "an expression stands beside a definition of `@main`; expected one of them");
        } else {
          auto* main = arena_.New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::vector<ir::Var*>{}, nullptr,
                                                body, From(begin));
          module_.functions.push_back({"main", main, From(begin)});
        }
      }
    }
  }
}

bool ParseModule(uint32_t source, ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  int before = diagnostics.errors();
  std::vector<Token> tokens = Lex(source, diagnostics);
  if (std::string prelude = NeededPrelude(tokens, module); !prelude.empty()) {
    // Behind the program's own text, as one: each may mention the other.
    tokens.pop_back();
    std::vector<Token> more = Lex(diagnostics.sources().Add("<prelude>", std::move(prelude)), diagnostics);
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  Parser(std::move(tokens), module, diagnostics).ParseAll();
  return diagnostics.errors() == before;
}

}  // namespace rvm::text
