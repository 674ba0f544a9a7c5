#include "compiler/passes/fusion/fusion_groups.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_set.h"
#include "base/stack_guard.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/select_scalar.h"
#include "compiler/passes/fusion/kernel_extents.h"
#include "compiler/passes/rewriter.h"
#include "compiler/target/device_kind.h"
#include "devices/device_kinds.h"

namespace rvm::passes {

using ir::Cast;
using ir::DynCast;
using ir::Expr;
using ir::ExprKind;
using ops::FusionClass;

namespace {

FusionClass ClassOf(const FusionStep& step) { return Cast<ir::OpExpr>(step.op->callee)->op->fusion; }

bool IsAnchor(FusionClass fusion) { return fusion == FusionClass::kReduction || fusion == FusionClass::kContraction; }

bool IsStatic(const FusionStep& step) {
  return std::all_of(step.outputs.begin(), step.outputs.end(), [](const OpOutput& output) {
    const auto* tensor = DynCast<ir::TensorType>(output.type);
    return tensor != nullptr && StaticShape(tensor->shape.dims).has_value();
  });
}

// Operator calls but those that are one instruction on scalars.
const ir::Call* FusableCall(const Expr* value) {
  if (ir::OpCallee(value) == nullptr) return nullptr;
  const auto* call = Cast<ir::Call>(value);
  return ops::SelectScalar(*call).has_value() ? nullptr : call;
}

// Minimum size of the weights of a product that many calls share, and maximum number of its rows: smaller weights stay
// in the first-level cache, and more rows read most of them from there.
constexpr int64_t kMinBytesToShare = 16 * 1024;
constexpr int64_t kMaxRowsToShare = 8;

// The share of the bytes between two groups that is left, at most, where steps move from one to the other.
constexpr double kMinGainOfEnd = 0.75;

// Returns whether many calls of the product gain by running together.
bool SharesWeights(const FusionStep& step) {
  if (ClassOf(step) != FusionClass::kContraction) return false;
  const auto* result = DynCast<ir::TensorType>(step.op->type);
  if (result == nullptr || result->shape.dims.empty()) return false;
  const Dims& dims = result->shape.dims;
  std::optional<int64_t> rows = NumElements(Dims(dims.begin(), dims.end() - 1)).AsConst();
  if (rows && *rows >= kMaxRowsToShare) return false;
  return std::any_of(step.op->args.begin(), step.op->args.end(), [](const Expr* arg) {
    const auto* constant = DynCast<ir::Constant>(arg);
    return constant != nullptr && constant->literal.bytes() > kMinBytesToShare;
  });
}

template <typename F>
void ForEachAtom(const ir::Call& call, F&& f) {
  for (const Expr* arg : call.args) {
    if (const auto* tuple = DynCast<ir::Tuple>(arg)) {
      for (const Expr* field : tuple->fields) f(field);
    } else {
      f(arg);
    }
  }
}

}  // namespace

// ---- BlockUses

const std::vector<uint32_t>& BlockUses::of(const ir::Var* var) const {
  auto found = users_.find(var);
  return found == users_.end() ? none_ : found->second;
}

void BlockUses::VisitBlock(const Expr* expr) {
  WithStack([&] {
    current_.push_back(0);
    while (const auto* let = DynCast<ir::Let>(expr)) {
      depth_[let->var] = current_.size() - 1;
      Visit(let->value);
      ++current_.back();
      expr = let->body;
    }
    Visit(expr);
    current_.pop_back();
  });
}

void BlockUses::Visit(const Expr* expr) {
  switch (expr->expr_kind) {
    case ExprKind::kVar: {
      const ir::Var* var = Cast<ir::VarExpr>(expr)->var;
      auto found = depth_.find(var);
      if (found == depth_.end()) return;
      std::vector<uint32_t>& users = users_[var];
      uint32_t step = current_[found->second];
      if (users.empty() || users.back() != step) users.push_back(step);
      return;
    }
    case ExprKind::kTuple:
      for (const Expr* field : Cast<ir::Tuple>(expr)->fields) Visit(field);
      return;
    case ExprKind::kProject: return Visit(Cast<ir::Project>(expr)->tuple);
    case ExprKind::kFunction: return VisitBlock(Cast<ir::Function>(expr)->body);
    case ExprKind::kCall:
      Visit(Cast<ir::Call>(expr)->callee);
      for (const Expr* arg : Cast<ir::Call>(expr)->args) Visit(arg);
      return;
    case ExprKind::kIf:
      Visit(Cast<ir::If>(expr)->condition);
      VisitBlock(Cast<ir::If>(expr)->then_branch);
      return VisitBlock(Cast<ir::If>(expr)->else_branch);
    case ExprKind::kMatch:
      Visit(Cast<ir::Match>(expr)->value);
      for (const ir::Clause& clause : Cast<ir::Match>(expr)->clauses) VisitBlock(clause.body);
      return;
    case ExprKind::kRefCreate: return Visit(Cast<ir::RefCreate>(expr)->value);
    case ExprKind::kRefRead: return Visit(Cast<ir::RefRead>(expr)->ref);
    case ExprKind::kRefWrite: Visit(Cast<ir::RefWrite>(expr)->ref); return Visit(Cast<ir::RefWrite>(expr)->value);
    case ExprKind::kLet: return VisitBlock(expr);
    case ExprKind::kConstant:
    case ExprKind::kGlobal:
    case ExprKind::kOp:
    case ExprKind::kConstructor: return;
  }
}

// ---- reading the block

FusionPlan::FusionPlan(ir::Arena& arena, Expr* block, const BlockUses& uses, const FusionOptions& options,
                       absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed)
    : arena_(arena), options_(options) {
  ReadSteps(block, uses);
  ReadProjections(uses, renamed);
  if (options_.opt_level >= 1) DelayViews();
  if (options_.carried != nullptr) FindAccumulations();
  Group(renamed);
}

void FusionPlan::ReadSteps(Expr* block, const BlockUses& uses) {
  auto add = [&](ir::Var* var, Expr* value, ir::Span span) {
    FusionStep step;
    step.var = var;
    step.value = value;
    step.span = span;
    step.op = FusableCall(value);
    if (step.op != nullptr) {
      ForEachAtom(*step.op, [&](const Expr* atom) {
        const auto* use = DynCast<ir::VarExpr>(atom);
        step.is_carried |= use != nullptr && options_.carried != nullptr && options_.carried->IsCarried(use->var);
      });
      step.checks_type = var != nullptr && !ir::TypesEqual(var->type, value->type);
      std::vector<uint32_t> users = var == nullptr ? std::vector<uint32_t>{} : uses.of(var);
      if (const auto* tuple = DynCast<ir::TupleType>(value->type)) {
        for (const ir::Type* field : tuple->fields) step.outputs.push_back({nullptr, field, {}});
        step.tuple_users = std::move(users);
      } else {
        step.outputs.push_back({var, value->type, std::move(users)});
      }
    }
    steps_.push_back(std::move(step));
  };
  while (const auto* let = DynCast<ir::Let>(block)) {
    add(let->var, let->value, let->span);
    block = let->body;
  }
  add(nullptr, block, block->span);
}

// `let %a = %t.0` where %t is an operator's tuple: %a is the operator's output.
void FusionPlan::ReadProjections(const BlockUses& uses, absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed) {
  absl::flat_hash_map<const ir::Var*, uint32_t> tuples;
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    FusionStep& step = steps_[i];
    if (step.op != nullptr && step.var != nullptr && step.value->type->type_kind == ir::TypeKind::kTuple &&
        !step.checks_type) {
      tuples[step.var] = i;
    }
    const auto* project = DynCast<ir::Project>(step.value);
    const auto* source = project == nullptr ? nullptr : DynCast<ir::VarExpr>(project->tuple);
    auto tuple = source == nullptr ? tuples.end() : tuples.find(source->var);
    if (tuple == tuples.end()) continue;
    FusionStep& op = steps_[tuple->second];
    OpOutput& output = op.outputs[project->index];
    op.tuple_users.erase(std::find(op.tuple_users.begin(), op.tuple_users.end(), i));
    bool is_plain = step.var != nullptr && ir::TypesEqual(step.var->type, output.type);
    if (is_plain) {
      step.is_projection = true;
      const std::vector<uint32_t>& users = uses.of(step.var);
      output.users.insert(output.users.end(), users.begin(), users.end());
      if (output.var == nullptr) {
        output.var = step.var;
      } else {
        renamed[step.var] = output.var;
      }
      // Operands name the projection until they are rewritten.
      producers_[step.var] = tuple->second;
    } else {
      if (output.var == nullptr) output.var = ir::Builder(arena_, step.span).Var(source->var->name, output.type);
      output.users.push_back(i);
      step.value = ir::Builder(arena_, step.span).Use(output.var);
    }
  }
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    for (OpOutput& output : steps_[i].outputs) {
      std::sort(output.users.begin(), output.users.end());
      if (output.var != nullptr) producers_[output.var] = i;
    }
    if (steps_[i].op != nullptr && steps_[i].var != nullptr) producers_[steps_[i].var] = i;
  }
}

