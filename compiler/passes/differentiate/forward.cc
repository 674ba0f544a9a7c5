#include "compiler/passes/differentiate/forward.h"

#include <utility>

#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

// ---- blocks

ir::Var* Forward::Bind(Block& block, std::string_view name, Expr* value, ir::Span span) {
  return At(span).Bind(name, value, block.chain)->var;
}

Forward::Dual Forward::TakeApart(const Dual& dual, Block& block, ir::Span span) {
  if (!dual.is_pair) return dual;
  for (const Block* scope = &block; scope != nullptr; scope = scope->outer) {
    auto found = scope->parts.find(dual.var);
    if (found != scope->parts.end()) return found->second;
  }
  const ir::Builder at = At(span);
  ir::Var* value = Bind(block, dual.var->name, at.Project(at.Use(dual.var), 0), span);
  ir::Var* tangent = Bind(block, "d", at.Project(at.Use(dual.var), 1), span);
  return block.parts[dual.var] = Dual{value, tangent};
}

Expr* Forward::AsBoxed(const Dual& dual, const Type* type, Block& block, ir::Span span) {
  const ir::Builder at = At(span);
  if (dual.is_pair || !types_.HasFloats(type)) return at.Use(dual.var);
  if (type->type_kind == ir::TypeKind::kTensor) {
    return at.Tuple({at.Use(dual.var), dual.tangent != nullptr ? at.Use(dual.tangent) : ZerosLike(dual.var, span)});
  }
  std::vector<Expr*> fields;
  for (size_t i = 0; i < DynCast<ir::TupleType>(type)->fields.size(); ++i) {
    ir::Var* field = Bind(block, "v", at.Project(at.Use(dual.var), i), span);
    fields.push_back(AsBoxed({field}, DynCast<ir::TupleType>(type)->fields[i], block, span));
  }
  return at.Tuple(std::move(fields));
}

// ---- variables

Forward::Dual Forward::Lookup(const ir::Var* var, ir::Span span) {
  auto found = vars_.find(var);
  return found != vars_.end() ? found->second : LiftConstant(var, span);
}

Forward::Dual Forward::LiftConstant(const ir::Var* var, ir::Span span) {
  auto* outside = const_cast<ir::Var*>(var);
  if (!types_.HasBoxed(var->type)) return vars_[var] = Dual{outside};
  if (const ir::Function* literal = shared_.LiteralOf(var)) {
    ir::Var* twin = At(var->span).Var(var->name, types_.Boxed(literal->type));
    vars_[var] = Dual{twin};
    ir::Function* function = EvalFunction(*literal, &constants_);
    constants_.chain.push_back({twin, function, span});
    return {twin};
  }
  ir::Var* lifted = At(span).Var(var->name, types_.Flat(var->type));
  vars_[var] = Dual{lifted};
  Expr* value = Lift(outside, var->type, /*boxed=*/false, constants_.chain, span);
  if (value != nullptr) constants_.chain.push_back({lifted, value, span});
  return {lifted};
}

// ---- expressions

Forward::Dual Forward::Eval(Expr* expr, Block& block) {
  return WithStack([&] {
    while (const auto* let = DynCast<ir::Let>(expr)) {
      EvalLet(*let, block);
      expr = let->body;
    }
    return EvalNode(expr, block);
  });
}

void Forward::EvalLet(const ir::Let& let, Block& block) {
  const ir::Builder at = At(let.span);
  if (const auto* function = DynCast<ir::Function>(let.value)) {
    ir::Var* self = at.Var(let.var->name, types_.Boxed(let.var->type));
    vars_[let.var] = Dual{self};
    block.chain.push_back({self, EvalFunction(*function, &block), let.span});
    return;
  }
  Dual value = Eval(let.value, block);
  bool is_last = !block.chain.empty() && block.chain.back().var == value.var;
  if (is_last && let.value->expr_kind != ExprKind::kVar) value.var->name = let.var->name;
  if (!ir::TypesEqual(let.var->type, let.value->type)) {  // declared with another type
    auto declare = [&](ir::Var* var, const Type* type) {
      ir::Var* declared = at.DeclaredVar(let.var->name, type);
      block.chain.push_back({declared, at.Use(var), let.span});
      return declared;
    };
    const Type* type = value.is_pair ? types_.Boxed(let.var->type) : types_.Flat(let.var->type);
    value.var = declare(value.var, type);
    if (value.tangent != nullptr) value.tangent = declare(value.tangent, type);
  }
  vars_[let.var] = value;
}

