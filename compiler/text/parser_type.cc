#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "base/element.h"
#include "base/stack_guard.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

std::vector<std::string_view> DTypeNames() {
  std::vector<std::string_view> names;
  for (const DataTypeInfo& info : DataTypeTable()) names.push_back(info.name);
  return names;
}

ir::TypeParam* Parser::FindTypeParam(std::string_view name) {
  for (auto it = type_params_.rbegin(); it != type_params_.rend(); ++it) {
    if ((*it)->name == name) return *it;
  }
  if (implicit_dims_ != nullptr) {
    for (ir::TypeParam* param : *implicit_dims_) {
      if (param->name == name) return param;
    }
  }
  return nullptr;
}

// A parameter without a declared kind gets the kind of its first use.
void Parser::UseAs(ir::TypeParam* param, ir::Kind kind) {
  if (param->kind == ir::Kind::kType && !declared_types_.contains(param)) param->kind = kind;
}

bool Parser::ParseTypeParams(std::vector<const ir::TypeParam*>& params) {
  std::string_view close = PeekIs("[") ? "]" : PeekIs("<") ? ">" : "";
  if (close.empty()) return true;
  ir::Span open = Take().span;
  while (!Accept(close)) {
    if (Peek().kind != TokenKind::kIdent) {
      return Unexpected("a type parameter", DiagnosticKind::kMissingName) != nullptr;
    }
    Token name = Take();
    for (const ir::TypeParam* other : params) {
      if (other->name != name.text) continue;
      std::string what = absl::StrCat("type parameter `", other->name, "`");
      Duplicate(name.span, DiagnosticKind::kDuplicateTypeParameter, what, other->span);
    }
    auto* param = arena_.New<ir::TypeParam>(arena_.NextId(), std::string(name.text), ir::Kind::kType, name.span);
    if (Accept(":")) {
      Token kind = Take();
      if (kind.text == "Shape")
        param->kind = ir::Kind::kShape;
      else if (kind.text == "BaseType")
        param->kind = ir::Kind::kBaseType;
      else if (kind.text == "ShapeVar")
        param->kind = ir::Kind::kShapeVar;
      else if (kind.text == "Type")
        declared_types_.insert(param);
      else {
        bool exists =
            kind.text == ir::KindName(ir::Kind::kConstraint) || kind.text == ir::KindName(ir::Kind::kAdtHandle);
        Error(kind.span, exists ? DiagnosticKind::kKindMismatch : DiagnosticKind::kUnknownKind,
              absl::StrCat("saw the kind `", Abseil(kind.text), exists ? "`, which no parameter has" : "`",
                           "; expected `Type`, `BaseType`, `Shape` or `ShapeVar`"));
        return false;
      }
    }
    params.push_back(param);
    type_params_.push_back(param);
    NoteTypeParam(param, name.span);
    if (!Separator(close, open)) return false;
  }
  return true;
}

const ir::Type* Parser::ParseType() {
  return WithStack([&] { return ParseTypeOnThisStack(); });
}

