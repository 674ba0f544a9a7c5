#include "kernels/schedule/unrolled_axes.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

constexpr int64_t kMaxPerAxis = 8;
constexpr int64_t kMaxElements = 64;

// Returns whether the nest compares the axis with a number.
bool Selects(const LoopNest& nest, const IndexVar& axis) {
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind != ExprKind::kBinary || node->binary != BinaryOp::kEqual) continue;
    const Expr &a = node->operands[0], &b = node->operands[1];
    if (a->kind == ExprKind::kIndex && a->index.id == axis.id && b->kind == ExprKind::kIntConst) return true;
  }
  return false;
}

int64_t CountOperations(const std::vector<Expr>& roots) {
  int64_t count = 0;
  for (const ExprNode* node : te::Postorder(roots)) {
    count += node->dtype.is_float() && (node->kind == ExprKind::kBinary || node->kind == ExprKind::kUnary);
  }
  return count;
}

std::vector<Replica> Replicate(te::ExprPool& pool, const IndexVar& axis, const std::vector<Replica>& replicas) {
  std::vector<Replica> result;
  for (const Replica& replica : replicas) {
    for (int64_t i = 0; i < axis.extent.constant(); ++i) {
      te::Rewrite rewrite;
      rewrite.variables[axis.id] = pool.Intern(*te::Index(i));
      Expr value = pool.Copy(replica.value, rewrite);
      result.push_back({pool.Copy(replica.store_offset, rewrite), std::move(value)});
    }
  }
  return result;
}

}  // namespace

bool UnrollAxes(te::ExprPool& pool, LoopNest& nest) {
  if (nest.tensors.size() != 1) return false;
  std::vector<Replica> replicas = {{nest.store_offset, nest.tensors[0].value}};
  std::vector<IndexVar> left;
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    const IndexVar& axis = nest.axes[i];
    bool is_short = axis.extent.is_const() && axis.extent.constant() > 0 && axis.extent.constant() <= kMaxPerAxis &&
                    axis.extent.constant() * static_cast<int64_t>(replicas.size()) <= kMaxElements;
    // Vectors run along the last axis.
    if (i + 1 < nest.axes.size() && is_short && Selects(nest, axis)) {
      replicas = Replicate(pool, axis, replicas);
    } else {
      left.push_back(axis);
    }
  }
  if (replicas.size() == 1) return false;
  std::vector<Expr> values;
  int64_t alone = 0;
  for (const Replica& replica : replicas) {
    values.push_back(replica.value);
    alone += CountOperations({replica.value});
  }
  if (alone < 2 * CountOperations(values)) return false;
  nest.axes = std::move(left);
  nest.replicas = std::move(replicas);
  return true;
}

}  // namespace rvm::schedule
