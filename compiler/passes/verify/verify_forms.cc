// The forms that passes establish: A-normal form, counted results, kernels.
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/verify/verify_module.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

bool IsAtom(const Expr* expr) { return expr->expr_kind == ExprKind::kVar || expr->expr_kind == ExprKind::kConstant; }

class FormVerifier {
 public:
  FormVerifier(const std::string& function, Forms forms, std::vector<Finding>& findings)
      : function_(function), forms_(forms), findings_(findings) {}

  void VisitBlock(const Expr* expr) {
    WithStack([&] {
      while (const auto* let = DynCast<ir::Let>(expr)) {
        VisitStep(let->value);
        expr = let->body;
      }
      VisitStep(expr);
    });
  }

 private:
  void Report(const Expr* node, std::string message) { findings_.push_back({function_, node, std::move(message)}); }

  void Atom(const Expr* expr) {
    if (!IsAtom(expr)) Report(expr, "not in A-normal form: an operand that is neither a variable nor a constant");
  }
  void AtomOrTuple(const Expr* expr) {
    const auto* tuple = DynCast<ir::Tuple>(expr);
    if (tuple == nullptr) return Atom(expr);
    for (const Expr* field : tuple->fields) Atom(field);
  }

  void VisitStep(const Expr* expr) {
    switch (expr->expr_kind) {
      case ExprKind::kConstant:
      case ExprKind::kVar:
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor: return;
      case ExprKind::kTuple:
        for (const Expr* field : Cast<ir::Tuple>(expr)->fields) Atom(field);
        return;
      case ExprKind::kProject: return Atom(Cast<ir::Project>(expr)->tuple);
      case ExprKind::kFunction: return VisitBlock(Cast<ir::Function>(expr)->body);
      case ExprKind::kCall: return VisitCall(*Cast<ir::Call>(expr));
      case ExprKind::kLet: return Report(expr, "not in A-normal form: a let as the value of a let");
      case ExprKind::kIf:
        Atom(Cast<ir::If>(expr)->condition);
        VisitBlock(Cast<ir::If>(expr)->then_branch);
        return VisitBlock(Cast<ir::If>(expr)->else_branch);
      case ExprKind::kMatch:
        AtomOrTuple(Cast<ir::Match>(expr)->value);
        for (const ir::Clause& clause : Cast<ir::Match>(expr)->clauses) VisitBlock(clause.body);
        return;
      case ExprKind::kRefCreate: return Atom(Cast<ir::RefCreate>(expr)->value);
      case ExprKind::kRefRead: return Atom(Cast<ir::RefRead>(expr)->ref);
      case ExprKind::kRefWrite: Atom(Cast<ir::RefWrite>(expr)->ref); return Atom(Cast<ir::RefWrite>(expr)->value);
    }
  }

  void VisitCall(const ir::Call& call) {
    const ops::OpDef* op = ir::OpCallee(&call);
    for (size_t i = 0; i < call.args.size(); ++i) {
      if (op == nullptr || !op->inputs[i].is_tuple) {
        Atom(call.args[i]);
      } else if (call.args[i]->expr_kind == ExprKind::kTuple) {
        AtomOrTuple(call.args[i]);
      } else {
        Report(call.args[i],
               "not in A-normal form: the argument of an operator on a tuple is no tuple written in place");
      }
    }
    if (op != nullptr) return VisitOperatorCall(call, *op);
    if (ir::IsPrimitive(call.callee)) return VisitKernel(*Cast<ir::Function>(call.callee));
    if (call.callee->expr_kind == ExprKind::kFunction) {
      Report(&call, "not in A-normal form: a function literal that is called where it stands");
    }
  }

  void VisitOperatorCall(const ir::Call& call, const ops::OpDef& op) {
    const auto* tensor = DynCast<ir::TensorType>(call.type);
    bool is_counted = op.count_op.empty() || (tensor != nullptr && StaticShape(tensor->shape.dims));
    if (forms_.Has(Form::kCountedResults) && !is_counted) {
      Report(&call, "an operator whose number of results is not counted first");
    }
    if (forms_.Has(Form::kKernels) && !ops::NeedsNoKernel(call)) {
      Report(&call, "an operator that needs a kernel and is in none");
    }
  }

  // Lets of operator calls on tensors, without effects.
  void VisitKernel(const ir::Function& kernel) {
    if (!forms_.Has(Form::kKernels)) Report(&kernel, "a kernel before fusion");
    for (const ir::Var* param : kernel.params) {
      if (DynCast<ir::TensorType>(param->type) == nullptr) {
        Report(&kernel, absl::StrCat("the parameter `%", param->name, "` of a kernel is no tensor"));
      }
    }
    absl::flat_hash_set<const ir::Var*> own(kernel.params.begin(), kernel.params.end());
    ir::ForEachExpr(kernel.body, [&](const Expr* expr) {
      if (const auto* let = DynCast<ir::Let>(expr)) own.insert(let->var);
      const auto* use = DynCast<ir::VarExpr>(expr);
      if (use != nullptr && !own.contains(use->var)) {
        Report(&kernel, absl::StrCat("a kernel that captures `%", use->var->name, "`"));
      }
      bool is_allowed = ir::OpCallee(expr) != nullptr || IsAtom(expr) || expr->expr_kind == ExprKind::kLet ||
                        expr->expr_kind == ExprKind::kTuple || expr->expr_kind == ExprKind::kOp ||
                        expr->expr_kind == ExprKind::kProject;
      if (!is_allowed) Report(expr, "a kernel that does more than call operators");
      return true;
    });
  }

  const std::string& function_;
  Forms forms_;
  std::vector<Finding>& findings_;
};

}  // namespace

void VerifyForms(const ir::GlobalFunction& function, Forms forms, std::vector<Finding>& findings) {
  if (!forms.Has(Form::kANormal)) return;
  FormVerifier(function.name, forms, findings).VisitBlock(function.function->body);
}

}  // namespace rvm::passes
