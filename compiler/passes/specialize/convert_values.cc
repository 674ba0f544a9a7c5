#include "compiler/passes/specialize/convert_values.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/stack_guard.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;
using ir::TypeArg;

namespace {

// What the fields of a constructor are in a value of type `adt`.
std::vector<const Type*> FieldTypes(ir::Arena& arena, const ir::Constructor& constructor, const ir::AdtType& adt) {
  ir::TypeSubstitution substitution;
  for (size_t i = 0; i < adt.args.size(); ++i) substitution.Add(adt.adt->type_params[i], adt.args[i]);
  std::vector<const Type*> fields;
  for (const Type* field : constructor.fields) fields.push_back(substitution.Apply(arena, field));
  return fields;
}

Expr* NewProject(ir::Arena& arena, Expr* tuple, size_t index) {
  auto* project = arena.New<ir::Project>(tuple, static_cast<uint32_t>(index), tuple->span);
  project->type = DynCast<ir::TupleType>(tuple->type)->fields[index];
  return project;
}

// `match (value) { <each constructor with new variables> => make(constructor, the variables) }`
template <typename Make>
Expr* NewMatch(ir::Arena& arena, Expr* value, const std::vector<const ir::Constructor*>& constructors, const Type* type,
               Make make) {
  std::vector<ir::Clause> clauses;
  for (const ir::Constructor* constructor : constructors) {
    auto* pattern = arena.New<ir::Pattern>();
    pattern->kind = ir::PatternKind::kConstructor;
    pattern->constructor = constructor;
    std::vector<Expr*> fields;
    for (const Type* field : FieldTypes(arena, *constructor, *DynCast<ir::AdtType>(value->type))) {
      auto* part = arena.New<ir::Pattern>();
      part->kind = ir::PatternKind::kVar;
      part->var = NewVar(arena, "x", field);
      pattern->fields.push_back(part);
      fields.push_back(NewUse(arena, part->var));
    }
    clauses.push_back({pattern, make(*constructor, std::move(fields)), {}});
  }
  auto* match = arena.New<ir::Match>(value, std::move(clauses), true, value->span);
  match->type = type;
  return match;
}

}  // namespace

// ---- types

bool ValueConverter::IsUniversal(const Type* type) const {
  const auto* adt = DynCast<ir::AdtType>(type);
  return adt != nullptr && adt->adt == universal_;
}

const ir::AdtType* ValueConverter::UniversalType() {
  return arena_.New<ir::AdtType>(universal_, std::vector<TypeArg>{});
}

std::vector<const Type*> ValueConverter::Universals(size_t count) { return {count, UniversalType()}; }

const Type* ValueConverter::WithDims(const Type* type, bool constant_ones) {
  return WithStack([&] { return WithDimsOnThisStack(type, constant_ones); });
}

TypeArg ValueConverter::WithDims(TypeArg arg, bool constant_ones) {
  if (arg.kind == ir::Kind::kType) arg.type = WithDims(arg.type, constant_ones);
  auto replace = [&](Dim& dim) { dim = constant_ones && dim.is_const() ? dim : Dim::Any(); };
  if (arg.kind == ir::Kind::kShapeVar) replace(arg.dim);
  for (Dim& dim : arg.shape.dims) replace(dim);
  return arg;
}

const Type* ValueConverter::WithDimsOnThisStack(const Type* type, bool constant_ones) {
  auto part = [&](const Type* of) { return WithDims(of, constant_ones); };
  if (types_.Origin(type) != nullptr) return type;
  if (const auto* tensor = DynCast<ir::TensorType>(type)) {
    TypeArg shape = WithDims({.kind = ir::Kind::kShape, .shape = tensor->shape}, constant_ones);
    return shape.shape == tensor->shape ? type : arena_.New<ir::TensorType>(shape.shape, tensor->dtype);
  }
  if (const auto* ref = DynCast<ir::RefType>(type)) return arena_.New<ir::RefType>(part(ref->contents));
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<const Type*> fields;
    for (const Type* field : tuple->fields) fields.push_back(part(field));
    return arena_.New<ir::TupleType>(std::move(fields));
  }
  if (const auto* func = DynCast<ir::FuncType>(type)) {
    std::vector<const Type*> params;
    for (const Type* param : func->params) params.push_back(part(param));
    return arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::move(params), part(func->result));
  }
  const auto* adt = DynCast<ir::AdtType>(type);
  RVM_CHECK(adt != nullptr, "a type parameter is left where values are converted");
  std::vector<TypeArg> args;
  for (const TypeArg& arg : adt->args) args.push_back(WithDims(arg, constant_ones));
  return arena_.New<ir::AdtType>(adt->adt, std::move(args));
}

