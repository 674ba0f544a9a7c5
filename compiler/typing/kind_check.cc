#include "compiler/typing/kind_check.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/relations.h"

namespace rvm::typing {
namespace {

using diagnostics::DiagnosticKind;
using ir::DynCast;
using ir::Expr;
using ir::Kind;
using ir::Type;

class KindChecker {
 public:
  KindChecker(const ir::Module& module, diagnostics::Diagnostics& diagnostics)
      : module_(module), diagnostics_(diagnostics) {}

  void CheckAdt(const ir::AdtDef& adt) {
    AddParams(adt.type_params);
    for (const ir::Constructor* constructor : adt.constructors) {
      for (const Type* field : constructor->fields) CheckType(field, constructor->span);
    }
  }

  void CheckVar(const ir::Var& var) { CheckType(var.annotation, var.span); }

  // Walks on a stack of its own: parents before children, so parameters are known where used.
  void CheckExpr(const Expr* root) {
    ir::ForEachExpr(root, [&](const Expr* expr) {
      Visit(expr);
      return true;
    });
  }

 private:
  void AddParams(const std::vector<const ir::TypeParam*>& params) {
    for (const ir::TypeParam* param : params) dim_params_.emplace(param->id, param);
  }

  void Expect(const ir::TypeParam& param, Kind expected, ir::Span span) {
    if (param.kind == expected || !reported_.insert(&param).second) return;
    std::string_view saw = ir::KindName(param.kind), want = ir::KindName(expected);
    bool is_scalar = param.kind == ir::Kind::kBaseType && expected == ir::Kind::kType;
    auto& diagnostic =
        diagnostics_.Error(span, DiagnosticKind::kKindMismatch,
                           absl::StrCat("type parameter `", param.name, "` has kind `", Abseil(saw), "`; expected `",
                                        Abseil(want), "` where it stands",
                                        is_scalar ? absl::StrCat("; a scalar is `Tensor[(), ", param.name, "]`") : ""));
    if (param.span.valid())
      diagnostic.notes.push_back({param.span, absl::StrCat("`", param.name, "` is declared here")});
  }

  void CheckDim(const Dim& dim, ir::Span span) {
    SubstituteDim(dim, [&](const Dim& leaf) -> std::optional<Dim> {
      if (leaf.kind() != DimKind::kVar) return std::nullopt;
      auto found = dim_params_.find(leaf.id());
      if (found != dim_params_.end()) Expect(*found->second, Kind::kShapeVar, span);
      return std::nullopt;
    });
  }

  void CheckShape(const ir::ShapeTerm& shape, ir::Span span) {
    if (shape.form == ir::ShapeTerm::Form::kParam) Expect(*shape.param, Kind::kShape, span);
    for (const Dim& dim : shape.dims) CheckDim(dim, span);
  }

  void CheckDType(const ir::DTypeTerm& dtype, ir::Span span) {
    if (dtype.form == ir::DTypeTerm::Form::kParam) Expect(*dtype.param, Kind::kBaseType, span);
  }

  void CheckArg(const ir::TypeArg& arg, ir::Span span) {
    switch (arg.kind) {
      case Kind::kType: return CheckType(arg.type, span);
      case Kind::kBaseType: return CheckDType(arg.dtype, span);
      case Kind::kShape: return CheckShape(arg.shape, span);
      case Kind::kShapeVar:
      case Kind::kConstraint:
      case Kind::kAdtHandle: return CheckDim(arg.dim, span);
    }
  }

  void CheckAdtType(const ir::AdtType& type, ir::Span span) {
    const auto& params = type.adt->type_params;
    if (type.args.size() != params.size()) {
      diagnostics_.Error(span, DiagnosticKind::kWrongNumberOfTypeArguments,
                         absl::StrCat("type `", type.adt->name, "` has ", type.args.size(),
                                      " type arguments; expected ", params.size()));
      return;
    }
    for (size_t i = 0; i < params.size(); ++i) {
      CheckArg(type.args[i], span);
      if (type.args[i].kind == params[i]->kind) continue;
      std::string_view saw = ir::KindName(type.args[i].kind), want = ir::KindName(params[i]->kind);
      diagnostics_.Error(span, DiagnosticKind::kKindMismatch,
                         absl::StrCat("type argument `", ir::TypeArgToString(type.args[i]), "` of `", type.adt->name,
                                      "` has kind `", Abseil(saw), "`; expected `", Abseil(want), "`"));
    }
  }

