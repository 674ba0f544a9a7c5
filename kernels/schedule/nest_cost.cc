#include "kernels/schedule/nest_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rvm::schedule {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

int64_t CostOfIterations(int64_t cost, const Dim& count) {
  if (cost == kUnknownCost || !count.is_const()) return kUnknownCost;
  int64_t product = 0;
  bool overflows = __builtin_mul_overflow(cost, std::max<int64_t>(count.constant(), 1), &product);
  return overflows ? kUnknownCost : product;
}

int64_t CostOf(const std::vector<Expr>& roots) {
  int64_t cost = 1;
  for (const ExprNode* node : te::Postorder(roots)) {
    if (node->kind == ExprKind::kUnary) {
      cost += IsTranscendental(node->unary) ? 10 : 1;
    } else if (node->kind == ExprKind::kBinary) {
      cost += IsDivision(node->binary) || node->binary == BinaryOp::kPower ? 10 : 1;
    } else if (node->kind == ExprKind::kRead) {
      cost += 2;
    }
  }
  return cost;
}

int64_t CostOfReduceIteration(const ExprNode& reduce, size_t axis, int64_t columns) {
  int64_t cost = CostOf({reduce.operands[0]});
  for (size_t inner = axis + 1; inner < reduce.axes.size(); ++inner) {
    cost = CostOfIterations(cost, reduce.axes[inner].extent);
  }
  return CostOfIterations(cost, columns);
}

int64_t CostOfPosition(const LoopNest& nest) {
  std::vector<Expr> values = Values(nest);
  const ExprNode* reduce = nest.reduction();
  if (reduce == nullptr) return CostOf(values);
  values.erase(values.begin());
  int64_t cost = CostOf({reduce->operands[0]}) + CostOf(values);
  for (const IndexVar& axis : reduce->axes) cost = CostOfIterations(cost, axis.extent);
  return cost;
}

int64_t CostOfIteration(const LoopNest& nest, size_t axis) {
  int64_t cost = CostOfPosition(nest);
  for (size_t inner = axis + 1; inner < nest.axes.size(); ++inner)
    cost = CostOfIterations(cost, nest.axes[inner].extent);
  return cost;
}

// Returns the number of positions at which the nest does not store, see AxisRange::is_image.
static Dim PositionsOfImage(const LoopNest& nest) {
  Dim positions = 1;
  bool has_image = false;
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    Dim extent = nest.axes[i].extent;
    for (size_t r = 0; i < nest.ranges.size() && r < nest.ranges[i].size(); ++r) {
      const AxisRange& range = nest.ranges[i][r];
      if (range.is_image) has_image = true, extent = range.end - range.begin;
    }
    positions = positions * extent;
  }
  return has_image ? positions : Dim(0);
}

Dim WorkOf(const LoopNest& nest) {
  int64_t operations = 0;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind == ExprKind::kUnary || node->kind == ExprKind::kBinary) {
      bool function = node->kind == ExprKind::kUnary && IsTranscendental(node->unary);
      operations += function ? 10 : 1;
    }
  }
  Dim work = std::max<int64_t>(operations, 1);
  if (nest.update) return work * nest.update->estimate;
  work = work * (te::NumPositions(nest.axes) - PositionsOfImage(nest));
  if (const ExprNode* reduce = nest.reduction()) {
    for (const IndexVar& axis : reduce->axes) work = work * axis.extent;
  }
  return work;
}

}  // namespace rvm::schedule
