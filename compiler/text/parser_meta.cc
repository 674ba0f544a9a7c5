// Attributes, `axis=1`, and references to the metadata section, `meta[relay.Constant][0]`.
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

size_t Parser::AttrNameLength() const {
  size_t length = 1;
  if (Peek().kind != TokenKind::kIdent) return 0;
  while (PeekIs(".", length) && Peek(length + 1).kind == TokenKind::kIdent) length += 2;
  return PeekIs("=", length) ? length : 0;
}

// Parses zero or more `name=value`, separated by commas.
bool Parser::ParseAttrs(ir::Attrs& attrs, ir::Span open) {
  for (size_t length = AttrNameLength(); length > 0; length = AttrNameLength()) {
    ir::Span span = Peek().span;
    std::string name;
    for (; length > 0; --length) absl::StrAppend(&name, Abseil(Take().text));
    ir::Span name_span = From(span);
    Take();  // =
    ir::AttrValue value;
    if (!ParseAttrValue(value)) return false;
    for (const ir::Attr& other : attrs.entries()) {
      if (other.name != name) continue;
      Error(name_span, DiagnosticKind::kDuplicateAttribute, absl::StrCat("attribute `", name, "` is given twice"))
          .AddNote(other.span, "it is given here first");
    }
    attrs.Set(std::move(name), std::move(value), From(span));
    if (!Separator(")", open)) return false;
  }
  return true;
}

bool Parser::SkipParamAttrs() {
  ir::Span open = Take().span;
  while (!Accept("}")) {
    size_t length = AttrNameLength();
    if (length == 0) return Unclosed("}", open) != nullptr;
    for (; length > 0; --length) Take();
    Take();  // =
    ir::AttrValue value;
    if (!ParseAttrValue(value)) return false;
    Accept(",");
  }
  return true;
}

std::optional<MetaReference> Parser::ParseMetaReference() {
  MetaReference reference;
  ir::Span begin = Take().span;
  ir::Span open = Take().span;
  while (Peek().kind == TokenKind::kIdent || PeekIs(".")) absl::StrAppend(&reference.kind, Abseil(Take().text));
  if (!ExpectClose("]", open)) return std::nullopt;
  open = Peek().span;
  if (!Expect("[")) return std::nullopt;
  if (Peek().kind != TokenKind::kNumber || !absl::SimpleAtoi(Abseil(Peek().text), &reference.index)) {
    Unexpected("an index", DiagnosticKind::kMissingExpression);
    return std::nullopt;
  }
  Take();
  if (!ExpectClose("]", open)) return std::nullopt;
  reference.span = From(begin);
  return reference;
}

// Returns the metadata section; reports an error and returns null if the text has none.
const Metadata* Parser::MetadataFor(const MetaReference& reference) {
  if (metadata_) return &*metadata_;
  bool is_constant = reference.kind == "relay.Constant" || reference.kind == "Constant";
  Error(reference.span, DiagnosticKind::kMissingMetadata,
        is_constant ? "the text has no metadata section that holds this constant; declare the weight with "
                      "`free_var %name: type;` and bind it with `--params`"
                    : "the text has no metadata section that holds these attributes; write them as `name=value`, or "
                      "print the text with its metadata");
  return nullptr;
}

// Returns the value of a constant of the metadata section.
ir::Expr* Parser::ParseMetaConstant() {
  std::optional<MetaReference> reference = ParseMetaReference();
  if (!reference) return nullptr;
  const Metadata* metadata = MetadataFor(*reference);
  if (metadata == nullptr) return ErrorExpr(reference->span);
  std::optional<Literal> literal = metadata->Constant(*reference, diagnostics_);
  return literal ? MakeConstant(*std::move(literal), reference->span) : ErrorExpr(reference->span);
}

// Returns whether a reference such as `meta[relay.attrs.ScanopAttrs][0]` comes next, which gives a call all its
// attributes.
bool Parser::AtMetaAttrs() const {
  return AtMeta() && ((PeekIs("relay", 2) && PeekIs("attrs", 4)) || PeekIs("DictAttrs", 2));
}

bool Parser::ParseMetaAttrs(const ir::Expr& callee, ir::Attrs& attrs) {
  std::optional<MetaReference> reference = ParseMetaReference();
  if (!reference) return false;
  const auto* op = ir::DynCast<ir::OpExpr>(&callee);
  if (op == nullptr) return true;  // a call of a function: the attributes are ignored
  const Metadata* metadata = MetadataFor(*reference);
  std::optional<ir::Attrs> read =
      metadata == nullptr ? std::nullopt : metadata->Attributes(*reference, *op->op, diagnostics_);
  if (!read) return false;
  for (const ir::Attr& attr : read->entries()) attrs.Set(attr.name, attr.value, attr.span);
  return true;
}

// An attribute that is an expression repeats an argument and reads as None; one that is an extent reads as its name.
bool Parser::ParseMetaValue(ir::AttrValue& value) {
  std::optional<MetaReference> reference = ParseMetaReference();
  if (!reference) return false;
  value = ir::AttrValue();
  if (reference->kind.starts_with("relay.")) return true;
  if (NamesExtent(*reference)) {
    value = reference->ToString();
    return true;
  }
  const Metadata* metadata = MetadataFor(*reference);
  std::optional<ir::AttrValue> read = metadata == nullptr ? std::nullopt : metadata->Value(*reference, diagnostics_);
  if (!read) return false;
  value = *std::move(read);
  return true;
}

}  // namespace rvm::text
