#include "compiler/typing/relation_queue.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/dim_bounds.h"
#include "base/value.h"
#include "compiler/ops/dim_values.h"
#include "compiler/ops/generic_type.h"
#include "compiler/ops/relations.h"

namespace rvm::typing {

using diagnostics::DiagnosticKind;
using ir::Type;
using ops::Solve;

namespace {}  // namespace

class RelationQueue::Context : public ops::TypeContext {
 public:
  Context(Solver& solver, diagnostics::Diagnostics& diagnostics, const Relation& relation,
          std::vector<const Type*> args, std::vector<std::vector<Dim>> values = {})
      : solver_(solver),
        diagnostics_(diagnostics),
        relation_(relation),
        args_(std::move(args)),
        values_(std::move(values)) {}

  ir::Arena& arena() override { return solver_.arena(); }
  const ir::Attrs& attrs() const override { return *relation_.attrs; }
  size_t num_args() const override { return args_.size(); }
  const Type* arg(size_t i) override { return args_[i]; }
  const Literal* arg_value(size_t i) override {
    if (relation_.call == nullptr || i >= relation_.call->args.size()) return nullptr;
    const auto* constant = ir::DynCast<ir::Constant>(relation_.call->args[i]);
    return constant == nullptr ? nullptr : &constant->literal;
  }
  const Type* result() override { return relation_.result; }

  bool Unify(const Type* a, const Type* b) override {
    bool ok = b == relation_.result   ? solver_.Flow(a, b)
              : a == relation_.result ? solver_.Flow(b, a)
                                      : solver_.Equate(a, b);
    if (ok) return true;
    if (b == relation_.result) std::swap(a, b);
    bool is_result = a == relation_.result;
    FlowFailure failure = solver_.failure();
    Fail(failure.infinite ? DiagnosticKind::kInfiniteType : DiagnosticKind::kOperatorResultMismatch,
         absl::StrCat(is_result ? "the result has type `" : "saw the type `", ir::TypeToString(solver_.Resolve(b)),
                      "`; expected `", ir::TypeToString(solver_.Resolve(a)), "`"),
         -1);
    return false;
  }

  bool RequireEqual(const Dim& a, const Dim& b, std::string_view what, DiagnosticKind kind) override {
    Dim x = solver_.ResolveDim(a), y = solver_.ResolveDim(b);
    if (x.kind() == DimKind::kHole || y.kind() == DimKind::kHole) return solver_.FlowDim(x, y);
    if (CompareDims(x, y) != DimEquality::kDifferent) return true;
    Fail(kind, absl::StrCat(Abseil(what), ": saw ", x.ToString(), " and ", y.ToString(), "; expected equal"), -1);
    return false;
  }

  bool RequireAtLeast(const Dim& a, const Dim& b, std::string_view what) override {
    Dim x = solver_.ResolveDim(a), y = solver_.ResolveDim(b);
    if (!x.is_const() || !y.is_const() || x.constant() >= y.constant()) return true;
    Fail(DiagnosticKind::kShapeMismatch,
         absl::StrCat(Abseil(what), ": saw ", x.constant(), "; expected at least ", y.constant()), -1);
    return false;
  }

  Dim RequireBroadcast(const Dim& a, const Dim& b, std::string_view what) override {
    Dim x = solver_.ResolveDim(a), y = solver_.ResolveDim(b);
    if (x == Dim(1)) return y;
    if (y == Dim(1)) return x;
    if (x.kind() == DimKind::kHole || y.kind() == DimKind::kHole) {
      solver_.FlowDim(x, y);
      return solver_.ResolveDim(x);
    }
    if (CompareDims(x, y) == DimEquality::kEqual) return x;
    if (x.is_const() && y.is_const()) {
      Fail(DiagnosticKind::kBroadcastMismatch,
           absl::StrCat(Abseil(what), ": saw ", x.ToString(), " and ", y.ToString(), "; expected equal or 1"), -1);
      return x;
    }
    // The other is 1 or the same: the run-time rule checks.
    if (x.is_const() || IsNever(x, 1)) return x;
    if (y.is_const() || IsNever(y, 1)) return y;
    return ContainsAny(x) || ContainsAny(y) ? Dim::Any() : Broadcast(x, y);
  }

  Dim ValueDim(size_t arg, int64_t element) override {
    const Literal* literal = arg_value(arg);
    return literal == nullptr ? KnownValue(arg, element).value_or(Dim::Any()) : Dim(literal->IntAt(element));
  }

  std::optional<Dim> KnownValue(size_t arg, int64_t element) override {
    auto at = static_cast<size_t>(element);
    bool is_known = arg < values_.size() && at < values_[arg].size() && !ContainsAny(values_[arg][at]);
    return is_known ? std::optional(values_[arg][at]) : std::nullopt;
  }

