#include "tools/lsp/describe.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"

namespace rvm::tools::lsp {
namespace {

using text::NameKind;
using text::NamePlace;

// Appends a parameter, with a comma before all but the first.
void AddParameter(Signature& signature, std::string_view text, std::string doc = "", std::string attribute = "") {
  if (!signature.parameters.empty()) signature.label += ", ";
  size_t begin = signature.label.size();
  signature.label += text;
  signature.parameters.push_back({begin, signature.label.size(), std::move(doc), std::move(attribute)});
}

std::string TypeText(const ir::Type* type) { return type == nullptr ? "_" : ir::TypeToString(type); }

// `[A, s: Shape]`; extents, which are declared by their use, are left out.
std::string TypeParamsText(const std::vector<const ir::TypeParam*>& params) {
  std::string text;
  for (const ir::TypeParam* param : params) {
    if (param->kind == ir::Kind::kShapeVar) continue;
    absl::StrAppend(&text, text.empty() ? "[" : ", ", param->name);
    if (param->kind != ir::Kind::kType) absl::StrAppend(&text, ": ", Abseil(ir::KindName(param->kind)));
  }
  return text.empty() ? "" : text + "]";
}

std::string AdtText(const ir::AdtDef& adt) { return absl::StrCat(adt.name, TypeParamsText(adt.type_params)); }

// Returns the signature of a function with errors, as it is written.
std::string WrittenSignature(const Analysis& analysis, ir::Span name) {
  std::string_view rest = analysis.text().substr(name.begin);
  const Definition* definition = DefinitionAt(analysis.definitions, name.begin);
  if (definition != nullptr) rest = rest.substr(0, definition->span.end - name.begin);
  std::string text;
  for (char c : rest.substr(0, rest.find('{'))) {
    bool is_blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!is_blank) text += c;
    if (is_blank && !text.ends_with(' ')) text += ' ';
  }
  while (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string DescribeFunction(const Analysis& analysis, const NamePlace& place) {
  const ir::GlobalFunction* function = analysis.FunctionAt(place.definition);
  std::string label = function == nullptr ? WrittenSignature(analysis, place.definition)
                                          : SignatureOf(absl::StrCat("@", function->name), *function->function).label;
  return CodeBlock(absl::StrCat("def ", label));
}

// Returns the type of the call of the operator at `place`, as a sentence; "" if it is not known.
std::string ResultText(const Analysis& analysis, const NamePlace& place) {
  const ir::Expr* call = analysis.FindExpr(place.span.begin, [&](const ir::Expr& expr) {
    const auto* call = ir::DynCast<ir::Call>(&expr);
    return call != nullptr && call->callee->span == place.span && call->type != nullptr;
  });
  return call == nullptr ? "" : absl::StrCat("\n\nThe result is `", TypeText(call->type), "`.");
}

}  // namespace

std::string CodeBlock(std::string_view text) { return absl::StrCat("```relay\n", Abseil(text), "\n```"); }

Signature SignatureOf(const ops::OpDef& op) {
  Signature signature{.label = absl::StrCat(Abseil(op.name), "(")};
  for (const ops::Input& input : op.inputs) {
    AddParameter(signature, absl::StrCat(Abseil(input.name), input.is_optional ? "?" : ""), std::string(input.doc));
  }
  for (const ops::AttrSpec& attr : op.attrs) {
    std::string_view value = attr.default_text.empty() ? "..." : attr.default_text;
    AddParameter(signature, absl::StrCat(Abseil(attr.name), "=", Abseil(value)), std::string(attr.doc),
                 std::string(attr.name));
  }
  signature.label += ")";
  signature.doc = std::string(op.summary);
  return signature;
}

Signature SignatureOf(const ir::Constructor& constructor) {
  Signature signature{.label = constructor.name};
  if (!constructor.fields.empty()) signature.label += "(";
  for (const ir::Type* field : constructor.fields) AddParameter(signature, TypeText(field));
  absl::StrAppend(&signature.label, constructor.fields.empty() ? "" : ")", ": ", AdtText(*constructor.adt));
  return signature;
}

Signature SignatureOf(std::string_view name, const ir::Function& function) {
  Signature signature{.label = absl::StrCat(Abseil(name), TypeParamsText(function.type_params), "(")};
  for (const ir::Var* param : function.params) AddParameter(signature, VariableText(*param));
  const auto* type = ir::DynCast<ir::FuncType>(function.type);
  const ir::Type* result = type != nullptr ? type->result : function.result_annotation;
  absl::StrAppend(&signature.label, ")", result == nullptr ? "" : absl::StrCat(" -> ", TypeText(result)));
  return signature;
}

std::optional<Signature> SignatureOf(const ir::Var& var) {
  const auto* type = ir::DynCast<ir::FuncType>(var.type != nullptr ? var.type : var.annotation);
  if (type == nullptr) return std::nullopt;
  Signature signature{.label = absl::StrCat("%", var.name, TypeParamsText(type->type_params), "(")};
  for (const ir::Type* param : type->params) AddParameter(signature, TypeText(param));
  absl::StrAppend(&signature.label, ") -> ", TypeText(type->result));
  return signature;
}

std::string DefinitionText(const ir::AdtDef& adt) {
  std::string text = absl::StrCat(adt.is_extern ? "extern " : "", "type ", AdtText(adt));
  for (size_t i = 0; i < adt.constructors.size(); ++i) {
    const ir::Constructor& constructor = *adt.constructors[i];
    absl::StrAppend(&text, i == 0 ? " { " : ", ", constructor.name);
    for (size_t field = 0; field < constructor.fields.size(); ++field) {
      absl::StrAppend(&text, field == 0 ? "(" : ", ", TypeText(constructor.fields[field]));
    }
    if (!constructor.fields.empty()) text += ")";
  }
  return adt.constructors.empty() ? text : text + " }";
}

std::string VariableText(const ir::Var& var) {
  const ir::Type* type = var.type != nullptr ? var.type : var.annotation;
  return type == nullptr ? absl::StrCat("%", var.name) : absl::StrCat("%", var.name, ": ", TypeText(type));
}

std::string OperatorDoc(const ops::OpDef& op) {
  std::string doc(op.summary);
  if (!op.infix.empty()) absl::StrAppend(&doc, " Infix: `", Abseil(op.infix), "`.");
  doc += "\n";
  for (const ops::Input& input : op.inputs) {
    absl::StrAppend(&doc, "\n- `", Abseil(input.name), "`: ", Abseil(input.doc),
                    input.is_optional ? "; may be left out" : "");
  }
  for (const ops::AttrSpec& attr : op.attrs) {
    absl::StrAppend(&doc, "\n- `", Abseil(attr.name), attr.default_text.empty() ? "" : "=", Abseil(attr.default_text),
                    "`: ", Abseil(attr.doc));
  }
  for (const ops::Example& example : op.examples) {
    absl::StrAppend(&doc, "\n\n`", Abseil(example.call), "` is `", Abseil(example.result), "`");
  }
  return doc;
}

std::string CommentOfDefinition(const Analysis& analysis, std::string_view marked_name) {
  const Definition* definition = analysis.FindDefinition(marked_name);
  return definition == nullptr ? "" : CommentAbove(analysis.text(), analysis.comments, definition->span.begin);
}

std::string CommentOf(const Analysis& analysis, const NamePlace& place) {
  if (!place.definition.valid()) return "";
  bool is_here = analysis.IsHere(place.definition);
  const Analysis& home = is_here ? analysis : PreludeAnalysis();
  std::string_view name = analysis.sources.text(place.definition.source)
                              .substr(place.definition.begin, place.definition.end - place.definition.begin);
  return CommentOfDefinition(home, name);
}

std::string DescribeName(const Analysis& analysis, const NamePlace& place) {
  std::string text;
  switch (place.kind) {
    case NameKind::kVariable: text = CodeBlock(VariableText(*place.var)); break;
    case NameKind::kFunction: text = DescribeFunction(analysis, place); break;
    case NameKind::kType: text = CodeBlock(DefinitionText(*place.adt)); break;
    case NameKind::kConstructor: text = CodeBlock(SignatureOf(*place.constructor).label); break;
    case NameKind::kTypeParam:
      text = CodeBlock(absl::StrCat(place.param->name, ": ", Abseil(ir::KindName(place.param->kind))));
      break;
    case NameKind::kOperator:
      return absl::StrCat(CodeBlock(SignatureOf(*place.op).label), "\n\n", OperatorDoc(*place.op),
                          ResultText(analysis, place));
  }
  bool is_local = place.kind == NameKind::kVariable || place.kind == NameKind::kTypeParam;
  std::string comment = is_local ? "" : CommentOf(analysis, place);
  return comment.empty() ? text : absl::StrCat(text, "\n\n", comment);
}

}  // namespace rvm::tools::lsp
