// `custom_vjp` and `checkpoint` within code that is reversed.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/passes/differentiate/reverse.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::Type;

ir::Var* Reverser::EvalTransform(const ir::Call& call, ops::Transform transform, Block& block) {
  switch (transform) {
    case ops::Transform::kCustomVjp: return EvalCustomVjp(call, block);
    case ops::Transform::kCheckpoint: return EvalCheckpoint(call, block);
    case ops::Transform::kNone:
    case ops::Transform::kGrad:
    case ops::Transform::kVjp:
    case ops::Transform::kJvp: break;
  }
  return Unknown(call.type, call.span);  // an error was reported
}

// ---- custom_vjp

Expr* Reverser::FromAdjoint(ir::Var* adjoint, ir::Var* value, const Type* type, std::vector<ir::Binding>& chain,
                            ir::Span span) {
  const ir::Builder at = At(span);
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return types_.HasFloats(type) ? static_cast<Expr*>(at.Use(adjoint)) : ZerosLike(value, span);
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    bool flows = types_.HasFloats(tuple->fields[i]);
    ir::Var* d = flows ? at.Bind("d", at.Project(at.Use(adjoint), i), chain)->var : adjoint;
    ir::Var* v = at.Bind("v", at.Project(at.Use(value), i), chain)->var;
    fields.push_back(FromAdjoint(d, v, tuple->fields[i], chain, span));
  }
  return at.Tuple(std::move(fields));
}

ir::Var* Reverser::EvalCustomVjp(const ir::Call& call, Block& block) {
  const ir::Builder at = At(call.span);
  const auto& type = *DynCast<ir::FuncType>(call.type);
  auto refuse = [&](DiagnosticKind kind, std::string message) {
    Refuse(call.args[1]->span, kind, std::move(message));
    return Unknown(call.type, call.span);
  };
  std::vector<const Type*> parts = type.params;
  parts.push_back(type.result);
  for (const Type* part : parts) {
    if (!types_.HasBoxed(part)) continue;
    return refuse(DiagnosticKind::kArgumentWithoutGradient,
                  absl::StrCat("`custom_vjp` is applied to a function with a `", ir::TypeToString(part),
                               "`; expected tensors, and tuples of them"));
  }
  const auto* use = DynCast<ir::VarExpr>(call.args[1]);
  const ir::Function* rule = use != nullptr ? shared_.LiteralOf(use->var) : DynCast<ir::Function>(call.args[1]);
  if (rule == nullptr) {
    return refuse(
        DiagnosticKind::kUnknownFunctionDifferentiated,
        "the rule of a `custom_vjp` is known only when the program runs; expected a `def`, a function literal, "
        "or a variable that a `let` binds to one");
  }
  // The rule is the program's code, not to be reversed: what it captures has its own type, and no gradient.
  std::vector<ir::Var*> captured, values;
  for (const ir::Var* var : analysis::FreeVars(rule)) {
    if (!vars_.contains(var)) continue;  // from outside of what is reversed
    ir::Var* value = Lookup(var, call.span);
    if (IsActive(value) || types_.HasBoxed(var->type)) {
      return refuse(DiagnosticKind::kOperatorWithoutGradient,
                    absl::StrCat("the rule of a `custom_vjp` captures `%", var->name,
                                 "`, which depends on what the gradient is by; expected it among the arguments"));
    }
    captured.push_back(const_cast<ir::Var*>(var));
    values.push_back(value);
  }
  ir::Function* shared = at.Function({}, captured, const_cast<ir::Function*>(rule));
  ir::Function* own = Copier(shared_.arena).Copy(*shared);
  for (size_t i = 0; i < values.size(); ++i) {
    block.chain.push_back({own->params[i], at.Use(values[i]), call.span});
  }
  ir::Var* known = Bind(block, "rule", own->body, call.span);

  std::vector<ir::Var*> params;
  std::vector<Expr*> args;
  for (const Type* param : type.params) {
    params.push_back(at.DeclaredVar("x", param));
    args.push_back(at.Use(params.back()));
  }
  std::vector<ir::Binding> chain, back;
  ir::Var* pair = at.Bind("p", at.Call(at.Use(known), std::move(args)), chain)->var;
  ir::Var* value = at.Bind("t", at.Project(at.Use(pair), 0), chain)->var;
  ir::Var* pullback = at.Bind("back", at.Project(at.Use(pair), 1), chain)->var;
  ir::Var* d = at.DeclaredVar("d", types_.Adjoint(type.result));
  Expr* seed = FromAdjoint(d, value, type.result, back, call.span);
  ir::Var* shares = at.Bind("d", at.Call(at.Use(pullback), {seed}), back)->var;
  std::vector<Expr*> adjoints;
  for (size_t i = 0; i < params.size(); ++i) {
    ir::Var* share = at.Bind("d", at.Project(at.Use(shares), i), back)->var;
    adjoints.push_back(AdjointOf(share, type.params[i], back, call.span));
  }
  Expr* reversed = ir::MakeLets(shared_.arena, back, at.Tuple(std::move(adjoints)));
  Expr* both = at.Tuple({at.Use(value), at.Function({}, {d}, reversed)});
  ir::Function* adapted = at.Function({}, std::move(params), ir::MakeLets(shared_.arena, chain, both));
  adapted->type = types_.Reversed(type);
  return Bind(block, "f", adapted, call.span);
}

