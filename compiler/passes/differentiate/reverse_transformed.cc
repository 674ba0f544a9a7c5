// From reversed code to functions at the program's own types: what `grad(f)` and `vjp(f)` are.
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/build_call.h"
#include "compiler/passes/differentiate/reverse.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Type;

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
  return Convert(Conversion::kTake, {at.Use(lifted)}, type, span);
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

bool Reverser::CheckSignature(const ir::Function& function, ops::Transform transform, ir::Span span) {
  bool ok = CheckArguments(function, span);
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
