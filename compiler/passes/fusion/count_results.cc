// Splits operators whose number of results depends on all elements in counting and filling.
//
// Takes and gives A-normal form. `op(args)` of an operator with OpDef::count_op becomes
// `let n = count_op(args); fill_op(args, n)`, unless its type says the number.
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;

bool HasKnownShape(const ir::Type* type) {
  const auto* tensor = DynCast<ir::TensorType>(type);
  return tensor != nullptr && StaticShape(tensor->shape.dims).has_value();
}

class Counter : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    chain.push_back({let.var, Split(Rewrite(let.value), chain), let.span});
  }

  // A tail; the values of lets have been split by then.
  ir::Expr* RewriteNode(ir::Expr* expr) override {
    std::vector<Binding> chain;
    ir::Expr* split = Split(RewriteChildren(expr), chain);
    return MakeLets(arena_, chain, split);
  }

 private:
  ir::Expr* Split(ir::Expr* value, std::vector<Binding>& chain) {
    while (const auto* let = DynCast<ir::Let>(value)) {
      chain.push_back({let->var, let->value, let->span});
      value = let->body;
    }
    const auto* call = DynCast<ir::Call>(value);
    const auto* callee = call == nullptr ? nullptr : DynCast<ir::OpExpr>(call->callee);
    if (callee == nullptr || callee->op->count_op.empty() || HasKnownShape(call->type)) return value;
    std::vector<ir::Expr*> operands;
    for (ir::Expr* arg : call->args) operands.push_back(Copier(arena_).Rewrite(arg));
    auto* count = arena_.New<ir::Call>(Operator(callee->op->count_op, callee->span), std::move(operands), call->attrs,
                                       call->span);
    int64_t counts = callee->op->num_counts;
    count->type = ir::MakeTensorType(arena_, counts == 0 ? Dims{} : Dims{Dim(counts)}, kInt64);
    ir::Var* var = NewVar(arena_, "count", count->type, call->span);
    chain.push_back({var, count, call->span});
    std::vector<ir::Expr*> args = call->args;
    args.push_back(NewUse(arena_, var, call->span));
    return Typed(
        arena_.New<ir::Call>(Operator(callee->op->fill_op, callee->span), std::move(args), call->attrs, call->span),
        call);
  }

  ir::Expr* Operator(std::string_view name, ir::Span span) { return arena_.New<ir::OpExpr>(ops::FindOp(name), span); }
};

absl::StatusOr<ir::Module> CountResults(const ir::Module& module, PassContext&) {
  std::vector<ir::GlobalFunction> functions = module.functions;
  for (ir::GlobalFunction& global : functions) {
    auto* function = module.arena->New<ir::Function>(*global.function);
    function->body = Counter(*module.arena).Rewrite(function->body);
    global.function = function;
  }
  return WithFunctions(module, std::move(functions));
}

}  // namespace

const Pass kCountResults = {
    .name = "count_results",
    .summary = "counting and filling in place of operators whose number of results depends on the data",
    .run = CountResults,
    .needs = Form::kANormal,
    .gives = Form::kCountedResults,
    .keeps_effect_order = true};

}  // namespace rvm::passes
