#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/edit_distance.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/relations.h"
#include "compiler/typing/checker.h"
#include "compiler/typing/kind_check.h"

namespace rvm::typing {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;
using ir::TypeArg;

namespace {

std::string Count(size_t n, std::string_view noun) { return absl::StrCat(n, " ", Abseil(noun), n == 1 ? "" : "s"); }

// A name or a dtype between `<` and `>` is read as a type: what it is where `kind` is expected.
TypeArg InKind(const TypeArg& arg, ir::Kind kind) {
  if (arg.kind != ir::Kind::kType || kind == ir::Kind::kType) return arg;
  TypeArg result;
  result.kind = kind;
  const auto* name = DynCast<ir::ParamType>(arg.type);
  const auto* scalar = DynCast<ir::TensorType>(arg.type);
  if (name != nullptr && name->param->kind == kind) {
    if (kind == ir::Kind::kBaseType) result.dtype = ir::DTypeTerm::OfParam(name->param);
    if (kind == ir::Kind::kShape) result.shape = ir::ShapeTerm::OfParam(name->param);
    if (kind == ir::Kind::kShapeVar) result.dim = Dim::Var(name->param->id, name->param->name);
    return result;
  }
  if (scalar == nullptr || !scalar->shape.is_dims() || !scalar->shape.dims.empty()) return arg;
  if (kind != ir::Kind::kBaseType) return arg;
  result.dtype = scalar->dtype;
  return result;
}

ir::Kind KindOf(const TypeArg& arg) {
  const auto* name = arg.kind == ir::Kind::kType ? DynCast<ir::ParamType>(arg.type) : nullptr;
  return name != nullptr ? name->param->kind : arg.kind;
}

}  // namespace

std::string Checker::CalleeName(const Expr* callee) {
  switch (callee->expr_kind) {
    case ExprKind::kOp: return absl::StrCat("`", Abseil(ir::Cast<ir::OpExpr>(callee)->op->name), "`");
    case ExprKind::kGlobal: return absl::StrCat("`@", ir::Cast<ir::GlobalExpr>(callee)->name, "`");
    case ExprKind::kConstructor:
      return absl::StrCat("`", ir::Cast<ir::ConstructorExpr>(callee)->constructor->name, "`");
    case ExprKind::kVar: return absl::StrCat("`%", ir::Cast<ir::VarExpr>(callee)->var->name, "`");
    case ExprKind::kConstant:
    case ExprKind::kTuple:
    case ExprKind::kProject:
    case ExprKind::kFunction:
    case ExprKind::kCall:
    case ExprKind::kLet:
    case ExprKind::kIf:
    case ExprKind::kMatch:
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: return "a function";
  }
}

bool Checker::CheckTypeArgs(const std::vector<const ir::TypeParam*>& params, ir::Call* call,
                            std::vector<TypeArg>* args) {
  if (call->explicit_type_args.size() > params.size()) {
    Error(call->span, DiagnosticKind::kWrongNumberOfTypeArguments,
          absl::StrCat(CalleeName(call->callee), " is given ", Count(call->explicit_type_args.size(), "type argument"),
                       "; expected at most ", params.size()));
    return false;
  }
  for (size_t i = 0; i < call->explicit_type_args.size(); ++i) {
    TypeArg arg = InKind(call->explicit_type_args[i], params[i]->kind);
    if (KindOf(arg) != params[i]->kind) {
      std::string_view saw = ir::KindName(KindOf(arg)), expected = ir::KindName(params[i]->kind);
      Error(call->span, DiagnosticKind::kKindMismatch,
            absl::StrCat("type argument `", ir::TypeArgToString(arg), "` of ", CalleeName(call->callee), " has kind `",
                         Abseil(saw), "`; expected `", Abseil(expected), "`"));
      return false;
    }
    args->push_back(solver_.Freshen(arg));
  }
  return true;
}

void Checker::QueueConstraints(const ir::FuncType& type, ir::Span span, const ir::Call* call) {
  for (const ir::TypeConstraint& written : type.constraints) {
    const auto& constraint = *solver_.arena().New<ir::TypeConstraint>(CompleteConstraint(written, diagnostics_));
    Relation relation;
    relation.name = constraint.relation;
    relation.holds = ops::FindRelation(constraint.relation);
    relation.attrs = &constraint.attrs;
    relation.args = constraint.args;
    relation.span = span;
    relation.is_constraint = true;
    relation.declared_at = constraint.span;
    relation.assumptions = assumptions_;
    if (relation.args.empty()) {
      relation.args = type.params;
      relation.result = type.result;
      relation.call = call;
    } else {
      relation.result = relation.args.back();
      relation.args.pop_back();
    }
    relations_.Add(std::move(relation));
  }
}

const Type* Checker::InstanceOf(const Type* type, ir::Span span, const ir::Call* call, std::vector<TypeArg>* args) {
  const auto* func = DynCast<ir::FuncType>(solver_.Shallow(type));
  if (func == nullptr || (func->type_params.empty() && func->constraints.empty())) return type;
  std::vector<TypeArg> own;
  const ir::FuncType* instance = solver_.Instantiate(func, args == nullptr ? &own : args);
  QueueConstraints(*instance, span, call);
  return instance;
}

const ir::FuncType* Checker::GlobalType(ir::GlobalExpr* expr, std::vector<TypeArg> args) {
  auto found = globals_.find(expr->name);
  if (found == globals_.end()) {
    std::vector<std::string_view> names;
    for (const ir::GlobalFunction& function : module_.functions) names.push_back(function.name);
    Error(expr->span, DiagnosticKind::kUnknownFunction,
          absl::StrCat("no function is named `@", expr->name, "`", DidYouMean(expr->name, names, "@")));
    return nullptr;
  }
  Global& global = found->second;
  // Polymorphic recursion needs a full signature: without, the function is used at its own parameters.
  if (!global.is_checked && args.empty() && solver_.HasHoles(global.type)) {
    for (const ir::TypeParam* param : global.type->type_params) args.push_back(ir::OwnArg(solver_.arena(), *param));
  }
  if (!global.is_checked) {
    global.early_uses.push_back(expr);
    global.is_used_elsewhere |= checking_ != &global;
  }
  expr->type_args = std::move(args);
  return solver_.Instantiate(global.type, &expr->type_args);
}

const ir::FuncType* Checker::ConstructorType(ir::ConstructorExpr* expr, std::vector<TypeArg> args) {
  const ir::Constructor& constructor = *expr->constructor;
  ir::TypeSubstitution substitution;
  for (size_t i = 0; i < constructor.adt->type_params.size(); ++i) {
    if (i == args.size()) args.push_back(solver_.FreshArg(constructor.adt->type_params[i]->kind));
    substitution.Add(constructor.adt->type_params[i], args[i]);
  }
  std::vector<const Type*> fields;
  for (const Type* field : constructor.fields) fields.push_back(substitution.Apply(solver_.arena(), field));
  expr->type_args = args;
  const Type* result = solver_.arena().New<ir::AdtType>(constructor.adt, std::move(args));
  return solver_.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::move(fields), result);
}

