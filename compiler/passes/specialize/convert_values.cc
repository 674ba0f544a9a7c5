#include "compiler/passes/specialize/convert_values.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/type_parts.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;
using ir::TypeArg;

namespace {

// `match (value) { <each constructor with new variables> => make(constructor, the variables) }`
template <typename Make>
Expr* NewMatch(ir::Arena& arena, Expr* value, const std::vector<const ir::Constructor*>& constructors, const Type* type,
               Make make) {
  const ir::Builder at(arena, {});
  std::vector<ir::Clause> clauses;
  for (const ir::Constructor* constructor : constructors) {
    std::vector<ir::Pattern*> patterns;
    std::vector<Expr*> fields;
    for (const Type* field : ir::FieldTypes(arena, *constructor, *DynCast<ir::AdtType>(value->type))) {
      ir::Var* var = at.Var("x", field);
      patterns.push_back(at.VarPattern(var));
      fields.push_back(at.Use(var));
    }
    ir::Pattern* pattern = at.ConstructorPattern(constructor, std::move(patterns));
    clauses.push_back({pattern, make(*constructor, std::move(fields)), {}});
  }
  return ir::Builder(arena, value->span).Match(value, std::move(clauses), true, type);
}

// Types with `?` in place of dims; `keeps_constants`: of those that are not constant.
class DimEraser : public ir::TypeMapper {
 public:
  DimEraser(ir::Arena& arena, const PolymorphicTypes& types, bool keeps_constants)
      : TypeMapper(arena), types_(types), keeps_constants_(keeps_constants) {}

 protected:
  const Type* MapType(const Type* type) override {
    if (types_.Origin(type) != nullptr) return type;
    RVM_CHECK(type->type_kind != ir::TypeKind::kParam, "a type parameter is left where values are converted");
    const Type* mapped = MapParts(type);
    const auto* func = DynCast<ir::FuncType>(mapped);
    if (func == nullptr || func->type_params.empty()) return mapped;
    return ir::MakeFuncType(arena_, func->params, func->result);
  }
  Dim MapDim(const Dim& dim) override { return keeps_constants_ && dim.is_const() ? dim : Dim::Any(); }

 private:
  const PolymorphicTypes& types_;
  bool keeps_constants_;
};

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

const Type* ValueConverter::Closed(const Type* type) { return DimEraser(arena_, types_, true).Map(type); }

// Projects a field of the tuple in a variable.
Expr* ValueConverter::Field(const Expr* value, size_t index) {
  return At({}).Project(At({}).Use(ir::Cast<ir::VarExpr>(value)->var), index);
}

// ---- boxes

// Returns the type that a box records. Null for values with identity, which cannot be converted.
const Type* ValueConverter::BoxedForm(const Type* type) {
  if (types_.Origin(type) != nullptr || type->type_kind == ir::TypeKind::kRef) {
    bool is_fixed = !absl::StrContains(types_.KeyOf(type), universal_->name);
    return is_fixed ? Closed(type) : nullptr;
  }
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    return arena_.New<ir::TupleType>(Universals(tuple->fields.size()));
  }
  if (const auto* func = DynCast<ir::FuncType>(type)) {
    return ir::MakeFuncType(arena_, Universals(func->params.size()), UniversalType());
  }
  const auto* adt = DynCast<ir::AdtType>(type);
  DimEraser eraser(arena_, types_, false);
  if (adt == nullptr) return eraser.Map(type);
  std::vector<TypeArg> args;
  for (const TypeArg& arg : adt->args) {
    args.push_back(arg.kind == ir::Kind::kType ? TypeArg{.type = UniversalType()} : eraser.Map(arg));
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
  return At(place_).Call(At(place_).Constructor(constructor, type), std::move(fields));
}

Expr* ValueConverter::PutIn(Expr* value) {
  const ir::Constructor* box = BoxOf(value->type);
  if (box == nullptr) return Refuse(value);
  std::vector<Expr*> fields;
  bool is_tuple = value->type->type_kind == ir::TypeKind::kTuple && types_.Origin(value->type) == nullptr;
  for (size_t i = 0; i < box->fields.size(); ++i) {
    fields.push_back(ConvertPart(is_tuple ? Field(value, i) : value, box->fields[i]));
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
    return At(place_).Tuple(std::move(fields), to);
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
  return At(value->span).Project(value, index, types_.InstanceType(origin, *instance));
}

Expr* ValueConverter::Convert(Expr* value, const Type* to) {
  return types_.SameValues(value->type, to) ? value : CallConversion(value, to);
}

// In data, extents must be equal too: unlike a tensor, data does not flow to a type with other extents.
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
  const ir::Builder at = At(place_);
  // The dims of the result are those that the value came with.
  return at.Call(at.Global(name->second, ir::MakeFuncType(arena_, {from}, closed)), {value}, {}, to);
}

Expr* ValueConverter::Body(Expr* value, const Type* to) {
  const Type* from = value->type;
  if (IsUniversal(to)) return PutIn(value);
  if (IsUniversal(from)) return TakeOut(value, to);
  if (const auto* tuple = DynCast<ir::TupleType>(to)) {
    // Each instance of a polymorphic function is converted from the whole value.
    bool is_whole = types_.Origin(to) != nullptr || from->type_kind != ir::TypeKind::kTuple;
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      Expr* part = is_whole ? At({}).Use(ir::Cast<ir::VarExpr>(value)->var) : Field(value, i);
      fields.push_back(ConvertPart(part, tuple->fields[i]));
    }
    return At(place_).Tuple(std::move(fields), to);
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
                    std::vector<const Type*> types = ir::FieldTypes(arena_, constructor, to);
                    for (size_t i = 0; i < fields.size(); ++i) fields[i] = ConvertPart(fields[i], types[i]);
                    return Construct(&constructor, &to, std::move(fields));
                  });
}

