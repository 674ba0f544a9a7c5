// Splits operators whose number of results depends on all elements in counting and filling.
//
// Takes and gives A-normal form. `op(args)` of an operator with OpDef::count_op becomes
// `let n = count_op(args); fill_op(args, n)`, unless its type says the number.
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
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
    const ops::OpDef* op = ir::OpCallee(value);
    if (op == nullptr || op->count_op.empty() || HasKnownShape(value->type)) return value;
    const auto* call = Cast<ir::Call>(value);
    const ir::Builder at = At(call->span);
    std::vector<ir::Expr*> operands;
    for (ir::Expr* arg : call->args) operands.push_back(Copier(arena_).Rewrite(arg));
    const ir::Type* counts =
        ir::MakeTensorType(arena_, op->num_counts == 0 ? Dims{} : Dims{Dim(op->num_counts)}, kInt64);
    std::vector<ir::Expr*> args = call->args;
    args.push_back(
        at.Bind("count", at.CallOp(ops::FindOp(op->count_op), std::move(operands), call->attrs, counts), chain));
    return at.CallOp(ops::FindOp(op->fill_op), std::move(args), call->attrs, call->type);
  }
};

absl::StatusOr<ir::Module> CountResults(const ir::Module& module, PassContext&) {
  return MapFunctions(
      module, [&](const ir::GlobalFunction& global) { return Counter(*module.arena).Rewrite(global.function->body); });
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
