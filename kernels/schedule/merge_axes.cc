#include "kernels/schedule/merge_axes.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

// Classifies the nodes that use two axes. A place is `row * width + inner`, where the row is `outer`, or
// `first * height + outer`.
class PlaneFinder {
 public:
  PlaneFinder(te::ExprPool& pool, const IndexVar& outer, const IndexVar& inner)
      : pool_(pool),
        outer_(pool.Variable(outer)),
        inner_(pool.Variable(inner)),
        height_(pool.Extent(outer.extent)),
        width_(pool.Extent(inner.extent)),
        outer_id_(outer.id),
        inner_id_(inner.id) {}

  bool IsRow(const ExprNode& node) const {
    if (&node == outer_.get()) return true;
    if (!Is(node, BinaryOp::kAdd) || node.operands[1].get() != outer_.get()) return false;
    const ExprNode& scaled = *node.operands[0];
    return Is(scaled, BinaryOp::kMultiply) && scaled.operands[1].get() == height_.get() &&
           !te::DependsOn(scaled.operands[0], outer_id_) && !te::DependsOn(scaled.operands[0], inner_id_);
  }
  bool IsScaledRow(const ExprNode& node) const {
    return Is(node, BinaryOp::kMultiply) && node.operands[1].get() == width_.get() && IsRow(*node.operands[0]);
  }
  bool IsPlace(const ExprNode& node) const {
    return Is(node, BinaryOp::kAdd) && node.operands[1].get() == inner_.get() && IsScaledRow(*node.operands[0]);
  }
  // Returns whether `node` is a part of a place, but not a whole one.
  bool IsPart(const ExprNode& node) const { return &node == inner_.get() || IsRow(node) || IsScaledRow(node); }
  // Returns whether `operand`, a part of a place, may be an operand of `node`.
  bool MayUse(const ExprNode& node, const ExprNode& operand) const {
    if (&operand == inner_.get() || IsScaledRow(operand)) return IsPlace(node);
    return IsScaledRow(node) || (&operand == outer_.get() && IsRow(node));
  }
  // Returns the place, with `merged` for both axes.
  Expr Merged(const ExprNode& place, const IndexVar& merged) {
    const ExprNode& row = *place.operands[0]->operands[0];
    if (&row == outer_.get()) return pool_.Variable(merged);
    Expr scaled = pool_.Binary(BinaryOp::kMultiply, row.operands[0]->operands[0], pool_.Extent(merged.extent));
    return pool_.Binary(BinaryOp::kAdd, scaled, pool_.Variable(merged));
  }

 private:
  static bool Is(const ExprNode& node, BinaryOp op) { return node.kind == ExprKind::kBinary && node.binary == op; }

  te::ExprPool& pool_;
  Expr outer_, inner_, height_, width_;
  int64_t outer_id_, inner_id_;
};

}  // namespace

std::optional<te::Rewrite> MergeOfAxes(te::ExprPool& pool, const IndexVar& outer, const IndexVar& inner,
                                       const IndexVar& merged, const std::vector<Expr>& roots) {
  PlaneFinder finder(pool, outer, inner);
  for (const Expr& root : roots) {
    if (finder.IsPart(*root)) return std::nullopt;
  }
  te::Rewrite rewrite;
  for (const ExprNode* node : te::Postorder(roots)) {
    for (const Expr& operand : node->operands) {
      if (finder.IsPart(*operand) && !finder.MayUse(*node, *operand)) return std::nullopt;
    }
    if (finder.IsPlace(*node)) rewrite.done.emplace(node, finder.Merged(*node, merged));
  }
  return rewrite;
}

std::optional<LoopNest> WithMergedAxes(te::ExprPool& pool, const LoopNest& nest, size_t outer) {
  const IndexVar &first = nest.axes[outer], &second = nest.axes[outer + 1];
  IndexVar merged = pool.Fresh(first.extent * second.extent, "i");
  std::optional<te::Rewrite> rewrite = MergeOfAxes(pool, first, second, merged, Roots(nest));
  if (!rewrite || rewrite->done.empty()) return std::nullopt;
  LoopNest result = nest;
  Apply(pool, result, *std::move(rewrite));
  result.axes[outer] = merged;
  result.axes.erase(result.axes.begin() + static_cast<std::ptrdiff_t>(outer) + 1);
  return result;
}

}  // namespace rvm::schedule