bool FusionPlan::IsView(uint32_t step) const {
  const ir::Call* op = steps_[step].op;
  return op != nullptr && ops::NeedsNoKernel(*op);
}

bool FusionPlan::Grows(uint32_t step) const {
  const FusionStep& own = steps_[step];
  if (own.op == nullptr || own.checks_type || ClassOf(own) != FusionClass::kBroadcast) return false;
  auto size_of = [](const ir::Type* type) {
    const auto* tensor = DynCast<ir::TensorType>(type);
    auto shape = tensor == nullptr ? std::nullopt : StaticShape(tensor->shape.dims);
    return shape ? NumElements(*shape) : std::nullopt;
  };
  std::optional<int64_t> size = size_of(own.value->type);
  return size && std::all_of(own.op->args.begin(), own.op->args.end(), [&](const Expr* arg) {
           std::optional<int64_t> of_arg = size_of(arg->type);
           return of_arg && *of_arg < *size;
         });
}

// Views cost nothing, so they are moved to their first use, where they do not separate members of a group. What is
// larger than all that it is made of, as an outer product, is made where it is used: by then what it is added to was
// read.
void FusionPlan::DelayViews() {
  uint32_t size = static_cast<uint32_t>(steps_.size());
  std::vector<std::vector<uint32_t>> before(size);  // by step: the views that it uses
  std::vector<bool> is_delayed(size, false), is_placed(size, false);
  for (uint32_t i = 0; i < size; ++i) {
    if (!(IsView(i) || Grows(i)) || steps_[i].outputs[0].users.empty()) continue;
    for (uint32_t user : steps_[i].outputs[0].users) before[user].push_back(i);
    is_delayed[i] = true;
  }
  std::vector<uint32_t> order;
  std::vector<std::pair<uint32_t, bool>> pending;
  for (uint32_t i = 0; i < size; ++i) {
    if (is_delayed[i]) continue;
    pending.emplace_back(i, false);
    while (!pending.empty()) {
      auto [step, is_ready] = pending.back();
      pending.pop_back();
      if (is_placed[step]) continue;
      if (is_ready) {
        is_placed[step] = true;
        order.push_back(step);
        continue;
      }
      pending.emplace_back(step, true);
      for (auto it = before[step].rbegin(); it != before[step].rend(); ++it) pending.emplace_back(*it, false);
    }
  }
  std::vector<uint32_t> place(size);
  for (uint32_t i = 0; i < size; ++i) place[order[i]] = i;
  std::vector<FusionStep> steps(size);
  for (uint32_t i = 0; i < size; ++i) steps[place[i]] = std::move(steps_[i]);
  steps_ = std::move(steps);
  auto move_all = [&](std::vector<uint32_t>& users) {
    for (uint32_t& user : users) user = place[user];
    std::sort(users.begin(), users.end());
  };
  for (FusionStep& step : steps_) {
    for (OpOutput& output : step.outputs) move_all(output.users);
    move_all(step.tuple_users);
  }
  for (auto& [var, step] : producers_) step = place[step];
}

