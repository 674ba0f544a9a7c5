#include "compiler/passes/specialize/fit_values.h"

#include <utility>
#include <vector>

#include "compiler/passes/rewriter.h"
#include "compiler/passes/specialize/convert_values.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

namespace {

class Fitter : public Rewriter {
 public:
  Fitter(ir::Arena& arena, ValueConverter& values) : Rewriter(arena), values_(values) {}

  ir::Function* FitFunction(const ir::Function& function) {
    ir::Function* copy = RewriteFunction(function);
    copy->body = values_.Convert(copy->body, TypeOf(*copy).result);
    return copy;
  }

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    Rewriter::RewriteLet(let, chain);
    chain.back().value = values_.Convert(chain.back().value, let.var->type);
  }

  Expr* RewriteNode(Expr* expr) override {
    if (expr->expr_kind == ExprKind::kFunction) return FitFunction(*Cast<ir::Function>(expr));
    Expr* copy = RewriteChildren(expr);
    if (auto* call = DynCast<ir::Call>(copy)) return FitCall(call);
    if (auto* tuple = DynCast<ir::Tuple>(copy)) {
      const std::vector<const Type*>& types = DynCast<ir::TupleType>(tuple->type)->fields;
      for (size_t i = 0; i < types.size(); ++i) tuple->fields[i] = values_.Convert(tuple->fields[i], types[i]);
    } else if (auto* conditional = DynCast<ir::If>(copy)) {
      conditional->then_branch = values_.Convert(conditional->then_branch, copy->type);
      conditional->else_branch = values_.Convert(conditional->else_branch, copy->type);
    } else if (auto* match = DynCast<ir::Match>(copy)) {
      for (ir::Clause& clause : match->clauses) FitClause(clause, match->value->type, copy->type);
    } else if (auto* create = DynCast<ir::RefCreate>(copy)) {
      create->value = values_.Convert(create->value, DynCast<ir::RefType>(copy->type)->contents);
    } else if (auto* write = DynCast<ir::RefWrite>(copy)) {
      write->value = values_.Convert(write->value, DynCast<ir::RefType>(write->ref->type)->contents);
    }
    return copy;
  }

 private:
  Expr* FitCall(ir::Call* call) {
    const auto* type = DynCast<ir::FuncType>(call->callee->type);
    if (type == nullptr || call->callee->expr_kind == ExprKind::kOp) return call;
    // Named dims of the callee have no meaning in the caller.
    auto outside = [&](const Type* of) { return type->type_params.empty() ? of : values_.Closed(of); };
    for (size_t i = 0; i < call->args.size(); ++i) {
      call->args[i] = values_.Convert(call->args[i], outside(type->params[i]));
    }
    if (values_.SameValues(type->result, call->type)) return call;
    const Type* wanted = std::exchange(call->type, outside(type->result));
    return values_.Convert(call, wanted);
  }

  void FitClause(ir::Clause& clause, const Type* value, const Type* result) {
    std::vector<Binding> converted;
    clause.pattern = values_.ConvertPattern(*clause.pattern, value, converted);
    clause.body = MakeLets(arena_, converted, values_.Convert(clause.body, result));
  }

  ValueConverter& values_;
};

}  // namespace

ir::Module FitValues(const ir::Module& module, PolymorphicTypes& types, ir::AdtDef* universal) {
  ValueConverter values(*module.arena, types, universal);
  Fitter fitter(*module.arena, values);
  std::vector<ir::GlobalFunction> functions;
  for (const ir::GlobalFunction& global : module.functions) {
    functions.push_back({global.name, fitter.FitFunction(*global.function), global.span});
  }
  for (ir::GlobalFunction& made : values.MakeFunctions()) functions.push_back(std::move(made));
  ir::Module result = WithFunctions(module, std::move(functions));
  if (universal != nullptr && !universal->constructors.empty()) result.adts.push_back(universal);
  return result;
}

}  // namespace rvm::passes
