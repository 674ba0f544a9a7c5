// Functions and calls: of functions, constructors and operators.
#include <utility>
#include <vector>

#include "base/check.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/passes/differentiate/reverse.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

ir::Var* Reverser::EvalFunction(const ir::Function& function, Block& block, ir::Var* self,
                                const std::vector<bool>& constant) {
  struct Captured {
    const ir::Var* var;
    ir::Var* box;
  };
  std::vector<Captured> captured;
  for (const ir::Var* var : analysis::FreeVars(&function)) {
    ir::Var* outer = Lookup(var, function.span);
    if (IsActive(outer)) captured.push_back({var, Box(block, outer, var->type, function.span)});
  }
  std::vector<std::pair<const ir::Var*, ir::Var*>> saved;
  Block inner;
  for (const Captured& capture : captured) {
    saved.emplace_back(capture.var, vars_[capture.var]);
    vars_[capture.var] = Unbox(inner, capture.box, capture.var->type, capture.var->name, function.span);
  }
  const ir::Builder at = At(function.span);
  const ir::FuncType& type = TypeOf(function);
  std::vector<ir::Var*> params;
  std::vector<Wanted> wanted;
  for (ir::Var* param : function.params) {
    params.push_back(at.DeclaredVar(param->name, types_.Flat(param->type)));
    vars_[param] = params.back();
    bool is_constant = wanted.size() < constant.size() && constant[wanted.size()];
    if (!is_constant) Activate(params.back(), param->type);
    wanted.push_back({params.back(), is_constant ? ir::UnitType(shared_.arena) : param->type});
  }
  Expr* body = ReverseBody(inner, function.body, type.result, wanted);
  for (auto& [var, outer] : saved) vars_[var] = outer;
  ir::Function* reversed = at.Function(function.type_params, std::move(params), body);
  reversed->type = types_.Reversed(type, constant);
  if (self == nullptr) return Bind(block, "f", reversed, function.span);
  block.chain.push_back({self, reversed, function.span});
  return self;
}

std::vector<ir::Var*> Reverser::Transpose(const std::vector<ir::Binding>& code, const std::vector<ir::Var*>& inputs,
                                          const std::vector<Seed>& seeds, std::vector<ir::Binding>& chain) {
  Block block;
  for (ir::Var* input : inputs) {
    vars_[input] = input;
    active_.insert(input);
  }
  for (const ir::Binding& binding : code) vars_[binding.var] = Eval(binding.value, block);
  Reversed reversed;
  for (const Seed& seed : seeds) {
    Adjoint share;
    share.tensor = seed.adjoint;
    Add(reversed, Lookup(seed.var, seed.var->span), std::move(share), seed.var->span);
  }
  for (auto step = block.steps.rbegin(); step != block.steps.rend(); ++step) (*step)(reversed);
  chain.insert(chain.end(), block.chain.begin(), block.chain.end());
  chain.insert(chain.end(), reversed.chain.begin(), reversed.chain.end());
  std::vector<ir::Var*> tangents;
  for (ir::Var* input : inputs) tangents.push_back(reversed.adjoints[input].tensor);
  return tangents;
}

ir::Function* Reverser::ReverseFunction(const ir::Function& function, const std::vector<bool>& constant) {
  Block block;
  EvalFunction(function, block, nullptr, constant);
  RVM_CHECK(block.chain.size() == 1, "a global function captures variables");
  return Cast<ir::Function>(block.chain[0].value);
}

// ---- calls

ir::Var* Reverser::EvalCall(const ir::Call& call, Block& block) {
  if (const ops::OpDef* op = ir::OpCallee(&call)) {
    return op->transform == ops::Transform::kNone ? EvalOperator(call, *op, block)
                                                  : EvalTransform(call, op->transform, block);
  }
  if (const ir::Constructor* constructor = ir::ConstructorCallee(&call)) {
    return EvalConstructor(call, *constructor, block);
  }
  const auto* global = DynCast<ir::GlobalExpr>(call.callee);
  ir::Var* callee = global == nullptr ? Eval(call.callee, block) : nullptr;
  const ir::Builder at = At(call.span);
  const auto* type = DynCast<ir::FuncType>(call.callee->type);
  std::vector<Wanted> wanted;
  std::vector<Expr*> args;
  std::vector<const Type*> types;
  std::vector<bool> constant;  // a known function need not compute adjoints that nobody adds
  bool is_active = false, has_boxed = global == nullptr || types_.HasBoxed(call.type);
  for (Expr* arg : call.args) {
    wanted.push_back({Eval(arg, block), arg->type});
    types.push_back(WithExtentsOf(type->params[types.size()], arg->type));
    bool flows = IsActive(wanted.back().var);
    constant.push_back(global != nullptr && !flows && types_.HasFloats(arg->type));
    is_active = is_active || flows;
    has_boxed = has_boxed || types_.HasBoxed(arg->type);
  }
  for (const Wanted& arg : wanted) args.push_back(at.Use(arg.var));
  if (global != nullptr && !is_active && !has_boxed) {
    Expr* same = at.Global(global->name, global->type);
    return Bind(block, "t", at.Call(same, std::move(args), {}, call.type), call.span);
  }
  const Type* result = types_.ReversedResult(call.type, types, constant);
  Expr* target = global == nullptr
                     ? static_cast<Expr*>(at.Use(callee))
                     : at.Global(shared_.Derived(*global, Mode::kReverse, constant), types_.Reversed(*type, constant));
  Expr* pair = at.Call(target, std::move(args), {}, result);
  return BindPair(block, pair, call.type, std::move(wanted), has_boxed, call.span);
}

