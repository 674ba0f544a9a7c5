#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/text/parser_state.h"

namespace rvm::text {

using diagnostics::DiagnosticKind;

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

bool Parser::ParseTypeParams(std::vector<const ir::TypeParam*>& params) {
  std::string_view close = PeekIs("[") ? "]" : PeekIs("<") ? ">" : "";
  if (close.empty()) return true;
  Take();
  while (!Accept(close)) {
    if (Peek().kind != TokenKind::kIdent) return Unexpected("a type parameter") != nullptr;
    Token name = Take();
    auto* param = arena_.New<ir::TypeParam>(arena_.NextId(), std::string(name.text), ir::Kind::kType, name.span);
    if (Accept(":")) {
      Token kind = Take();
      if (kind.text == "Shape")
        param->kind = ir::Kind::kShape;
      else if (kind.text == "BaseType")
        param->kind = ir::Kind::kBaseType;
      else if (kind.text == "ShapeVar")
        param->kind = ir::Kind::kShapeVar;
      else if (kind.text != "Type") {
        diagnostics_.Error(kind.span, DiagnosticKind::kKindMismatch,
                           absl::StrCat("saw the kind `", absl::string_view(kind.text.data(), kind.text.size()),
                                        "`; expected `Type`, `BaseType`, `Shape` or `ShapeVar`"));
        return false;
      }
    }
    params.push_back(param);
    type_params_.push_back(param);
    if (!PeekIs(close) && !Expect(",")) return false;
  }
  return true;
}

const ir::Type* Parser::ParseType() {
  return WithStack([&] { return ParseTypeOnThisStack(); });
}

const ir::Type* Parser::ParseTypeOnThisStack() {
  if (Accept("_")) return arena_.New<ir::HoleType>(int64_t{0});
  if (PeekIs("Tensor")) return ParseTensorType();
  if (Accept("(")) {
    std::vector<const ir::Type*> fields;
    bool comma = false;
    while (!Accept(")")) {
      const ir::Type* field = ParseType();
      if (field == nullptr) return nullptr;
      fields.push_back(field);
      comma = Accept(",");
      if (!comma && !PeekIs(")")) return Unexpected("`,` or `)`");
    }
    if (fields.size() == 1 && !comma) return fields[0];
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  if (PeekIs("fn") || PeekIs("fun")) {
    Take();
    std::vector<const ir::TypeParam*> type_params;
    size_t outer = type_params_.size();
    if (!ParseTypeParams(type_params) || !Expect("(")) return nullptr;
    std::vector<const ir::Type*> params;
    while (!Accept(")")) {
      const ir::Type* param = ParseType();
      if (param == nullptr) return nullptr;
      params.push_back(param);
      if (!PeekIs(")") && !Expect(",")) return nullptr;
    }
    if (!Expect("->")) return nullptr;
    const ir::Type* result = ParseType();
    std::vector<ir::TypeConstraint> constraints;
    if (result == nullptr || !ParseConstraints(constraints)) return nullptr;
    type_params_.resize(outer);
    return arena_.New<ir::FuncType>(std::move(type_params), std::move(params), result, std::move(constraints));
  }
  if ((PeekIs("ref") || PeekIs("Ref")) && (PeekIs("(", 1) || PeekIs("[", 1))) {
    Take();
    std::string_view close = Take().text == "(" ? ")" : "]";
    const ir::Type* contents = ParseType();
    if (contents == nullptr || !Expect(close)) return nullptr;
    return arena_.New<ir::RefType>(contents);
  }
  if (Peek().kind == TokenKind::kIdent) return ParseNamedType();
  return Unexpected("a type");
}

const ir::Type* Parser::ParseTensorType() {
  Take();
  ir::ShapeTerm shape;
  ir::DTypeTerm dtype;
  if (!Expect("[") || !ParseShape(shape) || !Expect(",") || !ParseDType(dtype) || !Expect("]")) return nullptr;
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
    if (param == nullptr) return UnknownName(name.span, DiagnosticKind::kUnknownType, "type", name.text) != nullptr;
    if (param->kind == ir::Kind::kType) param->kind = ir::Kind::kShape;
    shape = ir::ShapeTerm::OfParam(param);
    return true;
  }
  if (!Expect("(")) return false;
  Dims dims;
  while (!Accept(")")) {
    std::optional<Dim> dim = ParseDim();
    if (!dim) return false;
    dims.push_back(*dim);
    if (!PeekIs(")") && !Expect(",")) return false;
  }
  shape = ir::ShapeTerm::Of(std::move(dims));
  return true;
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

std::optional<Dim> Parser::ParseDimAtom() {
  if (Accept("?")) return Dim::Any();
  if (Accept("_")) return Dim::Hole(0);
  if (Accept("(")) {
    std::optional<Dim> dim = ParseDim();
    if (!dim || !Expect(")")) return std::nullopt;
    return dim;
  }
  if (Peek().kind == TokenKind::kNumber) {
    Token token = Take();
    int64_t value = 0;
    if (absl::SimpleAtoi(absl::string_view(token.text.data(), token.text.size()), &value) && value >= 0)
      return Dim(value);
    diagnostics_.Error(token.span, DiagnosticKind::kBadNumber, "an extent must be an integer that is not negative");
    return std::nullopt;
  }
  if (Peek().kind == TokenKind::kIdent) {
    Token name = Take();
    ir::TypeParam* param = FindTypeParam(name.text);
    if (param == nullptr && implicit_dims_ != nullptr) {
      param = arena_.New<ir::TypeParam>(arena_.NextId(), std::string(name.text), ir::Kind::kShapeVar, name.span);
      implicit_dims_->push_back(param);
    }
    if (param == nullptr) {
      diagnostics_.Error(name.span, DiagnosticKind::kUnknownType,
                         absl::StrCat("no dim is named `", absl::string_view(name.text.data(), name.text.size()),
                                      "` here; use `?` or declare it"));
      return std::nullopt;
    }
    if (param->kind == ir::Kind::kType) param->kind = ir::Kind::kShapeVar;
    return Dim::Var(param->id, param->name);
  }
  Unexpected("an extent: a number, a name or `?`");
  return std::nullopt;
}

bool Parser::ParseDType(ir::DTypeTerm& dtype) {
  if (Accept("_")) {
    dtype = ir::DTypeTerm::OfHole(0);
    return true;
  }
  if (Peek().kind != TokenKind::kIdent) return Unexpected("a dtype") != nullptr;
  Token name = Take();
  if (ir::TypeParam* param = FindTypeParam(name.text)) {
    if (param->kind == ir::Kind::kType) param->kind = ir::Kind::kBaseType;
    dtype = ir::DTypeTerm::OfParam(param);
    return true;
  }
  std::optional<DataType> parsed = ParseDataType(name.text);
  if (!parsed) return UnknownName(name.span, DiagnosticKind::kUnknownType, "dtype", name.text) != nullptr;
  dtype = ir::DTypeTerm::Of(*parsed);
  return true;
}

bool Parser::ParseTypeArg(ir::Kind expected, ir::TypeArg& arg) {
  arg.kind = expected;
  switch (expected) {
    case ir::Kind::kBaseType: return ParseDType(arg.dtype);
    case ir::Kind::kShape: return ParseShape(arg.shape);
    case ir::Kind::kShapeVar: {
      std::optional<Dim> dim = ParseDim();
      if (dim) arg.dim = *dim;
      return dim.has_value();
    }
    default: arg.type = ParseType(); return arg.type != nullptr;
  }
}

// Arguments up to `close`. Where parameters are not known yet the form decides.
bool Parser::ParseTypeArgs(std::string_view close, std::span<const ir::TypeParam* const> params,
                           std::vector<ir::TypeArg>& args) {
  while (!Accept(close)) {
    ir::Kind kind = args.size() < params.size() ? params[args.size()]->kind : ir::Kind::kType;
    bool is_shape = PeekIs("(") && (Peek(1).kind == TokenKind::kNumber || PeekIs("?", 1));
    if (args.size() >= params.size() && is_shape) kind = ir::Kind::kShape;
    if (args.size() >= params.size() && (Peek().kind == TokenKind::kNumber || PeekIs("?"))) kind = ir::Kind::kShapeVar;
    ir::TypeArg arg;
    if (!ParseTypeArg(kind, arg)) return false;
    args.push_back(std::move(arg));
    if (!PeekIs(close) && !Expect(",")) return false;
  }
  return true;
}

const ir::Type* Parser::ParseNamedType() {
  Token name = Take();
  if (ir::TypeParam* param = FindTypeParam(name.text)) return arena_.New<ir::ParamType>(param);
  if (auto found = adts_.find(absl::string_view(name.text.data(), name.text.size())); found != adts_.end()) {
    std::vector<ir::TypeArg> args;
    std::string_view close = PeekIs("[") ? "]" : PeekIs("<") ? ">" : "";
    if (!close.empty()) {
      Take();
      if (!ParseTypeArgs(close, found->second->type_params, args)) return nullptr;
    }
    if (args.size() != found->second->type_params.size()) {
      diagnostics_.Error(From(name.span), DiagnosticKind::kArityMismatch,
                         absl::StrCat("type `", found->second->name, "` has ", args.size(),
                                      " type arguments; expected ", found->second->type_params.size()));
      return nullptr;
    }
    return arena_.New<ir::AdtType>(found->second, std::move(args));
  }
  if (std::optional<DataType> dtype = ParseDataType(name.text)) return ir::MakeScalarType(arena_, *dtype);
  return UnknownName(name.span, DiagnosticKind::kUnknownType, "type", name.text);
}

bool Parser::ParseConstraints(std::vector<ir::TypeConstraint>& constraints) {
  if (!Accept("where")) return true;
  do {
    if (Peek().kind != TokenKind::kIdent) return Unexpected("a relation") != nullptr;
    Token name = Take();
    ir::TypeConstraint constraint{std::string(name.text), {}, name.span};
    if (Accept("(")) {
      while (!Accept(")")) {
        const ir::Type* arg = ParseType();
        if (arg == nullptr) return false;
        constraint.args.push_back(arg);
        if (!PeekIs(")") && !Expect(",")) return false;
      }
    }
    constraints.push_back(std::move(constraint));
  } while (Accept(","));
  return true;
}

}  // namespace rvm::text
