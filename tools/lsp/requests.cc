#include "tools/lsp/requests.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/json_writer.h"
#include "compiler/driver/program_files.h"
#include "compiler/text/printer.h"
#include "tools/lsp/describe.h"

namespace rvm::tools::lsp {
namespace {

using text::NameKind;
using text::NamePlace;

// Numbers of the protocol.
constexpr int64_t kSymbolFunction = 12, kSymbolVariable = 13, kSymbolEnum = 10, kSymbolEnumMember = 22;
constexpr int64_t kSeverityError = 1, kSeverityWarning = 2, kSeverityInformation = 3;
constexpr int64_t kTagUnnecessary = 1;

void WriteLocation(JsonWriter& out, Document& document, std::string_view uri, ir::Span span) {
  out.BeginObject().Field("uri", uri).Key("range");
  WriteRange(out, document.RangeOf(span));
  out.EndObject();
}

std::string HoverAnswer(Document& document, std::string_view markdown, ir::Span span) {
  JsonWriter out;
  out.BeginObject().Key("contents").BeginObject().Field("kind", "markdown").Field("value", markdown).EndObject();
  out.Key("range");
  WriteRange(out, document.RangeOf(span));
  return out.EndObject().TakeText();
}

const text::Token* TokenAt(const Analysis& analysis, size_t offset) {
  auto behind = std::upper_bound(analysis.tokens.begin(), analysis.tokens.end(), offset,
                                 [](size_t at, const text::Token& token) { return at < token.span.begin; });
  if (behind == analysis.tokens.begin()) return nullptr;
  const text::Token& token = *std::prev(behind);
  return offset <= token.span.end ? &token : nullptr;
}

// Returns the attribute of an operator whose name is at `token`; null if there is none.
const ops::AttrSpec* AttributeAt(const Analysis& analysis, const text::Token& token) {
  const text::Token* next = &token + 1;
  if (token.kind != text::TokenKind::kIdent || next->text != "=") return nullptr;
  std::optional<CallSite> call = FindCall(analysis.tokens, next->span.end);
  const ops::OpDef* op = call ? ops::FindOp(call->callee) : nullptr;
  if (op == nullptr) return nullptr;
  auto found =
      std::find_if(op->attrs.begin(), op->attrs.end(), [&](const auto& attr) { return attr.name == token.text; });
  return found == op->attrs.end() ? nullptr : &*found;
}

void WriteSymbol(JsonWriter& out, Document& document, const Definition& definition) {
  int64_t kind = 0;
  switch (definition.kind) {
    case DefinitionKind::kFunction: kind = kSymbolFunction; break;
    case DefinitionKind::kType: kind = kSymbolEnum; break;
    case DefinitionKind::kConstructor: kind = kSymbolEnumMember; break;
    case DefinitionKind::kWeight: kind = kSymbolVariable; break;
  }
  out.BeginObject().Field("name", definition.name).Field("kind", kind);
  const ir::GlobalFunction* function = document.analysis().FunctionAt(definition.name_span);
  if (function != nullptr && function->function->type != nullptr) {
    out.Field("detail", ir::TypeToString(function->function->type));
  }
  out.Key("range");
  WriteRange(out, document.RangeOf(definition.span));
  out.Key("selectionRange");
  WriteRange(out, document.RangeOf(definition.name_span));
  if (!definition.constructors.empty()) {
    out.Key("children").BeginArray();
    for (const Definition& constructor : definition.constructors) WriteSymbol(out, document, constructor);
    out.EndArray();
  }
  out.EndObject();
}

// Returns the signature of what is called at `call`.
std::optional<Signature> FindSignature(const Analysis& analysis, const CallSite& call, size_t offset) {
  if (const ops::OpDef* op = ops::FindOp(call.callee)) return SignatureOf(*op);
  std::string name = call.callee.substr(call.callee.find_first_not_of("@%"));
  if (call.callee.starts_with('%')) {
    for (const ir::Var* var : analysis.VariablesAt(offset)) {
      if (var->name == name) return SignatureOf(*var);
    }
    return std::nullopt;
  }
  for (const Analysis* home : {&analysis, &PreludeAnalysis()}) {
    const ir::GlobalFunction* function = call.callee.starts_with('@') ? home->module.FindFunction(name) : nullptr;
    const ir::Constructor* constructor = call.callee.starts_with('@') ? nullptr : home->module.FindConstructor(name);
    if (constructor != nullptr) return SignatureOf(*constructor);
    if (function == nullptr) continue;
    Signature signature = SignatureOf(call.callee, *function->function);
    signature.doc = CommentOfDefinition(*home, call.callee);
    return signature;
  }
  return std::nullopt;
}

// Returns the index of the parameter that the argument at `call` is for.
size_t ActiveParameter(const Signature& signature, const CallSite& call) {
  if (call.attribute.empty()) return call.argument;
  for (size_t i = 0; i < signature.parameters.size(); ++i) {
    if (signature.parameters[i].attribute == call.attribute) return i;
  }
  return signature.parameters.size();
}

void WriteDiagnostic(JsonWriter& out, Document& document, std::string_view uri,
                     const diagnostics::Diagnostic& diagnostic, bool has_related) {
  const Analysis& analysis = document.analysis();
  std::string message = diagnostic.message;
  bool is_here = analysis.IsHere(diagnostic.span);
  if (!is_here && diagnostic.span.valid()) {
    message = absl::StrCat(analysis.sources.PlaceText(diagnostic.span), ": ", message);
  }
  std::vector<const diagnostics::Note*> related;
  for (const diagnostics::Note& note : diagnostic.notes) {
    if (has_related && analysis.IsHere(note.span)) {
      related.push_back(&note);
    } else {
      absl::StrAppend(&message, "\nnote: ", note.message);
    }
  }
  int64_t severity = kSeverityError;
  switch (diagnostic.severity) {
    case diagnostics::Severity::kError: break;
    case diagnostics::Severity::kWarning: severity = kSeverityWarning; break;
    case diagnostics::Severity::kRemark: severity = kSeverityInformation; break;
  }
  out.BeginObject().Key("range");
  WriteRange(out, is_here ? document.RangeOf(diagnostic.span) : Range{});
  out.Field("severity", severity).Field("code", diagnostics::DiagnosticTag(diagnostic.kind));
  out.Field("source", "relayvm").Field("message", message);
  bool is_unused = diagnostic.kind == diagnostics::DiagnosticKind::kUnreachableClause ||
                   diagnostic.kind == diagnostics::DiagnosticKind::kDiscardedValue;
  if (is_unused) out.Key("tags").BeginArray().Int(kTagUnnecessary).EndArray();
  if (!related.empty()) {
    out.Key("relatedInformation").BeginArray();
    for (const diagnostics::Note* note : related) {
      out.BeginObject().Key("location");
      WriteLocation(out, document, uri, note->span);
      out.Field("message", note->message).EndObject();
    }
    out.EndArray();
  }
  out.EndObject();
}

}  // namespace

std::string Hover(Document& document, size_t offset) {
  const Analysis& analysis = document.analysis();
  if (const NamePlace* place = analysis.NameAt(offset)) {
    return HoverAnswer(document, DescribeName(analysis, *place), place->span);
  }
  const text::Token* token = TokenAt(analysis, offset);
  if (token == nullptr || token->kind == text::TokenKind::kEnd) return "null";
  if (const ops::AttrSpec* attr = AttributeAt(analysis, *token)) {
    std::string_view value = attr->default_text.empty() ? "..." : attr->default_text;
    return HoverAnswer(
        document,
        absl::StrCat(CodeBlock(absl::StrCat(Abseil(attr->name), "=", Abseil(value))), "\n\n", Abseil(attr->doc)),
        token->span);
  }
  const ir::Expr* expr = analysis.FindExpr(offset, [](const ir::Expr& found) { return found.type != nullptr; });
  if (expr == nullptr) return "null";
  return HoverAnswer(document, CodeBlock(ir::TypeToString(expr->type)), expr->span);
}

std::string GoToDefinition(Document& document, std::string_view uri, size_t offset) {
  const Analysis& analysis = document.analysis();
  const NamePlace* place = analysis.NameAt(offset);
  if (place == nullptr || !analysis.IsHere(place->definition)) return "null";
  JsonWriter out;
  WriteLocation(out, document, uri, place->definition);
  return out.TakeText();
}

std::string References(Document& document, std::string_view uri, size_t offset, bool includes_definition) {
  const Analysis& analysis = document.analysis();
  const NamePlace* place = analysis.NameAt(offset);
  if (place == nullptr) return "null";
  JsonWriter out;
  out.BeginArray();
  for (const NamePlace* other : analysis.PlacesOf(*place)) {
    if (includes_definition || other->span != other->definition) WriteLocation(out, document, uri, other->span);
  }
  return out.EndArray().TakeText();
}

std::string Highlights(Document& document, size_t offset) {
  const Analysis& analysis = document.analysis();
  const NamePlace* place = analysis.NameAt(offset);
  if (place == nullptr) return "null";
  JsonWriter out;
  out.BeginArray();
  for (const NamePlace* other : analysis.PlacesOf(*place)) {
    out.BeginObject().Key("range");
    WriteRange(out, document.RangeOf(other->span));
    out.EndObject();
  }
  return out.EndArray().TakeText();
}

std::string DocumentSymbols(Document& document) {
  JsonWriter out;
  out.BeginArray();
  for (const Definition& definition : document.analysis().definitions) WriteSymbol(out, document, definition);
  return out.EndArray().TakeText();
}

std::string SignatureHelp(Document& document, size_t offset) {
  const Analysis& analysis = document.analysis();
  std::optional<CallSite> call = FindCall(analysis.tokens, offset);
  std::optional<Signature> signature = call ? FindSignature(analysis, *call, offset) : std::nullopt;
  if (!signature) return "null";
  JsonWriter out;
  out.BeginObject().Key("signatures").BeginArray().BeginObject().Field("label", signature->label);
  out.Key("documentation").BeginObject().Field("kind", "markdown").Field("value", signature->doc).EndObject();
  out.Key("parameters").BeginArray();
  LineIndex label(signature->label);
  for (const Signature::Parameter& parameter : signature->parameters) {
    out.BeginObject().Key("label").BeginArray();
    out.Int(label.PositionOf(parameter.begin).character).Int(label.PositionOf(parameter.end).character).EndArray();
    if (!parameter.doc.empty()) out.Field("documentation", parameter.doc);
    out.EndObject();
  }
  out.EndArray().EndObject().EndArray().Field("activeSignature", int64_t{0});
  out.Field("activeParameter", static_cast<int64_t>(ActiveParameter(*signature, *call)));
  return out.EndObject().TakeText();
}

std::string Formatting(Document& document) {
  diagnostics::SourceMap sources;
  diagnostics::Diagnostics diagnostics(&sources);
  uint32_t source = sources.Add("<text>", document.text());
  driver::ProgramFiles files;
  files.set_only_declares();
  if (document.folder()) files.set_folder(*document.folder());
  std::string formatted = text::Format(source, diagnostics, document.folder() ? &files : nullptr);
  if (!diagnostics.ok()) return "null";
  // One edit of the lines that differ, so that the cursor keeps its place.
  std::string_view before = sources.text(source), after = formatted;
  size_t begin = static_cast<size_t>(std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first -
                                     before.begin());
  while (begin > 0 && before[begin - 1] != '\n') --begin;
  size_t same_end = 0, limit = std::min(before.size(), after.size()) - begin;
  while (same_end < limit && before[before.size() - same_end - 1] == after[after.size() - same_end - 1]) ++same_end;
  while (same_end > 0 && before[before.size() - same_end - 1] != '\n') --same_end;
  JsonWriter out;
  out.BeginArray();
  if (before != after) {
    out.BeginObject().Key("range");
    WriteRange(out, document.RangeOf(begin, before.size() - same_end));
    out.Field("newText", after.substr(begin, after.size() - same_end - begin)).EndObject();
  }
  return out.EndArray().TakeText();
}

std::string DiagnosticsOf(Document& document, std::string_view uri, bool has_related) {
  constexpr size_t kMaxDiagnostics = 1000;
  JsonWriter out;
  out.BeginObject().Field("uri", uri);
  if (document.version()) out.Field("version", *document.version());
  out.Key("diagnostics").BeginArray();
  const std::vector<diagnostics::Diagnostic>& all = document.analysis().diagnostics.all();
  for (size_t i = 0; i < std::min(all.size(), kMaxDiagnostics); ++i) {
    WriteDiagnostic(out, document, uri, all[i], has_related);
  }
  return out.EndArray().EndObject().TakeText();
}

}  // namespace rvm::tools::lsp
