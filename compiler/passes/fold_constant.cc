// Folds operators on constants, and branches, fields and clauses that are known.
//
// Takes a specialised module. Replaces operator calls on constants by their results (if these are small and cheap to
// compute, are floats of fewer bits than the constant, or are weights that take no more memory than the constants that
// they are made of), an `if` on a constant by the branch that is taken, a
// projection of a known tuple by the field, and a `match` on a known constructor by the clause that matches. Propagates
// constants and copies of variables.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/stack_guard.h"
#include "compiler/passes/fold_call.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

bool IsAtom(const Expr* expr) { return expr->expr_kind == ExprKind::kVar || expr->expr_kind == ExprKind::kConstant; }

// Tuples of variables and wildcards, at any depth: such a pattern always matches.
bool IsTupleOfNames(const ir::Pattern& pattern) {
  return WithStack([&] {
    if (pattern.kind != ir::PatternKind::kTuple) return false;
    return std::all_of(pattern.fields.begin(), pattern.fields.end(), [](const ir::Pattern* field) {
      bool is_name = field->kind == ir::PatternKind::kWildcard || field->kind == ir::PatternKind::kVar;
      return is_name || IsTupleOfNames(*field);
    });
  });
}

bool AreAtoms(const std::vector<Expr*>& exprs) {
  for (const Expr* expr : exprs) {
    if (!IsAtom(expr)) return false;
  }
  return true;
}

const ir::Call* ConstructorCall(const Expr* expr) {
  return ir::ConstructorCallee(expr) != nullptr ? Cast<ir::Call>(expr) : nullptr;
}

class Folder : public Rewriter {
 public:
  Folder(ir::Arena& arena, NarrowedConstants& narrowed, ComputedWeights& weights)
      : Rewriter(arena), narrowed_(narrowed), weights_(weights) {}

 protected:
  void RewriteLet(const ir::Let& let, std::vector<Binding>& chain) override {
    // The variable of a recursive function is in scope in its value; functions are never folded, so this is safe.
    Bind(let.var, NameFields(Rewrite(let.value), chain), let.span, chain);
  }

  Expr* RewriteNode(Expr* expr) override {
    switch (expr->expr_kind) {
      case ExprKind::kVar: {
        auto found = replaced_.find(Cast<ir::VarExpr>(expr)->var);
        return RewriteChildren(found == replaced_.end() ? expr : found->second);
      }
      case ExprKind::kCall: {
        auto* call = Cast<ir::Call>(RewriteChildren(expr));
        Expr* folded = FoldOp(*call);
        if (folded != nullptr) return folded;
        // This may leave the tuple itself unused.
        const ops::OpDef* op = ir::OpCallee(call);
        for (size_t i = 0; op != nullptr && i < call->args.size(); ++i) {
          if (op->inputs[i].is_tuple) call->args[i] = InPlace(call->args[i]);
        }
        return call;
      }
      case ExprKind::kProject: return FoldProject(*Cast<ir::Project>(expr));
      case ExprKind::kIf: return FoldIf(*Cast<ir::If>(expr));
      case ExprKind::kMatch: return FoldMatch(*Cast<ir::Match>(expr));
      case ExprKind::kConstant:
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kTuple:
      case ExprKind::kFunction:
      case ExprKind::kLet:
      case ExprKind::kRefCreate:
      case ExprKind::kRefRead:
      case ExprKind::kRefWrite: return RewriteChildren(expr);
    }
  }

 private:
  // Appends `let var = value` unless uses of `var` can be the value itself.
  void Bind(ir::Var* var, Expr* value, ir::Span span, std::vector<Binding>& chain) {
    while (const auto* inner = DynCast<ir::Let>(value)) {
      chain.push_back({inner->var, inner->value, inner->span});
      value = inner->body;
    }
    if (ir::TypesEqual(var->type, value->type)) {
      if (IsAtom(value)) {
        replaced_[var] = value;
        return;
      }
      const auto* tuple = DynCast<ir::Tuple>(value);
      const ir::Call* constructed = ConstructorCall(value);
      if (tuple != nullptr ? AreAtoms(tuple->fields) : constructed != nullptr && AreAtoms(constructed->args)) {
        known_[var] = value;
      }
    }
    chain.push_back({var, value, span});
  }

  // `expr`, or the tuple or constructor call that it is bound to.
  const Expr* Known(const Expr* expr) const {
    const auto* use = DynCast<ir::VarExpr>(expr);
    auto found = use == nullptr ? known_.end() : known_.find(use->var);
    return found == known_.end() ? expr : found->second;
  }

  // Returns the tuple that a variable is bound to, written again; else `expr`.
  Expr* InPlace(Expr* expr) {
    const auto* known = DynCast<ir::Tuple>(Known(expr));
    if (known == nullptr || known == expr) return expr;
    return At(expr->span).Tuple(RewriteAll(known->fields), known->type);
  }

