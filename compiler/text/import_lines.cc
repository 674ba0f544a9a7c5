#include "compiler/text/import_lines.h"

#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ir/walk.h"
#include "compiler/text/names.h"

namespace rvm::text {
namespace {

using diagnostics::DiagnosticKind;

constexpr std::string_view kExample = "as in `import \"step.onnx\" as @step;`";

// Reads one line after the other.
class LineReader {
 public:
  LineReader(std::span<const Token> tokens, diagnostics::Diagnostics& diagnostics)
      : tokens_(tokens), diagnostics_(diagnostics) {}

  // Returns the line whose `import` is at `at`, which becomes the token behind it; nullopt after an error was reported.
  std::optional<ImportLine> Read(size_t& at) {
    at_ = at + 1;
    ImportLine line;
    bool is_read = ReadHere(line);
    at = at_;
    return is_read ? std::optional(std::move(line)) : std::nullopt;
  }

 private:
  const Token& Peek() const { return tokens_[at_]; }
  bool Accept(std::string_view text) {
    bool is_it = Peek().text == text && Peek().kind != TokenKind::kString && Peek().kind != TokenKind::kEnd;
    at_ += is_it ? 1 : 0;
    return is_it;
  }
  // Reports "saw X; expected Y" unless the lexer has reported the token. Returns false.
  bool Unexpected(std::string_view expected) {
    const Token& token = Peek();
    if (token.kind == TokenKind::kError) return false;
    std::string_view mark = token.kind == TokenKind::kLocal ? "%" : token.kind == TokenKind::kGlobal ? "@" : "";
    std::string saw = token.kind == TokenKind::kEnd ? "the end of the text"
                                                    : absl::StrCat("`", Abseil(mark), Abseil(token.text), "`");
    diagnostics_.Error(token.span, DiagnosticKind::kSyntaxError,
                       absl::StrCat("saw ", saw, "; expected ", Abseil(expected)));
    return false;
  }

  bool ReadHere(ImportLine& line) {
    line.span = Peek().span;
    std::optional<std::string> path = Unquote(tokens_[at_++], diagnostics_);
    if (!path) return false;
    line.path = *std::move(path);
    if (!Accept("as")) return Unexpected(absl::StrCat("`as` and a name, ", Abseil(kExample)));
    if (Peek().kind != TokenKind::kGlobal) return Unexpected(absl::StrCat("a name with `@`, ", Abseil(kExample)));
    line.name = std::string(Peek().text);
    line.name_span = Peek().span;
    if (line.name == "prelude" || line.name.starts_with(kPreludePrefix)) {
      diagnostics_.Error(line.name_span, DiagnosticKind::kReservedName,
                         "`@prelude` is the Prelude; expected another name for an imported file");
      return false;
    }
    ++at_;
    if (Accept("(") && !ReadOptions(line)) return false;
    Accept(";");
    return true;
  }

  bool ReadOptions(ImportLine& line) {
    while (!Accept(")")) {
      ImportLine::Option option;
      option.span = Peek().span;
      option.name = std::string(Peek().text);
      bool is_name = Peek().kind == TokenKind::kIdent && tokens_[at_ + 1].text == "=";
      if (!is_name) return Unexpected("an option of the import, as in `shape=\"x=1,n\"`");
      at_ += 2;
      if (Peek().kind != TokenKind::kString) return Unexpected("a string, as in `shape=\"x=1,n\"`");
      option.span.end = Peek().span.end;
      std::optional<std::string> value = Unquote(tokens_[at_++], diagnostics_);
      if (!value) return false;
      option.value = *std::move(value);
      line.options.push_back(std::move(option));
      if (!Accept(",") && Peek().text != ")") return Unexpected("`,` or `)`");
    }
    return true;
  }

