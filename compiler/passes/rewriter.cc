#include "compiler/passes/rewriter.h"

#include <algorithm>

#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ir/walk.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

Expr* MakeLets(ir::Arena& arena, const std::vector<Binding>& chain, Expr* body) {
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    auto* let = arena.New<ir::Let>(it->var, it->value, body, it->span);
    let->type = body->type;
    body = let;
  }
  return body;
}

ir::Var* NewVar(ir::Arena& arena, std::string_view name, const ir::Type* type, ir::Span span) {
  return arena.New<ir::Var>(arena.NextId(), std::string(name), nullptr, span, type);
}

ir::VarExpr* NewUse(ir::Arena& arena, ir::Var* var, ir::Span span) {
  auto* use = arena.New<ir::VarExpr>(var, span);
  use->type = var->type;
  return use;
}

size_t CountNodes(const ir::Expr* expr, size_t limit) {
  size_t count = 0;
  ir::ForEachExpr(expr, [&](const ir::Expr*) { return ++count <= limit; });
  return count;
}

bool LooksAtFieldsOnly(const ir::Match& match) {
  if (match.clauses.empty() || match.clauses[0].pattern->kind != ir::PatternKind::kTuple) return false;
  return std::none_of(match.clauses.begin(), match.clauses.end(),
                      [](const ir::Clause& clause) { return clause.pattern->kind == ir::PatternKind::kVar; });
}

const ir::FuncType& TypeOf(const ir::Function& function) {
  const auto* type = DynCast<ir::FuncType>(function.type);
  RVM_CHECK(type != nullptr, "a function without a function type reached a pass");
  return *type;
}

ir::Module WithFunctions(const ir::Module& module, std::vector<ir::GlobalFunction> functions) {
  ir::Module result = module;
  result.functions = std::move(functions);
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

Expr* Rewriter::FinishLets(const std::vector<Binding>& chain, Expr* body) { return MakeLets(arena_, chain, body); }

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
  copy->constraints = function.constraints;
  for (ir::TypeConstraint& constraint : copy->constraints) {
    for (const ir::Type*& arg : constraint.args) arg = RewriteType(arg);
  }
  return copy;
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
    case ExprKind::kTuple:
      return Typed(arena_.New<ir::Tuple>(RewriteAll(Cast<ir::Tuple>(expr)->fields), expr->span), expr);
    case ExprKind::kProject: {
      const auto* project = Cast<ir::Project>(expr);
      return Typed(arena_.New<ir::Project>(Rewrite(project->tuple), project->index, expr->span), expr);
    }
    case ExprKind::kFunction: return RewriteFunction(*Cast<ir::Function>(expr));
    case ExprKind::kCall: {
      const auto* call = Cast<ir::Call>(expr);
      Expr* callee = Rewrite(call->callee);
      return Typed(arena_.New<ir::Call>(callee, RewriteAll(call->args), call->attrs, expr->span), expr);
    }
    case ExprKind::kLet: return Rewrite(expr);
    case ExprKind::kIf: {
      const auto* branch = Cast<ir::If>(expr);
      Expr* condition = Rewrite(branch->condition);
      Expr* then_branch = Rewrite(branch->then_branch);
      return Typed(arena_.New<ir::If>(condition, then_branch, Rewrite(branch->else_branch), expr->span), expr);
    }
    case ExprKind::kMatch: {
      const auto* match = Cast<ir::Match>(expr);
      Expr* value = Rewrite(match->value);
      std::vector<ir::Clause> clauses;
      for (const ir::Clause& clause : match->clauses) {
        ir::Pattern* pattern = RewritePattern(*clause.pattern);
        clauses.push_back({pattern, Rewrite(clause.body), clause.span});
      }
      return Typed(arena_.New<ir::Match>(value, std::move(clauses), match->is_complete, expr->span), expr);
    }
    case ExprKind::kRefCreate:
      return Typed(arena_.New<ir::RefCreate>(Rewrite(Cast<ir::RefCreate>(expr)->value), expr->span), expr);
    case ExprKind::kRefRead:
      return Typed(arena_.New<ir::RefRead>(Rewrite(Cast<ir::RefRead>(expr)->ref), expr->span), expr);
    case ExprKind::kRefWrite: {
      const auto* write = Cast<ir::RefWrite>(expr);
      Expr* ref = Rewrite(write->ref);
      return Typed(arena_.New<ir::RefWrite>(ref, Rewrite(write->value), expr->span), expr);
    }
  }
  RVM_UNREACHABLE("an expression of no kind");
}

// ---- Copier

Expr* Copier::RewriteNode(Expr* expr) {
  const auto* use = DynCast<ir::VarExpr>(expr);
  if (use == nullptr) return RewriteChildren(expr);
  auto found = vars_.find(use->var);
  return Typed(arena_.New<ir::VarExpr>(found == vars_.end() ? use->var : found->second, expr->span), expr);
}

