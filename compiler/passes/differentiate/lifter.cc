#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"
#include "compiler/passes/differentiate/derivatives.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;

void Lifter::Refuse(ir::Span span, DiagnosticKind kind, std::string message) {
  shared_.diagnostics.Error(span, kind, std::move(message));
}

bool Lifter::HasRule(const ops::OpDef& op, ir::Span span) {
  if (op.gradient != nullptr) return true;
  Refuse(span, DiagnosticKind::kOperatorWithoutGradient,
         absl::StrCat("`", Abseil(op.name),
                      "` has no gradient; where none should flow, apply `stop_gradient` to its arguments"));
  return false;
}

void Lifter::ApplyRule(const ops::OpDef& op, ops::Pullback& pullback, ir::Span span) {
  op.gradient(pullback);
  if (pullback.refusal().empty()) return;
  Refuse(span, DiagnosticKind::kOperatorWithoutGradient,
         absl::StrCat("`", Abseil(op.name), "` has no gradient here: ", pullback.refusal()));
}

Expr* Lifter::ZerosLike(ir::Var* var, ir::Span span) {
  const ir::Builder at = At(span);
  const auto& type = *DynCast<ir::TensorType>(var->type);
  if (type.shape.dims.empty()) return at.Constant(Literal::Scalar(type.dtype.dtype, 0));
  return ops::BuildCall(at, "zeros_like", {at.Use(var)});
}

Expr* Lifter::Convert(Conversion conversion, std::vector<Expr*> args, const Type* type, ir::Span span) {
  const ir::Builder at = At(span);
  const Type* open = types_.WithoutNames(type);
  const Type* boxed = types_.Boxed(open);
  bool is_boxed = conversion == Conversion::kLift || conversion == Conversion::kPair;
  std::vector<const Type*> params(args.size(), is_boxed ? open : boxed);
  const Type* function = ir::MakeFuncType(shared_.arena, std::move(params), is_boxed ? boxed : open);
  std::string name = shared_.Converter(*DynCast<ir::AdtType>(type), conversion, types_.mode());
  return at.Call(at.Global(std::move(name), function), std::move(args));
}

Expr* Lifter::As(const Type* type, ir::Var* var, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  if (ir::TypesEqual(var->type, type)) return at.Use(var);
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      ir::Var* field = at.Bind(var->name, at.Project(at.Use(var), i), chain)->var;
      fields.push_back(As(tuple->fields[i], field, chain, span));
    }
    return at.Tuple(std::move(fields));
  }
  if (type->type_kind != ir::TypeKind::kTensor) return at.Use(var);
  ir::Var* declared = at.DeclaredVar(var->name, type);
  chain.push_back({declared, at.Use(var), span});
  return at.Use(declared);
}

const Type* Lifter::WithExtentsOf(const Type* param, const Type* type) {
  if (param->type_kind != type->type_kind) return type;
  if (const auto* tensor = DynCast<ir::TensorType>(type)) {
    ir::TensorType result = *tensor;
    const auto& wanted = DynCast<ir::TensorType>(param)->shape.dims;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].is_const()) result.shape.dims[i] = wanted[i];
    }
    return shared_.arena.New<ir::TensorType>(std::move(result));
  }
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return type;
  std::vector<const Type*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    fields.push_back(WithExtentsOf(DynCast<ir::TupleType>(param)->fields[i], tuple->fields[i]));
  }
  return shared_.arena.New<ir::TupleType>(std::move(fields));
}