// Marks sums of a content that was read from a reference which are only written to one, and what makes the addend from
// its factors, such as the outer product that is a weight's gradient: many such calls become one product.
void FusionPlan::FindAccumulations() {
  absl::flat_hash_set<const ir::Var*> contents;  // of references
  for (const FusionStep& step : steps_) {
    if (step.value->expr_kind == ExprKind::kRefRead && step.var != nullptr) contents.insert(step.var);
  }
  auto is_sum = [&](const FusionStep& step) {
    const ops::OpDef* op = ir::OpCallee(step.op);
    if (op->name != "add" || step.outputs[0].users.size() != 1) return false;
    bool is_written = steps_[step.outputs[0].users[0]].value->expr_kind == ExprKind::kRefWrite;
    return is_written && std::any_of(step.op->args.begin(), step.op->args.end(), [&](const Expr* arg) {
             const auto* use = DynCast<ir::VarExpr>(arg);
             return use != nullptr && contents.contains(use->var) && SameExtents(arg->type, step.value->type);
           });
  };
  auto accumulates = [&](uint32_t user) { return steps_[user].accumulates; };
  for (uint32_t i = static_cast<uint32_t>(steps_.size()); i-- > 0;) {
    FusionStep& step = steps_[i];
    if (step.op == nullptr || step.outputs.size() != 1 || !step.tuple_users.empty()) continue;
    const std::vector<uint32_t>& users = step.outputs[0].users;
    bool makes_addend = IsView(i) || Grows(i) || IsAnchor(ClassOf(step));
    step.accumulates =
        is_sum(step) || (makes_addend && !users.empty() && std::all_of(users.begin(), users.end(), accumulates));
  }
}

