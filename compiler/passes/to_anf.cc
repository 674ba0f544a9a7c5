// Brings a module into A-normal form: each step of a computation has a name.
//
// Takes a specialised module (specialize/specialize.cc). Gives blocks: a function body, a branch of an `if`
// and a clause of a `match` is a chain of lets that ends in a tail. The value of a let and a tail
// is one step, whose operands are atoms: variables and constants. Exceptions: the callee of a
// call may be an operator, a constructor, a global function or a primitive function literal, and
// the argument of an operator on a tuple (`concatenate`) is a tuple of atoms written in place, and so
// may be the value of a match that only looks at its fields.
// A let never renames a variable, except to give it another type, and a tail is never the variable of the last let.
// The order of evaluation is kept.
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/passes/pass.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {
namespace {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

bool IsAtom(const Expr* expr) { return expr->expr_kind == ExprKind::kVar || expr->expr_kind == ExprKind::kConstant; }

class Normalizer {
 public:
  explicit Normalizer(ir::Arena& arena) : arena_(arena) {}

  // Returns the block that computes `expr`.
  Expr* Block(Expr* expr) {
    std::vector<Binding> outer = std::exchange(block_, {});
    Expr* tail = Step(expr);
    Expr* result = ir::MakeBlock(arena_, std::move(block_), tail);
    block_ = std::move(outer);
    return result;
  }

 private:
  ir::Builder At(ir::Span span) const { return {arena_, span}; }

  // The steps before it go into the current block.
  Expr* Step(Expr* expr) {
    return WithStack([&] {
      while (const auto* let = DynCast<ir::Let>(expr)) {
        Bind(*let);
        expr = let->body;
      }
      return StepOnThisStack(expr);
    });
  }

  void Bind(const ir::Let& let) {
    Expr* value = Step(let.value);
    // A let of an atom is dropped, unless it changes the type: then it checks extents.
    if (IsAtom(value) && ir::TypesEqual(value->type, let.var->type)) {
      renamed_[let.var] = value;
      return;
    }
    AddBinding(let.var, value, let.span);
  }

  void AddBinding(ir::Var* var, Expr* value, ir::Span span) {
    if (const auto* tuple = DynCast<ir::Tuple>(value)) tuples_[var] = tuple;
    block_.push_back({var, value, span});
  }

  Expr* Atom(Expr* expr) {
    Expr* step = Step(expr);
    return IsAtom(step) ? step : Name(step, "t");
  }

  Expr* Name(Expr* step, std::string_view name) {
    ir::Var* var = At(step->span).Var(name, step->type);
    AddBinding(var, step, step->span);
    return At(step->span).Use(var);
  }

  std::vector<Expr*> Atoms(const std::vector<Expr*>& exprs) {
    std::vector<Expr*> atoms;
    atoms.reserve(exprs.size());
    for (Expr* expr : exprs) atoms.push_back(Atom(expr));
    return atoms;
  }

  Expr* CopyAtom(Expr* atom) {
    if (const auto* use = DynCast<ir::VarExpr>(atom)) return arena_.New<ir::VarExpr>(*use);
    return arena_.New<ir::Constant>(*Cast<ir::Constant>(atom));
  }

  // Returns the fields that are known to be in a variable bound to a tuple.
  const ir::Tuple* KnownTuple(const Expr* atom) const {
    const auto* use = DynCast<ir::VarExpr>(atom);
    auto found = use == nullptr ? tuples_.end() : tuples_.find(use->var);
    if (found == tuples_.end() || !ir::TypesEqual(found->second->type, use->var->type)) return nullptr;
    return found->second;
  }

  Expr* StepOnThisStack(Expr* expr) {
    const ir::Builder at = At(expr->span);
    switch (expr->expr_kind) {
      case ExprKind::kVar: {
        auto found = renamed_.find(Cast<ir::VarExpr>(expr)->var);
        if (found != renamed_.end()) return CopyAtom(found->second);
        return CopyAtom(expr);
      }
      case ExprKind::kConstant: return CopyAtom(expr);
      case ExprKind::kTuple: return at.Tuple(Atoms(Cast<ir::Tuple>(expr)->fields), expr->type);
      case ExprKind::kProject: return Project(*Cast<ir::Project>(expr));
      case ExprKind::kFunction: {
        auto* function = arena_.New<ir::Function>(*Cast<ir::Function>(expr));
        function->body = Block(function->body);
        return function;
      }
      case ExprKind::kCall: return Call(*Cast<ir::Call>(expr));
      case ExprKind::kIf: {
        const auto* branch = Cast<ir::If>(expr);
        Expr* condition = Atom(branch->condition);
        Expr* then_branch = Block(branch->then_branch);
        return at.If(condition, then_branch, Block(branch->else_branch), expr->type);
      }
      case ExprKind::kMatch: {
        const auto* match = Cast<ir::Match>(expr);
        Expr* value = MatchedValue(*match);
        std::vector<ir::Clause> clauses = match->clauses;
        for (ir::Clause& clause : clauses) clause.body = Block(clause.body);
        return at.Match(value, std::move(clauses), match->is_complete, expr->type);
      }
      case ExprKind::kRefCreate: return at.RefCreate(Atom(Cast<ir::RefCreate>(expr)->value), expr->type);
      case ExprKind::kRefRead: return at.RefRead(Atom(Cast<ir::RefRead>(expr)->ref), expr->type);
      case ExprKind::kRefWrite: {
        const auto* write = Cast<ir::RefWrite>(expr);
        Expr* ref = Atom(write->ref);
        return at.RefWrite(ref, Atom(write->value), expr->type);
      }
      case ExprKind::kGlobal:
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kLet: break;
    }
    RVM_UNREACHABLE("a function that is not a literal is used as a value");
  }

  // A match that only looks at the fields of a tuple keeps the tuple in place, if its variables are distinct.
  Expr* MatchedValue(const ir::Match& match) {
    Expr* step = Step(match.value);
    const auto* tuple = DynCast<ir::Tuple>(step);
    if (tuple == nullptr || !LooksAtFieldsOnly(match) || !HasFieldsOfItsType(*tuple)) {
      return IsAtom(step) ? step : Name(step, "t");
    }
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        const auto *a = DynCast<ir::VarExpr>(tuple->fields[i]), *b = DynCast<ir::VarExpr>(tuple->fields[j]);
        if (a != nullptr && b != nullptr && a->var == b->var) return Name(step, "t");
      }
    }
    return step;
  }

  static bool HasFieldsOfItsType(const ir::Tuple& tuple) {
    const std::vector<const ir::Type*>& types = DynCast<ir::TupleType>(tuple.type)->fields;
    for (size_t i = 0; i < types.size(); ++i) {
      if (!ir::TypesEqual(tuple.fields[i]->type, types[i])) return false;
    }
    return true;
  }

  Expr* Project(const ir::Project& project) {
    Expr* tuple = Atom(project.tuple);
    if (const ir::Tuple* known = KnownTuple(tuple)) return CopyAtom(known->fields[project.index]);
    return At(project.span).Project(tuple, project.index, project.type);
  }

  Expr* Call(const ir::Call& call) {
    const ops::OpDef* op = ir::OpCallee(&call);
    Expr* callee = Callee(call.callee);
    std::vector<Expr*> args;
    for (size_t i = 0; i < call.args.size(); ++i) {
      bool is_tuple = op != nullptr && op->inputs[i].is_tuple;
      args.push_back(is_tuple ? TupleArg(call.args[i]) : Atom(call.args[i]));
    }
    return At(call.span).Call(callee, std::move(args), call.attrs, call.type);
  }

  Expr* Callee(Expr* callee) {
    switch (callee->expr_kind) {
      case ExprKind::kOp:
      case ExprKind::kConstructor:
      case ExprKind::kGlobal: return callee;
      case ExprKind::kFunction:
        if (ir::IsPrimitive(callee)) return callee;
        [[fallthrough]];
      case ExprKind::kConstant:
      case ExprKind::kVar:
      case ExprKind::kTuple:
      case ExprKind::kProject:
      case ExprKind::kCall:
      case ExprKind::kLet:
      case ExprKind::kIf:
      case ExprKind::kMatch:
      case ExprKind::kRefCreate:
      case ExprKind::kRefRead:
      case ExprKind::kRefWrite: return Atom(callee);
    }
  }

  // A tuple of atoms, however the argument was written.
  Expr* TupleArg(Expr* arg) {
    Expr* step = Step(arg);
    if (step->expr_kind == ExprKind::kTuple) return step;
    Expr* atom = IsAtom(step) ? step : Name(step, "t");
    std::vector<Expr*> fields;
    if (const ir::Tuple* known = KnownTuple(atom)) {
      for (Expr* field : known->fields) fields.push_back(CopyAtom(field));
    } else {
      const auto* type = DynCast<ir::TupleType>(atom->type);
      RVM_CHECK(type != nullptr, "the argument of an operator on a tuple is none");
      for (uint32_t i = 0; i < type->fields.size(); ++i) {
        fields.push_back(Name(At(arg->span).Project(CopyAtom(atom), i), "t"));
      }
    }
    return At(arg->span).Tuple(std::move(fields), arg->type);
  }

  ir::Arena& arena_;
  std::vector<Binding> block_;
  absl::flat_hash_map<const ir::Var*, Expr*> renamed_;            // variables that are other atoms
  absl::flat_hash_map<const ir::Var*, const ir::Tuple*> tuples_;  // variables bound to tuples of atoms
};

absl::StatusOr<ir::Module> ToAnf(const ir::Module& module, PassContext&) {
  return MapFunctions(
      module, [&](const ir::GlobalFunction& global) { return Normalizer(*module.arena).Block(global.function->body); });
}

}  // namespace

const Pass kToAnf = {.name = "to_anf",
                     .summary = "a name for every step of the computation",
                     .run = ToAnf,
                     .gives = Form::kANormal,
                     .keeps_effect_order = true};

}  // namespace rvm::passes
