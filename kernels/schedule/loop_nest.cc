#include "kernels/schedule/loop_nest.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "kernels/schedule/merge_axes.h"

namespace rvm::schedule {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprPool;
using te::IndexVar;
using te::Postorder;
using te::Rewrite;

namespace {

// Finds the node `outer * extent(inner) + inner` when the two variables occur nowhere else.
Expr FindPair(const std::vector<const ExprNode*>& nodes, const std::vector<Expr>& roots, ExprPool& pool,
              const IndexVar& outer, const IndexVar& inner) {
  Expr outer_node = pool.Variable(outer), inner_node = pool.Variable(inner);
  Expr scaled = pool.Binary(BinaryOp::kMultiply, outer_node, pool.Extent(inner.extent));
  Expr pair = pool.Binary(BinaryOp::kAdd, scaled, inner_node);
  for (const ExprNode* node : nodes) {
    for (const Expr& operand : node->operands) {
      if ((operand.get() == outer_node.get() && node != scaled.get()) ||
          (operand.get() == inner_node.get() && node != pair.get()) ||
          (operand.get() == scaled.get() && node != pair.get())) {
        return Expr();
      }
    }
  }
  for (const Expr& root : roots) {
    for (const Expr& alone : {outer_node, inner_node, scaled}) {
      if (root.get() == alone.get()) return Expr();
    }
  }
  return pair;
}

void Replace(ExprPool& pool, LoopNest& nest, const Expr& from, const Expr& to) {
  Rewrite rewrite;
  rewrite.done.emplace(from.get(), to);
  Apply(pool, nest, std::move(rewrite));
}

}  // namespace

std::vector<Expr> NestUpdate::Expressions() const {
  std::vector<Expr> all = counts;
  all.push_back(condition);
  all.insert(all.end(), usual.begin(), usual.end());
  std::erase_if(all, [](const Expr& e) { return !e; });
  return all;
}

std::vector<Expr> Values(const LoopNest& nest) {
  std::vector<Expr> values;
  for (const Replica& replica : nest.replicas) values.push_back(replica.value);
  if (!values.empty()) return values;
  for (const NestTensor& t : nest.tensors) values.push_back(t.value);
  return values;
}

int64_t CountReaders(const std::vector<LoopNest>& nests, const te::Tensor& tensor) {
  int64_t readers = 0;
  for (const LoopNest& nest : nests) {
    for (const ExprNode* node : Postorder(nest.update ? Roots(nest) : Values(nest))) {
      readers += node->kind == ExprKind::kRead && node->tensor.get() == tensor.get();
    }
  }
  return readers;
}

std::vector<Expr> Roots(const LoopNest& nest) {
  std::vector<Expr> roots = Values(nest);
  for (const Replica& replica : nest.replicas) roots.push_back(replica.store_offset);
  if (nest.replicas.empty()) roots.push_back(nest.store_offset);
  if (nest.direct) roots.push_back(nest.direct);
  if (nest.update) {
    std::vector<Expr> update = nest.update->Expressions();
    roots.insert(roots.end(), update.begin(), update.end());
  }
  return roots;
}

void Apply(ExprPool& pool, LoopNest& nest, Rewrite rewrite) {
  nest.store_offset = pool.Copy(nest.store_offset, rewrite);
  for (NestTensor& t : nest.tensors) t.value = pool.Copy(t.value, rewrite);
  if (nest.direct) nest.direct = pool.Copy(nest.direct, rewrite);
  for (Replica& replica : nest.replicas) {
    replica.store_offset = pool.Copy(replica.store_offset, rewrite);
    replica.value = pool.Copy(replica.value, rewrite);
  }
  if (!nest.update) return;
  auto copy = [&](Expr& e) {
    if (e) e = pool.Copy(e, rewrite);
  };
  copy(nest.update->condition);
  for (Expr& count : nest.update->counts) copy(count);
  for (Expr& condition : nest.update->usual) copy(condition);
}

std::vector<Expr> ReadExpressions(const LoopNest& nest) {
  if (nest.update) return Roots(nest);
  std::vector<Expr> expressions = Values(nest);
  if (!nest.tile) return expressions;
  if (const std::optional<Tile::FewRows>& few = nest.tile->few) {
    expressions.push_back(few->vector);
    expressions[0] = few->broadcast;
    if (few->always()) return expressions;
    expressions.push_back(few->broadcast);
  }
  expressions[0] = nest.tile->broadcast;
  bool is_read = nest.tile->access == Tile::Access::kInPlace || !nest.tile->sources.empty();
  if (is_read) expressions.push_back(nest.tile->vector);
  if (nest.tile->scale) expressions.push_back(nest.tile->scale);
  if (const std::optional<Tile::Blocks>& blocks = nest.tile->blocks) {
    expressions.push_back(blocks->row_scale);
    for (const te::Expr& e : {blocks->row_sum, blocks->zero, blocks->minimum}) {
      if (e) expressions.push_back(e);
    }
  }
  return expressions;
}

void Substitute(ExprPool& pool, LoopNest& nest, const IndexVar& variable, const Expr& by) {
  Replace(pool, nest, pool.Variable(variable), by);
}

void CollapseAxes(ExprPool& pool, LoopNest& nest) {
  bool has_counts = nest.update && std::any_of(nest.update->counts.begin(), nest.update->counts.end(),
                                               [](const Expr& count) { return static_cast<bool>(count); });
  for (size_t i = has_counts ? 0 : nest.axes.size(); i-- > 1;) {
    std::vector<Expr> roots = Roots(nest);
    Expr pair = FindPair(Postorder(roots), roots, pool, nest.axes[i - 1], nest.axes[i]);
    if (!pair) continue;
    IndexVar merged = pool.Fresh(nest.axes[i - 1].extent * nest.axes[i].extent, "i");
    Replace(pool, nest, pair, pool.Variable(merged));
    nest.axes[i - 1] = merged;
    nest.axes.erase(nest.axes.begin() + static_cast<std::ptrdiff_t>(i));
    // In `(outer * m + inner) * n + next` the axis behind the pair is found only now.
    if (i < nest.axes.size()) ++i;
  }
  for (NestTensor& t : nest.tensors) {
    // Index results of arg reductions have one axis; the rest does not care about order of axes.
    for (size_t i = t.value->kind == ExprKind::kReduce ? t.value->axes.size() : 0; i-- > 1;) {
      const IndexVar &outer = t.value->axes[i - 1], &inner = t.value->axes[i];
      IndexVar merged = pool.Fresh(outer.extent * inner.extent, "r");
      std::optional<Rewrite> rewrite = MergeOfAxes(pool, outer, inner, merged, {t.value->operands[0]});
      if (!rewrite) continue;
      ExprNode node = *t.value;
      node.operands = {pool.Copy(node.operands[0], *rewrite)};
      node.axes[i - 1] = merged;
      node.axes.erase(node.axes.begin() + static_cast<std::ptrdiff_t>(i));
      t.value = pool.Intern(std::move(node));
    }
  }
}

}  // namespace rvm::schedule