// ---- grouping

void FusionPlan::Group(const absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed) {
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    FusionStep& step = steps_[i];
    if (step.op == nullptr) continue;
    step.group = static_cast<uint32_t>(groups_.size());
    FusionGroup group;
    group.members = {i};
    group.last = i;
    if (IsAnchor(ClassOf(step))) group.anchor = i;
    groups_.push_back(std::move(group));
    if (options_.opt_level >= 1 || target::CompositeOf(step.op->attrs)) JoinProducers(i);
  }
  for (uint32_t i = 0; i < groups_.size() && options_.opt_level >= 2; ++i) {
    if (groups_[i].members.size() > 1) SinkCopies(i);
  }
  for (uint32_t i = 0, size = static_cast<uint32_t>(groups_.size()); i < size; ++i) {
    if (groups_[i].members.size() > 1) SplitLargeExtents(i, renamed);
  }
  for (uint32_t i = 0, size = static_cast<uint32_t>(groups_.size()); i < size; ++i) {
    if (groups_[i].members.size() > 1) SplitOffViews(i);
  }
}

std::vector<uint32_t> FusionPlan::Producers(uint32_t step) const {
  std::vector<uint32_t> result;
  ForEachAtom(*steps_[step].op, [&](const Expr* atom) {
    const auto* use = DynCast<ir::VarExpr>(atom);
    auto found = use == nullptr ? producers_.end() : producers_.find(use->var);
    if (found != producers_.end()) result.push_back(found->second);
  });
  return result;
}