ir::Var* Copier::RewriteBinder(ir::Var* var) {
  ir::Var* copy = NewVar(arena_, var->name, RewriteType(var->type), var->span);
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

// ---- MatchTypes

namespace {

class TypeMatcher {
 public:
  TypeMatcher(const std::vector<const ir::TypeParam*>& params,
              absl::flat_hash_map<const ir::TypeParam*, ir::TypeArg>& found)
      : params_(params), found_(found) {}

  bool Match(const ir::Type* pattern, const ir::Type* type) {
    return WithStack([&] { return MatchOnThisStack(pattern, type); });
  }

 private:
  bool IsParam(const ir::TypeParam* param) const {
    for (const ir::TypeParam* p : params_) {
      if (p == param) return true;
    }
    return false;
  }

  bool Bind(const ir::TypeParam* param, ir::TypeArg arg) {
    arg.kind = param->kind;
    auto [it, added] = found_.try_emplace(param, arg);
    return added || ir::TypeArgsEqual(it->second, arg);
  }

  bool MatchDim(const Dim& pattern, const Dim& dim) {
    if (pattern.kind() == DimKind::kVar) {
      for (const ir::TypeParam* param : params_) {
        if (param->id == pattern.id()) return Bind(param, {.dim = dim});
      }
    }
    if (pattern.is_binary() && pattern.kind() == dim.kind()) {
      return MatchDim(pattern.lhs(), dim.lhs()) && MatchDim(pattern.rhs(), dim.rhs());
    }
    // What a compound dim is made of may follow from other places.
    return pattern == dim || pattern.is_binary();
  }

  bool MatchShape(const ir::ShapeTerm& pattern, const ir::ShapeTerm& shape) {
    if (pattern.form == ir::ShapeTerm::Form::kParam && IsParam(pattern.param)) {
      return Bind(pattern.param, {.shape = shape});
    }
    if (!pattern.is_dims() || !shape.is_dims()) return pattern == shape;
    if (pattern.dims.size() != shape.dims.size()) return false;
    for (size_t i = 0; i < pattern.dims.size(); ++i) {
      if (!MatchDim(pattern.dims[i], shape.dims[i])) return false;
    }
    return true;
  }

  bool MatchDType(const ir::DTypeTerm& pattern, const ir::DTypeTerm& dtype) {
    if (pattern.form == ir::DTypeTerm::Form::kParam && IsParam(pattern.param)) {
      return Bind(pattern.param, {.dtype = dtype});
    }
    return pattern == dtype;
  }

  bool MatchArg(const ir::TypeArg& pattern, const ir::TypeArg& arg) {
    switch (pattern.kind) {
      case ir::Kind::kType: return Match(pattern.type, arg.type);
      case ir::Kind::kBaseType: return MatchDType(pattern.dtype, arg.dtype);
      case ir::Kind::kShape: return MatchShape(pattern.shape, arg.shape);
      default: return MatchDim(pattern.dim, arg.dim);
    }
  }

  bool MatchAll(const std::vector<const ir::Type*>& patterns, const std::vector<const ir::Type*>& types) {
    if (patterns.size() != types.size()) return false;
    for (size_t i = 0; i < patterns.size(); ++i) {
      if (!Match(patterns[i], types[i])) return false;
    }
    return true;
  }

  bool MatchOnThisStack(const ir::Type* pattern, const ir::Type* type) {
    if (const auto* param = DynCast<ir::ParamType>(pattern); param != nullptr && IsParam(param->param)) {
      return Bind(param->param, {.type = type});
    }
    if (pattern->type_kind != type->type_kind) return false;
    switch (pattern->type_kind) {
      case ir::TypeKind::kTensor: {
        const auto *a = DynCast<ir::TensorType>(pattern), *b = DynCast<ir::TensorType>(type);
        return MatchShape(a->shape, b->shape) && MatchDType(a->dtype, b->dtype);
      }
      case ir::TypeKind::kTuple:
        return MatchAll(DynCast<ir::TupleType>(pattern)->fields, DynCast<ir::TupleType>(type)->fields);
      case ir::TypeKind::kFunc: {
        const auto *a = DynCast<ir::FuncType>(pattern), *b = DynCast<ir::FuncType>(type);
        return MatchAll(a->params, b->params) && Match(a->result, b->result);
      }
      case ir::TypeKind::kAdt: {
        const auto *a = DynCast<ir::AdtType>(pattern), *b = DynCast<ir::AdtType>(type);
        if (a->adt != b->adt || a->args.size() != b->args.size()) return false;
        for (size_t i = 0; i < a->args.size(); ++i) {
          if (!MatchArg(a->args[i], b->args[i])) return false;
        }
        return true;
      }
      case ir::TypeKind::kRef:
        return Match(DynCast<ir::RefType>(pattern)->contents, DynCast<ir::RefType>(type)->contents);
      case ir::TypeKind::kParam:
      case ir::TypeKind::kHole: return ir::TypesEqual(pattern, type);
    }
    return false;
  }

  const std::vector<const ir::TypeParam*>& params_;
  absl::flat_hash_map<const ir::TypeParam*, ir::TypeArg>& found_;
};

}  // namespace

bool MatchTypes(const ir::Type* pattern, const ir::Type* type, const std::vector<const ir::TypeParam*>& params,
                absl::flat_hash_map<const ir::TypeParam*, ir::TypeArg>& found) {
  return TypeMatcher(params, found).Match(pattern, type);
}

}  // namespace rvm::passes
