#include "kernels/schedule/split_axes.h"

#include <cstddef>
#include <cstdint>

namespace rvm::schedule {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

void SplitDividedAxes(te::ExprPool& pool, LoopNest& nest) {
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    IndexVar axis = nest.axes[i];
    int64_t divisor = 0;
    for (const ExprNode* node : te::Postorder(Values(nest))) {
      bool divides = node->kind == ExprKind::kBinary && node->binary == BinaryOp::kFloorDivide &&
                     node->operands[0]->kind == ExprKind::kIndex && node->operands[0]->index.id == axis.id &&
                     node->operands[1]->kind == ExprKind::kIntConst;
      if (divides) divisor = node->operands[1]->int_value;
    }
    if (divisor <= 1 || FloorMod(axis.extent, divisor) != Dim(0) || axis.extent == Dim(divisor)) continue;
    IndexVar quotient = pool.Fresh(FloorDiv(axis.extent, divisor), "g");
    IndexVar remainder = pool.Fresh(divisor, "i");
    Expr scaled = pool.Binary(BinaryOp::kMultiply, pool.Variable(quotient), pool.Extent(divisor));
    Substitute(pool, nest, axis, pool.Binary(BinaryOp::kAdd, scaled, pool.Variable(remainder)));
    nest.axes[i] = quotient;
    nest.axes.insert(nest.axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, remainder);
    ++i;
  }
}

}  // namespace rvm::schedule