void FusionPlan::JoinProducers(uint32_t step) {
  std::vector<uint32_t> candidates;
  for (uint32_t producer : Producers(step)) candidates.push_back(steps_[producer].group);
  // A group that uses another comes first, so that the other has no user outside. A weight that is computed comes
  // before all of them: it would be stored as a whole, while there are but a few rows to multiply it by.
  std::ranges::sort(candidates, std::ranges::greater(), [&](uint32_t candidate) {
    return std::pair(ExpandsConstants(groups_[candidate]), groups_[candidate].last);
  });
  for (uint32_t candidate : candidates) {
    uint32_t own = steps_[step].group;
    if (candidate == own || groups_[candidate].members.empty() || !MayMerge(groups_[candidate], step)) continue;
    if (Fits(groups_[candidate], groups_[own])) {
      Merge(candidate, own);
    } else if (options_.opt_level >= 2) {
      TakeEnd(candidate, step);
    }
  }
}

bool FusionPlan::ExpandsConstants(const FusionGroup& group) const {
  return std::ranges::all_of(group.members, [&](uint32_t member) {
    bool is_inside = true;
    ForEachAtom(*steps_[member].op, [&](const Expr* atom) {
      const auto* use = DynCast<ir::VarExpr>(atom);
      auto found = use == nullptr ? producers_.end() : producers_.find(use->var);
      is_inside =
          is_inside &&
          (use == nullptr || (found != producers_.end() && std::ranges::binary_search(group.members, found->second)));
    });
    return is_inside;
  });
}

// Gives the group of the step the last members of a producer that is too large for it, where less memory lies between
// the two then: a convolution of bytes is cut off before its sums, not behind them.
void FusionPlan::TakeEnd(uint32_t producer, uint32_t step) {
  const std::vector<uint32_t> members = groups_[producer].members;
  const uint32_t own = steps_[step].group, end = static_cast<uint32_t>(groups_.size());
  size_t best = members.size();
  double least = BytesBetween(members, best, own) * kMinGainOfEnd;
  for (size_t begin = members.size() - 1; begin > 0 && members.size() - begin <= kMaxEnd; --begin) {
    const double bytes = BytesBetween(members, begin, own);
    if (bytes < least) best = begin, least = bytes;
  }
  if (best == members.size()) return;
  const auto cut = members.begin() + static_cast<ptrdiff_t>(best);
  groups_.push_back({.last = groups_[producer].last});
  SetMembers(end, {cut, members.end()});
  SetMembers(producer, {members.begin(), cut});
  if (MayMerge(groups_[end], step) && Fits(groups_[end], groups_[own])) {
    groups_[producer].last = groups_[producer].members.back();
    return Merge(end, own);
  }
  SetMembers(producer, members);
  groups_.pop_back();
}

// Returns the bytes that a group of `members` stores, if those from `begin` on join the consumer. An extent that is not
// known counts as 1.
double FusionPlan::BytesBetween(const std::vector<uint32_t>& members, size_t begin, uint32_t consumer) const {
  double total = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto first = members.begin() + (i < begin ? 0 : static_cast<ptrdiff_t>(begin));
    const auto last = i < begin ? members.begin() + static_cast<ptrdiff_t>(begin) : members.end();
    for (const OpOutput& output : steps_[members[i]].outputs) {
      const bool is_stored = std::ranges::any_of(output.users, [&](uint32_t user) {
        const bool is_inside = i >= begin && steps_[user].op != nullptr && steps_[user].group == consumer;
        return !is_inside && !std::binary_search(first, last, user);
      });
      const auto* tensor = DynCast<ir::TensorType>(output.type);
      if (!is_stored || tensor == nullptr || !tensor->dtype.is_concrete()) continue;
      auto bytes = static_cast<double>(tensor->dtype.dtype.bytes());
      for (const Dim& dim : tensor->shape.dims) bytes *= static_cast<double>(dim.AsConst().value_or(1));
      total += bytes;
    }
  }
  return total;
}

void FusionPlan::SetMembers(uint32_t group, std::vector<uint32_t> members) {
  groups_[group].anchor = FusionGroup::kNoAnchor;
  for (uint32_t member : members) {
    steps_[member].group = group;
    if (IsAnchor(ClassOf(steps_[member]))) groups_[group].anchor = member;
  }
  groups_[group].members = std::move(members);
}

