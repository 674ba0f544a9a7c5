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
// Limits of an axis beside the one that is cut, and of that one.
constexpr int64_t kMaxPhases = 4;
constexpr int64_t kMaxBandPositions = 4096;

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

// Returns whether the comparison holds; of a minimum or maximum, whether it is its first operand.
bool Holds(BinaryOp op, int64_t a, int64_t b) {
  if (op == BinaryOp::kLess) return a < b;
  if (op == BinaryOp::kGreater) return a > b;
  bool is_upwards = op == BinaryOp::kLessEqual || op == BinaryOp::kMinimum;
  return is_upwards ? a <= b : a >= b;
}

// A line with the positions of other axes added: offsets from `least` to `most`.
struct Band {
  int64_t scale, least, most;
};

std::optional<Band> BandOf(const Expr& e, int64_t variable) {
  if (e->kind == ExprKind::kIntConst) return Band{0, e->int_value, e->int_value};
  if (e->kind == ExprKind::kDim && e->dim.is_const()) return Band{0, e->dim.constant(), e->dim.constant()};
  if (e->kind == ExprKind::kIndex) {
    if (e->index.id == variable) return Band{1, 0, 0};
    bool is_short = e->index.extent.is_const() && e->index.extent.constant() <= kMaxPhases;
    return is_short ? std::optional(Band{0, 0, e->index.extent.constant() - 1}) : std::nullopt;
  }
  if (e->kind != ExprKind::kBinary) return std::nullopt;
  std::optional<Band> a = BandOf(e->operands[0], variable), b = a ? BandOf(e->operands[1], variable) : std::nullopt;
  if (!b) return std::nullopt;
  if (e->binary == BinaryOp::kAdd) return Band{a->scale + b->scale, a->least + b->least, a->most + b->most};
  if (e->binary == BinaryOp::kSubtract) return Band{a->scale - b->scale, a->least - b->most, a->most - b->least};
  bool scales = e->binary == BinaryOp::kMultiply && b->scale == 0 && b->least == b->most && b->least >= 0;
  return scales ? std::optional(Band{a->scale * b->least, a->least * b->least, a->most * b->least}) : std::nullopt;
}

// Cuts the range where the node begins to hold, and ceases to hold, at all positions of a short axis that it depends
// on, too. Between these parts it is not known.
std::vector<AxisRange> CutBand(const AxisRange& range, const ExprNode* node, int64_t variable) {
  std::optional<Band> a = BandOf(node->operands[0], variable), b = BandOf(node->operands[1], variable);
  if (!IsOrder(*node) || !a || !b || range.end - range.begin > kMaxBandPositions) return {range};
  auto truth = [&](int64_t at) -> std::optional<bool> {
    int64_t x = a->scale * at, y = b->scale * at;
    bool one = Holds(node->binary, x + a->least, y + b->most), other = Holds(node->binary, x + a->most, y + b->least);
    return one == other ? std::optional(one) : std::nullopt;
  };
  std::vector<AxisRange> parts;
  for (int64_t at = range.begin; at < range.end; ++at) {
    std::optional<bool> here = truth(at);
    if (at > range.begin && here == truth(at - 1)) {
      parts.back().end = at + 1;
      continue;
    }
    AxisRange& part = parts.emplace_back(range);
    part.begin = at;
    part.end = at + 1;
    if (here) part.known.emplace_back(node, *here);
  }
  return parts;
}

// Cuts the range where the truth of the node changes, which it does at most once. Returns the parts, which know it.
std::vector<AxisRange> Cut(const AxisRange& range, const ExprNode* node, int64_t variable) {
  std::optional<Line> a = LineIn(range, node->operands[0], variable), b = LineIn(range, node->operands[1], variable);
  if (!a || !b) return CutBand(range, node, variable);
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
