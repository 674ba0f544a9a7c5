#include "compiler/passes/differentiate/reverse.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/ops/build_call.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

bool Adjoint::empty() const {
  return tensor == nullptr &&
         std::all_of(fields.begin(), fields.end(), [](const Adjoint& field) { return field.empty(); });
}

Adjoint Adjoint::AtPath(Adjoint adjoint, const std::vector<size_t>& path) {
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    Adjoint outer;
    outer.fields.resize(*it + 1);
    outer.fields[*it] = std::move(adjoint);
    adjoint = std::move(outer);
  }
  return adjoint;
}

// ---- adjoints

void Reverser::Merge(Reversed& code, Adjoint& sum, Adjoint share, ir::Span span) {
  if (sum.empty()) {
    sum = std::move(share);
  } else if (share.tensor != nullptr) {
    const ir::Builder at = At(span);
    Expr* both = ops::BuildCall(at, "add", {at.Use(sum.tensor), at.Use(share.tensor)});
    sum.tensor = at.Bind("g", both, code.chain)->var;
  } else {
    if (sum.fields.size() < share.fields.size()) sum.fields.resize(share.fields.size());
    for (size_t i = 0; i < share.fields.size(); ++i) Merge(code, sum.fields[i], std::move(share.fields[i]), span);
  }
}

void Reverser::Add(Reversed& code, const ir::Var* var, Adjoint share, ir::Span span) {
  if (IsActive(var) && !share.empty()) Merge(code, code.adjoints[var], std::move(share), span);
}

Adjoint Reverser::Spread(Reversed& code, ir::Var* adjoint, const Type* type, ir::Span span) {
  Adjoint result;
  if (!types_.HasFloats(type)) return result;
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) {
    result.tensor = adjoint;
    return result;
  }
  const ir::Builder at = At(span);
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    bool flows = types_.HasFloats(tuple->fields[i]);
    ir::Var* field = flows ? at.Bind("d", at.Project(at.Use(adjoint), i), code.chain)->var : nullptr;
    result.fields.push_back(Spread(code, field, tuple->fields[i], span));
  }
  return result;
}

Expr* Reverser::Materialise(Reversed& code, const Adjoint& adjoint, ir::Var* value, const Type* type, ir::Span span) {
  const ir::Builder at = At(span);
  if (adjoint.tensor != nullptr) return at.Use(adjoint.tensor);
  const auto* tuple = DynCast<ir::TupleType>(type);
  if (tuple == nullptr) return types_.HasFloats(type) ? ZerosLike(value, span) : at.Tuple({});
  std::vector<Expr*> fields;
  for (size_t i = 0; i < tuple->fields.size(); ++i) {
    Adjoint field = i < adjoint.fields.size() ? adjoint.fields[i] : Adjoint();
    bool needs_value = types_.HasFloats(tuple->fields[i]) && field.tensor == nullptr;
    ir::Var* part = needs_value ? at.Bind("v", at.Project(at.Use(value), i), code.chain)->var : value;
    fields.push_back(Materialise(code, field, part, tuple->fields[i], span));
  }
  return at.Tuple(std::move(fields));
}

// ---- blocks

ir::Var* Reverser::Bind(Block& block, std::string_view name, Expr* value, ir::Span span) {
  return At(span).Bind(name, value, block.chain)->var;
}

ir::Var* Reverser::BindField(Block& block, ir::Var* tuple, size_t index, const Type* field, std::string_view name,
                             ir::Span span) {
  ir::Var* var = Bind(block, name, At(span).Project(At(span).Use(tuple), index), span);
  if (!IsActive(tuple) || !types_.HasFloats(field)) return var;
  active_.insert(var);
  block.steps.push_back([this, var, tuple, index, span](Reversed& code) {
    Add(code, tuple, Adjoint::AtPath(code.adjoints[var], {index}), span);
  });
  return var;
}

ir::Var* Reverser::Box(Block& block, ir::Var* value, const Type* type, ir::Span span) {
  if (!types_.HasFloats(type)) return value;
  const ir::Builder at = At(span);
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      ir::Var* field = BindField(block, value, i, tuple->fields[i], "v", span);
      fields.push_back(at.Use(Box(block, field, tuple->fields[i], span)));
    }
    return Bind(block, "box", at.Tuple(std::move(fields)), span);
  }
  const Type* ref_type = shared_.arena.New<ir::RefType>(value->type);
  ir::Var* sum = Bind(block, "sum", at.RefCreate(ZerosLike(value, span), ref_type), span);
  if (IsActive(value)) {
    block.steps.push_back([this, value, sum, span](Reversed& code) {
      const ir::Builder here = At(span);
      Adjoint share;
      share.tensor = here.Bind("d", here.RefRead(here.Use(sum), value->type), code.chain)->var;
      here.Bind("_", here.RefWrite(here.Use(sum), ZerosLike(value, span), ir::UnitType(shared_.arena)), code.chain);
      Add(code, value, std::move(share), span);
    });
  }
  return Bind(block, "box", at.Tuple({at.Use(value), at.Use(sum)}), span);
}