// ---- checkpoint

ir::Function* Reverser::Recomputing(ir::Var* reversed, const ir::FuncType& type, ir::Span span) {
  const ir::Builder at = At(span);
  std::vector<ir::Var*> params;
  for (const Type* param : type.params) params.push_back(at.DeclaredVar("x", types_.Flat(param)));
  auto run = [&](size_t part, std::string_view name, std::vector<ir::Binding>& chain) {
    std::vector<Expr*> args;
    for (ir::Var* param : params) args.push_back(at.Use(param));
    Expr* call = at.Call(at.Use(reversed), std::move(args), {}, types_.ReversedResult(type.result, type.params));
    ir::Var* pair = at.Bind("p", call, chain)->var;
    return at.Bind(name, at.Project(at.Use(pair), part), chain)->var;
  };
  std::vector<ir::Binding> chain, back;
  ir::Var* value = run(0, "t", chain);
  ir::Var* d = at.DeclaredVar("d", types_.Adjoint(type.result));
  ir::Var* pullback = run(1, "back", back);
  Expr* shares = at.Call(at.Use(pullback), {at.Use(d)});
  Expr* both = at.Tuple({at.Use(value), at.Function({}, {d}, ir::MakeLets(shared_.arena, back, shares))});
  ir::Function* function = at.Function({}, std::move(params), ir::MakeLets(shared_.arena, chain, both));
  function->type = types_.Reversed(type);
  return function;
}

ir::Var* Reverser::EvalCheckpoint(const ir::Call& call, Block& block) {
  const auto& type = *DynCast<ir::FuncType>(call.type);
  Expr* arg = call.args[0];
  if (types_.HasBoxed(type.result)) {
    Refuse(arg->span, DiagnosticKind::kResultWithoutGradient,
           absl::StrCat("`checkpoint` is applied to a function that gives a `", ir::TypeToString(type.result),
                        "`; expected tensors, and tuples of them"));
    return Unknown(call.type, call.span);
  }
  // A function that runs twice must not write to what is outside of it.
  std::vector<const Type*> outside = type.params;
  if (const auto* literal = DynCast<ir::Function>(arg)) {
    for (const ir::Var* var : analysis::FreeVars(literal)) outside.push_back(var->type);
  }
  for (const Type* part : outside) {
    const Type* found = FindUncopied(part);
    if (found == nullptr || found->type_kind != ir::TypeKind::kRef) continue;
    Refuse(arg->span, DiagnosticKind::kReferenceFromOutside,
           absl::StrCat("`checkpoint` is applied to a function with a `", ir::TypeToString(part),
                        "` from outside of it, and runs it twice; make the reference inside, or read it outside"));
    return Unknown(call.type, call.span);
  }
  ir::Var* reversed = Eval(arg, block);
  return Bind(block, "f", Recomputing(reversed, type, call.span), call.span);
}

ir::Var* Reverser::EvalRecomputed(Expr* expr, Block& block) {
  const ir::Builder at = At(expr->span);
  ir::Function* literal = at.Function({}, {}, expr->type, expr);
  ir::Var* reversed = EvalFunction(*literal, block, nullptr);
  ir::Var* again = Bind(block, "f", Recomputing(reversed, TypeOf(*literal), expr->span), expr->span);
  Expr* pair = at.Call(at.Use(again), {}, {}, types_.ReversedResult(expr->type, {}));
  return BindPair(block, pair, expr->type, {}, /*has_effects=*/true, expr->span);
}

}  // namespace rvm::passes