ir::Var* Reverser::EvalConstructor(const ir::Call& call, const ir::Constructor& constructor, Block& block) {
  const ir::Builder at = At(call.span);
  const auto& adt = *DynCast<ir::AdtType>(call.type);
  std::vector<const Type*> types = ir::FieldTypes(shared_.arena, constructor, adt);
  std::vector<ir::Var*> values;
  for (Expr* arg : call.args) values.push_back(Eval(arg, block));
  std::vector<Expr*> args;
  for (size_t i = 0; i < values.size(); ++i) {
    args.push_back(at.Use(Box(block, values[i], call.args[i]->type, call.span)));
  }
  const auto* lifted = DynCast<ir::AdtType>(types_.Boxed(&adt));
  Expr* callee = at.Constructor(types_.Boxed(constructor, adt), lifted);
  return Bind(block, "t", at.Call(callee, std::move(args), {}, lifted), call.span);
}

ir::Var* Reverser::EvalOperator(const ir::Call& call, const ops::OpDef& op, Block& block) {
  if (op.name == "annotation.checkpoint" && call.args[0]->expr_kind == ExprKind::kCall) {
    return EvalRecomputed(call.args[0], block);
  }
  const ir::Builder at = At(call.span);
  struct Argument {
    ir::Var* tuple = nullptr;  // of a tuple that is a variable
    std::vector<ops::Operand> operands;
  };
  auto operand_of = [&](Expr* expr) {
    const auto* constant = DynCast<ir::Constant>(expr);
    return constant != nullptr ? ops::Operand{nullptr, constant} : ops::Operand{Eval(expr, block), nullptr};
  };
  auto use_of = [&](const ops::Operand& operand) -> Expr* {
    if (operand.var != nullptr) return at.Use(operand.var);
    return at.Constant(operand.constant->literal);
  };
  std::vector<Argument> arguments;
  bool is_active = false;
  for (Expr* arg : call.args) {
    Argument argument;
    if (const auto* tuple = DynCast<ir::Tuple>(arg)) {
      for (Expr* field : tuple->fields) argument.operands.push_back(operand_of(field));
    } else if (const auto* type = DynCast<ir::TupleType>(arg->type)) {
      argument.tuple = Eval(arg, block);
      for (size_t i = 0; i < type->fields.size(); ++i) {
        argument.operands.push_back({BindField(block, argument.tuple, i, type->fields[i], "t", call.span), nullptr});
      }
    } else {
      argument.operands.push_back(operand_of(arg));
    }
    for (const ops::Operand& operand : argument.operands) is_active = is_active || IsActive(operand.var);
    arguments.push_back(std::move(argument));
  }
  std::vector<Expr*> args;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (call.args[i]->type->type_kind != ir::TypeKind::kTuple) {
      args.push_back(use_of(arguments[i].operands[0]));
      continue;
    }
    std::vector<Expr*> fields;
    for (const ops::Operand& operand : arguments[i].operands) fields.push_back(use_of(operand));
    args.push_back(at.Tuple(std::move(fields), call.args[i]->type));
  }
  ir::Var* result = Bind(block, "t", at.CallOp(&op, std::move(args), call.attrs, call.type), call.span);
  if (!is_active || !types_.HasFloats(call.type) || op.gradient == ops::NothingFlows) return result;
  if (!HasRule(op, call.span)) return result;
  active_.insert(result);
  block.steps.push_back([this, &call, &op, arguments, result](Reversed& code) {
    Adjoint adjoint = code.adjoints[result];
    if (adjoint.empty()) return;
    const ir::Builder here = At(call.span);
    std::vector<ir::Var*> results = {result}, adjoints = {adjoint.tensor};
    if (const auto* tuple = DynCast<ir::TupleType>(call.type)) {
      results.clear();
      adjoints.clear();
      for (size_t i = 0; i < tuple->fields.size(); ++i) {
        results.push_back(here.Bind("t", here.Project(here.Use(result), i), code.chain)->var);
        adjoints.push_back(i < adjoint.fields.size() ? adjoint.fields[i].tensor : nullptr);
      }
    }
    std::vector<std::vector<ops::Operand>> operands;
    for (const Argument& argument : arguments) operands.push_back(argument.operands);
    ops::Pullback pullback(here, op.name, call.attrs, operands, results, adjoints, code.chain);
    ApplyRule(op, pullback, call.span);
    for (size_t i = 0; i < operands.size(); ++i) {
      for (size_t j = 0; j < operands[i].size(); ++j) {
        Adjoint share;
        share.tensor = pullback.share(i, j);
        if (operands[i][j].var != nullptr) Add(code, operands[i][j].var, std::move(share), call.span);
      }
    }
  });
  return result;
}

}  // namespace rvm::passes
