#include "compiler/bytecode/liveness.h"

#include <algorithm>
#include <utility>

#include "base/stack_guard.h"
#include "compiler/analysis/free_vars.h"

namespace rvm::bytecode {

Liveness::Liveness(const ir::Expr* body, bool returns_fields) : returns_fields_(returns_fields) {
  VisitBlock(body, true);
}

void Liveness::UseVar(const ir::Var* var, bool escapes) {
  std::vector<uint32_t>& uses = uses_[var];
  uint32_t position = next_ - 1;
  if (uses.empty() || uses.back() != position) uses.push_back(position);
  if (escapes) escaping_.insert(var);
}

void Liveness::Use(const ir::Expr* atom, bool escapes) {
  if (const auto* var = ir::DynCast<ir::VarExpr>(atom)) UseVar(var->var, escapes);
}

void Liveness::VisitBlock(const ir::Expr* expr, bool is_tail, bool is_certain) {
  uint32_t block = static_cast<uint32_t>(block_ends_.size());
  roots_.push_back(is_certain ? roots_[block_] : block);
  uint32_t outer = std::exchange(block_, block);
  block_ends_.push_back(0);
  while (const auto* let = ir::DynCast<ir::Let>(expr)) {
    VisitStep(let->value, let->var, false);
    expr = let->body;
  }
  VisitStep(expr, nullptr, is_tail);
  block_ends_[block] = next_;
  block_ = outer;
}

void Liveness::VisitStep(const ir::Expr* expr, const ir::Var* self, bool is_tail) {
  uint32_t position = next_++;
  step_ends_.push_back(0);
  blocks_after_.push_back(0);
  VisitOperands(expr, self, is_tail);
  VisitNested(expr, position, is_tail);
  step_ends_[position] = next_;
  blocks_after_[position] = static_cast<uint32_t>(block_ends_.size());
}

void Liveness::VisitOperands(const ir::Expr* expr, const ir::Var* self, bool is_tail) {
  switch (expr->expr_kind) {
    case ir::ExprKind::kVar: Use(expr); return;
    case ir::ExprKind::kTuple:
      for (const ir::Expr* field : ir::Cast<ir::Tuple>(expr)->fields) Use(field);
      if (!is_tail || !returns_fields_) MakesCell(ir::Cast<ir::Tuple>(expr)->fields.size());
      return;
    case ir::ExprKind::kProject: {
      const auto* project = ir::Cast<ir::Project>(expr);
      Use(project->tuple);
      const auto* tuple = ir::DynCast<ir::VarExpr>(project->tuple);
      if (tuple != nullptr && self != nullptr)
        projections_[{tuple->var, roots_[block_]}].push_back({next_ - 1, project->index, self});
      return;
    }
    case ir::ExprKind::kCall: {
      const auto* call = ir::Cast<ir::Call>(expr);
      bool kernel = ir::IsPrimitive(call->callee);
      Use(call->callee);
      for (const ir::Expr* arg : call->args) Use(arg, !kernel);
      if (ir::ConstructorCallee(call) != nullptr) MakesCell(call->args.size());
      return;
    }
    case ir::ExprKind::kFunction: {
      const auto* function = ir::Cast<ir::Function>(expr);
      std::vector<ir::Var*>& captures = captures_[function];
      for (ir::Var* var : analysis::FreeVars(function)) {
        if (var == self) continue;
        captures.push_back(var);
        UseVar(var, true);
      }
      MakesCell(captures.size());
      return;
    }
    case ir::ExprKind::kIf: Use(ir::Cast<ir::If>(expr)->condition); return;
    case ir::ExprKind::kMatch: {
      const ir::Expr* value = ir::Cast<ir::Match>(expr)->value;
      const auto* tuple = ir::DynCast<ir::Tuple>(value);
      if (tuple == nullptr) return Use(value);
      for (const ir::Expr* field : tuple->fields) Use(field);
      return;
    }
    case ir::ExprKind::kRefCreate: Use(ir::Cast<ir::RefCreate>(expr)->value); return;
    case ir::ExprKind::kRefRead: Use(ir::Cast<ir::RefRead>(expr)->ref); return;
    case ir::ExprKind::kRefWrite:
      Use(ir::Cast<ir::RefWrite>(expr)->ref);
      Use(ir::Cast<ir::RefWrite>(expr)->value);
      return;
    case ir::ExprKind::kConstant:
    case ir::ExprKind::kGlobal:
    case ir::ExprKind::kOp:
    case ir::ExprKind::kConstructor:
    case ir::ExprKind::kLet: return;
  }
}

void Liveness::VisitNested(const ir::Expr* expr, uint32_t position, bool is_tail) {
  if (const auto* branch = ir::DynCast<ir::If>(expr)) {
    WithStack([&] {
      VisitBlock(branch->then_branch, is_tail);
      VisitBlock(branch->else_branch, is_tail);
    });
  } else if (const auto* match = ir::DynCast<ir::Match>(expr)) {
    std::vector<Start> starts;
    for (const ir::Clause& clause : match->clauses) {
      starts.push_back({next_, static_cast<uint32_t>(block_ends_.size())});
      WithStack([&] { VisitBlock(clause.body, is_tail, match->clauses.size() == 1); });
    }
    clause_starts_[position] = std::move(starts);
  }
}

void Liveness::MakesCell(size_t fields) { cells_made_[fields].push_back(next_ - 1); }

std::span<const uint32_t> Liveness::CellsMade(size_t fields, uint32_t begin, uint32_t end) const {
  auto found = cells_made_.find(fields);
  if (found == cells_made_.end()) return {};
  const std::vector<uint32_t>& all = found->second;
  return {std::lower_bound(all.begin(), all.end(), begin), std::lower_bound(all.begin(), all.end(), end)};
}

std::optional<uint32_t> Liveness::LastUse(const ir::Var* var, uint32_t begin, uint32_t end) const {
  auto found = uses_.find(var);
  if (found == uses_.end()) return std::nullopt;
  const std::vector<uint32_t>& uses = found->second;
  auto it = std::lower_bound(uses.begin(), uses.end(), end);
  if (it == uses.begin() || *std::prev(it) < begin) return std::nullopt;
  return *std::prev(it);
}

size_t Liveness::NumUses(const ir::Var* var, uint32_t begin, uint32_t end) const {
  auto found = uses_.find(var);
  if (found == uses_.end()) return 0;
  const std::vector<uint32_t>& uses = found->second;
  return static_cast<size_t>(std::lower_bound(uses.begin(), uses.end(), end) -
                             std::lower_bound(uses.begin(), uses.end(), begin));
}

std::span<const Liveness::Projection> Liveness::Projections(const ir::Var* tuple, uint32_t block, uint32_t begin,
                                                            uint32_t end) const {
  auto found = projections_.find({tuple, roots_[block]});
  if (found == projections_.end()) return {};
  const std::vector<Projection>& all = found->second;
  return {std::ranges::lower_bound(all, begin, {}, &Projection::position),
          std::ranges::lower_bound(all, end, {}, &Projection::position)};
}

size_t Liveness::num_uses(const ir::Var* var) const {
  auto found = uses_.find(var);
  return found == uses_.end() ? 0 : found->second.size();
}

}  // namespace rvm::bytecode
