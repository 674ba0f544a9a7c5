// Operators on functions, and `stop_gradient`. The pass `differentiate` replaces the calls of the former.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ir/build.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

using ir::Type;
using te::Tensor;

constexpr Input kFunction[] = {{"f", "a function"}};
constexpr Input kWithRule[] = {
    {"f", "a function of tensors and tuples of them"},
    {"rule", "a function of the same arguments that gives the result and its pullback, as `vjp(f)` does"}};
constexpr Input kData[] = {{"data", "a tensor"}};

// Returns the function's type, or null: it is not known yet, or an error was reported.
const ir::FuncType* FunctionArg(TypeContext& context, Solve& solve) {
  const Type* type = context.arg(0);
  solve = Solve::kStuck;
  if (type->type_kind == ir::TypeKind::kHole) return nullptr;
  const auto* function = ir::DynCast<ir::FuncType>(type);
  if (function == nullptr) {
    solve = context.Fail(diagnostics::DiagnosticKind::kNotFunction,
                         absl::StrCat("the argument has type `", ir::TypeToString(type), "`; expected a function"), 0);
  }
  return function;
}

const Type* TupleOf(ir::Arena& arena, std::vector<const Type*> fields) {
  return arena.New<ir::TupleType>(std::move(fields));
}

// fn (T...) -> O to fn (T...) -> (O, (T...)).
Solve GradRelation(TypeContext& context) {
  Solve solve;
  const ir::FuncType* f = FunctionArg(context, solve);
  if (f == nullptr) return solve;
  const Type* result = TupleOf(context.arena(), {f->result, TupleOf(context.arena(), f->params)});
  return context.Result(context.arena().New<ir::FuncType>(f->type_params, f->params, result));
}

// fn (T...) -> O to fn (T...) -> (O, fn (O) -> (T...)).
const Type* WithPullback(ir::Arena& arena, const ir::FuncType& f) {
  const Type* back = ir::MakeFuncType(arena, {f.result}, TupleOf(arena, f.params));
  return arena.New<ir::FuncType>(f.type_params, f.params, TupleOf(arena, {f.result, back}));
}
Solve VjpRelation(TypeContext& context) {
  Solve solve;
  const ir::FuncType* f = FunctionArg(context, solve);
  if (f == nullptr) return solve;
  return context.Result(WithPullback(context.arena(), *f));
}

// A function to one of its type.
Solve SameFunctionRelation(TypeContext& context) {
  Solve solve;
  const ir::FuncType* f = FunctionArg(context, solve);
  return f == nullptr ? solve : context.Result(f);
}
Solve CustomVjpRelation(TypeContext& context) {
  Solve solve;
  const ir::FuncType* f = FunctionArg(context, solve);
  if (f == nullptr) return solve;
  if (!context.Unify(WithPullback(context.arena(), *f), context.arg(1))) return Solve::kFailed;
  return context.Result(f);
}

// fn (T...) -> O to fn (T..., T...) -> (O, O).
Solve JvpRelation(TypeContext& context) {
  Solve solve;
  const ir::FuncType* f = FunctionArg(context, solve);
  if (f == nullptr) return solve;
  std::vector<const Type*> params = f->params;
  params.insert(params.end(), f->params.begin(), f->params.end());
  const Type* result = TupleOf(context.arena(), {f->result, f->result});
  return context.Result(context.arena().New<ir::FuncType>(f->type_params, std::move(params), result));
}

constexpr OpDef OnFunctions(std::string_view name, std::string_view summary, TypeRelation relation,
                            Transform transform) {
  return {.name = name, .summary = summary, .inputs = kFunction, .type_relation = relation, .transform = transform};
}

constexpr OpDef kOps[] = {
    OnFunctions("grad", "a function that gives the result of `f` and its gradient by each argument", GradRelation,
                Transform::kGrad),
    OnFunctions("value_and_grad", "`grad`, under the name that it has elsewhere", GradRelation, Transform::kGrad),
    OnFunctions("vjp",
                "a function that gives the result of `f` and its pullback, from an adjoint of the result to those of "
                "the arguments",
                VjpRelation, Transform::kVjp),
    OnFunctions("jvp",
                "a function of the arguments of `f` and a tangent of each that gives the result of `f` and its tangent",
                JvpRelation, Transform::kJvp),
    {.name = "custom_vjp",
     .summary = "`f`, whose pullback is that of `rule` where a gradient is taken",
     .inputs = kWithRule,
     .type_relation = CustomVjpRelation,
     .transform = Transform::kCustomVjp},
    OnFunctions("checkpoint", "`f`, whose pullback computes it anew instead of storing what it read",
                SameFunctionRelation, Transform::kCheckpoint),
    {.name = "stop_gradient",
     .summary = "data, as a constant for gradients",
     .inputs = kData,
     .type_relation = IdentityRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeIdentity,
     .gradient = NothingFlows},
};

}  // namespace

std::span<const OpDef> GradientOps() { return kOps; }

}  // namespace rvm::ops
