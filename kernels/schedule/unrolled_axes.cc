#include "kernels/schedule/unrolled_axes.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

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

// Returns the formula of the last tensor, with those of the others, which nothing else reads, in place of reads of
// them; null if another one is stored or rounded.
Expr WholeFormula(te::ExprPool& pool, const LoopNest& nest) {
  absl::flat_hash_map<const te::TensorNode*, Expr> formulas;
  for (const NestTensor& t : nest.tensors) {
    te::Rewrite rewrite;
    for (const ExprNode* node : te::Postorder({t.value})) {
      auto found = node->kind == ExprKind::kRead ? formulas.find(node->tensor.get()) : formulas.end();
      if (found != formulas.end()) rewrite.done.emplace(node, found->second);
    }
    formulas[t.tensor.get()] = pool.Copy(t.value, rewrite);
    const bool is_last = &t == &nest.tensors.back();
    if (is_last) return formulas[t.tensor.get()];
    if (t.stored || t.tensor.dtype().is_small_float()) return Expr();
  }
  return Expr();
}

}  // namespace

bool UnrollAxes(te::ExprPool& pool, LoopNest& nest) {
  const Expr formula = WholeFormula(pool, nest);
  if (!formula) return false;
  std::vector<Replica> replicas = {{nest.store_offset, formula}};
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
  nest.tensors = {nest.tensors.back()};
  nest.tensors[0].value = formula;
  nest.axes = std::move(left);
  nest.replicas = std::move(replicas);
  return true;
}

}  // namespace rvm::schedule
