#include "compiler/lowering/linear_index.h"

#include <cstddef>
#include <utility>

namespace rvm::lowering {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;

namespace {

std::optional<Linear> CombineLinear(BinaryOp op, const Linear& a, const Linear& b) {
  if (op == BinaryOp::kMultiply && b.coefficients.empty()) return a.Times(b.constant);
  if (op == BinaryOp::kMultiply && a.coefficients.empty()) return b.Times(a.constant);
  if (op != BinaryOp::kAdd) return std::nullopt;
  Linear sum = a;
  sum.constant = sum.constant + b.constant;
  for (const auto& [variable, coefficient] : b.coefficients) {
    auto [it, added] = sum.coefficients.try_emplace(variable, coefficient);
    if (!added) it->second = it->second + coefficient;
  }
  return sum;
}

bool IsInt(const Expr& e, int64_t value) { return e->kind == ExprKind::kIntConst && e->int_value == value; }

// Returns the extent that a te::BroadcastIndex depends on: the index is 0 where the extent is 1.
const Expr* BroadcastExtent(const ExprNode& node) {
  if (node.kind != ExprKind::kSelect || !IsInt(node.operands[1], 0)) return nullptr;
  const Expr& condition = node.operands[0];
  bool fits = condition->kind == ExprKind::kBinary && condition->binary == BinaryOp::kEqual;
  for (size_t i : {0, 1}) {
    if (fits && IsInt(condition->operands[1 - i], 1)) return &condition->operands[i];
  }
  return nullptr;
}

}  // namespace

std::optional<Linear> LinearOf(const Expr& e) {
  absl::flat_hash_map<const ExprNode*, Linear> known;
  auto value_of = [&](const Expr& operand) -> std::optional<Linear> {
    auto found = known.find(operand.get());
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  for (const ExprNode* node : te::Postorder({e})) {
    Linear value;
    if (node->kind == ExprKind::kIntConst && node->int_value >= 0) {
      value.constant = node->int_value;
    } else if (node->kind == ExprKind::kDim) {
      value.constant = node->dim;
    } else if (node->kind == ExprKind::kIndex) {
      value.coefficients.emplace(node->index.id, 1);
    } else if (const Expr* extent = BroadcastExtent(*node)) {
      std::optional<Linear> of_extent = value_of(*extent), index = value_of(node->operands[2]);
      if (!of_extent || !of_extent->coefficients.empty() || !index) continue;
      value = index->Times(Min(of_extent->constant - 1, 1));
    } else if (node->kind == ExprKind::kBinary) {
      std::optional<Linear> a = value_of(node->operands[0]), b = value_of(node->operands[1]);
      std::optional<Linear> combined = a && b ? CombineLinear(node->binary, *a, *b) : std::nullopt;
      if (!combined) continue;
      value = *std::move(combined);
    } else {
      continue;
    }
    known.emplace(node, std::move(value));
  }
  return value_of(e);
}

}  // namespace rvm::lowering
