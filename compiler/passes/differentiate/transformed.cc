// From reversed code to functions at the program's own types: what `grad(f)` and `vjp(f)` are.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"
#include "compiler/passes/differentiate/reverse.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;

Expr* Reverser::Lift(ir::Var* value, const Type* type, bool boxed, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  switch (type->type_kind) {
    case ir::TypeKind::kTensor: {
      if (!boxed || !types_.HasFloats(type)) return at.Use(value);
      const Type* ref = shared_.arena.New<ir::RefType>(value->type);
      return at.Tuple({at.Use(value), at.RefCreate(ZerosLike(value, span), ref)});
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
    case ir::TypeKind::kAdt: {
      if (types_.IsInert(type)) return at.Use(value);
      const Type* open = types_.WithoutNames(type);
      const Type* lift = ir::MakeFuncType(shared_.arena, {open}, types_.Boxed(open));
      return at.Call(at.Global(shared_.LiftFunction(*DynCast<ir::AdtType>(type)), lift), {at.Use(value)});
    }
    case ir::TypeKind::kFunc:
      Refuse(span, DiagnosticKind::kUnknownFunctionDifferentiated,
             absl::StrCat("`%", value->name,
                          "` is called in a function whose gradient is taken, and which function it is is known only "
                          "when the program runs; expected a `def`, or a function literal that a `let` names"));
      return nullptr;
    case ir::TypeKind::kRef:
      if (types_.IsInert(type)) return at.Use(value);
      Refuse(span, DiagnosticKind::kReferenceFromOutside,
             absl::StrCat("the reference `%", value->name,
                          "` is from outside of the function whose gradient is taken, which then is no function of its "
                          "arguments; make the reference inside, or read it outside"));
      return nullptr;
    case ir::TypeKind::kParam:
    case ir::TypeKind::kHole: return at.Use(value);
  }
}

Expr* Reverser::TakeBoxed(ir::Var* lifted, const Type* type, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  if (const auto* tensor = DynCast<ir::TensorType>(type)) {
    if (!types_.HasFloats(type)) return ZerosLike(lifted, span);
    ir::Var* sum = at.Bind("sum", at.Project(at.Use(lifted), 1), chain)->var;
    ir::Var* value = at.Bind("v", at.Project(at.Use(lifted), 0), chain)->var;
    ir::Var* adjoint = at.Bind("g", at.RefRead(at.Use(sum), tensor), chain)->var;
    at.Bind("_", at.RefWrite(at.Use(sum), ZerosLike(value, span), ir::UnitType(shared_.arena)), chain);
    return at.Use(adjoint);
  }
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      ir::Var* field = at.Bind("v", at.Project(at.Use(lifted), i), chain)->var;
      fields.push_back(TakeBoxed(field, tuple->fields[i], chain, span));
    }
    return at.Tuple(std::move(fields));
  }
  const Type* open = types_.WithoutNames(type);
  const Type* take = ir::MakeFuncType(shared_.arena, {types_.Boxed(open)}, open);
  return at.Call(at.Global(shared_.TakeFunction(*DynCast<ir::AdtType>(type)), take), {at.Use(lifted)});
}

Expr* Reverser::TakeFlat(ir::Var* lifted, ir::Var* adjoint, const Type* type, std::vector<ir::Binding>& chain,
                         ir::Span span) {
  const ir::Builder at = At(span);
  if (type->type_kind == ir::TypeKind::kTensor && types_.HasFloats(type)) return at.Use(adjoint);
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return TakeBoxed(lifted, type, chain, span);
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    ir::Var* part = at.Bind("v", at.Project(at.Use(lifted), i), chain)->var;
    ir::Var* share = at.Bind("d", at.Project(at.Use(adjoint), i), chain)->var;
    fields.push_back(TakeFlat(part, share, tuple->fields[i], chain, span));
  }
  return at.Tuple(std::move(fields));
}

namespace {

// A function or a reference in a value of type `type`; null if there is none.
const Type* FindUncopied(ir::Arena& arena, const Type* type, std::vector<const Type*>& seen) {
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
      if (const Type* found = FindUncopied(arena, part, seen)) return found;
    }
    return nullptr;
  });
}

}  // namespace

