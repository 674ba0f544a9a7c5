// FitValues of polymorphic_values.h.
#include "absl/strings/str_cat.h"
#include "compiler/passes/polymorphic_values.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

namespace {

class Fitter : public Rewriter {
 public:
  Fitter(ir::Arena& arena, PolymorphicTypes& types) : Rewriter(arena), types_(types) {}

  ir::Function* FitFunction(const ir::Function& function) {
    ir::Function* copy = RewriteFunction(function);
    copy->body = Fit(copy->body, TypeOf(*copy).result);
    return copy;
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    chain.back().value = Fit(chain.back().value, let.var->type);
  }

  Expr* RewriteNode(Expr* expr) override {
    if (expr->expr_kind == ExprKind::kFunction) return FitFunction(*Cast<ir::Function>(expr));
    Expr* copy = RewriteChildren(expr);
    if (auto* call = DynCast<ir::Call>(copy)) {
      const auto* type = DynCast<ir::FuncType>(call->callee->type);
      bool is_op = call->callee->expr_kind == ExprKind::kOp;
      for (size_t i = 0; type != nullptr && !is_op && i < call->args.size(); ++i) {
        call->args[i] = Fit(call->args[i], type->params[i]);
      }
    } else if (auto* conditional = DynCast<ir::If>(copy)) {
      conditional->then_branch = Fit(conditional->then_branch, copy->type);
      conditional->else_branch = Fit(conditional->else_branch, copy->type);
    } else if (auto* match = DynCast<ir::Match>(copy)) {
      for (ir::Clause& clause : match->clauses) clause.body = Fit(clause.body, copy->type);
    } else if (auto* create = DynCast<ir::RefCreate>(copy)) {
      create->value = Fit(create->value, DynCast<ir::RefType>(copy->type)->contents);
    } else if (auto* write = DynCast<ir::RefWrite>(copy)) {
      write->value = Fit(write->value, DynCast<ir::RefType>(write->ref->type)->contents);
    }
    return copy;
  }

 private:
  Expr* Fit(Expr* value, const Type* place) {
    if (types_.SameValues(value->type, place)) return value;
    const ir::FuncType* origin = types_.Origin(value->type);
    std::optional<PolymorphicInstance> instance;
    if (origin != nullptr) instance = types_.Solve(*origin, place);
    if (!instance) {
      types_.Refuse(value->span, DiagnosticKind::kPolymorphicInData,
                    absl::StrCat("this value comes to a place of type `", ir::TypeToString(place),
                                 "`; the polymorphic functions in it would have to become others"));
      return value;
    }
    size_t index = types_.Demand(*origin, *instance);
    auto* project = arena_.New<ir::Project>(value, static_cast<uint32_t>(index), value->span);
    project->type = types_.InstanceType(*origin, *instance);
    return project;
  }

  PolymorphicTypes& types_;
};

}  // namespace

ir::Module FitValues(const ir::Module& module, PolymorphicTypes& types) {
  Fitter fitter(*module.arena, types);
  std::vector<ir::GlobalFunction> functions;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back({global.name, fitter.FitFunction(*global.function), global.span});
  }
  return WithFunctions(module, std::move(functions));
}

}  // namespace rvm::passes
