#include "kernels/schedule/axis_ranges.h"

#include <algorithm>
#include <cstdint>
#include <optional>
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

// scale * position + offset
struct Line {
  int64_t scale, offset;
};

bool IsIndexOp(const ExprNode& e) { return e.kind == ExprKind::kBinary && e.operands[0].dtype() == kInt64; }

bool IsOrder(const ExprNode& e) {
  return IsIndexOp(e) && (e.binary == BinaryOp::kLess || e.binary == BinaryOp::kLessEqual ||
                          e.binary == BinaryOp::kGreater || e.binary == BinaryOp::kGreaterEqual);
}

bool IsExtreme(const ExprNode& e) {
  return IsIndexOp(e) && (e.binary == BinaryOp::kMinimum || e.binary == BinaryOp::kMaximum);
}

std::optional<bool> KnownIn(const AxisRange& range, const ExprNode* node) {
  for (const auto& [known, truth] : range.known) {
    if (known == node) return truth;
  }
  return std::nullopt;
}

// Index arithmetic as a function of the variable alone, in the range; nullopt if it is no line or depends on more.
std::optional<Line> LineIn(const AxisRange& range, const Expr& e, int64_t variable) {
  if (e->kind == ExprKind::kIntConst) return Line{0, e->int_value};
  if (e->kind == ExprKind::kDim) return e->dim.is_const() ? std::optional(Line{0, e->dim.constant()}) : std::nullopt;
  if (e->kind == ExprKind::kIndex) return e->index.id == variable ? std::optional(Line{1, 0}) : std::nullopt;
  bool is_select = e->kind == ExprKind::kSelect;
  if (is_select || IsExtreme(*e)) {
    std::optional<bool> first = KnownIn(range, is_select ? e->operands[0].get() : e.get());
    return first ? LineIn(range, e->operands[(is_select ? 1 : 0) + (*first ? 0 : 1)], variable) : std::nullopt;
  }
  if (e->kind != ExprKind::kBinary) return std::nullopt;
  std::optional<Line> a = LineIn(range, e->operands[0], variable);
  std::optional<Line> b = a ? LineIn(range, e->operands[1], variable) : std::nullopt;
  if (!b) return std::nullopt;
  if (e->binary == BinaryOp::kAdd) return Line{a->scale + b->scale, a->offset + b->offset};
  if (e->binary == BinaryOp::kSubtract) return Line{a->scale - b->scale, a->offset - b->offset};
  if (e->binary != BinaryOp::kMultiply || (a->scale != 0 && b->scale != 0)) return std::nullopt;
  return Line{a->scale * b->offset + b->scale * a->offset, a->offset * b->offset};
}

// Whether the comparison holds; of a minimum or maximum, whether it is its first operand.
bool Holds(BinaryOp op, int64_t a, int64_t b) {
  if (op == BinaryOp::kLess) return a < b;
  if (op == BinaryOp::kGreater) return a > b;
  bool is_upwards = op == BinaryOp::kLessEqual || op == BinaryOp::kMinimum;
  return is_upwards ? a <= b : a >= b;
}

// Cuts the range where the truth of the node changes, which it does at most once. Returns the parts, which know it.
std::vector<AxisRange> Cut(const AxisRange& range, const ExprNode* node, int64_t variable) {
  std::optional<Line> a = LineIn(range, node->operands[0], variable), b = LineIn(range, node->operands[1], variable);
  if (!a || !b) return {range};
  auto truth = [&](int64_t at) { return Holds(node->binary, a->scale * at + a->offset, b->scale * at + b->offset); };
  bool first = truth(range.begin);
  int64_t same = range.begin, other = range.end;
  if (truth(range.end - 1) == first) same = range.end - 1;
  while (other - same > 1) {
    int64_t middle = same + (other - same) / 2;
    (truth(middle) == first ? same : other) = middle;
  }
  AxisRange head = range, tail = range;
  head.end = tail.begin = other;
  head.known.emplace_back(node, first);
  tail.known.emplace_back(node, !first);
  if (tail.begin == tail.end) return {std::move(head)};
  return {std::move(head), std::move(tail)};
}

std::vector<AxisRange> RangesOf(const LoopNest& nest, const IndexVar& axis) {
  if (!axis.extent.is_const() || axis.extent.constant() < 2) return {};
  std::vector<AxisRange> ranges = {{0, axis.extent.constant(), {}}};
  // Operands come first: in a range it is known which of them a minimum is.
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (!IsOrder(*node) && !IsExtreme(*node)) continue;
    if (!te::DependsOn(node->operands[0], axis.id) && !te::DependsOn(node->operands[1], axis.id)) continue;
    std::vector<AxisRange> parts;
    for (const AxisRange& range : ranges) {
      for (AxisRange& part : Cut(range, node, axis.id)) parts.push_back(std::move(part));
    }
    if (parts.size() <= kMaxBodies) ranges = std::move(parts);
  }
  bool knows = std::any_of(ranges.begin(), ranges.end(), [](const AxisRange& range) { return !range.known.empty(); });
  return knows ? ranges : std::vector<AxisRange>();
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
