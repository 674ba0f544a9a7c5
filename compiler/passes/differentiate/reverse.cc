#include "compiler/passes/differentiate/reverse.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/check.h"
#include "base/stack_guard.h"
#include "compiler/analysis/free_vars.h"
#include "compiler/ops/build_call.h"
#include "compiler/ops/pullback.h"
#include "compiler/passes/rewriter.h"

namespace rvm::passes {

using diagnostics::DiagnosticKind;
using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ir::Type;

bool Adjoint::empty() const {
  return tensor == nullptr &&
         std::all_of(fields.begin(), fields.end(), [](const Adjoint& field) { return field.empty(); });
}

namespace {

const Type* FieldOf(const Type* tuple, size_t index) { return DynCast<ir::TupleType>(tuple)->fields[index]; }

// The adjoint of a tuple of which only one field, at `path`, has one.
Adjoint AtPath(Adjoint adjoint, const std::vector<size_t>& path) {
  for (auto it = path.rbegin(); it != path.rend(); ++it) {
    Adjoint outer;
    outer.fields.resize(*it + 1);
    outer.fields[*it] = std::move(adjoint);
    adjoint = std::move(outer);
  }
  return adjoint;
}

}  // namespace

void Reverser::Refuse(ir::Span span, DiagnosticKind kind, std::string message) {
  shared_.diagnostics.Error(span, kind, std::move(message));
}

Expr* Reverser::ZerosLike(ir::Var* var, ir::Span span) {
  const ir::Builder at = At(span);
  const auto& type = *DynCast<ir::TensorType>(var->type);
  if (type.shape.dims.empty()) return at.Constant(Literal::Scalar(type.dtype.dtype, 0));
  return ops::BuildCall(at, "zeros_like", {at.Use(var)});
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
  block.steps.push_back(
      [this, var, tuple, index, span](Reversed& code) { Add(code, tuple, AtPath(code.adjoints[var], {index}), span); });
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
      return BindField(block, tuple, project->index, FieldOf(project->tuple->type, project->index), "t", expr->span);
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

ir::Function* Reverser::ReverseFunction(const ir::Function& function, const std::vector<bool>& constant) {
  Block block;
  EvalFunction(function, block, nullptr, constant);
  RVM_CHECK(block.chain.size() == 1, "a global function captures variables");
  return Cast<ir::Function>(block.chain[0].value);
}

// ---- calls

ir::Var* Reverser::EvalCall(const ir::Call& call, Block& block) {
  if (const ops::OpDef* op = ir::OpCallee(&call)) return EvalOperator(call, *op, block);
  if (const ir::Constructor* constructor = ir::ConstructorCallee(&call)) {
    return EvalConstructor(call, *constructor, block);
  }
  const auto* global = DynCast<ir::GlobalExpr>(call.callee);
  ir::Var* callee = global == nullptr ? Eval(call.callee, block) : nullptr;
  const ir::Builder at = At(call.span);
  std::vector<Wanted> wanted;
  std::vector<Expr*> args;
  std::vector<const Type*> types;
  std::vector<bool> constant;  // a known function need not compute adjoints that nobody adds
  bool is_active = false, has_boxed = global == nullptr || types_.HasBoxed(call.type);
  for (Expr* arg : call.args) {
    wanted.push_back({Eval(arg, block), arg->type});
    types.push_back(arg->type);
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
  const auto* type = DynCast<ir::FuncType>(call.callee->type);
  Expr* target = global == nullptr
                     ? static_cast<Expr*>(at.Use(callee))
                     : at.Global(shared_.ReversedGlobal(*global, constant), types_.Reversed(*type, constant));
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
  if (op.gradient == nullptr) {
    Refuse(call.span, DiagnosticKind::kOperatorWithoutGradient,
           absl::StrCat("`", Abseil(op.name),
                        "` has no gradient; where none should flow, apply `stop_gradient` to its arguments"));
    return result;
  }
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
    ops::Pullback pullback(here, call.attrs, operands, results, adjoints, code.chain);
    op.gradient(pullback);
    if (!pullback.refusal().empty()) {
      Refuse(call.span, DiagnosticKind::kOperatorWithoutGradient,
             absl::StrCat("`", Abseil(op.name), "` has no gradient here: ", pullback.refusal()));
    }
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
        Add(code, scrutinee, AtPath(code.adjoints[flat], path), span);
      });
      break;
    }
    case ir::PatternKind::kTuple:
      for (size_t i = 0; i < copy->fields.size(); ++i) {
        path.push_back(i);
        copy->fields[i] = ReversePattern(*pattern.fields[i], FieldOf(type, i), boxed, scrutinee, path, block);
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