  // Returns a tuple of the fields of a value whose type has one constructor; gives `clauses` patterns for it.
  Expr* FieldsInPlace(const ir::Call& constructed, std::vector<ir::Clause>& clauses) {
    for (ir::Clause& clause : clauses) {
      if (clause.pattern->kind != ir::PatternKind::kConstructor) continue;
      auto* pattern = arena_.New<ir::Pattern>(*clause.pattern);
      pattern->kind = ir::PatternKind::kTuple;
      pattern->constructor = nullptr;
      clause.pattern = pattern;
    }
    const auto& type = *DynCast<ir::AdtType>(constructed.type);
    std::vector<const ir::Type*> fields = FieldTypes(arena_, *ir::ConstructorCallee(&constructed), type);
    return At(constructed.span).Tuple(RewriteAll(constructed.args), arena_.New<ir::TupleType>(std::move(fields)));
  }

  // ---- operators

  Expr* FoldOp(const ir::Call& call) {
    const ops::OpDef* op = ir::OpCallee(&call);
    if (op == nullptr) return nullptr;
    std::vector<const Expr*> args;
    for (const Expr* arg : call.args) args.push_back(Known(arg));
    if (Expr* narrowed = narrowed_.Fold(At(call.span), *op, args, call.type)) return narrowed;
    if (Expr* folded = FoldCall(At(call.span), *op, call.attrs, args, call.type)) return folded;
    return weights_.Fold(At(call.span), *op, call.attrs, args, call.type);
  }

  // ---- control

  Expr* FoldProject(const ir::Project& project) {
    Expr* tuple = Rewrite(project.tuple);
    if (tuple->expr_kind == ExprKind::kLet) {
      std::vector<Binding> chain;
      tuple = NameFields(tuple, chain);
      return MakeLets(arena_, chain, FieldOf(At(project.span).Project(tuple, project.index, project.type)));
    }
    return FieldOf(At(project.span).Project(tuple, project.index, project.type));
  }

  // Returns the field itself, if it is known.
  Expr* FieldOf(ir::Project* project) {
    // Fields that are computed in place are left alone: the others' effects must stay.
    const auto* known = DynCast<ir::Tuple>(Known(project->tuple));
    if (known != nullptr && AreAtoms(known->fields)) return RewriteChildren(known->fields[project->index]);
    return project;
  }

  // `body` as a value of type `type`; a let of that type makes the check of the extents that differ.
  Expr* As(const ir::Type* type, Expr* body, std::vector<Binding>& chain) {
    if (!ir::TypesEqual(type, body->type)) {
      ir::Var* var = At(body->span).DeclaredVar("r", type);
      chain.push_back({var, body, body->span});
      body = At(body->span).Use(var);
    }
    return MakeLets(arena_, chain, body);
  }

  Expr* FoldIf(const ir::If& branch) {
    Expr* condition = Rewrite(branch.condition);
    if (const auto* constant = DynCast<ir::Constant>(condition)) {
      std::vector<Binding> chain;
      bool is_true = constant->literal.IntAt(0) != 0;
      return As(branch.type, Rewrite(is_true ? branch.then_branch : branch.else_branch), chain);
    }
    Expr* then_branch = Rewrite(branch.then_branch);
    return At(branch.span).If(condition, then_branch, Rewrite(branch.else_branch), branch.type);
  }

  // Returns whether `pattern` matches `value`; null if that is not known.
  std::optional<bool> Matches(const ir::Pattern& pattern, const Expr* value) const {
    if (pattern.kind == ir::PatternKind::kWildcard || pattern.kind == ir::PatternKind::kVar) return true;
    const Expr* known = Known(value);
    if (pattern.kind == ir::PatternKind::kLiteral) {
      const auto* constant = DynCast<ir::Constant>(known);
      return constant == nullptr ? std::nullopt : std::optional<bool>(constant->literal == *pattern.literal);
    }
    const std::vector<Expr*>* fields = nullptr;
    if (const auto* tuple = DynCast<ir::Tuple>(known)) fields = &tuple->fields;
    if (const ir::Call* call = ConstructorCall(known)) {
      if (ir::ConstructorCallee(call) != pattern.constructor) return false;
      fields = &call->args;
    }
    if (fields == nullptr) return IsTupleOfNames(pattern) ? std::optional<bool>(true) : std::nullopt;
    bool is_unknown = false;
    for (size_t i = 0; i < pattern.fields.size(); ++i) {
      std::optional<bool> matches = Matches(*pattern.fields[i], (*fields)[i]);
      if (matches == false) return false;
      is_unknown = is_unknown || !matches;
    }
    return is_unknown ? std::nullopt : std::optional<bool>(true);
  }