  std::span<const Token> tokens_;
  diagnostics::Diagnostics& diagnostics_;
  size_t at_ = 0;
};

bool IsOfPrelude(std::string_view name) { return name.starts_with(kPreludePrefix); }

// Returns the name that a text which imports `prefix` as `name` has for a definition; nullopt for one of another file.
std::optional<std::string> NameForText(std::string_view in_module, std::string_view prefix, std::string_view name) {
  if (!in_module.starts_with(prefix)) return std::nullopt;
  std::string_view rest = in_module.substr(prefix.size());
  if (!rest.empty() && rest[0] != '.') return std::nullopt;
  return absl::StrCat(Abseil(name), Abseil(rest));
}

void AddImported(const ImportLine& line, const ImportedFile& file, const ir::Module& module, Surroundings& result) {
  ir::Span span = line.name_span;
  bool has_main = false;
  for (const ir::GlobalFunction& function : module.functions) {
    std::optional<std::string> name = NameForText(function.name, file.prefix, line.name);
    if (!name) continue;
    has_main |= *name == line.name;
    result.functions.push_back({*std::move(name), function.name, span});
  }
  for (ir::AdtDef* adt : module.adts) {
    std::optional<std::string> name = NameForText(adt->name, file.prefix, line.name);
    if (name) result.types.push_back({*std::move(name), adt, true});
  }
  if (file.is_opaque && !has_main) result.functions.push_back({line.name, file.prefix, span});
}

void Refuse(const ImportLine& line, diagnostics::Diagnostics& diagnostics) {
  diagnostics.Error(line.span, DiagnosticKind::kImportRefused,
                    absl::StrCat("saw an import of \"", line.path,
                                 "\"; this text may not read files: expected one that is compiled from a file, or with "
                                 "a folder for its imports"));
}

// Removes the functions that are not reachable from `roots`.
void DropUnused(std::span<const std::string> roots, ir::Module& module) {
  absl::flat_hash_map<std::string_view, const ir::GlobalFunction*> by_name;
  for (const ir::GlobalFunction& function : module.functions) by_name.emplace(function.name, &function);
  absl::flat_hash_set<const ir::Function*> used;
  std::vector<const ir::GlobalFunction*> open;
  auto use = [&](std::string_view name) {
    auto found = by_name.find(name);
    if (found != by_name.end() && used.insert(found->second->function).second) open.push_back(found->second);
  };
  for (const std::string& root : roots) use(root);
  while (!open.empty()) {
    const ir::GlobalFunction* function = open.back();
    open.pop_back();
    ir::ForEachExpr(function->function->body, [&](const ir::Expr* expr) {
      if (const auto* callee = ir::DynCast<ir::GlobalExpr>(expr)) use(callee->name);
      return true;
    });
  }
  std::erase_if(module.functions,
                [&](const ir::GlobalFunction& function) { return !used.contains(function.function); });
}

}  // namespace

bool StartsImport(std::span<const Token> tokens, size_t at) {
  return tokens[at].kind == TokenKind::kIdent && tokens[at].text == "import" && at + 1 < tokens.size() &&
         tokens[at + 1].kind == TokenKind::kString;
}

ImportLines ReadImportLines(std::span<const Token> tokens, diagnostics::Diagnostics& diagnostics) {
  ImportLines result;
  LineReader reader(tokens, diagnostics);
  int depth = 0;
  for (size_t at = 0; at < tokens.size() && tokens[at].kind != TokenKind::kEnd;) {
    const Token& token = tokens[at];
    if (depth == 0 && StartsImport(tokens, at)) {
      size_t begin = at;
      if (std::optional<ImportLine> line = reader.Read(at)) result.lines.push_back(*std::move(line));
      result.ends[begin] = at;
      continue;
    }
    bool is_punct = token.kind == TokenKind::kPunct;
    if (is_punct && (token.text == "{" || token.text == "(" || token.text == "[" || token.text == "#[")) ++depth;
    if (is_punct && (token.text == "}" || token.text == ")" || token.text == "]") && depth > 0) --depth;
    ++at;
  }
  return result;
}

Surroundings FindSurroundings(std::span<const Token> tokens, ir::Module& module, diagnostics::Diagnostics& diagnostics,
                              const ParseOptions& options) {
  Surroundings result;
  bool is_program = options.prefix.empty();
  if (is_program) {
    for (const ir::GlobalFunction& function : module.functions) {
      result.functions.push_back({function.name, function.name, function.span});
      result.roots.push_back(function.name);
    }
    for (ir::AdtDef* adt : module.adts) result.types.push_back({adt->name, adt, false});
    result.free_vars = module.free_vars;
  }
  int errors = diagnostics.errors();
  ImportLines found = ReadImportLines(tokens, diagnostics);
  result.import_ends = std::move(found.ends);
  std::vector<ImportLine> lines(options.imports.begin(), options.imports.end());
  for (ImportLine& line : found.lines) {
    bool is_replaced = false;
    for (const ImportLine& given : options.imports) is_replaced |= given.name == line.name;
    if (!is_replaced) lines.push_back(std::move(line));
  }
  result.has_imports = !lines.empty();
  if (diagnostics.errors() != errors) return result;
  // Definitions of the Prelude that imported files use are there already.
  absl::flat_hash_set<std::string> known;
  for (const Surroundings::Function& function : result.functions) known.insert(function.name);
  for (const ImportLine& line : lines) {
    if (options.importer == nullptr) {
      Refuse(line, diagnostics);
      continue;
    }
    std::string prefix = is_program ? line.name : absl::StrCat(Abseil(options.prefix), ".", line.name);
    std::optional<ImportedFile> file = options.importer->Import(line, prefix, module, diagnostics);
    if (!file) continue;
    AddImported(line, *file, module, result);
    result.roots.push_back(file->prefix);
  }
  for (const ir::GlobalFunction& function : module.functions) {
    if (IsOfPrelude(function.name) && !known.contains(function.name))
      result.functions.push_back({function.name, function.name, function.span});
  }
  for (ir::AdtDef* adt : module.adts) {
    bool is_known = false;
    for (const Surroundings::Type& type : result.types) is_known |= type.adt == adt;
    if (IsOfPrelude(adt->name) && !is_known) result.types.push_back({adt->name, adt, false});
  }
  return result;
}

void FinishImports(std::span<const std::string> roots, ir::Module& module) {
  DropUnused(roots, module);
  absl::flat_hash_set<std::string> functions, types;
  for (const ir::GlobalFunction& function : module.functions) functions.insert(function.name);
  for (const ir::AdtDef* adt : module.adts) types.insert(adt->name);
  auto plain_name = [](const absl::flat_hash_set<std::string>& names, const std::string& name) {
    std::string plain = name.substr(IsOfPrelude(name) ? kPreludePrefix.size() : 0);
    return names.contains(plain) ? name : plain;
  };
  for (ir::AdtDef* adt : module.adts) adt->name = plain_name(types, adt->name);
  absl::flat_hash_map<std::string, std::string> renamed;
  for (ir::GlobalFunction& function : module.functions) {
    std::string plain = plain_name(functions, function.name);
    if (plain == function.name) continue;
    renamed[function.name] = plain;
    function.name = std::move(plain);
  }
  if (renamed.empty()) return;
  for (ir::GlobalFunction& function : module.functions) {
    std::vector<ir::Expr*> open = {function.function->body};
    while (!open.empty()) {
      ir::Expr* expr = open.back();
      open.pop_back();
      if (auto* callee = ir::DynCast<ir::GlobalExpr>(expr)) {
        if (auto found = renamed.find(callee->name); found != renamed.end()) callee->name = found->second;
      }
      ir::ForEachChild(expr, [&](ir::Expr*& child) { open.push_back(child); });
    }
  }
}

}  // namespace rvm::text
