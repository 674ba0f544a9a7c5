#include "compiler/passes/partial_evaluate/evaluator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/stack_guard.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;

namespace {

// Copied code of one function, in nodes: so many times its own, and this many on top.
constexpr size_t kGrowth = 4;
constexpr size_t kRoom = 2000;

bool AreSame(const PartialValue* a, const PartialValue* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || !ir::TypesEqual(a->type, b->type)) return false;
  if (a->constant != nullptr && b->constant != nullptr) return a->constant->literal == b->constant->literal;
  return a->var != nullptr && a->var == b->var;
}

// Returns whether `pattern` matches `value`; null if that is not known.
std::optional<bool> Matches(const ir::Pattern& pattern, const PartialValue& value) {
  using Kind = PartialValue::Kind;
  switch (pattern.kind) {
    case ir::PatternKind::kWildcard:
    case ir::PatternKind::kVar: return true;
    case ir::PatternKind::kLiteral:
      if (value.constant == nullptr) return std::nullopt;
      return value.constant->literal == *pattern.literal;
    case ir::PatternKind::kConstructor:
      if (value.kind != Kind::kData) return std::nullopt;
      if (value.constructor->constructor != pattern.constructor) return false;
      break;
    case ir::PatternKind::kTuple:
      if (value.kind != Kind::kTuple) return std::nullopt;
      break;
  }
  bool is_unknown = false;
  for (size_t i = 0; i < pattern.fields.size(); ++i) {
    std::optional<bool> matches = WithStack([&] { return Matches(*pattern.fields[i], *value.fields[i]); });
    if (matches == false) return false;
    is_unknown = is_unknown || !matches;
  }
  return is_unknown ? std::nullopt : std::optional<bool>(true);
}

void ForEachVar(const ir::Pattern& pattern, absl::FunctionRef<void(ir::Var*)> visit) {
  if (pattern.var != nullptr) visit(pattern.var);
  for (const ir::Pattern* field : pattern.fields) WithStack([&] { ForEachVar(*field, visit); });
}

}  // namespace

ir::Function* Evaluator::Run(const ir::Function& function) {
  size_t nodes = CountNodes(function.body, SIZE_MAX / kGrowth);
  room_ = kGrowth * nodes + kRoom;
  CountUses(function.body, uses_);
  return ResidualFunction(function);
}

Evaluator::Value* Evaluator::Eval(Expr* expr, ir::Var* hint) {
  return WithStack([&] { return EvalChain(expr, hint); });
}

Evaluator::Value* Evaluator::EvalChain(Expr* expr, ir::Var* hint) {
  while (const auto* let = DynCast<ir::Let>(expr)) {
    EvalLet(*let);
    expr = let->body;
  }
  // Passes rely on the types that the expressions had.
  return Coerce(EvalNode(expr, hint), expr->type, hint);
}

void Evaluator::EvalLet(const ir::Let& let) {
  const auto* literal = DynCast<ir::Function>(let.value);
  if (literal == nullptr) return Bind(let.var, Eval(let.value, let.var));
  // The variable of a function is in scope in the function.
  if (ir::TypesEqual(let.var->type, literal->type)) {
    bound_[let.var] = Closure(*literal, let.span, let.var);
    return;
  }
  // It has another type there: the function is not unfolded.
  bound_[let.var] = Dynamic(let.var, let.span);
  Value* closure = New(Kind::kClosure, literal->type, let.span);
  closure->literal = literal;
  closure->reaches_locations = true;
  closure->var = let.var;
  Escape(closure);
  closure->slot = &block_->emplace_back(Binding{let.var, nullptr, let.span});
  Make(closure);
}

Evaluator::Value* Evaluator::EvalNode(Expr* expr, ir::Var* hint) {
  switch (expr->expr_kind) {
    case ExprKind::kConstant: return FromConstants(expr, hint);
    case ExprKind::kVar: {
      auto found = bound_.find(Cast<ir::VarExpr>(expr)->var);
      RVM_CHECK(found != bound_.end(), "a variable is bound before it is used");
      return found->second;
    }
    case ExprKind::kTuple: {
      std::vector<Value*> fields = EvalAll(Cast<ir::Tuple>(expr)->fields);
      return Tuple(std::move(fields), expr->type, expr->span, hint);
    }
    case ExprKind::kProject: return EvalProject(*Cast<ir::Project>(expr), hint);
    case ExprKind::kFunction: return Closure(*Cast<ir::Function>(expr), expr->span, hint);
    case ExprKind::kCall: return EvalCall(*Cast<ir::Call>(expr), hint);
    case ExprKind::kLet: return Eval(expr, hint);
    case ExprKind::kIf: return EvalIf(*Cast<ir::If>(expr), hint);
    case ExprKind::kMatch: return EvalMatch(*Cast<ir::Match>(expr), hint);
    case ExprKind::kRefCreate: return EvalRefCreate(*Cast<ir::RefCreate>(expr), hint);
    case ExprKind::kRefRead: return EvalRefRead(*Cast<ir::RefRead>(expr), hint);
    case ExprKind::kRefWrite: return EvalRefWrite(*Cast<ir::RefWrite>(expr), hint);
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: break;
  }
  RVM_UNREACHABLE("in a specialised module functions are called, or literals");
}

