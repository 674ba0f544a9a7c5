#include "compiler/passes/rewriter.h"

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"
#include "compiler/ops/op_def.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

size_t CountNodes(const ir::Expr* expr, size_t limit) {
  size_t count = 0;
  ir::ForEachExpr(expr, [&](const ir::Expr*) { return ++count <= limit; });
  return count;
}

void CountUses(const Expr* expr, UseCounts& counts) {
  ir::ForEachExpr(expr, [&](const Expr* part) {
    if (const auto* use = DynCast<ir::VarExpr>(part)) ++counts[use->var].all;
    if (const ir::Var* callee = ir::VarCallee(part)) ++counts[callee].calls;
    return true;
  });
}

bool Mentions(const Expr* expr, const ir::Var* var) {
  bool found = false;
  ir::ForEachExpr(expr, [&](const Expr* part) {
    const auto* use = DynCast<ir::VarExpr>(part);
    found = found || (use != nullptr && use->var == var);
    return !found;
  });
  return found;
}

bool LooksAtFieldsOnly(const ir::Match& match) {
  if (match.clauses.empty()) return false;
  const ir::Pattern& first = *match.clauses[0].pattern;
  bool is_constructor = first.kind == ir::PatternKind::kConstructor;
  if (is_constructor ? first.constructor->adt->constructors.size() != 1 : first.kind != ir::PatternKind::kTuple)
    return false;
  return std::none_of(match.clauses.begin(), match.clauses.end(),
                      [](const ir::Clause& clause) { return clause.pattern->kind == ir::PatternKind::kVar; });
}

const ir::FuncType& TypeOf(const ir::Function& function) {
  const auto* type = DynCast<ir::FuncType>(function.type);
  RVM_CHECK(type != nullptr, "a function without a function type reached a pass");
  return *type;
}

const ir::TensorType* TensorOf(const Expr* expr) {
  const auto* type = DynCast<ir::TensorType>(expr->type);
  return type != nullptr && type->shape.is_dims() ? type : nullptr;
}

bool SameExtents(const ir::Type* a, const ir::Type* b) {
  const auto *x = DynCast<ir::TensorType>(a), *y = DynCast<ir::TensorType>(b);
  if (x == nullptr || y == nullptr || !x->shape.is_dims() || !y->shape.is_dims()) return false;
  return std::ranges::equal(x->shape.dims, y->shape.dims,
                            [](const Dim& m, const Dim& n) { return CompareDims(m, n) == DimEquality::kEqual; });
}

std::vector<int64_t> AxesOf(const ir::Call& transpose) {
  const auto rank = static_cast<int64_t>(DynCast<ir::TensorType>(transpose.type)->shape.dims.size());
  std::vector<int64_t> axes;
  if (transpose.attrs.IsNone("axes")) {
    for (int64_t i = rank - 1; i >= 0; --i) axes.push_back(i);
  } else {
    for (int64_t axis : transpose.attrs.GetInts("axes")) axes.push_back(axis < 0 ? axis + rank : axis);
  }
  return axes;
}

bool Broadcasts(const ops::OpDef& op) { return (op.scalar != nullptr && op.inputs.size() == 2) || op.name == "where"; }

const Literal* ConstantOf(const Expr* expr) {
  const auto* constant = DynCast<ir::Constant>(expr);
  return constant == nullptr ? nullptr : &constant->literal;
}

ir::Var* VarOf(const Expr* expr) {
  const auto* use = DynCast<ir::VarExpr>(expr);
  return use == nullptr ? nullptr : use->var;
}

ir::Module WithFunctions(const ir::Module& module, std::vector<ir::GlobalFunction> functions) {
  ir::Module result = module;
  result.functions = std::move(functions);
  return result;
}

ir::Module MapFunctions(const ir::Module& module, absl::FunctionRef<Expr*(const ir::GlobalFunction&)> new_body) {
  ir::Module result = module;
  for (ir::GlobalFunction& global : result.functions) {
    auto* function = module.arena->New<ir::Function>(*global.function);
    function->body = new_body(global);
    global.function = function;
  }
  return result;
}

Expr* Rewriter::Rewrite(Expr* expr) {
  return WithStack([&] { return RewriteOnThisStack(expr); });
}

Expr* Rewriter::RewriteOnThisStack(Expr* expr) {
  std::vector<Binding> chain;
  while (const auto* let = DynCast<ir::Let>(expr)) {
    RewriteLet(*let, chain);
    expr = let->body;
  }
  Expr* body = RewriteNode(expr);
  return chain.empty() ? body : FinishLets(chain, body);
}

Expr* Rewriter::FinishLets(const std::vector<Binding>& chain, Expr* body) { return ir::MakeLets(arena_, chain, body); }