const Type* Checker::OpValue(ir::OpExpr* expr) {
  const ops::OpDef& op = *expr->op;
  Relation relation;
  ir::Attrs* attrs = solver_.arena().New<ir::Attrs>();
  if (!ops::CompleteAttrs(op, expr->span, *attrs, diagnostics_)) return solver_.ErrorType();
  for (size_t i = 0; i < ops::NumRequiredInputs(op); ++i) relation.args.push_back(solver_.FreshType());
  relation.name = op.name;
  relation.holds = op.type_relation;
  relation.attrs = attrs;
  relation.result = solver_.FreshType();
  relation.span = expr->span;
  relation.assumptions = assumptions_;
  const Type* type =
      solver_.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, relation.args, relation.result);
  relations_.Add(std::move(relation));
  return type;
}

const Type* Checker::CheckOpCall(ir::Call* call, ir::OpExpr* callee) {
  const ops::OpDef& op = *callee->op;
  Relation relation;
  for (Expr* arg : call->args) relation.args.push_back(Check(arg, nullptr));
  size_t least = ops::NumRequiredInputs(op), most = op.inputs.size();
  bool has_too_many = call->args.size() > most;
  // An argument too many may be an attribute without its name, which is then not missing.
  bool ok = has_too_many || ops::CompleteAttrs(op, call->span, call->attrs, diagnostics_);
  if (call->args.size() < least || has_too_many) {
    auto& diagnostic =
        Error(call->span, DiagnosticKind::kWrongNumberOfArguments,
              absl::StrCat("`", Abseil(op.name), "` is called with ", Count(call->args.size(), "argument"),
                           "; expected ", least == most ? absl::StrCat(most) : absl::StrCat(least, " to ", most),
                           most == 1 && op.inputs[0].is_tuple ? ", a tuple" : ""));
    bool takes_tuple = most == 1 && op.inputs[0].is_tuple;
    if (has_too_many && !op.attrs.empty() && call->attrs.empty() && !takes_tuple) {
      diagnostic.AddNote(
          {}, absl::StrCat("attributes have names: `", Abseil(op.name), "(.., ", Abseil(op.attrs[0].name), "=..)`"));
    }
    ok = false;
  }
  if (!call->explicit_type_args.empty()) {
    Error(call->span, DiagnosticKind::kWrongNumberOfTypeArguments,
          absl::StrCat("`", Abseil(op.name), "` is given ", Count(call->explicit_type_args.size(), "type argument"),
                       "; expected none"));
    ok = false;
  }
  relation.result = ok ? solver_.FreshType() : solver_.ErrorType();
  SetType(callee,
          solver_.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, relation.args, relation.result));
  if (!ok) return relation.result;
  relation.name = op.name;
  relation.holds = op.type_relation;
  relation.attrs = relation.own_attrs = &call->attrs;
  relation.call = call;
  relation.span = call->span;
  relation.assumptions = assumptions_;
  const Type* result = relation.result;
  relations_.Add(std::move(relation));
  return result;
}