ir::Var* Reverser::Unbox(Block& block, ir::Var* box, const Type* type, std::string_view name, ir::Span span) {
  if (!types_.HasFloats(type)) return box;
  const ir::Builder at = At(span);
  if (const auto* tuple = DynCast<ir::TupleType>(type)) {
    std::vector<ir::Var*> parts;
    std::vector<Expr*> fields;
    for (size_t i = 0; i < tuple->fields.size(); ++i) {
      ir::Var* field = Bind(block, "box", at.Project(at.Use(box), i), span);
      parts.push_back(Unbox(block, field, tuple->fields[i], name, span));
      fields.push_back(at.Use(parts.back()));
    }
    ir::Var* var = Bind(block, name, at.Tuple(std::move(fields)), span);
    active_.insert(var);
    block.steps.push_back([this, var, parts, span](Reversed& code) {
      Adjoint adjoint = code.adjoints[var];
      for (size_t i = 0; i < adjoint.fields.size(); ++i) Add(code, parts[i], adjoint.fields[i], span);
    });
    return var;
  }
  ir::Var* var = Bind(block, name, at.Project(at.Use(box), 0), span);
  active_.insert(var);
  block.steps.push_back([this, var, box, span](Reversed& code) {
    Adjoint adjoint = code.adjoints[var];
    if (adjoint.empty()) return;
    const ir::Builder here = At(span);
    ir::Var* sum = here.Bind("sum", here.Project(here.Use(box), 1), code.chain)->var;
    ir::Var* old = here.Bind("g", here.RefRead(here.Use(sum), var->type), code.chain)->var;
    Expr* both = ops::BuildCall(here, "add", {here.Use(old), here.Use(adjoint.tensor)});
    here.Bind("_", here.RefWrite(here.Use(sum), both, ir::UnitType(shared_.arena)), code.chain);
  });
  return var;
}

Expr* Reverser::ReverseBody(Block& block, Expr* body, const Type* result, const std::vector<Wanted>& wanted) {
  ir::Span span = body->span;
  ir::Var* value = Eval(body, block);
  const ir::Builder at = At(span);
  Reversed code;
  ir::Var* d = at.DeclaredVar("d", types_.Adjoint(result));
  if (IsActive(value)) Add(code, value, Spread(code, d, result, span), span);
  for (auto step = block.steps.rbegin(); step != block.steps.rend(); ++step) (*step)(code);
  std::vector<Expr*> shares;
  for (const Wanted& want : wanted) {
    shares.push_back(Materialise(code, code.adjoints[want.var], want.var, want.type, span));
  }
  Expr* reversed = ir::MakeLets(shared_.arena, code.chain, at.Tuple(std::move(shares)));
  Expr* pullback = at.Function({}, {d}, reversed);
  return ir::MakeLets(shared_.arena, block.chain, at.Tuple({at.Use(value), pullback}));
}

ir::Var* Reverser::BindPair(Block& block, Expr* pair, const Type* result, std::vector<Wanted> wanted, bool has_effects,
                            ir::Span span) {
  const ir::Builder at = At(span);
  ir::Var* both = Bind(block, "p", pair, span);
  ir::Var* value = Bind(block, "t", at.Project(at.Use(both), 0), span);
  ir::Var* pullback = Bind(block, "back", at.Project(at.Use(both), 1), span);
  Activate(value, result);
  block.steps.push_back([this, value, pullback, result, wanted = std::move(wanted), has_effects, span](Reversed& code) {
    Adjoint adjoint = code.adjoints[value];
    if (adjoint.empty() && !has_effects) return;
    const ir::Builder here = At(span);
    Expr* d = Materialise(code, adjoint, value, result, span);
    ir::Var* shares = here.Bind("d", here.Call(here.Use(pullback), {d}), code.chain)->var;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!IsActive(wanted[i].var)) continue;
      ir::Var* share = here.Bind("d", here.Project(here.Use(shares), i), code.chain)->var;
      Add(code, wanted[i].var, Spread(code, share, wanted[i].type, span), span);
    }
  });
  return value;
}

// ---- variables

ir::Var* Reverser::Lookup(const ir::Var* var, ir::Span span) {
  auto found = vars_.find(var);
  return found != vars_.end() ? found->second : LiftConstant(var, span);
}