Forward::Dual Forward::EvalNode(Expr* expr, Block& block) {
  const ir::Builder at = At(expr->span);
  switch (expr->expr_kind) {
    case ExprKind::kConstant: return {Bind(block, "t", at.Constant(Cast<ir::Constant>(expr)->literal), expr->span)};
    case ExprKind::kVar: return Lookup(Cast<ir::VarExpr>(expr)->var, expr->span);
    case ExprKind::kTuple: return EvalTuple(*Cast<ir::Tuple>(expr), block);
    case ExprKind::kProject: {
      const auto* project = Cast<ir::Project>(expr);
      Dual tuple = Eval(project->tuple, block);
      ir::Var* field = Bind(block, "t", at.Project(at.Use(tuple.var), project->index), expr->span);
      return tuple.is_pair ? BoxedVar(field, expr->type) : Dual{field};
    }
    case ExprKind::kFunction: return {Bind(block, "f", EvalFunction(*Cast<ir::Function>(expr), &block), expr->span)};
    case ExprKind::kCall: return EvalCall(*Cast<ir::Call>(expr), block);
    case ExprKind::kLet: return Eval(expr, block);
    case ExprKind::kIf: return EvalIf(*Cast<ir::If>(expr), block);
    case ExprKind::kMatch: return EvalMatch(*Cast<ir::Match>(expr), block);
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: return EvalReference(expr, block);
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: break;
  }
  RVM_UNREACHABLE("a specialised module has operators, constructors and global functions only as callees");
}

Forward::Dual Forward::EvalTuple(const ir::Tuple& tuple, Block& block) {
  const ir::Builder at = At(tuple.span);
  std::vector<Dual> parts;
  bool flows = false;
  for (Expr* field : tuple.fields) {
    parts.push_back(Eval(field, block));
    flows = flows || parts.back().flows();
  }
  std::vector<Expr*> fields;
  for (size_t i = 0; i < parts.size(); ++i) {
    fields.push_back(flows ? AsBoxed(parts[i], tuple.fields[i]->type, block, tuple.span) : at.Use(parts[i].var));
  }
  const Type* type = flows ? types_.Boxed(tuple.type) : types_.Flat(tuple.type);
  return {Bind(block, "t", at.Tuple(std::move(fields), type), tuple.span), nullptr, flows};
}

ir::Function* Forward::EvalFunction(const ir::Function& function, const Block* outer,
                                    const std::vector<bool>& constant) {
  const ir::Builder at = At(function.span);
  const ir::FuncType& type = TypeOf(function);
  const ir::FuncType* dual_type = types_.Forward(type, constant);
  Block block{outer};
  std::vector<ir::Var*> params;
  for (size_t i = 0; i < function.params.size(); ++i) {
    const ir::Var* param = function.params[i];
    bool is_constant = i < constant.size() && constant[i];
    const Type* own = is_constant ? types_.Flat(param->type) : types_.Boxed(param->type);
    params.push_back(at.DeclaredVar(param->name, own));
    vars_[param] = is_constant ? Dual{params.back()} : BoxedVar(params.back(), param->type);
  }
  Dual result = Eval(function.body, block);
  Expr* boxed = AsBoxed(result, type.result, block, function.body->span);
  ir::Function* dual =
      at.Function(function.type_params, std::move(params), ir::MakeBlock(shared_.arena, std::move(block.chain), boxed));
  dual->type = dual_type;
  return dual;
}