// `fn (%a, ...) { converted(value(converted %a, ...)) }`
Expr* ValueConverter::ConvertFunction(Expr* value, const ir::FuncType& from, const ir::FuncType& to) {
  std::vector<ir::Var*> params;
  std::vector<Expr*> args;
  for (size_t i = 0; i < to.params.size(); ++i) {
    params.push_back(At({}).Var("a", to.params[i]));
    args.push_back(ConvertPart(At({}).Use(params.back()), from.params[i]));
  }
  const ir::Builder at = At(place_);
  ir::Function* function =
      at.Function({}, std::move(params), ConvertPart(at.Call(value, std::move(args), {}, from.result), to.result));
  function->type = &to;
  return function;
}

std::vector<ir::GlobalFunction> ValueConverter::MakeFunctions() {
  std::vector<ir::GlobalFunction> functions;
  while (!pending_.empty() && !types_.refused()) {
    Conversion conversion = std::move(pending_.front());
    pending_.pop_front();
    place_ = conversion.place;
    ir::Var* param = At(conversion.place).DeclaredVar("x", conversion.from);
    Expr* body = Body(At({}).Use(param), conversion.to);
    functions.push_back({conversion.name, At(place_).Function({}, {param}, conversion.to, body), place_});
  }
  return functions;
}

// ---- patterns

ir::Pattern* ValueConverter::ConvertPattern(const ir::Pattern& pattern, const Type* type,
                                            std::vector<Binding>& converted) {
  auto* copy = arena_.New<ir::Pattern>(pattern);
  if (pattern.kind == ir::PatternKind::kVar && !types_.SameValues(pattern.var->type, type)) {
    copy->var = At(pattern.span).Var(pattern.var->name, type);
    Expr* value = Convert(At(pattern.span).Use(copy->var), pattern.var->type);
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
    fields = ir::FieldTypes(arena_, *pattern.constructor, *DynCast<ir::AdtType>(type));
  }
  for (size_t i = 0; i < copy->fields.size(); ++i) {
    copy->fields[i] = WithStack([&] { return ConvertPattern(*pattern.fields[i], fields[i], converted); });
  }
  if (!is_boxed) return copy;
  bool is_tuple = pattern.kind == ir::PatternKind::kTuple;
  return At(pattern.span).ConstructorPattern(BoxOf(type), is_tuple ? copy->fields : std::vector<ir::Pattern*>{copy});
}

}  // namespace rvm::passes