ir::Var* Reverser::LiftConstant(const ir::Var* var, ir::Span span) {
  auto* outside = const_cast<ir::Var*>(var);
  if (!types_.HasBoxed(var->type)) return vars_[var] = outside;
  if (const ir::Function* literal = shared_.LiteralOf(var)) {
    ir::Var* twin = At(var->span).Var(var->name, types_.Boxed(literal->type));
    vars_[var] = twin;
    EvalFunction(*literal, constants_, twin);
    return twin;
  }
  ir::Var* lifted = Unknown(var->type, span);
  vars_[var] = lifted;
  Expr* value = Lift(outside, var->type, /*boxed=*/false, constants_.chain, span);
  if (value != nullptr) constants_.chain.push_back({lifted, value, span});
  return lifted;
}

// ---- expressions

ir::Var* Reverser::Eval(Expr* expr, Block& block) {
  return WithStack([&] {
    while (const auto* let = DynCast<ir::Let>(expr)) {
      EvalLet(*let, block);
      expr = let->body;
    }
    return EvalNode(expr, block);
  });
}

void Reverser::EvalLet(const ir::Let& let, Block& block) {
  if (const auto* function = DynCast<ir::Function>(let.value)) {
    ir::Var* self = At(let.span).Var(let.var->name, types_.Boxed(let.var->type));
    vars_[let.var] = self;
    EvalFunction(*function, block, self);
    return;
  }
  ir::Var* value = Eval(let.value, block);
  bool is_same = ir::TypesEqual(let.var->type, let.value->type);
  if (is_same && let.value->expr_kind != ExprKind::kVar && value->name == "t") value->name = let.var->name;
  if (is_same) {
    vars_[let.var] = value;
    return;
  }
  // Declared with another type.
  ir::Var* var = At(let.span).DeclaredVar(let.var->name, types_.Flat(let.var->type));
  block.chain.push_back({var, At(let.span).Use(value), let.span});
  vars_[let.var] = var;
  if (!IsActive(value)) return;
  active_.insert(var);
  block.steps.push_back(
      [this, var, value, span = let.span](Reversed& code) { Add(code, value, code.adjoints[var], span); });
}

ir::Var* Reverser::EvalNode(Expr* expr, Block& block) {
  const ir::Builder at = At(expr->span);
  switch (expr->expr_kind) {
    case ExprKind::kConstant: return Bind(block, "t", at.Constant(Cast<ir::Constant>(expr)->literal), expr->span);
    case ExprKind::kVar: return Lookup(Cast<ir::VarExpr>(expr)->var, expr->span);
    case ExprKind::kTuple: return EvalTuple(*Cast<ir::Tuple>(expr), block);
    case ExprKind::kProject: {
      const auto* project = Cast<ir::Project>(expr);
      ir::Var* tuple = Eval(project->tuple, block);
      return BindField(block, tuple, project->index, expr->type, "t", expr->span);
    }
    case ExprKind::kFunction: return EvalFunction(*Cast<ir::Function>(expr), block, nullptr);
    case ExprKind::kCall: return EvalCall(*Cast<ir::Call>(expr), block);
    case ExprKind::kLet: return Eval(expr, block);
    case ExprKind::kIf: return EvalBranches(*expr, block, Eval(Cast<ir::If>(expr)->condition, block));
    case ExprKind::kMatch: return EvalBranches(*expr, block, Eval(Cast<ir::Match>(expr)->value, block));
    case ExprKind::kRefCreate:
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite: return EvalReference(expr, block);
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: break;
  }
  RVM_UNREACHABLE("a specialised module has operators, constructors and global functions only as callees");
}

ir::Var* Reverser::EvalTuple(const ir::Tuple& tuple, Block& block) {
  const ir::Builder at = At(tuple.span);
  std::vector<ir::Var*> parts;
  std::vector<Expr*> fields;
  bool is_active = false;
  for (Expr* field : tuple.fields) {
    parts.push_back(Eval(field, block));
    is_active = is_active || IsActive(parts.back());
  }
  for (ir::Var* part : parts) fields.push_back(at.Use(part));
  ir::Var* var = Bind(block, "t", at.Tuple(std::move(fields), types_.Flat(tuple.type)), tuple.span);
  if (!is_active) return var;
  active_.insert(var);
  block.steps.push_back([this, var, parts, span = tuple.span](Reversed& code) {
    Adjoint adjoint = code.adjoints[var];
    for (size_t i = 0; i < adjoint.fields.size(); ++i) Add(code, parts[i], adjoint.fields[i], span);
  });
  return var;
}

}  // namespace rvm::passes
