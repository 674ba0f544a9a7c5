#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/abseil.h"
#include "compiler/analysis/match_exhaustive.h"
#include "compiler/typing/call_graph.h"
#include "compiler/typing/checker.h"

namespace rvm::typing {

using diagnostics::DiagnosticKind;
using ir::Type;

// ---- Flows and messages

std::string Checker::Text(const Type* type) { return ir::TypeToString(solver_.Resolve(type)); }

diagnostics::Diagnostic& Checker::Error(ir::Span span, DiagnosticKind kind, std::string message) {
  return diagnostics_.Error(span, kind, std::move(message));
}

bool Checker::Flow(const Type* from, const Type* to, const Site& site, Subject subject) {
  solver_.set_site(sites_.size());
  sites_.push_back(site.span);
  bool ok = solver_.Flow(from, to);
  if (!ok) ReportMismatch(from, to, site, subject);
  relations_.Drain();
  return ok;
}

ir::Span Checker::SpanOfGlobal(std::string_view name) const {
  auto found = globals_.find(name);
  return found == globals_.end() ? ir::Span{} : found->second.global->span;
}

void Checker::AddOrigin(diagnostics::Diagnostic& diagnostic, const ir::Expr* value) {
  if (const auto* var = ir::DynCast<ir::VarExpr>(value); var != nullptr && var->var->span.valid()) {
    std::string_view how = var->var->annotation != nullptr ? "` is given this type here" : "` is bound here";
    diagnostic.AddNote(var->var->span, absl::StrCat("`%", var->var->name, Abseil(how)));
  }
  const auto* call = ir::DynCast<ir::Call>(value);
  const ir::Expr* callee = call != nullptr ? call->callee : value;
  if (const auto* constructor = ir::DynCast<ir::ConstructorExpr>(callee)) {
    AddNamesakes(diagnostic, *constructor->constructor);
  }
  const auto* global = ir::DynCast<ir::GlobalExpr>(callee);
  if (global == nullptr) return;
  ir::Span span = SpanOfGlobal(global->name);
  if (span.valid()) diagnostic.AddNote(span, absl::StrCat("`@", global->name, "` is defined here"));
}

void Checker::AddNamesakes(diagnostics::Diagnostic& diagnostic, const ir::Constructor& constructor) {
  for (const ir::AdtDef* adt : module_.adts) {
    for (const ir::Constructor* other : adt->constructors) {
      if (other == &constructor || other->name != constructor.name) continue;
      diagnostic.AddNote(
          {}, absl::StrCat("`", constructor.name, "` is here that of `", constructor.adt->name, "`; write `", adt->name,
                           ".", other->name, "` for that of `", adt->name, "`"));
    }
  }
}

void Checker::ReportMismatch(const Type* from, const Type* to, const Site& site, Subject subject) {
  FlowFailure failure = solver_.failure();
  if (solver_.ContainsError(from) || solver_.ContainsError(to)) return;
  std::string saw = Text(from), expected = Text(to);
  auto& diagnostic = diagnostics_.Error(
      site.span, failure.infinite ? DiagnosticKind::kInfiniteType : site.kind,
      failure.infinite ? absl::StrCat(subject(), " has type `", saw, "`, which would contain itself")
                       : absl::StrCat(subject(), " has type `", saw, "`; expected `", expected, "`"));
  if (failure.from != nullptr && !failure.infinite) {
    std::string inner_saw = Text(failure.from), inner_expected = Text(failure.to);
    if (inner_saw != saw && inner_saw != expected)
      diagnostic.AddNote({}, absl::StrCat("within it, `", inner_saw, "` is not `", inner_expected, "`"));
  }
  AddOrigin(diagnostic, site.value);
  if (site.constructor != nullptr) AddNamesakes(diagnostic, *site.constructor);
  bool is_join = site.kind == DiagnosticKind::kBranchTypeMismatch || site.kind == DiagnosticKind::kClauseTypeMismatch ||
                 site.kind == DiagnosticKind::kResultTypeMismatch;
  if (const Type* common = is_join ? CommonType(from, to) : nullptr) {
    diagnostic.AddNote({},
                       absl::StrCat("an extent that differs from case to case is `?`: declare `", Text(common), "`"));
  }
  if (!site.declared.valid() || failure.infinite) return;
  diagnostic.AddNote(site.declared, std::string(site.declared_what));
}

// Returns the tensor type with `?` where the extents of `from` and `to` differ; null where more than extents differs.
const Type* Checker::CommonType(const Type* from, const Type* to) {
  const auto* a = ir::DynCast<ir::TensorType>(solver_.Resolve(from));
  const auto* b = ir::DynCast<ir::TensorType>(solver_.Resolve(to));
  if (a == nullptr || b == nullptr || !a->shape.is_dims() || !b->shape.is_dims()) return nullptr;
  if (!(a->dtype == b->dtype) || a->shape.dims.size() != b->shape.dims.size()) return nullptr;
  Dims dims = a->shape.dims;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (CompareDims(dims[i], b->shape.dims[i]) != DimEquality::kEqual) dims[i] = Dim::Any();
  }
  return solver_.arena().New<ir::TensorType>(ir::ShapeTerm::Of(std::move(dims)), a->dtype);
}