void Rewriter::RewriteLet(const ir::Let& let, std::vector<Binding>& chain) {
  // A function sees its own variable.
  bool is_recursive = let.value->expr_kind == ExprKind::kFunction;
  ir::Var* var = is_recursive ? RewriteBinder(let.var) : nullptr;
  Expr* value = Rewrite(let.value);
  if (!is_recursive) var = RewriteBinder(let.var);
  chain.push_back({var, value, let.span});
}

std::vector<Expr*> Rewriter::RewriteAll(const std::vector<Expr*>& exprs) {
  std::vector<Expr*> result;
  result.reserve(exprs.size());
  for (Expr* expr : exprs) result.push_back(Rewrite(expr));
  return result;
}

ir::Function* Rewriter::RewriteFunction(const ir::Function& function) {
  return Typed(RewriteUntyped(function), &function);
}

ir::Function* Rewriter::RewriteUntyped(const ir::Function& function) {
  std::vector<ir::Var*> params;
  for (ir::Var* param : function.params) params.push_back(RewriteBinder(param));
  const ir::Type* result = function.result_annotation == nullptr ? nullptr : RewriteType(function.result_annotation);
  auto* copy =
      arena_.New<ir::Function>(function.type_params, std::move(params), result, Rewrite(function.body), function.span);
  copy->attrs = function.attrs;
  copy->is_primitive = function.is_primitive;
  copy->constraints = function.constraints;
  for (ir::TypeConstraint& constraint : copy->constraints) {
    for (const ir::Type*& arg : constraint.args) arg = RewriteType(arg);
  }
  return copy;
}

ir::Function* Rewriter::MakeCaller(const ir::GlobalFunction& global) {
  auto* function = arena_.New<ir::Function>(*global.function);
  std::vector<ir::Expr*> args;
  for (ir::Var*& param : function->params) {
    const ir::Builder at = At(param->span);
    const ir::Type* annotation = param->annotation;
    param = at.Var(param->name, param->type);
    param->annotation = annotation;
    args.push_back(at.Use(param));
  }
  const ir::Builder at = At(function->span);
  ir::Expr* callee = at.Global(global.name, function->type);
  function->body = at.Call(callee, std::move(args), {}, TypeOf(*function).result);
  return function;
}

ir::Pattern* Rewriter::RewritePattern(const ir::Pattern& pattern) {
  return WithStack([&] {
    auto* copy = arena_.New<ir::Pattern>(pattern);
    if (pattern.var != nullptr) copy->var = RewriteBinder(pattern.var);
    for (ir::Pattern*& field : copy->fields) field = RewritePattern(*field);
    return copy;
  });
}

Expr* Rewriter::RewriteChildren(Expr* expr) {
  const ir::Builder at = At(expr->span);
  switch (expr->expr_kind) {
    case ExprKind::kConstant: return Typed(arena_.New<ir::Constant>(*Cast<ir::Constant>(expr)), expr);
    case ExprKind::kVar: return Typed(arena_.New<ir::VarExpr>(*Cast<ir::VarExpr>(expr)), expr);
    case ExprKind::kGlobal: {
      auto* copy = arena_.New<ir::GlobalExpr>(*Cast<ir::GlobalExpr>(expr));
      for (ir::TypeArg& arg : copy->type_args) arg = RewriteTypeArg(arg);
      return Typed(copy, expr);
    }
    case ExprKind::kOp: return Typed(arena_.New<ir::OpExpr>(*Cast<ir::OpExpr>(expr)), expr);
    case ExprKind::kConstructor: {
      auto* copy = arena_.New<ir::ConstructorExpr>(*Cast<ir::ConstructorExpr>(expr));
      for (ir::TypeArg& arg : copy->type_args) arg = RewriteTypeArg(arg);
      return Typed(copy, expr);
    }
    case ExprKind::kTuple: {
      std::vector<Expr*> fields = RewriteAll(Cast<ir::Tuple>(expr)->fields);
      return at.Tuple(std::move(fields), RewriteType(expr->type));
    }
    case ExprKind::kProject: {
      Expr* tuple = Rewrite(Cast<ir::Project>(expr)->tuple);
      return at.Project(tuple, Cast<ir::Project>(expr)->index, RewriteType(expr->type));
    }
    case ExprKind::kFunction: return RewriteFunction(*Cast<ir::Function>(expr));
    case ExprKind::kCall: {
      const auto* call = Cast<ir::Call>(expr);
      Expr* callee = Rewrite(call->callee);
      std::vector<Expr*> args = RewriteAll(call->args);
      return at.Call(callee, std::move(args), call->attrs, RewriteType(expr->type));
    }
    case ExprKind::kLet: return Rewrite(expr);
    case ExprKind::kIf: {
      const auto* branch = Cast<ir::If>(expr);
      Expr* condition = Rewrite(branch->condition);
      Expr* then_branch = Rewrite(branch->then_branch);
      Expr* else_branch = Rewrite(branch->else_branch);
      return at.If(condition, then_branch, else_branch, RewriteType(expr->type));
    }
    case ExprKind::kMatch: {
      const auto* match = Cast<ir::Match>(expr);
      Expr* value = Rewrite(match->value);
      std::vector<ir::Clause> clauses;
      for (const ir::Clause& clause : match->clauses) {
        ir::Pattern* pattern = RewritePattern(*clause.pattern);
        clauses.push_back({pattern, Rewrite(clause.body), clause.span});
      }
      return at.Match(value, std::move(clauses), match->is_complete, RewriteType(expr->type));
    }
    case ExprKind::kRefCreate: {
      Expr* value = Rewrite(Cast<ir::RefCreate>(expr)->value);
      return at.RefCreate(value, RewriteType(expr->type));
    }
    case ExprKind::kRefRead: {
      Expr* ref = Rewrite(Cast<ir::RefRead>(expr)->ref);
      return at.RefRead(ref, RewriteType(expr->type));
    }
    case ExprKind::kRefWrite: {
      Expr* ref = Rewrite(Cast<ir::RefWrite>(expr)->ref);
      Expr* value = Rewrite(Cast<ir::RefWrite>(expr)->value);
      return at.RefWrite(ref, value, RewriteType(expr->type));
    }
  }
  RVM_UNREACHABLE("an expression of no kind");
}

