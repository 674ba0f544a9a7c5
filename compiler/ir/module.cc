#include "compiler/ir/module.h"

#include <utility>

#include "base/stack_guard.h"

namespace rvm::ir {

const GlobalFunction* Module::FindFunction(std::string_view name) const {
  for (const GlobalFunction& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

const AdtDef* Module::FindAdt(std::string_view name) const {
  for (const AdtDef* adt : adts) {
    if (adt->name == name) return adt;
  }
  return nullptr;
}

const Constructor* Module::FindConstructor(std::string_view name) const {
  for (const AdtDef* adt : adts) {
    for (const Constructor* constructor : adt->constructors) {
      if (constructor->name == name) return constructor;
    }
  }
  return nullptr;
}

namespace {

// Compares two trees; bound variables correspond by where they are bound.
class Comparison {
 public:
  bool Exprs(const Expr* a, const Expr* b) {
    // Let chains in a loop; all else may recurse.
    while (a->expr_kind == ExprKind::kLet && b->expr_kind == ExprKind::kLet) {
      const auto *x = Cast<Let>(a), *y = Cast<Let>(b);
      if (!Bind(x->var, y->var) || !Exprs(x->value, y->value)) return false;
      a = x->body;
      b = y->body;
    }
    if (a->expr_kind != b->expr_kind) return false;
    return WithStack([&] { return SameKind(a, b); });
  }

  bool Functions(const Function& a, const Function& b) {
    if (a.type_params.size() != b.type_params.size() || a.params.size() != b.params.size()) return false;
    for (size_t i = 0; i < a.params.size(); ++i) {
      if (!Bind(a.params[i], b.params[i])) return false;
    }
    return TypeText(a.result_annotation) == TypeText(b.result_annotation) && a.attrs == b.attrs &&
           a.is_primitive == b.is_primitive && Exprs(a.body, b.body);
  }

 private:
  // Annotations are compared as text: type parameters correspond by name.
  static std::string TypeText(const Type* type) { return type == nullptr ? "" : TypeToString(type); }

  bool Bind(const Var* a, const Var* b) {
    map_[a] = b;
    return TypeText(a->annotation) == TypeText(b->annotation);
  }

  bool All(const std::vector<Expr*>& a, const std::vector<Expr*>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!Exprs(a[i], b[i])) return false;
    }
    return true;
  }

  static bool SameConstructor(const Constructor& a, const Constructor& b) {
    return a.name == b.name && a.adt->name == b.adt->name;
  }

  bool Patterns(const Pattern* a, const Pattern* b) {
    if (a->kind != b->kind || a->fields.size() != b->fields.size()) return false;
    if (a->is_parenthesised != b->is_parenthesised) return false;
    if (a->kind == PatternKind::kVar && !Bind(a->var, b->var)) return false;
    if (a->kind == PatternKind::kConstructor && !SameConstructor(*a->constructor, *b->constructor)) return false;
    if (a->kind == PatternKind::kLiteral && !(*a->literal == *b->literal)) return false;
    for (size_t i = 0; i < a->fields.size(); ++i) {
      if (!WithStack([&] { return Patterns(a->fields[i], b->fields[i]); })) return false;
    }
    return true;
  }

  bool SameKind(const Expr* a, const Expr* b) {
    switch (a->expr_kind) {
      case ExprKind::kConstant: return Cast<Constant>(a)->literal == Cast<Constant>(b)->literal;
      case ExprKind::kVar: {
        const Var *x = Cast<VarExpr>(a)->var, *y = Cast<VarExpr>(b)->var;
        auto found = map_.find(x);
        return found == map_.end() ? x->name == y->name : found->second == y;
      }
      case ExprKind::kGlobal: return Cast<GlobalExpr>(a)->name == Cast<GlobalExpr>(b)->name;
      case ExprKind::kOp: return Cast<OpExpr>(a)->op == Cast<OpExpr>(b)->op;
      case ExprKind::kConstructor:
        return SameConstructor(*Cast<ConstructorExpr>(a)->constructor, *Cast<ConstructorExpr>(b)->constructor);
      case ExprKind::kTuple: return All(Cast<Tuple>(a)->fields, Cast<Tuple>(b)->fields);
      case ExprKind::kProject:
        return Cast<Project>(a)->index == Cast<Project>(b)->index &&
               Exprs(Cast<Project>(a)->tuple, Cast<Project>(b)->tuple);
      case ExprKind::kFunction: return Functions(*Cast<Function>(a), *Cast<Function>(b));
      case ExprKind::kCall: {
        const auto *x = Cast<Call>(a), *y = Cast<Call>(b);
        return x->attrs == y->attrs && x->explicit_type_args.size() == y->explicit_type_args.size() &&
               Exprs(x->callee, y->callee) && All(x->args, y->args);
      }
      case ExprKind::kLet: return false;  // the other is no let
      case ExprKind::kIf: {
        const auto *x = Cast<If>(a), *y = Cast<If>(b);
        return Exprs(x->condition, y->condition) && Exprs(x->then_branch, y->then_branch) &&
               Exprs(x->else_branch, y->else_branch);
      }
      case ExprKind::kMatch: {
        const auto *x = Cast<Match>(a), *y = Cast<Match>(b);
        if (x->is_complete != y->is_complete || x->clauses.size() != y->clauses.size() || !Exprs(x->value, y->value)) {
          return false;
        }
        for (size_t i = 0; i < x->clauses.size(); ++i) {
          if (!Patterns(x->clauses[i].pattern, y->clauses[i].pattern)) return false;
          if (!Exprs(x->clauses[i].body, y->clauses[i].body)) return false;
        }
        return true;
      }
      case ExprKind::kRefCreate: return Exprs(Cast<RefCreate>(a)->value, Cast<RefCreate>(b)->value);
      case ExprKind::kRefRead: return Exprs(Cast<RefRead>(a)->ref, Cast<RefRead>(b)->ref);
      case ExprKind::kRefWrite:
        return Exprs(Cast<RefWrite>(a)->ref, Cast<RefWrite>(b)->ref) &&
               Exprs(Cast<RefWrite>(a)->value, Cast<RefWrite>(b)->value);
    }
    return false;
  }

  absl::flat_hash_map<const Var*, const Var*> map_;
};

bool SameAdt(const AdtDef& a, const AdtDef& b) {
  if (a.name != b.name || a.type_params.size() != b.type_params.size() ||
      a.constructors.size() != b.constructors.size()) {
    return false;
  }
  for (size_t i = 0; i < a.constructors.size(); ++i) {
    const Constructor &x = *a.constructors[i], &y = *b.constructors[i];
    if (x.name != y.name || x.fields.size() != y.fields.size()) return false;
    for (size_t j = 0; j < x.fields.size(); ++j) {
      if (TypeToString(x.fields[j]) != TypeToString(y.fields[j])) return false;
    }
  }
  return true;
}

}  // namespace

bool StructurallyEqual(const Expr* a, const Expr* b) { return Comparison().Exprs(a, b); }

bool StructurallyEqual(const Module& a, const Module& b) {
  if (a.adts.size() != b.adts.size() || a.functions.size() != b.functions.size() ||
      a.free_vars.size() != b.free_vars.size()) {
    return false;
  }
  for (size_t i = 0; i < a.adts.size(); ++i) {
    if (!SameAdt(*a.adts[i], *b.adts[i])) return false;
  }
  for (size_t i = 0; i < a.functions.size(); ++i) {
    if (a.functions[i].name != b.functions[i].name) return false;
    if (!Comparison().Functions(*a.functions[i].function, *b.functions[i].function)) return false;
  }
  return true;
}

}  // namespace rvm::ir