const ir::FuncType* Checker::CalleeType(ir::Call* call) {
  std::vector<TypeArg> args;
  if (auto* global = DynCast<ir::GlobalExpr>(call->callee)) {
    auto found = globals_.find(global->name);
    if (found != globals_.end() && !CheckTypeArgs(found->second.type->type_params, call, &args)) return nullptr;
    const ir::FuncType* type = GlobalType(global, std::move(args));
    if (type == nullptr) return nullptr;
    SetType(global, type);
    return type;
  }
  if (auto* constructor = DynCast<ir::ConstructorExpr>(call->callee)) {
    if (!CheckTypeArgs(constructor->constructor->adt->type_params, call, &args)) return nullptr;
    const ir::FuncType* type = ConstructorType(constructor, std::move(args));
    SetType(constructor, type);
    return type;
  }
  // A variable's own parameters are instantiated here, where the explicit arguments are known.
  auto* var = DynCast<ir::VarExpr>(call->callee);
  const Type* type = var != nullptr ? var->var->type : Check(call->callee, nullptr);
  if (type == nullptr) type = solver_.ErrorType();  // out of scope, which was reported
  type = solver_.Shallow(type);
  if (const auto* func = DynCast<ir::FuncType>(type)) {
    if (!CheckTypeArgs(func->type_params, call, &args)) return nullptr;
    const ir::FuncType* instance = solver_.Instantiate(func, &args);
    if (var != nullptr) SetType(var, instance);
    return instance;
  }
  if (type->type_kind == ir::TypeKind::kHole && !solver_.IsError(type)) {
    std::vector<const Type*> params;
    for (size_t i = 0; i < call->args.size(); ++i) params.push_back(solver_.FreshType());
    const auto* func =
        solver_.arena().New<ir::FuncType>(std::vector<const ir::TypeParam*>{}, std::move(params), solver_.FreshType());
    solver_.Flow(type, func);
    if (var != nullptr) SetType(var, func);
    return func;
  }
  if (var != nullptr) SetType(var, type);
  if (!solver_.IsError(type)) {
    auto& diagnostic = Error(
        call->span, DiagnosticKind::kNotFunction,
        absl::StrCat(CalleeName(call->callee), " is called but has type `", Text(type), "`; expected a function"));
    AddOrigin(diagnostic, call->callee);
  }
  return nullptr;
}