  void ResolveAttr(std::string_view name, int64_t value) override {
    if (relation_.own_attrs != nullptr) relation_.own_attrs->Set(std::string(name), value);
  }

  Dim DataDependentDim() override { return Dim::Any(); }

  Solve Fail(DiagnosticKind kind, std::string message, int arg) override {
    if (std::exchange(failed_, true)) return Solve::kFailed;
    std::string prefix = absl::StrCat("`", Abseil(relation_.name), "`");
    if (!absl::StrContains(message, prefix)) message = absl::StrCat(prefix, ": ", message);
    ir::Span span = relation_.span;
    bool at_arg = arg >= 0 && relation_.call != nullptr && static_cast<size_t>(arg) < relation_.call->args.size();
    if (at_arg && relation_.call->args[static_cast<size_t>(arg)]->span.valid()) {
      span = relation_.call->args[static_cast<size_t>(arg)]->span;
    }
    auto& diagnostic = diagnostics_.Error(span, relation_.is_constraint ? DiagnosticKind::kConstraintViolated : kind,
                                          std::move(message));
    AddNotes(diagnostic, at_arg ? static_cast<size_t>(arg) : args_.size());
    if (kind == DiagnosticKind::kOperandDTypesDiffer) AddLiteralNotes(diagnostic);
    for (diagnostics::Note& note : notes_) diagnostic.AddNote(note.span, std::move(note.message));
    return Solve::kFailed;
  }

  bool failed() const { return failed_; }
  // To be added to the error, if there is one.
  void AddNote(ir::Span span, std::string message) { notes_.push_back({span, std::move(message)}); }

 private:
  // Adds notes on where the variables among the arguments got their types; `only`: of that argument, or of all.
  void AddNotes(diagnostics::Diagnostic& diagnostic, size_t only) {
    if (relation_.is_constraint) diagnostic.AddNote(relation_.declared_at, "the relation is required here");
    if (relation_.call == nullptr) return;
    for (size_t i = 0; i < relation_.call->args.size() && i < args_.size(); ++i) {
      const auto* var = ir::DynCast<ir::VarExpr>(relation_.call->args[i]);
      if (var == nullptr || !var->var->span.valid() || (only < args_.size() && only != i)) continue;
      diagnostic.AddNote(var->var->span, absl::StrCat("`%", var->var->name, "` is bound here and has type `",
                                                      ir::TypeToString(solver_.Resolve(args_[i])), "`"));
    }
  }

  // How to write a literal of the dtype of the other operand: `1f` for the `1` of `%x + 1`.
  void AddLiteralNotes(diagnostics::Diagnostic& diagnostic) {
    if (relation_.call == nullptr || relation_.call->args.size() != 2) return;
    for (size_t i : {0, 1}) {
      const auto* constant = ir::DynCast<ir::Constant>(relation_.call->args[i]);
      const auto* other = ir::DynCast<ir::TensorType>(solver_.Resolve(args_[1 - i]));
      if (constant == nullptr || constant->literal.rank() != 0 || !constant->span.valid()) continue;
      bool may_be_written = other != nullptr && other->dtype.is_concrete() && other->dtype.dtype.lanes == 1 &&
                            !other->dtype.dtype.is_bool() && !constant->literal.dtype().is_bool();
      if (!may_be_written) continue;
      DataType dtype = other->dtype.dtype;
      double value = constant->literal.DoubleAt(0);
      Literal written = Literal::Scalar(dtype, value);
      if (!dtype.is_float() && written.DoubleAt(0) != value) continue;  // `1.5` of int32
      diagnostic.AddNote({}, absl::StrCat("`", ScalarToString(written, 0), "` is of dtype ", dtype.ToString()));
    }
  }

  Solver& solver_;
  diagnostics::Diagnostics& diagnostics_;
  const Relation& relation_;
  std::vector<const Type*> args_;
  std::vector<std::vector<Dim>> values_;
  bool failed_ = false;
  std::vector<diagnostics::Note> notes_;
};

void RelationQueue::Add(Relation relation) {
  entries_.push_back({std::move(relation)});
  Enqueue(static_cast<int32_t>(entries_.size() - 1));
  Drain();
}

void RelationQueue::Enqueue(int32_t index) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  if (entry.state == State::kFailed || std::exchange(entry.queued, true)) return;
  queue_.push_back(index);
}

void RelationQueue::EnqueueWoken() {
  for (int32_t index : solver_.TakeWoken()) Enqueue(index);
}

void RelationQueue::Drain() {
  EnqueueWoken();
  while (!queue_.empty()) {
    int32_t index = queue_.front();
    queue_.pop_front();
    entries_[static_cast<size_t>(index)].queued = false;
    Try(index, /*force=*/false);
    EnqueueWoken();
  }
}