bool FusionPlan::MayMerge(const FusionGroup& producer, uint32_t step) const {
  const FusionGroup& consumer = groups_[steps_[step].group];
  std::optional<int64_t> composite = target::CompositeOf(steps_[step].op->attrs);
  std::optional<int64_t> of_producer = target::CompositeOf(steps_[producer.members[0]].op->attrs);
  if (composite || of_producer) return composite == of_producer;
  return MayShareDevice(producer, consumer) && MayMergeKinds(producer, step) && !HasOwnShapes(producer, consumer) &&
         AreOfOneLevel(producer, consumer) && IsCalledInTime(producer, step);
}

bool FusionPlan::Fits(const FusionGroup& producer, const FusionGroup& consumer) const {
  return producer.members.size() + consumer.members.size() <= kMaxOps && HasFewOperands(producer, consumer);
}

std::optional<std::string_view> FusionPlan::DeviceOfGroup(const FusionGroup& group) const {
  for (uint32_t member : group.members) {
    if (!IsView(member)) return target::DeviceOf(steps_[member].op->attrs);
  }
  return std::nullopt;
}

bool FusionPlan::MayShareDevice(const FusionGroup& producer, const FusionGroup& consumer) const {
  std::optional<std::string_view> a = DeviceOfGroup(producer), b = DeviceOfGroup(consumer);
  if (a && b && *a != *b) return false;
  const target::DeviceKind* kind = target::KindOfPlace(a.value_or(b.value_or("")));
  return kind == nullptr || kind->accelerator == nullptr;
}

bool FusionPlan::MayMergeKinds(const FusionGroup& producer, uint32_t step) const {
  FusionClass own = ClassOf(steps_[step]);
  if (own == FusionClass::kOpaque) return false;
  for (uint32_t member : producer.members) {
    if (ClassOf(steps_[member]) == FusionClass::kOpaque || steps_[member].checks_type) return false;
  }
  if (options_.opt_level >= 2) return true;

  // One loop nest with at most one anchor. What stays visible outside must have its extents.
  const FusionGroup& consumer = groups_[steps_[step].group];
  const ir::Type* type = steps_[step].value->type;
  if (producer.anchor != FusionGroup::kNoAnchor) {
    bool is_pointwise = own == FusionClass::kElementwise || own == FusionClass::kBroadcast;
    if (!is_pointwise || consumer.anchor != FusionGroup::kNoAnchor) return false;
    if (!SameExtents(steps_[producer.anchor].value->type, type)) return false;
  } else if (own == FusionClass::kContraction) {
    return false;
  }
  for (uint32_t member : producer.members) {
    for (const OpOutput& output : steps_[member].outputs) {
      bool stays_visible = !output.users.empty() && output.users.back() > step;
      if (stays_visible && !SameExtents(output.type, type)) return false;
    }
    if (!steps_[member].tuple_users.empty()) return false;
  }
  return true;
}

// Returns whether the merged group would compute a value that decides the shape of one of its own results.
bool FusionPlan::HasOwnShapes(const FusionGroup& producer, const FusionGroup& consumer) const {
  uint32_t a = steps_[producer.members[0]].group;
  uint32_t b = steps_[consumer.members[0]].group;
  for (const FusionGroup* group : {&producer, &consumer}) {
    for (uint32_t member : group->members) {
      const ir::Call& call = *steps_[member].op;
      const ops::OpDef& op = *Cast<ir::OpExpr>(call.callee)->op;
      for (size_t i = 0; i < call.args.size(); ++i) {
        const auto* use = ops::DecidesShape(op, i) ? DynCast<ir::VarExpr>(call.args[i]) : nullptr;
        auto found = use == nullptr ? producers_.end() : producers_.find(use->var);
        if (found != producers_.end() && (steps_[found->second].group == a || steps_[found->second].group == b))
          return true;
      }
    }
  }
  return false;
}