bool Reverser::CheckSignature(const ir::Function& function, ops::Transform transform, ir::Span span) {
  bool ok = true;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const Type* type = function.params[i]->type;
    std::string subject = absl::StrCat("argument ", i + 1, " of the function, of type `", ir::TypeToString(type), "`,");
    std::vector<const Type*> seen;
    if (const Type* found = FindUncopied(shared_.arena, type, seen)) {
      std::string what = found->type_kind == ir::TypeKind::kFunc ? "a function" : "a reference";
      Refuse(span, DiagnosticKind::kArgumentWithoutGradient,
             absl::StrCat(subject, " has no gradient, because it ", found == type ? "is " : "contains ", what,
                          "; expected tensors, tuples and data types"));
      ok = false;
    } else if (types_.IsInert(type)) {
      Refuse(span, DiagnosticKind::kArgumentWithoutGradient,
             absl::StrCat(subject,
                          " has no gradient, because nothing in it is floating-point; capture it instead: "
                          "`grad(fn (..) { .. })` of the other arguments"));
      ok = false;
    }
  }
  const Type* result = TypeOf(function).result;
  bool is_tensor = result->type_kind == ir::TypeKind::kTensor && types_.HasFloats(result);
  bool is_flat = types_.HasFloats(result) && !types_.HasBoxed(result);
  if (transform == ops::Transform::kGrad ? is_tensor : is_flat) return ok;
  Refuse(span, DiagnosticKind::kResultWithoutGradient,
         absl::StrCat("the function gives a `", ir::TypeToString(result), "`; expected a floating-point ",
                      transform == ops::Transform::kGrad ? "scalar or tensor" : "tensor, or a tuple of tensors"));
  return false;
}

ir::Function* Reverser::Transformed(const ir::Function& function, ops::Transform transform, ir::Span span) {
  if (!CheckSignature(function, transform, span)) return nullptr;
  const ir::Builder at = At(span);
  const Type* result = TypeOf(function).result;
  std::vector<ir::Var*> params;
  std::vector<Wanted> wanted;
  std::vector<ir::Binding> lifts;
  for (ir::Var* param : function.params) {
    ir::Var* own = at.DeclaredVar(param->name, param->type);
    params.push_back(own);
    if (types_.HasBoxed(param->type)) {
      Expr* lifted = Lift(own, param->type, /*boxed=*/false, lifts, span);
      own = at.Bind(param->name, lifted, lifts)->var;
    }
    Activate(own, param->type);
    vars_[param] = own;
    wanted.push_back({own, param->type});
  }
  Block block;
  Expr* pair = ReverseBody(block, function.body, result, wanted);
  std::vector<ir::Binding> chain = constants_.chain;
  chain.insert(chain.end(), lifts.begin(), lifts.end());
  ir::Var* both = at.Bind("p", pair, chain)->var;
  ir::Var* value = at.Bind("t", at.Project(at.Use(both), 0), chain)->var;
  ir::Var* back = at.Bind("back", at.Project(at.Use(both), 1), chain)->var;
  auto gradients = [&](Expr* seed, std::vector<ir::Binding>& code) {
    ir::Var* shares = at.Bind("d", at.Call(at.Use(back), {seed}), code)->var;
    std::vector<Expr*> fields;
    for (size_t i = 0; i < wanted.size(); ++i) {
      ir::Var* share = at.Bind("d", at.Project(at.Use(shares), i), code)->var;
      fields.push_back(TakeFlat(wanted[i].var, share, wanted[i].type, code, span));
    }
    return at.Tuple(std::move(fields));
  };
  Expr* second = nullptr;
  if (transform == ops::Transform::kGrad) {
    Expr* seed = ir::IsScalar(result)
                     ? static_cast<Expr*>(at.Constant(Literal::Scalar(DynCast<ir::TensorType>(result)->dtype.dtype, 1)))
                     : ops::BuildCall(at, "ones_like", {at.Use(value)});
    second = gradients(seed, chain);
  } else {
    ir::Var* d = at.DeclaredVar("d", result);
    std::vector<ir::Binding> code;
    Expr* seed = AdjointOf(d, result, code, span);
    Expr* shares = gradients(seed, code);
    second = at.Function({}, {d}, ir::MakeLets(shared_.arena, code, shares));
  }
  Expr* body = ir::MakeLets(shared_.arena, chain, at.Tuple({at.Use(value), second}));
  return at.Function(function.type_params, std::move(params), body);
}

// From a value of a flat type to one of Adjoint(type): without what is not floating-point.
Expr* Reverser::AdjointOf(ir::Var* value, const Type* type, std::vector<ir::Binding>& chain, ir::Span span) {
  const ir::Builder at = At(span);
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return types_.HasFloats(type) ? static_cast<Expr*>(at.Use(value)) : at.Tuple({});
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    ir::Var* field = at.Bind("d", at.Project(at.Use(value), i), chain)->var;
    fields.push_back(AdjointOf(field, tuple->fields[i], chain, span));
  }
  return at.Tuple(std::move(fields));
}

}  // namespace rvm::passes