// ---- boxes

// The type as far as a box tells it; null for what would have to be the same object in all boxes.
const Type* ValueConverter::BoxedForm(const Type* type) {
  if (types_.Origin(type) != nullptr || type->type_kind == ir::TypeKind::kRef) {
    bool is_fixed = !absl::StrContains(types_.KeyOf(type), universal_->name);
    return is_fixed ? Closed(type) : nullptr;
  }
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    return arena_.New<ir::TupleType>(Universals(tuple->fields.size()));
  }
  if (const auto* func = DynCast<ir::FuncType>(type)) {
    return arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, Universals(func->params.size()),
                                    UniversalType());
  }
  const auto* adt = DynCast<ir::AdtType>(type);
  if (adt == nullptr) return WithDims(type, false);
  std::vector<TypeArg> args;
  for (const TypeArg& arg : adt->args) {
    args.push_back(arg.kind == ir::Kind::kType ? TypeArg{.type = UniversalType()} : WithDims(arg, false));
  }
  return arena_.New<ir::AdtType>(adt->adt, std::move(args));
}

const ir::Constructor* ValueConverter::BoxOf(const Type* type) {
  const Type* form = BoxedForm(type);
  if (form == nullptr) return nullptr;
  const ir::Constructor*& known = boxes_[absl::StrCat(types_.KeyOf(form), " ", ir::TypeToString(form))];
  if (known != nullptr) return known;
  auto* constructor = arena_.New<ir::Constructor>();
  constructor->name = absl::StrCat("any ", ir::TypeToString(form));
  const auto* tuple = types_.Origin(form) == nullptr ? DynCast<ir::TupleType>(form) : nullptr;
  constructor->fields = tuple == nullptr ? std::vector<const Type*>{form} : tuple->fields;
  constructor->adt = universal_;
  constructor->tag = static_cast<uint32_t>(universal_->constructors.size());
  universal_->constructors.push_back(constructor);
  known = constructor;
  return known;
}

Expr* ValueConverter::Construct(const ir::Constructor* constructor, const ir::AdtType* type,
                                std::vector<Expr*> fields) {
  auto* callee = arena_.New<ir::ConstructorExpr>(constructor, place_);
  callee->type_args = type->args;
  callee->type =
      arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, FieldTypes(arena_, *constructor, *type), type);
  auto* call = arena_.New<ir::Call>(callee, std::move(fields), ir::Attrs{}, place_);
  call->type = type;
  return call;
}

Expr* ValueConverter::PutIn(Expr* value) {
  const ir::Constructor* box = BoxOf(value->type);
  if (box == nullptr) return Refuse(value);
  std::vector<Expr*> fields;
  bool is_tuple = value->type->type_kind == ir::TypeKind::kTuple && types_.Origin(value->type) == nullptr;
  for (size_t i = 0; i < box->fields.size(); ++i) {
    fields.push_back(ConvertPart(
        is_tuple ? NewProject(arena_, NewUse(arena_, ir::Cast<ir::VarExpr>(value)->var), i) : value, box->fields[i]));
  }
  return Construct(box, UniversalType(), std::move(fields));
}

Expr* ValueConverter::TakeOut(Expr* value, const Type* to) {
  const ir::Constructor* box = BoxOf(to);
  if (box == nullptr) return Refuse(value);
  return NewMatch(arena_, value, {box}, to, [&](const ir::Constructor&, std::vector<Expr*> fields) -> Expr* {
    const auto* tuple = types_.Origin(to) == nullptr ? DynCast<ir::TupleType>(to) : nullptr;
    if (tuple == nullptr) return ConvertPart(fields[0], to);
    for (size_t i = 0; i < fields.size(); ++i) fields[i] = ConvertPart(fields[i], tuple->fields[i]);
    auto* result = arena_.New<ir::Tuple>(std::move(fields), place_);
    result->type = to;
    return result;
  });
}

// ---- conversions

Expr* ValueConverter::Refuse(Expr* value) {
  types_.Refuse(
      place_, DiagnosticKind::kUnconvertibleReference,
      "this value has a reference in it to what is polymorphic, or stands for a type parameter that takes ever "
      "new types; where it comes to, it would have to be another reference; expected functions that read and "
      "write it instead");
  return value;
}

