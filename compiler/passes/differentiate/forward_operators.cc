// Tangents of operators: their gradient rules, transposed.
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/passes/differentiate/forward.h"
#include "compiler/passes/differentiate/reverse.h"

namespace rvm::passes {

using ir::DynCast;
using ir::Expr;

// Nothing is stored in forward mode, so a `checkpoint` is its function.
Forward::Dual Forward::EvalTransform(const ir::Call& call, const ops::OpDef& op, Block& block) {
  if (op.transform == ops::Transform::kCustomVjp) {
    Refuse(call.span, diagnostics::DiagnosticKind::kOperatorWithoutGradient,
           "`custom_vjp` has no tangent: its rule is for gradients; take the `jvp` of the function without it");
  }
  return Eval(call.args[0], block);
}

Forward::Dual Forward::EvalOperator(const ir::Call& call, const ops::OpDef& op, Block& block) {
  const ir::Builder at = At(call.span);
  std::vector<std::vector<Dual>> arguments;
  std::vector<Expr*> args;
  bool flows = false;
  for (Expr* arg : call.args) {
    std::vector<Dual>& fields = arguments.emplace_back();
    const auto* type = DynCast<ir::TupleType>(arg->type);
    const auto* tuple = DynCast<ir::Tuple>(arg);
    if (tuple != nullptr) {
      for (Expr* field : tuple->fields) fields.push_back(Eval(field, block));
    } else {
      Dual whole = Eval(arg, block);
      if (type == nullptr) fields.push_back(whole);
      for (size_t i = 0; type != nullptr && i < type->fields.size(); ++i) {
        ir::Var* field = Bind(block, "t", at.Project(at.Use(whole.var), i), call.span);
        fields.push_back(whole.is_pair ? BoxedVar(field, type->fields[i]) : Dual{field});
      }
    }
    std::vector<Expr*> uses;
    for (Dual& field : fields) {
      field = TakeApart(field, block, call.span);
      flows = flows || field.flows();
      uses.push_back(at.Use(field.var));
    }
    args.push_back(type == nullptr ? uses[0] : at.Tuple(std::move(uses), type));
  }
  ir::Var* result = Bind(block, "t", at.CallOp(&op, std::move(args), call.attrs, call.type), call.span);
  if (!flows || !types_.HasFloats(call.type) || op.gradient == ops::NothingFlows) return {result};
  if (!HasRule(op, call.span)) return {result};
  const auto* tuple = DynCast<ir::TupleType>(call.type);
  if (tuple == nullptr) return {result, Tangents(call, op, arguments, {result}, block)[0]};
  std::vector<ir::Var*> results;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    results.push_back(Bind(block, "t", at.Project(at.Use(result), i), call.span));
  }
  std::vector<ir::Var*> tangents = Tangents(call, op, arguments, results, block);
  std::vector<Expr*> pairs;
  for (size_t i = 0; i < results.size(); ++i) {
    pairs.push_back(AsBoxed({results[i], tangents[i]}, tuple->fields[i], block, call.span));
  }
  return {Bind(block, "t", at.Tuple(std::move(pairs), types_.Boxed(call.type)), call.span), nullptr, true};
}

namespace {

// Drops the bindings of operators from `first` on that no other one and none of `results` needs.
void DropUnused(std::vector<ir::Binding>& chain, size_t first, const std::vector<ir::Var*>& results) {
  absl::flat_hash_set<const ir::Var*> used(results.begin(), results.end());
  std::vector<ir::Binding> kept;
  for (size_t i = chain.size(); i > first; --i) {
    const ir::Binding& binding = chain[i - 1];
    if (!used.contains(binding.var)) continue;
    ir::ForEachExpr(binding.value, [&](const Expr* expr) {
      if (const auto* use = DynCast<ir::VarExpr>(expr)) used.insert(use->var);
      return true;
    });
    kept.push_back(binding);
  }
  chain.resize(first);
  chain.insert(chain.end(), kept.rbegin(), kept.rend());
}

}  // namespace

std::vector<ir::Var*> Forward::Tangents(const ir::Call& call, const ops::OpDef& op,
                                        const std::vector<std::vector<Dual>>& arguments,
                                        const std::vector<ir::Var*>& results, Block& block) {
  const ir::Builder at = At(call.span);
  std::vector<std::vector<ops::Operand>> operands;
  for (const std::vector<Dual>& argument : arguments) {
    std::vector<ops::Operand>& fields = operands.emplace_back();
    for (const Dual& field : argument) fields.push_back({field.var, nullptr});
  }
  size_t first = block.chain.size();
  // The adjoints that the rule is linear in. Of them the code below needs shapes only, which are the results'.
  std::vector<ir::Var*> adjoints, inputs;
  for (ir::Var* result : results) {
    bool is_float = types_.HasFloats(result->type);
    adjoints.push_back(is_float ? Bind(block, "d", at.Use(result), call.span) : nullptr);
    if (is_float) inputs.push_back(adjoints.back());
  }
  std::vector<ir::Binding> rule;
  ops::Pullback pullback(at, op.name, call.attrs, operands, results, adjoints, rule);
  ApplyRule(op, pullback, call.span);
  std::vector<Seed> seeds;
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (size_t j = 0; j < arguments[i].size(); ++j) {
      ir::Var* share = pullback.share(i, j);
      if (share != nullptr && arguments[i][j].flows()) seeds.push_back({share, arguments[i][j].tangent});
    }
  }
  std::vector<ir::Var*> found = Reverser(shared_).Transpose(rule, inputs, seeds, block.chain);
  DropUnused(block.chain, first, found);
  std::vector<ir::Var*> tangents;
  size_t next = 0;
  for (ir::Var* adjoint : adjoints) tangents.push_back(adjoint == nullptr ? nullptr : found[next++]);
  return tangents;
}

}  // namespace rvm::passes
