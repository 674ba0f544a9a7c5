// Branches, patterns and references.
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/passes/differentiate/reverse.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::Type;

// ---- branches

ir::Pattern* Reverser::ReversePattern(const ir::Pattern& pattern, const Type* type, bool boxed, ir::Var* scrutinee,
                                      std::vector<size_t>& path, Block& block) {
  auto* copy = shared_.arena.New<ir::Pattern>(pattern);
  const ir::Var* var = pattern.var;
  switch (pattern.kind) {
    case ir::PatternKind::kWildcard:
    case ir::PatternKind::kLiteral: break;
    case ir::PatternKind::kVar: {
      copy->var = At(pattern.span).Var(var->name, boxed ? types_.Boxed(var->type) : types_.Flat(var->type));
      vars_[var] = boxed ? Unbox(block, copy->var, var->type, var->name, pattern.span) : copy->var;
      if (boxed || !IsActive(scrutinee) || !types_.HasFloats(var->type)) break;
      active_.insert(copy->var);
      block.steps.push_back([this, flat = copy->var, scrutinee, path, span = pattern.span](Reversed& code) {
        Add(code, scrutinee, Adjoint::AtPath(code.adjoints[flat], path), span);
      });
      break;
    }
    case ir::PatternKind::kTuple:
      for (size_t i = 0; i < copy->fields.size(); ++i) {
        path.push_back(i);
        copy->fields[i] =
            ReversePattern(*pattern.fields[i], DynCast<ir::TupleType>(type)->fields[i], boxed, scrutinee, path, block);
        path.pop_back();
      }
      break;
    case ir::PatternKind::kConstructor: {
      const auto& adt = *DynCast<ir::AdtType>(type);
      std::vector<const Type*> fields = ir::FieldTypes(shared_.arena, *pattern.constructor, adt);
      copy->constructor = types_.Boxed(*pattern.constructor, adt);
      for (size_t i = 0; i < fields.size(); ++i) {
        copy->fields[i] = ReversePattern(*pattern.fields[i], fields[i], true, scrutinee, path, block);
      }
      break;
    }
  }
  return copy;
}

ir::Var* Reverser::EvalBranches(const Expr& expr, Block& block, ir::Var* scrutinee) {
  const ir::Builder at = At(expr.span);
  const auto* branch = DynCast<ir::If>(&expr);
  const auto* match = DynCast<ir::Match>(&expr);
  bool has_effects = types_.HasBoxed(expr.type);
  std::vector<Wanted> wanted;
  absl::flat_hash_set<const ir::Var*> known;
  auto want = [&](ir::Var* var, const Type* type) {
    if (IsActive(var) && known.insert(var).second) wanted.push_back({var, type});
  };
  auto want_free_vars = [&](Expr* body, const ir::Pattern* pattern) {
    absl::flat_hash_set<const ir::Var*> bound;
    std::vector<const ir::Pattern*> patterns = {pattern};
    while (!patterns.empty() && pattern != nullptr) {
      const ir::Pattern* next = patterns.back();
      patterns.pop_back();
      if (next->var != nullptr) bound.insert(next->var);
      patterns.insert(patterns.end(), next->fields.begin(), next->fields.end());
    }
    ir::Function wrapper({}, {}, nullptr, body, body->span);
    for (const ir::Var* var : analysis::FreeVars(&wrapper)) {
      if (bound.contains(var)) continue;
      has_effects = has_effects || types_.HasBoxed(var->type);
      want(Lookup(var, body->span), var->type);
    }
  };
  if (branch != nullptr) {
    want_free_vars(branch->then_branch, nullptr);
    want_free_vars(branch->else_branch, nullptr);
  } else {
    want(scrutinee, match->value->type);
    has_effects = has_effects || types_.HasBoxed(match->value->type);
    for (const ir::Clause& clause : match->clauses) want_free_vars(clause.body, clause.pattern);
  }
  std::vector<const Type*> types;
  for (const Wanted& var : wanted) types.push_back(var.type);
  const Type* type = types_.ReversedResult(expr.type, types);
  Expr* pair = nullptr;
  if (branch != nullptr) {
    Block then_block, else_block;
    Expr* then_branch = ReverseBody(then_block, branch->then_branch, expr.type, wanted);
    Expr* else_branch = ReverseBody(else_block, branch->else_branch, expr.type, wanted);
    pair = at.If(at.Use(scrutinee), then_branch, else_branch, type);
  } else {
    std::vector<ir::Clause> clauses;
    for (const ir::Clause& clause : match->clauses) {
      Block inner;
      std::vector<size_t> path;
      ir::Pattern* pattern =
          ReversePattern(*clause.pattern, match->value->type, /*boxed=*/false, scrutinee, path, inner);
      clauses.push_back({pattern, ReverseBody(inner, clause.body, expr.type, wanted), clause.span});
    }
    pair = at.Match(at.Use(scrutinee), std::move(clauses), match->is_complete, type);
  }
  return BindPair(block, pair, expr.type, std::move(wanted), has_effects, expr.span);
}

// ---- references

ir::Var* Reverser::EvalReference(Expr* expr, Block& block) {
  const ir::Builder at = At(expr->span);
  if (const auto* create = DynCast<ir::RefCreate>(expr)) {
    ir::Var* value = Eval(create->value, block);
    ir::Var* box = Box(block, value, create->value->type, expr->span);
    return Bind(block, "t", at.RefCreate(at.Use(box), types_.Boxed(expr->type)), expr->span);
  }
  if (const auto* read = DynCast<ir::RefRead>(expr)) {
    ir::Var* ref = Eval(read->ref, block);
    const Type* contents = DynCast<ir::RefType>(read->ref->type)->contents;
    ir::Var* box = Bind(block, "t", at.RefRead(at.Use(ref), types_.Boxed(contents)), expr->span);
    return Unbox(block, box, contents, "t", expr->span);
  }
  const auto* write = Cast<ir::RefWrite>(expr);
  ir::Var* ref = Eval(write->ref, block);
  ir::Var* value = Eval(write->value, block);
  ir::Var* box = Box(block, value, write->value->type, expr->span);
  return Bind(block, "_", at.RefWrite(at.Use(ref), at.Use(box), expr->type), expr->span);
}

}  // namespace rvm::passes