Expr* ValueConverter::InstanceOf(Expr* value, const ir::FuncType& origin, const Type* to) {
  std::optional<PolymorphicInstance> instance = types_.Solve(origin, to);
  if (!instance) {
    types_.Refuse(place_, DiagnosticKind::kUndeterminedInstance,
                  absl::StrCat("a function of type `", ir::TypeToString(&origin), "` comes to a place of type `",
                               ir::TypeToString(to), "`, which does not determine its type parameters"));
    return value;
  }
  size_t index = types_.Demand(origin, *instance);
  auto* project = arena_.New<ir::Project>(value, static_cast<uint32_t>(index), value->span);
  project->type = types_.InstanceType(origin, *instance);
  return project;
}

Expr* ValueConverter::Convert(Expr* value, const Type* to) {
  return types_.SameValues(value->type, to) ? value : CallConversion(value, to);
}

// Inside of data, dims have to be the same as well: data does not flow from one such type to another. (A tensor does.)
Expr* ValueConverter::ConvertPart(Expr* value, const Type* to) {
  if (to->type_kind == ir::TypeKind::kTensor) return Convert(value, to);
  bool is_same = types_.SameValues(value->type, to) && ir::TypesEqual(Closed(value->type), Closed(to));
  return is_same ? value : CallConversion(value, to);
}

Expr* ValueConverter::CallConversion(Expr* value, const Type* to) {
  if (types_.refused()) return value;
  if (value->span.valid()) place_ = value->span;
  const ir::FuncType* origin = types_.Origin(value->type);
  if (origin != nullptr && to->type_kind == ir::TypeKind::kFunc) return InstanceOf(value, *origin, to);
  const Type* from = Closed(value->type);
  const Type* closed = Closed(to);
  std::string key = absl::StrCat(types_.KeyOf(from), " ", ir::TypeToString(from), " to ", types_.KeyOf(closed), " ",
                                 ir::TypeToString(closed));
  auto [name, added] = names_.try_emplace(std::move(key), "");
  if (added) {
    // No function of a program has a space in its name.
    name->second = absl::StrCat("convert ", names_.size());
    pending_.push_back({name->second, from, closed, place_});
  }
  auto* callee = arena_.New<ir::GlobalExpr>(name->second, place_);
  callee->type = arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::vector<const Type*>{from}, closed);
  auto* call = arena_.New<ir::Call>(callee, std::vector<Expr*>{value}, ir::Attrs{}, place_);
  call->type = to;  // the dims are those that it came with
  return call;
}

Expr* ValueConverter::Body(Expr* value, const Type* to) {
  const Type* from = value->type;
  if (IsUniversal(to)) return PutIn(value);
  if (IsUniversal(from)) return TakeOut(value, to);
  if (const auto* tuple = DynCast<ir::TupleType>(to)) {
    // To a polymorphic function each of its instances is converted from the whole.
    bool is_whole = types_.Origin(to) != nullptr || from->type_kind != ir::TypeKind::kTuple;
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      Expr* use = NewUse(arena_, ir::Cast<ir::VarExpr>(value)->var);
      fields.push_back(ConvertPart(is_whole ? use : NewProject(arena_, use, i), tuple->fields[i]));
    }
    auto* result = arena_.New<ir::Tuple>(std::move(fields), place_);
    result->type = to;
    return result;
  }
  if (const auto* adt = DynCast<ir::AdtType>(to)) return ConvertAdt(value, *DynCast<ir::AdtType>(from), *adt);
  if (const auto* func = DynCast<ir::FuncType>(to)) return ConvertFunction(value, *DynCast<ir::FuncType>(from), *func);
  return Refuse(value);
}

Expr* ValueConverter::ConvertAdt(Expr* value, const ir::AdtType& from, const ir::AdtType& to) {
  RVM_CHECK(from.adt == to.adt, "a value comes to a place of another ADT");
  std::vector<const ir::Constructor*> constructors(from.adt->constructors.begin(), from.adt->constructors.end());
  return NewMatch(arena_, value, constructors, &to,
                  [&](const ir::Constructor& constructor, std::vector<Expr*> fields) -> Expr* {
                    std::vector<const Type*> types = FieldTypes(arena_, constructor, to);
                    for (size_t i = 0; i < fields.size(); ++i) fields[i] = ConvertPart(fields[i], types[i]);
                    return Construct(&constructor, &to, std::move(fields));
                  });
}