ir::Function* Forward::ForwardFunction(const ir::Function& function, const std::vector<bool>& constant) {
  return EvalFunction(function, nullptr, constant);
}

// ---- calls

Forward::Dual Forward::EvalCall(const ir::Call& call, Block& block) {
  if (const ops::OpDef* op = ir::OpCallee(&call)) return EvalOperator(call, *op, block);
  if (const ir::Constructor* constructor = ir::ConstructorCallee(&call)) {
    return EvalConstructor(call, *constructor, block);
  }
  const ir::Builder at = At(call.span);
  const auto* global = DynCast<ir::GlobalExpr>(call.callee);
  Expr* callee = global == nullptr ? at.Use(Eval(call.callee, block).var) : nullptr;
  std::vector<Dual> duals;
  std::vector<bool> constant;
  bool flows = false, has_boxed = global == nullptr || types_.HasBoxed(call.type);
  for (Expr* arg : call.args) {
    duals.push_back(Eval(arg, block));
    constant.push_back(global != nullptr && !duals.back().flows() && types_.HasFloats(arg->type));
    flows = flows || duals.back().flows();
    has_boxed = has_boxed || types_.HasBoxed(arg->type);
  }
  bool is_same = !flows && !has_boxed;
  std::vector<Expr*> args;
  for (size_t i = 0; i < duals.size(); ++i) {
    args.push_back(constant[i] ? at.Use(duals[i].var) : AsBoxed(duals[i], call.args[i]->type, block, call.span));
  }
  if (is_same) {
    Expr* same = at.Global(global->name, global->type);
    return {Bind(block, "t", at.Call(same, std::move(args), {}, call.type), call.span)};
  }
  if (global != nullptr) {
    const auto* type = DynCast<ir::FuncType>(global->type);
    callee = at.Global(shared_.Derived(*global, Mode::kForward, constant), types_.Forward(*type, constant));
  }
  Expr* result = at.Call(callee, std::move(args), {}, types_.Boxed(call.type));
  return BoxedVar(Bind(block, "t", result, call.span), call.type);
}

Forward::Dual Forward::EvalConstructor(const ir::Call& call, const ir::Constructor& constructor, Block& block) {
  const ir::Builder at = At(call.span);
  const auto& adt = *DynCast<ir::AdtType>(call.type);
  std::vector<Dual> duals;
  for (Expr* arg : call.args) duals.push_back(Eval(arg, block));
  std::vector<Expr*> args;
  for (size_t i = 0; i < duals.size(); ++i) {
    args.push_back(AsBoxed(duals[i], call.args[i]->type, block, call.span));
  }
  const auto* lifted = DynCast<ir::AdtType>(types_.Boxed(&adt));
  Expr* callee = at.Constructor(types_.Boxed(constructor, adt), lifted);
  return {Bind(block, "t", at.Call(callee, std::move(args), {}, lifted), call.span)};
}

// ---- branches

Forward::Dual Forward::EvalIf(const ir::If& branch, Block& block) {
  const ir::Builder at = At(branch.span);
  ir::Var* condition = Eval(branch.condition, block).var;
  Block then_block{&block}, else_block{&block};
  Dual then_dual = Eval(branch.then_branch, then_block), else_dual = Eval(branch.else_branch, else_block);
  bool flows = then_dual.flows() || else_dual.flows();
  auto finish = [&](Block& inner, const Dual& dual, const Expr* expr) {
    Expr* result = flows ? AsBoxed(dual, expr->type, inner, expr->span) : At(expr->span).Use(dual.var);
    return ir::MakeBlock(shared_.arena, std::move(inner.chain), result);
  };
  Expr* then_branch = finish(then_block, then_dual, branch.then_branch);
  Expr* else_branch = finish(else_block, else_dual, branch.else_branch);
  const Type* type = flows ? types_.Boxed(branch.type) : types_.Flat(branch.type);
  return {Bind(block, "t", at.If(at.Use(condition), then_branch, else_branch, type), branch.span), nullptr, flows};
}