std::vector<Evaluator::Value*> Evaluator::EvalAll(const std::vector<Expr*>& exprs) {
  std::vector<Value*> values;
  for (Expr* expr : exprs) values.push_back(Eval(expr));
  return values;
}

Evaluator::Value* Evaluator::EvalProject(const ir::Project& project, ir::Var* hint) {
  Value* tuple = Eval(project.tuple);
  if (tuple->kind == Kind::kTuple) return tuple->fields[project.index];
  return Emit(At(project.span).Project(Use(tuple), project.index, project.type), hint);
}

// ---- control

Evaluator::Value* Evaluator::EvalIf(const ir::If& branch, ir::Var* hint) {
  Value* condition = Eval(branch.condition);
  if (condition->constant != nullptr) {
    return Eval(condition->constant->literal.IntAt(0) != 0 ? branch.then_branch : branch.else_branch, hint);
  }
  Expr* atom = Use(condition);
  std::vector<Expr*> bodies =
      EvalPaths(2, [&](size_t i) { return Eval(i == 0 ? branch.then_branch : branch.else_branch); });
  return Emit(At(branch.span).If(atom, bodies[0], bodies[1], branch.type), hint);
}

Evaluator::Value* Evaluator::EvalMatch(const ir::Match& match, ir::Var* hint) {
  Value* value = Eval(match.value);
  for (const ir::Clause& clause : match.clauses) {
    std::optional<bool> matches = Matches(*clause.pattern, *value);
    if (!matches) break;
    if (!*matches) continue;
    BindPattern(*clause.pattern, value);
    return Eval(clause.body, hint);
  }
  Expr* atom = nullptr;
  if (value->kind == Kind::kTuple && LooksAtFieldsOnly(match)) {
    std::vector<Expr*> fields;
    for (Value* field : value->fields) fields.push_back(Use(field));
    atom = At(value->span).Tuple(std::move(fields), value->type);
  } else {
    atom = Use(value);
  }
  std::vector<Expr*> bodies = EvalPaths(match.clauses.size(), [&](size_t i) {
    ForEachVar(*match.clauses[i].pattern, [&](ir::Var* var) { bound_[var] = Dynamic(var, var->span); });
    return Eval(match.clauses[i].body);
  });
  std::vector<ir::Clause> clauses = match.clauses;
  for (size_t i = 0; i < clauses.size(); ++i) clauses[i].body = bodies[i];
  return Emit(At(match.span).Match(atom, std::move(clauses), match.is_complete, match.type), hint);
}

void Evaluator::BindPattern(const ir::Pattern& pattern, Value* value) {
  if (pattern.kind == ir::PatternKind::kVar) return Bind(pattern.var, value);
  for (size_t i = 0; i < pattern.fields.size(); ++i) {
    WithStack([&] { BindPattern(*pattern.fields[i], value->fields[i]); });
  }
}

std::vector<Expr*> Evaluator::EvalPaths(size_t num_paths, absl::FunctionRef<Value*(size_t)> eval) {
  std::vector<Block> blocks(num_paths);
  std::vector<Store::Path> paths(num_paths);
  std::vector<Expr*> results(num_paths);
  Block* outer = block_;
  Store::Mark mark = store_.Now();
  size_t births = num_locations_;
  for (size_t i = 0; i < num_paths; ++i) {
    block_ = &blocks[i];
    results[i] = Use(eval(i));
    paths[i] = store_.TakeBack(mark);
  }
  MeetPaths(blocks, paths, mark, births);
  block_ = outer;
  for (size_t i = 0; i < num_paths; ++i) results[i] = Finish(blocks[i], results[i]);
  return results;
}