Expr* Lifter::Lift(ir::Var* value, const Type* type, bool boxed, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  switch (type->type_kind) {
    case ir::TypeKind::kTensor: {
      if (!boxed || !types_.HasFloats(type)) return at.Use(value);
      Expr* zeros = ZerosLike(value, span);
      if (types_.mode() == Mode::kForward) return at.Tuple({at.Use(value), zeros});
      return at.Tuple({at.Use(value), at.RefCreate(zeros, shared_.arena.New<ir::RefType>(value->type))});
    }
    case ir::TypeKind::kTuple: {
      std::vector<Expr*> fields;
      for (size_t i = 0; i < DynCast<ir::TupleType>(type)->fields.size(); ++i) {
        ir::Var* field = at.Bind("v", at.Project(at.Use(value), i), chain)->var;
        fields.push_back(Lift(field, field->type, boxed, chain, span));
        if (fields.back() == nullptr) return nullptr;
      }
      return at.Tuple(std::move(fields));
    }
    case ir::TypeKind::kAdt:
      if (types_.IsInert(type)) return at.Use(value);
      return Convert(Conversion::kLift, {at.Use(value)}, type, span);
    case ir::TypeKind::kFunc:
      Refuse(span, DiagnosticKind::kUnknownFunctionDifferentiated,
             absl::StrCat("`%", value->name, "` is called in a function whose ", Abseil(Asked()),
                          " is taken, and which function it is is known only "
                          "when the program runs; expected a `def`, or a function literal that a `let` names"));
      return nullptr;
    case ir::TypeKind::kRef:
      if (types_.IsInert(type)) return at.Use(value);
      Refuse(span, DiagnosticKind::kReferenceFromOutside,
             absl::StrCat("the reference `%", value->name, "` is from outside of the function whose ", Abseil(Asked()),
                          " is taken, which then is no function of its "
                          "arguments; make the reference inside, or read it outside"));
      return nullptr;
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: return at.Use(value);
  }
}

namespace {

// Returns a function or a reference in a value of type `type`; null if there is none.
const Type* FindUncopiedIn(ir::Arena& arena, const Type* type, std::vector<const Type*>& seen) {
  return WithStack([&]() -> const Type* {
    if (type->type_kind == ir::TypeKind::kFunc || type->type_kind == ir::TypeKind::kRef) return type;
    std::vector<const Type*> parts;
    if (const auto* tuple = DynCast<ir::TupleType>(type)) parts = tuple->fields;
    if (const auto* adt = DynCast<ir::AdtType>(type)) {
      for (const Type* other : seen) {
        if (ir::TypesEqual(other, type)) return nullptr;
      }
      seen.push_back(type);
      for (const ir::Constructor* constructor : adt->adt->constructors) {
        for (const Type* field : ir::FieldTypes(arena, *constructor, *adt)) parts.push_back(field);
      }
    }
    for (const Type* part : parts) {
      if (const Type* found = FindUncopiedIn(arena, part, seen)) return found;
    }
    return nullptr;
  });
}

}  // namespace

const Type* Lifter::FindUncopied(const Type* type) {
  std::vector<const Type*> seen;
  return FindUncopiedIn(shared_.arena, type, seen);
}

bool Lifter::CheckArguments(const ir::Function& function, ir::Span span) {
  bool ok = true;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Type* type = function.params[i]->type;
    std::string subject = absl::StrCat("argument ", i + 1, " of the function, of type `", ir::TypeToString(type), "`,");
    if (const Type* found = FindUncopied(type)) {
      std::string what = found->type_kind == ir::TypeKind::kFunc ? "a function" : "a reference";
      Refuse(span, DiagnosticKind::kArgumentWithoutGradient,
             absl::StrCat(subject, " has no ", Abseil(Asked()), ", because it ", found == type ? "is " : "contains ",
                          what, "; expected tensors, tuples and data types"));
      ok = false;
    } else if (types_.IsInert(type)) {
      Refuse(
          span, DiagnosticKind::kArgumentWithoutGradient,
          absl::StrCat(subject, " has no ", Abseil(Asked()),
                       ", because nothing in it is floating-point; capture it instead: `",
                       types_.mode() == Mode::kReverse ? "grad" : "jvp", "(fn (..) { .. })` of the other arguments"));
      ok = false;
    }
  }
  return ok;
}

}  // namespace rvm::passes