const ir::Type* Parser::ParseTypeOnThisStack() {
  if (Accept("_")) return arena_.New<ir::HoleType>(int64_t{0});
  if (PeekIs("Tensor")) return ParseTensorType();
  if (AtMeta()) return ParseMetaType();
  if (PeekIs("(")) {
    ir::Span open = Take().span;
    std::vector<const ir::Type*> fields;
    bool comma = false;
    while (!Accept(")")) {
      const ir::Type* field = ParseType();
      if (field == nullptr) return nullptr;
      fields.push_back(field);
      comma = PeekIs(",");
      if (!Separator(")", open)) return nullptr;
    }
    if (fields.size() == 1 && !comma) return fields[0];
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  if (PeekIs("fn") || PeekIs("fun")) {
    Take();
    std::vector<const ir::TypeParam*> type_params;
    size_t outer = type_params_.size();
    if (!ParseTypeParams(type_params)) return nullptr;
    ir::Span open = Peek().span;
    if (!Expect("(")) return nullptr;
    std::vector<const ir::Type*> params;
    while (!Accept(")")) {
      const ir::Type* param = ParseType();
      if (param == nullptr) return nullptr;
      params.push_back(param);
      if (!Separator(")", open)) return nullptr;
    }
    if (!Expect("->", DiagnosticKind::kMissingArrow)) return nullptr;
    const ir::Type* result = ParseType();
    std::vector<ir::TypeConstraint> constraints;
    if (result == nullptr || !ParseConstraints(constraints)) return nullptr;
    type_params_.resize(outer);
    return arena_.New<ir::FuncType>(std::move(type_params), std::move(params), result, std::move(constraints));
  }
  if ((PeekIs("ref") || PeekIs("Ref")) && (PeekIs("(", 1) || PeekIs("[", 1))) {
    Take();
    Token open = Take();
    const ir::Type* contents = ParseType();
    if (contents == nullptr || !ExpectClose(open.text == "(" ? ")" : "]", open.span)) return nullptr;
    return arena_.New<ir::RefType>(contents);
  }
  if (Peek().kind == TokenKind::kIdent) return ParseNamedType();
  return Unexpected("a type", DiagnosticKind::kMissingType);
}

// Returns a reference to metadata in the place of a type: a type that type inference left open when the text was
// printed.
const ir::Type* Parser::ParseMetaType() {
  std::optional<MetaReference> reference = ParseMetaReference();
  if (!reference) return nullptr;
  std::string text = absl::StrCat("`meta[", reference->kind, "][", reference->index, "]`");
  bool is_open = reference->kind.ends_with("IncompleteType");
  Error(reference->span, DiagnosticKind::kMissingType,
        absl::StrCat("saw ", text, is_open ? ", a type that was never solved" : "",
                     "; expected a type, or `_` for one that is inferred"));
  return arena_.New<ir::HoleType>(int64_t{0});
}

const ir::Type* Parser::ParseTensorType() {
  Take();
  ir::ShapeTerm shape;
  ir::DTypeTerm dtype;
  ir::Span open = Peek().span;
  if (!Expect("[") || !ParseShape(shape) || !Expect(",", DiagnosticKind::kMissingComma) || !ParseDType(dtype)) {
    return nullptr;
  }
  if (!ExpectClose("]", open)) return nullptr;
  if (std::exchange(has_type_error_, false)) return ErrorType();
  return arena_.New<ir::TensorType>(std::move(shape), dtype);
}

bool Parser::ParseShape(ir::ShapeTerm& shape) {
  if (Accept("_")) {
    shape = ir::ShapeTerm::OfHole(0);
    return true;
  }
  if (Peek().kind == TokenKind::kIdent) {
    Token name = Take();
    ir::TypeParam* param = FindTypeParam(name.text);
    if (param == nullptr) {
      std::vector<std::string_view> known;
      for (const ir::TypeParam* other : type_params_) known.push_back(other->name);
      if (!ReportKind(name, ir::Kind::kShape)) {
        Unknown(name.span, DiagnosticKind::kUnknownShape, "shape", name.text, NearestName(name.text, known));
      }
      has_type_error_ = true;
      shape = ir::ShapeTerm::OfHole(0);
      return true;
    }
    UseAs(param, ir::Kind::kShape);
    NoteTypeParam(param, name.span);
    shape = ir::ShapeTerm::OfParam(param);
    return true;
  }
  ir::Span open = Peek().span;
  if (!Expect("(")) return false;
  Dims dims;
  while (!Accept(")")) {
    std::optional<Dim> dim = ParseExtent();
    if (!dim) return false;
    dims.push_back(*dim);
    if (!Separator(")", open)) return false;
  }
  shape = ir::ShapeTerm::Of(std::move(dims));
  return true;
}

// Returns a complete extent. Its subexpressions may be negative, as in `n + (3 - 4)`, but it may not.
std::optional<Dim> Parser::ParseExtent() {
  ir::Span span = Peek().span;
  std::optional<Dim> dim = ParseDim();
  if (!dim || !dim->is_const() || dim->constant() >= 0) return dim;
  Error(span, DiagnosticKind::kBadExtent,
        absl::StrCat("saw an extent that is ", dim->constant(), "; expected an integer from 0 to 2^63 - 1"));
  has_type_error_ = true;
  return Dim::Hole(0);
}

std::optional<Dim> Parser::ParseDim() {
  std::optional<Dim> dim = ParseDimProduct();
  while (dim && (PeekIs("+") || PeekIs("-"))) {
    bool plus = Take().text == "+";
    std::optional<Dim> other = ParseDimProduct();
    if (!other) return std::nullopt;
    dim = plus ? *dim + *other : *dim - *other;
  }
  return dim;
}

std::optional<Dim> Parser::ParseDimProduct() {
  std::optional<Dim> dim = ParseDimAtom();
  while (dim && (PeekIs("*") || PeekIs("/"))) {
    bool times = Take().text == "*";
    std::optional<Dim> other = ParseDimAtom();
    if (!other) return std::nullopt;
    dim = times ? *dim * *other : FloorDiv(*dim, *other);
  }
  return dim;
}

// The function of two extents that Dim::ToString gives a name, or nullptr.
static Dim (*DimFunction(std::string_view name))(const Dim&, const Dim&) {
  if (name == "min") return Min;
  if (name == "max") return Max;
  if (name == "mod") return FloorMod;
  if (name == "broadcast") return Broadcast;
  return nullptr;
}

std::optional<Dim> Parser::ParseDimAtom() {
  if (Accept("?")) return Dim::Any();
  if (Accept("_")) return Dim::Hole(0);
  if (PeekIs("(")) {
    ir::Span open = Take().span;
    std::optional<Dim> dim = ParseDim();
    if (!dim || !ExpectClose(")", open)) return std::nullopt;
    return dim;
  }
  bool negative = PeekIs("-") && Peek(1).kind == TokenKind::kNumber;
  if (negative || Peek().kind == TokenKind::kNumber) {
    if (negative) Take();
    Token token = Take();
    std::string_view number = token.text;
    for (std::string_view suffix : {"i64", "i32", "i"}) {  // the predecessor prints the dtype of an extent
      if (number.ends_with(suffix)) number.remove_suffix(suffix.size());
    }
    std::string digits = absl::StrCat(negative ? "-" : "", Abseil(number));
    int64_t value = 0;
    if (absl::SimpleAtoi(digits, &value)) return Dim(value);
    Error(token.span, DiagnosticKind::kBadExtent,
          absl::StrCat("saw the extent `", digits, "`; expected an integer from 0 to 2^63 - 1"));
    has_type_error_ = true;
    return Dim::Hole(0);
  }
  if (AtMeta()) {
    std::optional<MetaReference> reference = ParseMetaReference();
    if (!reference) return std::nullopt;
    // References to the same object are the same extent, whatever its name. An expression object reads as `?`.
    return NamesExtent(*reference) ? NamedDim(reference->ToString(), reference->span) : Dim::Any();
  }
  if (Peek().kind == TokenKind::kIdent) {
    Token name = Take();
    auto function = PeekIs("(") ? DimFunction(name.text) : nullptr;
    return function == nullptr ? NamedDim(std::string(name.text), name.span) : ParseDimCall(function);
  }
  Unexpected("an extent: a number, a name or `?`");
  return std::nullopt;
}

// Returns the arguments, in parentheses, of a function of two extents.
std::optional<Dim> Parser::ParseDimCall(Dim (*function)(const Dim&, const Dim&)) {
  ir::Span open = Take().span;
  std::optional<Dim> a = ParseDim();
  if (!a || !Expect(",")) return std::nullopt;
  std::optional<Dim> b = ParseDim();
  if (!b || !ExpectClose(")", open)) return std::nullopt;
  return function(*a, *b);
}

Dim Parser::NamedDim(const std::string& name, ir::Span span) {
  ir::TypeParam* param = FindTypeParam(name);
  if (param == nullptr && implicit_dims_ != nullptr) {
    param = arena_.New<ir::TypeParam>(arena_.NextId(), name, ir::Kind::kShapeVar, span);
    implicit_dims_->push_back(param);
  }
  if (param == nullptr) {
    Error(span, DiagnosticKind::kUnknownDim, absl::StrCat("no dim is named `", name, "` here; use `?` or declare it"));
    has_type_error_ = true;
    return Dim::Hole(0);
  }
  UseAs(param, ir::Kind::kShapeVar);
  NoteTypeParam(param, span);
  return Dim::Var(param->id, param->name);
}

bool Parser::ParseDType(ir::DTypeTerm& dtype) {
  if (Accept("_")) {
    dtype = ir::DTypeTerm::OfHole(0);
    return true;
  }
  if (Peek().kind != TokenKind::kIdent) return Unexpected("a dtype", DiagnosticKind::kMissingType) != nullptr;
  Token name = Take();
  if (ir::TypeParam* param = FindTypeParam(name.text)) {
    UseAs(param, ir::Kind::kBaseType);
    NoteTypeParam(param, name.span);
    dtype = ir::DTypeTerm::OfParam(param);
    return true;
  }
  std::optional<DataType> parsed = ParseDataType(name.text);
  if (!parsed) {
    Unknown(name.span, DiagnosticKind::kUnknownDType, "dtype", name.text, NearestType(name.text, DTypeNames()));
    has_type_error_ = true;
    dtype = ir::DTypeTerm::OfHole(0);
    return true;
  }
  dtype = ir::DTypeTerm::Of(*parsed);
  return true;
}

bool Parser::ParseTypeArg(ir::Kind expected, ir::TypeArg& arg) {
  arg.kind = expected;
  switch (expected) {
    case ir::Kind::kBaseType: return ParseDType(arg.dtype);
    case ir::Kind::kShape: return ParseShape(arg.shape);
    case ir::Kind::kShapeVar: {
      std::optional<Dim> dim = ParseExtent();
      if (dim) arg.dim = *dim;
      return dim.has_value();
    }
    case ir::Kind::kType:
    case ir::Kind::kConstraint:
    case ir::Kind::kAdtHandle: arg.type = ParseType(); return arg.type != nullptr;
  }
}

// Parses type arguments up to `close`. If `params` are not known yet, the syntax determines the kind of each argument.
bool Parser::ParseTypeArgs(std::string_view close, std::span<const ir::TypeParam* const> params,
                           std::vector<ir::TypeArg>& args) {
  ir::Span open = Take().span;
  while (!Accept(close)) {
    ir::Kind kind = args.size() < params.size() ? params[args.size()]->kind : ir::Kind::kType;
    bool is_shape = PeekIs("(") && (Peek(1).kind == TokenKind::kNumber || PeekIs("?", 1));
    if (args.size() >= params.size() && is_shape) kind = ir::Kind::kShape;
    if (args.size() >= params.size() && (Peek().kind == TokenKind::kNumber || PeekIs("?"))) kind = ir::Kind::kShapeVar;
    ir::TypeArg arg;
    if (!ParseTypeArg(kind, arg)) return false;
    args.push_back(std::move(arg));
    if (!Separator(close, open)) return false;
  }
  return true;
}

Token Parser::TakeTypeName() {
  Token name = Take();
  while (PeekIs(".") && Peek(1).kind == TokenKind::kIdent && Peek(1).span.begin == tokens_[at_ - 1].span.end + 1) {
    Take();
    Token rest = Take();
    name.text = {name.text.data(), static_cast<size_t>(rest.text.data() + rest.text.size() - name.text.data())};
    name.span.end = rest.span.end;
  }
  return name;
}

const ir::Type* Parser::ParseNamedType() {
  Token name = TakeTypeName();
  if (ir::TypeParam* param = FindTypeParam(name.text)) {
    NoteTypeParam(param, name.span);
    return arena_.New<ir::ParamType>(param);
  }
  if (const ir::AdtDef* adt = names_.FindType(name.text)) {
    NoteType(adt, name.span);
    std::vector<ir::TypeArg> args;
    std::string_view close = PeekIs("[") ? "]" : PeekIs("<") ? ">" : "";
    if (!close.empty() && !ParseTypeArgs(close, adt->type_params, args)) return nullptr;
    if (args.size() != adt->type_params.size()) {
      Error(From(name.span), DiagnosticKind::kWrongNumberOfTypeArguments,
            absl::StrCat("type `", adt->name, "` is given ", args.size(), " type argument", args.size() == 1 ? "" : "s",
                         "; expected ", adt->type_params.size()))
          .AddNote(adt->span, absl::StrCat("`", adt->name, "` is defined here"));
      return ErrorType();
    }
    if (std::exchange(has_type_error_, false)) return ErrorType();
    return arena_.New<ir::AdtType>(adt, std::move(args));
  }
  if (std::optional<DataType> dtype = ParseDataType(name.text)) return ir::MakeScalarType(arena_, *dtype);
  UnknownType(name);
  return ErrorType();
}

bool Parser::ParseConstraints(std::vector<ir::TypeConstraint>& constraints) {
  if (!Accept("where")) return true;
  do {
    if (Peek().kind != TokenKind::kIdent) return Unexpected("a relation", DiagnosticKind::kMissingName) != nullptr;
    Token name = Take();
    ir::TypeConstraint constraint{std::string(name.text), {}, name.span, {}};
    while (PeekIs(".") && Peek(1).kind == TokenKind::kIdent) {
      Take();
      absl::StrAppend(&constraint.relation, ".", absl::string_view(Peek().text.data(), Peek().text.size()));
      Take();
    }
    constraint.span = From(name.span);
    if (PeekIs("(")) {
      ir::Span open = Take().span;
      while (!Accept(")")) {
        if (AtAttr()) {
          if (!ParseAttrs(constraint.attrs, open)) return false;
          continue;
        }
        if (!constraint.attrs.empty())
          return Unexpected("an attribute or `)`", DiagnosticKind::kPositionalAfterAttribute) != nullptr;
        const ir::Type* arg = ParseType();
        if (arg == nullptr) return false;
        constraint.args.push_back(arg);
        if (!Separator(")", open)) return false;
      }
    }
    constraints.push_back(std::move(constraint));
  } while (Accept(","));
  return true;
}

}  // namespace rvm::text