bool RelationQueue::Force() {
  bool moved = false;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].state != State::kStuck) continue;
    Try(static_cast<int32_t>(i), /*force=*/true);
    moved = moved || entries_[i].state != State::kStuck;
    Drain();
  }
  return moved;
}

void RelationQueue::Try(int32_t index, bool force) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  entry.form = nullptr;
  std::vector<HoleUse> uses;
  bool is_project = entry.relation.project != nullptr;
  Solve solve = is_project ? TryProject(entry, uses) : TryRelation(entry, uses, force);
  for (const HoleUse& use : uses) solver_.Wait(use, index);
  switch (solve) {
    case Solve::kDone: entry.state = State::kDone; break;
    case Solve::kStuck:
      if (entry.form != nullptr) dependents_.push_back(index);
      break;
    case Solve::kFailed:
      entry.state = State::kFailed;
      solver_.Poison(entry.relation.result);
      break;
  }
}

Solve RelationQueue::TryProject(Entry& entry, std::vector<HoleUse>& uses) {
  const Relation& relation = entry.relation;
  const Type* type = solver_.Shallow(relation.args[0]);
  if (entry.state == State::kDone) return Solve::kDone;
  if (solver_.IsError(type)) return Solve::kFailed;
  if (type->type_kind == ir::TypeKind::kHole) {
    solver_.Resolve(type, &uses);
    return Solve::kStuck;
  }
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  if (tuple == nullptr || relation.project->index >= tuple->fields.size()) {
    diagnostics_.Error(
        relation.span, tuple == nullptr ? DiagnosticKind::kNotTuple : DiagnosticKind::kProjectionOutOfRange,
        tuple == nullptr
            ? absl::StrCat("projection from type `", ir::TypeToString(solver_.Resolve(type)), "`; expected a tuple")
            : absl::StrCat("field ", relation.project->index, " of a tuple of type `",
                           ir::TypeToString(solver_.Resolve(type)), "`; expected an index below ",
                           tuple->fields.size()));
    return Solve::kFailed;
  }
  return solver_.Flow(tuple->fields[relation.project->index], relation.result) ? Solve::kDone : Solve::kFailed;
}

bool RelationQueue::HoldsByAssumption(const Relation& relation, const std::vector<const Type*>& args) {
  if (relation.assumptions == nullptr) return false;
  for (const ir::TypeConstraint& constraint : *relation.assumptions) {
    if (ops::FindRelation(constraint.relation) != relation.holds || constraint.args.size() != args.size() + 1) continue;
    bool same = constraint.attrs == *relation.attrs;
    for (size_t i = 0; i < args.size() && same; ++i) same = ir::TypesEqual(constraint.args[i], args[i]);
    if (same && solver_.Flow(constraint.args.back(), relation.result)) return true;
  }
  return false;
}

std::vector<std::vector<Dim>> RelationQueue::ValuesOf(const Relation& relation, std::vector<HoleUse>& uses) {
  const ops::OpDef* op = relation.call == nullptr ? nullptr : ir::OpCallee(relation.call);
  if (op == nullptr || relation.is_constraint) return {};
  ops::DimEvaluator evaluator(
      [&](const ir::Expr* expr) { return expr->type == nullptr ? nullptr : solver_.Resolve(expr->type, &uses); },
      [&](const ir::Var* var) {
        auto found = bound_.find(var);
        return found == bound_.end() ? nullptr : found->second;
      });
  std::vector<std::vector<Dim>> values(relation.call->args.size());
  for (size_t i = 0; i < values.size() && i < op->inputs.size(); ++i) {
    if (!op->inputs[i].decides_shape && !op->inputs[i].may_decide_shape) continue;
    values[i] = evaluator.Elements(relation.call->args[i]);
    for (Dim& dim : values[i]) {
      if (ContainsHole(dim)) dim = Dim::Any();
    }
  }
  return values;
}

Solve RelationQueue::TryRelation(Entry& entry, std::vector<HoleUse>& uses, bool force) {
  const Relation& relation = entry.relation;
  std::vector<const Type*> args;
  bool open_dims = false;
  for (const Type* arg : relation.args) {
    args.push_back(solver_.Resolve(arg, &uses));
    if (solver_.IsError(args.back()) || (!uses.empty() && solver_.ContainsError(args.back()))) return Solve::kFailed;
  }
  std::vector<std::vector<Dim>> values = ValuesOf(relation, uses);
  for (const HoleUse& use : uses) {
    open_dims = open_dims || (use.sort == HoleUse::Sort::kDim && ContainsHole(solver_.ResolveDim(Dim::Hole(use.id))));
  }
  if (open_dims && !force) return Solve::kStuck;
  if (HoldsByAssumption(relation, args)) return Solve::kDone;
  std::vector<const ir::TypeParam*> params = ops::TensorParams(args);
  if (!params.empty() && !ops::HasHole(args)) return TryGeneric(entry, uses, args, params);
  Context context(solver_, diagnostics_, relation, std::move(args), std::move(values));
  Solve solve = relation.holds(context);
  return context.failed() ? Solve::kFailed : solve;
}