Checker::Site Checker::ArgumentSite(const ir::Call* call, size_t i) {
  const Expr* arg = call->args[i];
  Site site{DiagnosticKind::kArgumentTypeMismatch, arg->span, arg};
  if (const auto* constructor = DynCast<ir::ConstructorExpr>(call->callee)) {
    site.kind = DiagnosticKind::kFieldTypeMismatch;
    site.declared = constructor->constructor->span;
    site.declared_what = "the constructor is defined here";
  }
  if (const auto* global = DynCast<ir::GlobalExpr>(call->callee)) {
    auto found = globals_.find(global->name);
    if (found == globals_.end()) return site;
    site.declared = found->second.global->function->params[i]->span;
    bool is_in_cycle = !found->second.is_checked && solver_.HasHoles(found->second.type);
    site.declared_what = !is_in_cycle ? "the parameter is declared here"
                                      : "the parameter is declared here; functions that call each other need result "
                                        "types to be called at other type arguments than their own";
  }
  return site;
}

const Type* Checker::CheckCall(ir::Call* call, const Type* expected) {
  if (auto* op = DynCast<ir::OpExpr>(call->callee)) return CheckOpCall(call, op);
  const ir::FuncType* type = CalleeType(call);
  if (type != nullptr && type->params.size() != call->args.size()) {
    auto* constructor = DynCast<ir::ConstructorExpr>(call->callee);
    auto& diagnostic =
        Error(call->span,
              constructor != nullptr ? DiagnosticKind::kWrongNumberOfFields : DiagnosticKind::kWrongNumberOfArguments,
              absl::StrCat(CalleeName(call->callee), " is called with ", Count(call->args.size(), "argument"),
                           "; expected ", type->params.size()));
    if (constructor != nullptr) {
      diagnostic.AddNote(constructor->constructor->span, "the constructor is defined here");
    } else {
      AddOrigin(diagnostic, call->callee);
    }
    for (Expr* arg : call->args) Check(arg, nullptr);
    solver_.Poison(type);
    return type->result;
  }
  if (type == nullptr) {
    if (call->callee->type == nullptr) SetType(call->callee, solver_.ErrorType());
    for (Expr* arg : call->args) Check(arg, nullptr);
    return solver_.ErrorType();
  }
  // A `?` that the context allows, or a polymorphic function, decides what the elements of a list, say, are joined to.
  bool is_closed = solver_.Shallow(type->result)->type_kind != ir::TypeKind::kHole;
  if (expected != nullptr && is_closed && solver_.IsOpen(type->result) && solver_.DecidesParts(expected)) {
    solver_.Flow(solver_.Template(expected), type->result);
  }
  for (size_t i = 0; i < call->args.size(); ++i) {
    Expr* arg = call->args[i];
    const Type* own = Check(arg, type->params[i]);
    Flow(own, type->params[i], ArgumentSite(call, i),
         [&] { return absl::StrCat("argument ", i + 1, " of ", CalleeName(call->callee)); });
  }
  QueueConstraints(*type, call->span, call);
  return type->result;
}

}  // namespace rvm::typing