// The merged group is called at `step`, so no other step may use the producer before.
bool FusionPlan::IsCalledInTime(const FusionGroup& producer, uint32_t step) const {
  uint32_t consumer = steps_[step].group;
  uint32_t own = steps_[producer.members[0]].group;
  auto is_in_time = [&](const std::vector<uint32_t>& users) {
    for (uint32_t user : users) {
      if (user > step) return true;
      if (steps_[user].op == nullptr) return false;
      if (steps_[user].group != own && steps_[user].group != consumer) return false;
    }
    return true;
  };
  for (uint32_t member : producer.members) {
    if (!is_in_time(steps_[member].tuple_users)) return false;
    for (const OpOutput& output : steps_[member].outputs) {
      if (!is_in_time(output.users)) return false;
    }
  }
  return true;
}

// False if the producer has a product of what is known beforehand, and the consumer needs a carried value, or if
// exactly one of the two accumulates: calls of accumulations wait for all others.
bool FusionPlan::AreOfOneLevel(const FusionGroup& producer, const FusionGroup& consumer) const {
  if (steps_[producer.members[0]].accumulates != steps_[consumer.members[0]].accumulates) return false;
  auto is_carried = [&](uint32_t member) { return steps_[member].is_carried; };
  auto shares = [&](uint32_t member) { return SharesWeights(steps_[member]); };
  const std::vector<uint32_t>&own = producer.members, &other = consumer.members;
  if (options_.carried == nullptr || std::any_of(own.begin(), own.end(), is_carried)) return true;
  return std::none_of(other.begin(), other.end(), is_carried) || std::none_of(own.begin(), own.end(), shares);
}

bool FusionPlan::HasFewOperands(const FusionGroup& producer, const FusionGroup& consumer) const {
  uint32_t a = steps_[producer.members[0]].group;
  uint32_t b = steps_[consumer.members[0]].group;
  absl::flat_hash_set<const void*> inputs;
  size_t outputs = 0;
  auto is_outside = [&](uint32_t user) {
    return steps_[user].op == nullptr || (steps_[user].group != a && steps_[user].group != b);
  };
  for (const FusionGroup* group : {&producer, &consumer}) {
    for (uint32_t member : group->members) {
      ForEachAtom(*steps_[member].op, [&](const Expr* atom) {
        if (const auto* constant = DynCast<ir::Constant>(atom)) {
          const bool is_shared = constant->literal.bytes() <= kMaxSharedBytes;
          const void* own = constant;
          if (constant->literal.rank() > 0) inputs.insert(is_shared ? constant->literal.data() : own);
          return;
        }
        const ir::Var* var = Cast<ir::VarExpr>(atom)->var;
        auto found = producers_.find(var);
        if (found == producers_.end() || is_outside(found->second)) inputs.insert(var);
      });
      bool is_whole = !steps_[member].tuple_users.empty();
      for (const OpOutput& output : steps_[member].outputs) {
        if (is_whole || std::any_of(output.users.begin(), output.users.end(), is_outside)) ++outputs;
      }
      if (inputs.size() + outputs > kMaxOperands) return false;
    }
  }
  return true;
}

void FusionPlan::Merge(uint32_t producer, uint32_t consumer) {
  FusionGroup& from = groups_[producer];
  FusionGroup& to = groups_[consumer];
  for (uint32_t member : from.members) steps_[member].group = consumer;
  to.members.insert(to.members.end(), from.members.begin(), from.members.end());
  std::sort(to.members.begin(), to.members.end());
  if (to.anchor == FusionGroup::kNoAnchor) to.anchor = from.anchor;
  from.members.clear();
}

bool FusionPlan::ReadsGroup(uint32_t step, uint32_t group) const {
  for (uint32_t producer : Producers(step)) {
    if (steps_[producer].group == group) return true;
  }
  return false;
}