  // REQUIRES: the pattern matches `value`, an atom or a tuple or constructor call of atoms.
  void BindPattern(const ir::Pattern& pattern, Expr* value, std::vector<Binding>& chain) {
    if (pattern.kind == ir::PatternKind::kVar) return Bind(pattern.var, value, pattern.span, chain);
    if (pattern.fields.empty()) return;
    const Expr* known = Known(value);
    const auto* tuple = DynCast<ir::Tuple>(known);
    if (tuple == nullptr && pattern.kind == ir::PatternKind::kTuple) return BindFields(pattern, value, chain);
    const std::vector<Expr*>& fields = tuple != nullptr ? tuple->fields : Cast<ir::Call>(known)->args;
    for (size_t i = 0; i < fields.size(); ++i) BindPattern(*pattern.fields[i], RewriteChildren(fields[i]), chain);
  }

  // The same where `value` is a variable of which nothing is known.
  void BindFields(const ir::Pattern& pattern, Expr* value, std::vector<Binding>& chain) {
    ir::Var* whole = Cast<ir::VarExpr>(value)->var;
    for (uint32_t i = 0; i < pattern.fields.size(); ++i) {
      const ir::Pattern& field = *pattern.fields[i];
      if (field.kind == ir::PatternKind::kWildcard) continue;
      const ir::Builder at = At(field.span);
      Expr* project = at.Project(at.Use(whole), i);
      ir::Var* var = at.Var("t", project->type);
      Bind(var, project, field.span, chain);
      BindPattern(field, at.Use(var), chain);
    }
  }

  // Gives the fields of a tuple or constructor call written in place names, so that they can be
  // taken one by one.
  Expr* NameFields(Expr* value, std::vector<Binding>& chain) {
    return WithStack([&] { return NameFieldsOnThisStack(value, chain); });
  }

  Expr* NameFieldsOnThisStack(Expr* value, std::vector<Binding>& chain) {
    while (const auto* let = DynCast<ir::Let>(value)) {
      chain.push_back({let->var, let->value, let->span});
      value = let->body;
    }
    if (value->expr_kind != ExprKind::kTuple && ConstructorCall(value) == nullptr) return value;
    auto name_all = [&](std::vector<Expr*> fields) {
      for (Expr*& field : fields) {
        field = NameFields(field, chain);
        if (IsAtom(field)) continue;
        const ir::Builder at = At(field->span);
        ir::Var* var = at.Var("t", field->type);
        Bind(var, field, field->span, chain);
        field = at.Use(var);
      }
      return fields;
    };
    if (const auto* tuple = DynCast<ir::Tuple>(value)) {
      return At(value->span).Tuple(name_all(tuple->fields), value->type);
    }
    const auto* call = Cast<ir::Call>(value);
    return At(value->span).Call(call->callee, name_all(call->args), call->attrs, value->type);
  }

  Expr* FoldMatch(const ir::Match& match) {
    std::vector<Binding> chain;
    Expr* value = NameFields(Rewrite(match.value), chain);
    const Expr* known = Known(value);
    const auto* tuple = DynCast<ir::Tuple>(known);
    const ir::Call* constructed = ConstructorCall(known);
    if (tuple != nullptr ? AreAtoms(tuple->fields) : constructed != nullptr && AreAtoms(constructed->args)) {
      for (const ir::Clause& clause : match.clauses) {
        std::optional<bool> matches = Matches(*clause.pattern, value);
        if (!matches) break;
        if (!*matches) continue;
        BindPattern(*clause.pattern, value, chain);
        return As(match.type, Rewrite(clause.body), chain);
      }
    }
    std::vector<ir::Clause> clauses = match.clauses;
    // This may leave the product itself unused.
    if (LooksAtFieldsOnly(match))
      value = constructed == nullptr ? InPlace(value) : FieldsInPlace(*constructed, clauses);
    for (ir::Clause& clause : clauses) clause.body = Rewrite(clause.body);
    return MakeLets(arena_, chain, At(match.span).Match(value, std::move(clauses), match.is_complete, match.type));
  }

  NarrowedConstants& narrowed_;
  ComputedWeights& weights_;
  absl::flat_hash_map<const ir::Var*, Expr*> replaced_;     // by an atom
  absl::flat_hash_map<const ir::Var*, const Expr*> known_;  // tuples and constructor calls of atoms
};

absl::StatusOr<ir::Module> FoldConstant(const ir::Module& module, PassContext&) {
  NarrowedConstants narrowed;
  ComputedWeights weights(module);
  return MapFunctions(module, [&](const ir::GlobalFunction& global) {
    return Folder(*module.arena, narrowed, weights).Rewrite(global.function->body);
  });
}

}  // namespace

const Pass kFoldConstant = {.name = "fold_constant",
                            .summary = "what is known at compile time is computed then",
                            .run = FoldConstant,
                            .keeps_effect_order = true};

}  // namespace rvm::passes