void Evaluator::MeetPaths(std::vector<Block>& blocks, std::vector<Store::Path>& paths, Store::Mark mark,
                          size_t births) {
  if (paths.empty()) return;
  auto contents_on = [&](const Store::Path& path, Value* location) {
    auto found = path.changes.find(location);
    Store::Contents contents = found == path.changes.end() ? store_.Get(location) : found->second;
    if (contents.in_memory && contents.epoch != path.epoch) contents.value = nullptr;
    return contents;
  };
  // A location that is in memory on one path, or has several contents, is in memory on all of them. To put one there
  // may put others there.
  std::vector<Value*> changed;
  for (bool is_done = false; !is_done;) {
    is_done = true;
    changed.clear();
    for (const Store::Path& path : paths) {
      for (const auto& [location, contents] : path.changes) {
        if (location->birth < births) changed.push_back(location);
      }
    }
    std::sort(changed.begin(), changed.end(), [](const Value* a, const Value* b) { return a->birth < b->birth; });
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    std::vector<Value*> to_memory;
    for (Value* location : changed) {
      Store::Contents first = contents_on(paths[0], location);
      bool any = first.in_memory, all = first.in_memory, differ = false;
      for (const Store::Path& path : paths) {
        Store::Contents contents = contents_on(path, location);
        any = any || contents.in_memory;
        all = all && contents.in_memory;
        differ = differ || !AreSame(first.value, contents.value);
      }
      if (!all && (any || differ)) to_memory.push_back(location);
    }
    if (to_memory.empty()) break;
    is_done = false;
    for (size_t i = 0; i < paths.size(); ++i) {
      block_ = &blocks[i];
      store_.Repeat(paths[i]);
      for (Value* location : to_memory) Use(location);
      paths[i] = store_.TakeBack(mark);
    }
  }
  std::vector<Store::Contents> known;
  for (Value* location : changed) {
    Store::Contents first = contents_on(paths[0], location);
    for (const Store::Path& path : paths) {
      if (!AreSame(first.value, contents_on(path, location).value)) first.value = nullptr;
    }
    known.push_back(first);
  }
  bool forgot = std::any_of(paths.begin(), paths.end(), [&](const auto& path) { return path.epoch != mark.epoch; });
  if (forgot) store_.ForgetEscaped();
  for (size_t i = 0; i < changed.size(); ++i) store_.Set(changed[i], known[i].value, known[i].in_memory);
}

// ---- references

Evaluator::Value* Evaluator::EvalRefCreate(const ir::RefCreate& create, ir::Var* hint) {
  Value* value = Eval(create.value);
  if (!ir::TypesEqual(DynCast<ir::RefType>(create.type)->contents, value->type)) {
    return Emit(At(create.span).RefCreate(Use(value), create.type), hint);
  }
  Value* location = New(Kind::kLocation, create.type, create.span);
  location->initial = value;
  location->birth = num_locations_++;
  location->reaches_locations = true;
  store_.Set(location, value, /*in_memory=*/false);
  return Lazy(location, hint);
}

Evaluator::Value* Evaluator::EvalRefRead(const ir::RefRead& read, ir::Var* hint) {
  Value* ref = Eval(read.ref);
  bool is_location = ref->kind == Kind::kLocation;
  if (is_location) {
    Value* known = store_.Get(ref).value;
    if (known != nullptr) return known;
  }
  Value* value = Emit(At(read.span).RefRead(Use(ref), read.type), hint);
  if (is_location) store_.Set(ref, value, /*in_memory=*/true);
  return value;
}

Evaluator::Value* Evaluator::EvalRefWrite(const ir::RefWrite& write, ir::Var* hint) {
  Value* ref = Eval(write.ref);
  Value* value = Eval(write.value);
  bool is_location = ref->kind == Kind::kLocation;
  bool is_known = is_location && ir::TypesEqual(DynCast<ir::RefType>(ref->type)->contents, value->type);
  if (is_known && !store_.Get(ref).in_memory) {
    store_.Set(ref, value, /*in_memory=*/false);
    return Tuple({}, write.type, write.span, hint);
  }
  Expr* target = Use(ref);
  Expr* written = Use(value);
  Value* done = Emit(At(write.span).RefWrite(target, written, write.type), hint);
  if (is_location) {
    store_.Set(ref, is_known ? value : nullptr, /*in_memory=*/true);
  } else {
    store_.ForgetEscaped();  // it may be any reference that has escaped
  }
  return done;
}

}  // namespace rvm::passes