// ---- Copier

ir::Expr* CallSplitter::Replace(const ir::Expr* expr, std::vector<Binding>& chain) {
  const auto* call = ir::DynCast<ir::Call>(expr);
  std::vector<Binding> steps;
  if (call != nullptr) Split(*call, steps);
  if (steps.empty() || !ir::TypesEqual(steps.back().value->type, call->type)) return nullptr;
  ir::Expr* last = steps.back().value;
  chain.insert(chain.end(), steps.begin(), steps.end() - 1);
  return last;
}

ir::Expr* CallSplitter::RewriteNode(ir::Expr* expr) {
  std::vector<Binding> chain;
  ir::Expr* value = Replace(expr, chain);
  return value != nullptr ? ir::MakeLets(arena_, chain, value) : RewriteChildren(expr);
}

void CallSplitter::RewriteLet(const ir::Let& let, std::vector<Binding>& chain) {
  ir::Expr* value = Replace(let.value, chain);
  value != nullptr ? chain.push_back({let.var, value, let.span}) : Rewriter::RewriteLet(let, chain);
}

Expr* Copier::RewriteNode(Expr* expr) {
  const auto* use = DynCast<ir::VarExpr>(expr);
  if (use == nullptr) return RewriteChildren(expr);
  auto found = vars_.find(use->var);
  return Typed(At(expr->span).Use(found == vars_.end() ? use->var : found->second), expr);
}

ir::Var* Copier::RewriteBinder(ir::Var* var) {
  ir::Var* copy = At(var->span).Var(var->name, RewriteType(var->type));
  if (var->annotation != nullptr) copy->annotation = RewriteType(var->annotation);
  vars_[var] = copy;
  return copy;
}

const ir::Type* Copier::RewriteType(const ir::Type* type) {
  if (substitution_.empty() || type == nullptr) return type;
  auto [it, added] = types_.try_emplace(type, type);
  if (added) it->second = substitution_.Apply(arena_, type);
  return it->second;
}

ir::TypeArg Copier::RewriteTypeArg(const ir::TypeArg& arg) {
  return substitution_.empty() ? arg : substitution_.Apply(arena_, arg);
}

// ---- WithTypesShown

namespace {

class TypeShower : public Copier {
 public:
  using Copier::Copier;

 protected:
  ir::Var* RewriteBinder(ir::Var* var) override {
    ir::Var* copy = Copier::RewriteBinder(var);
    copy->annotation = var->type;
    return copy;
  }
  Expr* RewriteNode(Expr* expr) override {
    Expr* copy = Copier::RewriteNode(expr);
    if (auto* function = DynCast<ir::Function>(copy)) function->result_annotation = TypeOf(*function).result;
    return copy;
  }
};

}  // namespace

ir::Module WithTypesShown(const ir::Module& module) {
  ir::Module result = module;
  for (ir::GlobalFunction& global : result.functions) {
    global.function = Cast<ir::Function>(TypeShower(*module.arena).Rewrite(global.function));
  }
  return result;
}

}  // namespace rvm::passes