void Checker::SetType(ir::Expr* expr, const Type* type) {
  expr->type = type;
  exprs_.push_back(expr);
}

void Checker::Declare(ir::Var* var, const Type* type) {
  var->type = type;
  vars_.push_back(var);
}

// ---- The module

void Checker::CheckModule() {
  for (ir::Var* var : module_.free_vars) {
    Declare(var, var->annotation == nullptr ? solver_.FreshType() : solver_.Freshen(var->annotation));
  }
  for (const ir::GlobalFunction& function : module_.functions) DeclareFunction(function);
  CheckBodies();
  Settle();
  if (diagnostics_.errors() == 0) ReportUnsolved();
  WriteBack();
  if (diagnostics_.errors() == 0) CheckMatches();
}

void Checker::DeclareFunction(const ir::GlobalFunction& global) {
  const ir::FuncType* type = DeclareLiteral(global.function);
  auto [first, is_new] = globals_.emplace(global.name, Global{type, &global});
  if (!is_new) {
    Error(global.span, DiagnosticKind::kDuplicateFunction,
          absl::StrCat("function `@", global.name, "` is defined twice"))
        .AddNote(first->second.global->span, "it is defined here first");
  }
  SetType(global.function, type);
}

// Callees before callers, so that what a function without annotations returns is known.
void Checker::CheckBodies() {
  for (size_t index : CalleesFirst(module_)) {
    const ir::GlobalFunction& function = module_.functions[index];
    Global& global = globals_.find(function.name)->second;
    checking_ = &global;
    CheckBody(function.function, static_cast<const ir::FuncType*>(function.function->type), nullptr, function.span,
              [&] { return absl::StrCat("the body of `@", function.name, "`"); });
    DeriveConstraints(global);
    global.is_checked = true;
  }
}

// Holes that are still open after all uses get their defaults; then pending comparisons of dims
// are decided.
void Checker::Settle() {
  relations_.Drain();
  while (relations_.Force()) {
  }
  if (solver_.FillDefaults()) relations_.Drain();
  while (relations_.Force()) {
  }
  for (const PendingDims& pending : solver_.TakePending()) {
    Dim from = solver_.ResolveDim(pending.from), to = solver_.ResolveDim(pending.to);
    if (CompareDims(from, to) != DimEquality::kDifferent) continue;
    Error(sites_[pending.site], DiagnosticKind::kDimMismatch,
          absl::StrCat("a dim is ", from.ToString(), "; expected ", to.ToString()));
  }
}

void Checker::ReportUnsolved() {
  for (const ir::Var* var : vars_) {
    if (var->name == "_" || !solver_.IsOpen(var->type) || solver_.ContainsError(var->type)) continue;
    Error(var->span, DiagnosticKind::kUnsolvedVariable,
          absl::StrCat("the type of `%", var->name, "` is not determined (`", Text(var->type),
                       "`); expected an annotation"));
    solver_.Poison(var->type);
    relations_.Drain();
  }
  relations_.ReportStuck();
  for (const ir::Expr* expr : exprs_) {
    if (!solver_.IsOpen(expr->type) || solver_.ContainsError(expr->type)) continue;
    Error(expr->span, DiagnosticKind::kUnsolvedExpression,
          absl::StrCat("the type of this expression is not determined (`", Text(expr->type),
                       "`); expected an annotation"));
    solver_.Poison(expr->type);
  }
}

void Checker::WriteBack() {
  Solver::Resolver resolver(solver_);
  for (ir::Expr* expr : exprs_) {
    expr->type = resolver.Resolve(expr->type);
    std::vector<ir::TypeArg>* args = nullptr;
    if (auto* global = ir::DynCast<ir::GlobalExpr>(expr)) args = &global->type_args;
    if (auto* constructor = ir::DynCast<ir::ConstructorExpr>(expr)) args = &constructor->type_args;
    if (args == nullptr) continue;
    for (ir::TypeArg& arg : *args) arg = solver_.Resolve(arg);
  }
  for (ir::Var* var : vars_) var->type = resolver.Resolve(var->type);
}

void Checker::CheckMatches() {
  for (const ir::Match* match : matches_) {
    analysis::MatchCoverage coverage = analysis::CheckCoverage(match->value->type, match->clauses);
    if (match->is_complete && !coverage.missing.empty()) {
      Error(match->is_let ? match->clauses[0].pattern->span : match->span, DiagnosticKind::kNonExhaustiveMatch,
            absl::StrCat(match->is_let ? "the pattern of this `let`" : "the match", " does not cover `",
                         absl::StrJoin(coverage.missing, "`, `"),
                         match->is_let ? "`; expected one that covers every value, or a `match`"
                                       : "`; expected a clause for each, or `match?`"));
    }
    for (size_t clause : coverage.unreachable) {
      ir::Span span = match->clauses[clause].span;
      diagnostics_.Warning(span.valid() ? span : match->clauses[clause].pattern->span,
                           DiagnosticKind::kUnreachableClause,
                           "the clause is never taken: the clauses before it cover its pattern");
    }
  }
}

}  // namespace rvm::typing
