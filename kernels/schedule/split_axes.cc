#include "kernels/schedule/split_axes.h"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace rvm::schedule {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

namespace {

bool IsDivision(const ExprNode& e) {
  return e.kind == ExprKind::kBinary && (e.binary == BinaryOp::kFloorDivide || e.binary == BinaryOp::kFloorMod);
}

struct Split {
  IndexVar quotient, remainder;
  Expr axis;  // quotient * divisor + remainder
};

Split SplitOf(te::ExprPool& pool, const IndexVar& axis, int64_t divisor) {
  Split split{pool.Fresh(FloorDiv(axis.extent, divisor), "g"), pool.Fresh(divisor, "i"), {}};
  Expr scaled = pool.Binary(BinaryOp::kMultiply, pool.Variable(split.quotient), pool.Extent(divisor));
  split.axis = pool.Binary(BinaryOp::kAdd, scaled, pool.Variable(split.remainder));
  return split;
}

// Returns whether the nest divides the axis, or a sum of it and of multiples of the divisor.
std::optional<Split> FindSplit(te::ExprPool& pool, const LoopNest& nest, const IndexVar& axis) {
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    bool divides = IsDivision(*node) && node->operands[1]->kind == ExprKind::kIntConst;
    if (!divides) continue;
    int64_t divisor = node->operands[1]->int_value;
    if (divisor <= 1 || te::Stride(node->operands[0], axis.id) != 1) continue;
    if (FloorMod(axis.extent, divisor) != Dim(0) || axis.extent == Dim(divisor)) continue;
    Split split = SplitOf(pool, axis, divisor);
    te::Rewrite rewrite;
    rewrite.variables[axis.id] = split.axis;
    Expr quotient = pool.Binary(BinaryOp::kFloorDivide, pool.Copy(node->operands[0], rewrite), node->operands[1]);
    if (!IsDivision(*quotient)) return split;
  }
  return std::nullopt;
}

}  // namespace

void SplitDividedAxes(te::ExprPool& pool, LoopNest& nest) {
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    std::optional<Split> split = FindSplit(pool, nest, nest.axes[i]);
    if (!split) continue;
    Substitute(pool, nest, nest.axes[i], split->axis);
    nest.axes[i] = split->quotient;
    nest.axes.insert(nest.axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, split->remainder);
    ++i;
  }
}

}  // namespace rvm::schedule