  void CheckConstraints(const std::vector<ir::TypeConstraint>& constraints) {
    for (const ir::TypeConstraint& constraint : constraints) {
      for (const Type* arg : constraint.args) CheckType(arg, constraint.span);
      if (ops::FindRelation(constraint.relation) != nullptr) {
        CompleteConstraint(constraint, diagnostics_);
        continue;
      }
      bool is_adt = std::any_of(module_.adts.begin(), module_.adts.end(),
                                [&](const ir::AdtDef* adt) { return adt->name == constraint.relation; });
      if (is_adt) {
        diagnostics_.Error(constraint.span, DiagnosticKind::kKindMismatch,
                           absl::StrCat("`", constraint.relation, "` has kind `AdtHandle`; expected `Constraint`"));
        continue;
      }
      diagnostics_.Error(constraint.span, DiagnosticKind::kUnknownRelation,
                         absl::StrCat("no relation is named `", constraint.relation,
                                      "`; expected `Broadcast`, `BroadcastComp`, `Identity` or an operator"));
    }
  }

  void CheckType(const Type* type, ir::Span span) {
    if (type == nullptr || !checked_.insert(type).second) return;
    WithStack([&] { CheckOnThisStack(type, span); });
  }

  void CheckOnThisStack(const Type* type, ir::Span span) {
    switch (type->type_kind) {
      case ir::TypeKind::kTensor:
        CheckShape(DynCast<ir::TensorType>(type)->shape, span);
        return CheckDType(DynCast<ir::TensorType>(type)->dtype, span);
      case ir::TypeKind::kTuple:
        for (const Type* field : DynCast<ir::TupleType>(type)->fields) CheckType(field, span);
        return;
      case ir::TypeKind::kFunc: {
        const auto* func = DynCast<ir::FuncType>(type);
        AddParams(func->type_params);
        for (const Type* param : func->params) CheckType(param, span);
        CheckType(func->result, span);
        return CheckConstraints(func->constraints);
      }
      case ir::TypeKind::kAdt: return CheckAdtType(*DynCast<ir::AdtType>(type), span);
      case ir::TypeKind::kParam: return Expect(*DynCast<ir::ParamType>(type)->param, Kind::kType, span);
      case ir::TypeKind::kRef: return CheckType(DynCast<ir::RefType>(type)->contents, span);
      case ir::TypeKind::kHole: return;
    }
  }

  void Visit(const Expr* expr) {
    if (const auto* function = DynCast<ir::Function>(expr)) {
      AddParams(function->type_params);
      for (const ir::Var* param : function->params) CheckVar(*param);
      CheckType(function->result_annotation, function->span);
      CheckConstraints(function->constraints);
    } else if (const auto* call = DynCast<ir::Call>(expr)) {
      for (const ir::TypeArg& arg : call->explicit_type_args) {
        // A name alone may be of any kind: the callee decides (Checker::CheckTypeArgs).
        bool is_name = arg.kind == Kind::kType && arg.type->type_kind == ir::TypeKind::kParam;
        if (!is_name) CheckArg(arg, call->span);
      }
    } else if (const auto* let = DynCast<ir::Let>(expr)) {
      CheckVar(*let->var);
    }
  }

  const ir::Module& module_;
  diagnostics::Diagnostics& diagnostics_;
  absl::flat_hash_map<int64_t, const ir::TypeParam*> dim_params_;
  absl::flat_hash_set<const ir::TypeParam*> reported_;
  absl::flat_hash_set<const Type*> checked_;
};

}  // namespace

ir::TypeConstraint CompleteConstraint(ir::TypeConstraint constraint, diagnostics::Diagnostics& diagnostics) {
  if (const ops::OpDef* op = ops::FindOp(constraint.relation)) {
    ops::CompleteAttrs(*op, constraint.span, constraint.attrs, diagnostics);
    return constraint;
  }
  for (const ir::Attr& attr : constraint.attrs.entries()) {
    diagnostics.Error(attr.span, DiagnosticKind::kUnknownAttribute,
                      absl::StrCat("`", constraint.relation, "` has no attribute `", attr.name, "`"));
  }
  return constraint;
}

bool CheckKinds(const ir::Module& module, diagnostics::Diagnostics& diagnostics) {
  int before = diagnostics.errors();
  KindChecker checker(module, diagnostics);
  for (const ir::AdtDef* adt : module.adts) checker.CheckAdt(*adt);
  for (const ir::Var* var : module.free_vars) checker.CheckVar(*var);
  for (const ir::GlobalFunction& function : module.functions) checker.CheckExpr(function.function);
  return diagnostics.errors() == before;
}

}  // namespace rvm::typing