// A part of the group whose extents are large becomes a group of its own, called at its own last step: whoever else
// uses it comes later than the whole group.
void FusionPlan::SplitLargeExtents(uint32_t group, const absl::flat_hash_map<const ir::Var*, ir::Var*>& renamed) {
  const std::vector<uint32_t> members = groups_[group].members;
  if (std::all_of(members.begin(), members.end(), [&](uint32_t step) { return IsStatic(steps_[step]); })) return;
  KernelExtents extents(arena_, renamed);
  size_t begin = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    if (extents.Add(steps_[members[i]])) continue;
    FusionGroup part;
    part.members.assign(members.begin() + static_cast<ptrdiff_t>(begin), members.begin() + static_cast<ptrdiff_t>(i));
    part.last = part.members.back();
    for (uint32_t member : part.members) steps_[member].group = static_cast<uint32_t>(groups_.size());
    groups_.push_back(std::move(part));
    PlaceBehindProducers(groups_.back());
    extents.Clear();
    extents.Add(steps_[members[i]]);
    begin = i;
  }
  groups_[group].members.erase(groups_[group].members.begin(),
                               groups_[group].members.begin() + static_cast<ptrdiff_t>(begin));
}

// A view at the border of a group stays a view, which copies no data.
void FusionPlan::SplitOffViews(uint32_t group) {
  auto split_off = [&](uint32_t step) {
    std::vector<uint32_t>& members = groups_[group].members;
    members.erase(std::find(members.begin(), members.end(), step));
    FusionGroup view;
    view.members = {step};
    view.last = step;
    steps_[step].group = static_cast<uint32_t>(groups_.size());
    groups_.push_back(std::move(view));
    PlaceBehindProducers(groups_.back());
  };
  std::vector<uint32_t> members = groups_[group].members;
  for (auto step = members.rbegin(); step != members.rend(); ++step) {
    if (!IsView(*step)) continue;
    const std::vector<uint32_t>& users = steps_[*step].outputs[0].users;
    bool is_read_inside = std::any_of(users.begin(), users.end(), [&](uint32_t user) {
      return steps_[user].op != nullptr && steps_[user].group == group;
    });
    if (!is_read_inside) split_off(*step);
  }
  members = groups_[group].members;
  for (uint32_t step : members) {
    if (IsView(step) && !ReadsGroup(step, group)) split_off(step);
  }
}

// Moves the call of the group behind those of the groups whose results it takes.
void FusionPlan::PlaceBehindProducers(FusionGroup& group) const {
  for (uint32_t member : group.members) {
    for (uint32_t producer : Producers(member)) {
      group.last = std::max(group.last, groups_[steps_[producer].group].last);
    }
  }
}

bool FusionPlan::IsUsedOutside(const std::vector<uint32_t>& users, uint32_t group) const {
  for (uint32_t user : users) {
    if (steps_[user].op == nullptr || steps_[user].group != group) return true;
  }
  return false;
}

// Appends the group, behind the groups with the same place whose results it takes.
void FusionPlan::AddInOrder(uint32_t group, std::vector<bool>& is_added, std::vector<Item>& items) const {
  if (is_added[group]) return;
  is_added[group] = true;
  for (uint32_t member : groups_[group].members) {
    for (uint32_t producer : Producers(member)) {
      uint32_t from = steps_[producer].group;
      if (groups_[from].last == groups_[group].last) WithStack([&] { AddInOrder(from, is_added, items); });
    }
  }
  items.push_back({true, group});
}

std::vector<FusionPlan::Item> FusionPlan::Order() const {
  struct Placed {
    uint32_t last;
    uint32_t first;
    Item item;
  };
  std::vector<Placed> placed;
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].op == nullptr && !steps_[i].is_projection) placed.push_back({i, i, {false, i}});
  }
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    const FusionGroup& group = groups_[i];
    if (!group.members.empty()) placed.push_back({group.last, group.members[0], {true, i}});
  }
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::tie(a.last, a.first) < std::tie(b.last, b.first); });
  std::vector<bool> is_added(groups_.size(), false);
  std::vector<Item> items;
  for (const Placed& p : placed) {
    if (p.item.is_group) {
      AddInOrder(p.item.index, is_added, items);
    } else {
      items.push_back(p.item);
    }
  }
  return items;
}

}  // namespace rvm::passes