ir::Pattern* Forward::DualPattern(const ir::Pattern& pattern, const Type* type, bool boxed) {
  auto* copy = shared_.arena.New<ir::Pattern>(pattern);
  switch (pattern.kind) {
    case ir::PatternKind::kWildcard:
    case ir::PatternKind::kLiteral: break;
    case ir::PatternKind::kVar: {
      const ir::Var* var = pattern.var;
      copy->var = At(pattern.span).Var(var->name, boxed ? types_.Boxed(var->type) : types_.Flat(var->type));
      vars_[var] = boxed ? BoxedVar(copy->var, var->type) : Dual{copy->var};
      break;
    }
    case ir::PatternKind::kTuple:
      for (size_t i = 0; i < copy->fields.size(); ++i) {
        copy->fields[i] = DualPattern(*pattern.fields[i], DynCast<ir::TupleType>(type)->fields[i], boxed);
      }
      break;
    case ir::PatternKind::kConstructor: {
      const auto& adt = *DynCast<ir::AdtType>(type);
      std::vector<const Type*> fields = ir::FieldTypes(shared_.arena, *pattern.constructor, adt);
      copy->constructor = types_.Boxed(*pattern.constructor, adt);
      for (size_t i = 0; i < fields.size(); ++i) copy->fields[i] = DualPattern(*pattern.fields[i], fields[i], true);
      break;
    }
  }
  return copy;
}

Forward::Dual Forward::EvalMatch(const ir::Match& match, Block& block) {
  const ir::Builder at = At(match.span);
  Dual value = Eval(match.value, block);
  Expr* scrutinee =
      value.flows() ? AsBoxed(value, match.value->type, block, match.span) : static_cast<Expr*>(at.Use(value.var));
  std::vector<Block> blocks;
  std::vector<Dual> duals;
  std::vector<ir::Clause> clauses;
  bool flows = false;
  for (const ir::Clause& clause : match.clauses) {
    ir::Pattern* pattern = DualPattern(*clause.pattern, match.value->type, value.flows());
    blocks.push_back(Block{&block});
    duals.push_back(Eval(clause.body, blocks.back()));
    flows = flows || duals.back().flows();
    clauses.push_back({pattern, nullptr, clause.span});
  }
  for (size_t i = 0; i < clauses.size(); ++i) {
    const Expr* body = match.clauses[i].body;
    Expr* result = flows ? AsBoxed(duals[i], body->type, blocks[i], body->span)
                         : static_cast<Expr*>(At(body->span).Use(duals[i].var));
    clauses[i].body = ir::MakeBlock(shared_.arena, std::move(blocks[i].chain), result);
  }
  const Type* type = flows ? types_.Boxed(match.type) : types_.Flat(match.type);
  Expr* made = at.Match(scrutinee, std::move(clauses), match.is_complete, type);
  return {Bind(block, "t", made, match.span), nullptr, flows};
}

// ---- references

Forward::Dual Forward::EvalReference(Expr* expr, Block& block) {
  const ir::Builder at = At(expr->span);
  auto boxed = [&](Expr* value) {
    Dual dual = Eval(value, block);
    return AsBoxed(dual, value->type, block, expr->span);
  };
  if (const auto* create = DynCast<ir::RefCreate>(expr)) {
    Expr* value = boxed(create->value);
    return {Bind(block, "t", at.RefCreate(value, types_.Boxed(expr->type)), expr->span)};
  }
  if (const auto* read = DynCast<ir::RefRead>(expr)) {
    ir::Var* ref = Eval(read->ref, block).var;
    const Type* contents = DynCast<ir::RefType>(read->ref->type)->contents;
    return BoxedVar(Bind(block, "t", at.RefRead(at.Use(ref), types_.Boxed(contents)), expr->span), contents);
  }
  const auto* write = Cast<ir::RefWrite>(expr);
  ir::Var* ref = Eval(write->ref, block).var;
  Expr* value = boxed(write->value);
  return {Bind(block, "_", at.RefWrite(at.Use(ref), value, expr->type), expr->span)};
}

}  // namespace rvm::passes