// `fn (%a, ...) { converted(value(converted %a, ...)) }`
Expr* ValueConverter::ConvertFunction(Expr* value, const ir::FuncType& from, const ir::FuncType& to) {
  std::vector<ir::Var*> params;
  std::vector<Expr*> args;
  for (size_t i = 0; i < to.params.size(); ++i) {
    params.push_back(NewVar(arena_, "a", to.params[i]));
    args.push_back(ConvertPart(NewUse(arena_, params.back()), from.params[i]));
  }
  auto* call = arena_.New<ir::Call>(value, std::move(args), ir::Attrs{}, place_);
  call->type = from.result;
  auto* function = arena_.New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::move(params), nullptr,
                                            ConvertPart(call, to.result), place_);
  function->type = &to;
  return function;
}

std::vector<ir::GlobalFunction> ValueConverter::MakeFunctions() {
  std::vector<ir::GlobalFunction> functions;
  while (!pending_.empty() && !types_.refused()) {
    Conversion conversion = std::move(pending_.front());
    pending_.pop_front();
    place_ = conversion.place;
    ir::Var* param = NewVar(arena_, "x", conversion.from, place_);
    param->annotation = conversion.from;
    Expr* body = Body(NewUse(arena_, param), conversion.to);
    auto* function = arena_.New<ir::Function>(std::vector<const ir::TypeParam*>{}, std::vector<ir::Var*>{param},
                                              conversion.to, body, place_);
    function->type = arena_.New<ir::FuncType>(std::vector<const ir::TypeParam*>{},
                                              std::vector<const Type*>{conversion.from}, conversion.to);
    functions.push_back({conversion.name, function, place_});
  }
  return functions;
}

// ---- patterns

ir::Pattern* ValueConverter::ConvertPattern(const ir::Pattern& pattern, const Type* type,
                                            std::vector<Binding>& converted) {
  auto* copy = arena_.New<ir::Pattern>(pattern);
  if (pattern.kind == ir::PatternKind::kVar && !types_.SameValues(pattern.var->type, type)) {
    copy->var = NewVar(arena_, pattern.var->name, type, pattern.span);
    Expr* value = Convert(NewUse(arena_, copy->var, pattern.span), pattern.var->type);
    converted.push_back({pattern.var, value, pattern.span});
  }
  if (pattern.kind == ir::PatternKind::kWildcard || pattern.kind == ir::PatternKind::kVar) return copy;
  std::vector<const Type*> fields;
  bool is_boxed = IsUniversal(type);
  if (pattern.kind == ir::PatternKind::kLiteral) {
    if (!is_boxed) return copy;
    type = ir::MakeScalarType(arena_, pattern.literal->dtype());
  } else if (is_boxed && pattern.kind == ir::PatternKind::kTuple) {
    type = arena_.New<ir::TupleType>(Universals(pattern.fields.size()));
  } else if (is_boxed) {
    std::vector<TypeArg> args;
    for (const ir::TypeParam* param : pattern.constructor->adt->type_params) {
      if (param->kind == ir::Kind::kBaseType || param->kind == ir::Kind::kShape) {
        types_.Refuse(pattern.span, DiagnosticKind::kUnsupported,
                      absl::StrCat("the pattern `", pattern.constructor->name,
                                   "` is inside of one for a type that has parts of ever new types, and does not say "
                                   "what `",
                                   param->name, "` is; expected a variable, to be matched on its own"));
        return copy;
      }
      args.push_back({.kind = param->kind, .type = UniversalType(), .dim = Dim::Any()});
    }
    type = arena_.New<ir::AdtType>(pattern.constructor->adt, std::move(args));
  }
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    fields = tuple->fields;
  } else if (pattern.kind == ir::PatternKind::kConstructor) {
    fields = FieldTypes(arena_, *pattern.constructor, *DynCast<ir::AdtType>(type));
  }
  for (size_t i = 0; i < copy->fields.size(); ++i) {
    copy->fields[i] = WithStack([&] { return ConvertPattern(*pattern.fields[i], fields[i], converted); });
  }
  if (!is_boxed) return copy;
  auto* box = arena_.New<ir::Pattern>();
  box->kind = ir::PatternKind::kConstructor;
  box->span = pattern.span;
  box->constructor = BoxOf(type);
  box->fields = {copy};
  if (pattern.kind == ir::PatternKind::kTuple) box->fields = copy->fields;
  return box;
}

}  // namespace rvm::passes
