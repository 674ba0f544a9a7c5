#include "kernels/schedule/axis_ranges.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

constexpr size_t kMaxBodies = 16;  // copies of the innermost loop

// The value of index arithmetic where the variable is `at`; nullopt if it depends on more.
std::optional<int64_t> ValueAt(const Expr& e, int64_t variable, int64_t at) {
  if (e->kind == ExprKind::kIntConst) return e->int_value;
  if (e->kind == ExprKind::kDim) return e->dim.is_const() ? std::optional(e->dim.constant()) : std::nullopt;
  if (e->kind == ExprKind::kIndex) return e->index.id == variable ? std::optional(at) : std::nullopt;
  if (e->kind != ExprKind::kBinary) return std::nullopt;
  std::optional<int64_t> a = ValueAt(e->operands[0], variable, at), b = ValueAt(e->operands[1], variable, at);
  if (!a || !b) return std::nullopt;
  if (e->binary == BinaryOp::kAdd) return *a + *b;
  if (e->binary == BinaryOp::kSubtract) return *a - *b;
  return e->binary == BinaryOp::kMultiply ? std::optional(*a * *b) : std::nullopt;
}

bool IsOrder(const ExprNode& e) {
  return e.kind == ExprKind::kBinary &&
         (e.binary == BinaryOp::kLess || e.binary == BinaryOp::kLessEqual || e.binary == BinaryOp::kGreater ||
          e.binary == BinaryOp::kGreaterEqual) &&
         e.operands[0].dtype() == kInt64;
}

// Whether the comparison, which changes once at most along the axis, holds there.
std::optional<bool> TruthAt(const ExprNode& e, int64_t variable, int64_t at) {
  std::optional<int64_t> a = ValueAt(e.operands[0], variable, at), b = ValueAt(e.operands[1], variable, at);
  if (!a || !b) return std::nullopt;
  if (e.binary == BinaryOp::kLess) return *a < *b;
  if (e.binary == BinaryOp::kLessEqual) return *a <= *b;
  return e.binary == BinaryOp::kGreater ? *a > *b : *a >= *b;
}

std::vector<AxisRange> RangesOf(const LoopNest& nest, const IndexVar& axis) {
  if (!axis.extent.is_const() || axis.extent.constant() < 2) return {};
  int64_t extent = axis.extent.constant();
  std::vector<const ExprNode*> comparisons;
  std::set<int64_t> cuts = {0, extent};
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (!IsOrder(*node)) continue;
    bool linear = te::Stride(node->operands[0], axis.id) && te::Stride(node->operands[1], axis.id);
    bool depends = te::DependsOn(node->operands[0], axis.id) || te::DependsOn(node->operands[1], axis.id);
    std::optional<bool> first = TruthAt(*node, axis.id, 0);
    if (!linear || !depends || !first) continue;
    comparisons.push_back(node);
    if (TruthAt(*node, axis.id, extent - 1) == first) continue;
    int64_t same = 0, other = extent - 1;
    while (other - same > 1) {
      int64_t middle = same + (other - same) / 2;
      (TruthAt(*node, axis.id, middle) == first ? same : other) = middle;
    }
    cuts.insert(other);
  }
  if (comparisons.empty()) return {};
  std::vector<AxisRange> ranges;
  for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
    AxisRange range{*cut, *std::next(cut), {}};
    for (const ExprNode* node : comparisons) range.known.emplace_back(node, *TruthAt(*node, axis.id, *cut));
    ranges.push_back(std::move(range));
  }
  return ranges;
}

}  // namespace

void PlanAxisRanges(LoopNest& nest) {
  nest.ranges.assign(nest.axes.size(), {});
  size_t bodies = 1;
  for (size_t i = nest.axes.size(); i-- > 0;) {
    std::vector<AxisRange> ranges = RangesOf(nest, nest.axes[i]);
    if (ranges.empty() || bodies * ranges.size() > kMaxBodies) continue;
    bodies *= ranges.size();
    nest.ranges[i] = std::move(ranges);
  }
}

}  // namespace rvm::schedule