// The result may differ between instances; then it is known only if the program declares it.
Solve RelationQueue::TryGeneric(Entry& entry, std::vector<HoleUse>& uses, const std::vector<const Type*>& args,
                                const std::vector<const ir::TypeParam*>& params) {
  const Relation& relation = entry.relation;
  std::vector<const Literal*> values;
  for (size_t i = 0; relation.call != nullptr && i < relation.call->args.size(); ++i) {
    const auto* constant = ir::DynCast<ir::Constant>(relation.call->args[i]);
    values.push_back(constant == nullptr ? nullptr : &constant->literal);
  }
  ops::GenericResult result =
      ops::DeriveGenericResult(relation.holds, *relation.attrs, args, values, params, solver_.arena());
  if (result.answer == ops::GenericResult::Answer::kDepends) {
    std::vector<const Type*> known = {solver_.Resolve(relation.result, &uses)};
    if (!ops::HasHole(known)) return Solve::kDone;
    entry.form = result.type;
    return Solve::kStuck;
  }
  if (result.answer == ops::GenericResult::Answer::kKnown) {
    Context context(solver_, diagnostics_, relation, args);
    return context.Unify(result.type, relation.result) ? Solve::kDone : Solve::kFailed;
  }
  // An error of one of the instances tried is an error of all.
  std::vector<const Type*> tried;
  for (const Type* arg : args) tried.push_back(result.tried.Apply(solver_.arena(), arg));
  Relation trial = relation;
  trial.result = solver_.FreshType();
  Context context(solver_, diagnostics_, trial, std::move(tried));
  for (const ir::TypeParam* param : params) {
    context.AddNote(param->span, absl::StrCat("the type parameter `", param->name, "` was taken to be `",
                                              ir::TypeArgToString(*result.tried.Find(param)),
                                              "`; the operator takes nothing else that it may be, either"));
  }
  Solve solve = relation.holds(context);
  return solve == Solve::kDone ? Solve::kStuck : Solve::kFailed;
}

std::optional<RelationQueue::Dependent> RelationQueue::TakeDependent() {
  while (!dependents_.empty()) {
    int32_t index = dependents_.front();
    dependents_.pop_front();
    const Entry& entry = entries_[static_cast<size_t>(index)];
    if (entry.state != State::kStuck || entry.form == nullptr) continue;
    Dependent dependent{index, &entry.relation, {}, entry.form};
    for (const Type* arg : entry.relation.args) dependent.args.push_back(solver_.Resolve(arg));
    return dependent;
  }
  return std::nullopt;
}

void RelationQueue::Determine(int32_t index, const Type* result) {
  Entry& entry = entries_[static_cast<size_t>(index)];
  Context context(solver_, diagnostics_, entry.relation, {});
  bool fits = context.Unify(result, entry.relation.result);
  entry.state = fits ? State::kDone : State::kFailed;
  if (!fits) solver_.Poison(entry.relation.result);
  Drain();
}

void RelationQueue::ReportStuck() {
  for (Entry& entry : entries_) {
    if (entry.state != State::kStuck) continue;
    const Relation& relation = entry.relation;
    bool silent = solver_.ContainsError(relation.result);
    for (const Type* arg : relation.args) silent = silent || solver_.ContainsError(arg);
    if (!silent) {
      std::string types;
      for (const Type* arg : relation.args) {
        absl::StrAppend(&types, types.empty() ? "`" : ", `", ir::TypeToString(solver_.Resolve(arg)), "`");
      }
      std::string subject =
          relation.project != nullptr ? "a projection" : absl::StrCat("`", Abseil(relation.name), "`");
      std::vector<const Type*> args;
      for (const Type* arg : relation.args) args.push_back(solver_.Resolve(arg));
      bool depends = relation.project == nullptr && !ops::HasHole(args);
      diagnostics_.Error(relation.span, DiagnosticKind::kUnsolvedOperator,
                         absl::StrCat(subject, " is applied to ", types,
                                      depends ? ", where its result depends on what the type parameters stand for; "
                                                "expected an annotation of the result"
                                              : ", which the program does not determine; expected an annotation"));
    }
    entry.state = State::kFailed;
    solver_.Poison(relation.result);
    for (const Type* arg : relation.args) solver_.Poison(arg);
  }
}

}  // namespace rvm::typing
