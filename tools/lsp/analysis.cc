#include "tools/lsp/analysis.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/abseil.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/program_files.h"
#include "compiler/ir/walk.h"
#include "compiler/prelude/prelude.h"
#include "compiler/text/parser.h"
#include "compiler/typing/infer_type.h"

namespace rvm::tools::lsp {
namespace {

bool Contains(ir::Span span, size_t offset) { return span.begin <= offset && offset <= span.end; }

}  // namespace

Analysis::Analysis(std::string text, const std::optional<std::string>& folder) {
  source = sources.Add("<text>", std::move(text));
  diagnostics::Diagnostics ignored(&sources);  // the parser reports them
  tokens = text::Lex(source, ignored, &comments);
  definitions = FindDefinitions(tokens);
  for (const Definition& definition : definitions) {
    definitions_by_name_.try_emplace(definition.name, &definition);
    for (const Definition& constructor : definition.constructors) {
      definitions_by_name_.try_emplace(constructor.name, &constructor);
    }
  }
  bool has_placeholders = false;
  driver::ProgramFiles files;
  files.set_only_declares();
  text::ParseOptions options{.has_placeholders = &has_placeholders, .names = &names};
  if (folder) {
    files.set_folder(*folder);
    options.importer = &files;
  }
  bool is_parsed = text::ParseModule(source, module, diagnostics, options);
  for (size_t i = 0; i < module.functions.size(); ++i) {
    ir::Span span = module.functions[i].span;
    if (IsHere(span)) functions_.emplace(span.begin, i);
  }
  std::stable_sort(names.places.begin(), names.places.end(),
                   [](const text::NamePlace& a, const text::NamePlace& b) { return a.span.begin < b.span.begin; });
  if (files.has_imports() || (!is_parsed && !has_placeholders)) return;
  if (!typing::InferTypes(module, diagnostics) || !is_parsed) return;
  // The diagnostics say what is wrong.
  driver::CheckInstances(module, diagnostics).IgnoreError();
}

const text::NamePlace* Analysis::NameAt(size_t offset) const {
  auto behind = std::upper_bound(names.places.begin(), names.places.end(), offset,
                                 [](size_t at, const text::NamePlace& place) { return at < place.span.begin; });
  const text::NamePlace* found = nullptr;
  while (behind != names.places.begin()) {
    const text::NamePlace& place = *--behind;
    if (place.span.end < offset) break;
    // Prefers the second of two adjacent names.
    if (found == nullptr || place.span.end > offset) found = &place;
    if (place.span.begin < offset) break;
  }
  return found;
}

std::vector<const text::NamePlace*> Analysis::PlacesOf(const text::NamePlace& place) const {
  std::vector<const text::NamePlace*> found;
  for (const text::NamePlace& other : names.places) {
    if (other.kind != place.kind || other.definition != place.definition || other.op != place.op) continue;
    // A name may be read twice.
    if (found.empty() || found.back()->span != other.span) found.push_back(&other);
  }
  return found;
}

const ir::GlobalFunction* Analysis::FunctionAt(ir::Span definition) const {
  auto found = IsHere(definition) ? functions_.find(definition.begin) : functions_.end();
  if (found != functions_.end()) return &module.functions[found->second];
  for (const ir::GlobalFunction& function : module.functions) {
    if (!IsHere(function.span) && function.span == definition) return &function;
  }
  return nullptr;
}

const Definition* Analysis::FindDefinition(std::string_view name) const {
  auto found = definitions_by_name_.find(Abseil(name));
  return found == definitions_by_name_.end() ? nullptr : found->second;
}

std::vector<const ir::Var*> Analysis::VariablesAt(size_t offset) const {
  std::vector<text::VariableScope> around;
  for (const text::VariableScope& scope : names.scopes) {
    if (scope.begin <= offset && offset <= scope.end) around.push_back(scope);
  }
  std::stable_sort(around.begin(), around.end(), [](const auto& a, const auto& b) { return a.begin > b.begin; });
  std::vector<const ir::Var*> found;
  absl::flat_hash_set<std::string_view> seen;
  auto add = [&](const ir::Var* var) {
    if (var->name != "_" && seen.insert(var->name).second) found.push_back(var);
  };
  for (const text::VariableScope& scope : around) add(scope.var);
  for (const ir::Var* var : module.free_vars) {
    if (IsHere(var->span) && var->span.end <= offset) add(var);
  }
  return found;
}

const ir::Expr* Analysis::FindExpr(size_t offset, absl::FunctionRef<bool(const ir::Expr&)> fits) const {
  const ir::Expr* best = nullptr;
  for (const ir::GlobalFunction& function : module.functions) {
    bool is_around = IsHere(function.function->span) && Contains(function.function->span, offset);
    if (!is_around) continue;
    ir::ForEachExpr(function.function, [&](const ir::Expr* expr) {
      bool is_candidate = IsHere(expr->span) && Contains(expr->span, offset) && fits(*expr);
      auto size = [](ir::Span span) { return span.end - span.begin; };
      if (is_candidate && (best == nullptr || size(expr->span) < size(best->span))) best = expr;
      return true;
    });
  }
  return best;
}

const Analysis& PreludeAnalysis() {
  static const Analysis& prelude = *new Analysis(std::string(prelude::Text()));
  return prelude;
}

}  // namespace rvm::tools::lsp
