// Differences of neighbours along an axis, and gradients of samples made of them.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

constexpr int64_t kMaxOrder = 64;  // of differences

// The elements [begin, extent + end) of an axis; `end` is 0 or below.
Term Part(const Term& x, int64_t axis, int64_t begin, int64_t end) {
  Steps& c = x.steps();
  return {c, c.SliceAxis(x, axis, begin, c.ExtentOf(x, axis) + end)};
}

Term Joined(const Term& x, const Operands& parts, int64_t axis) {
  Steps& c = x.steps();
  return {c, c.Op("concatenate", {c.emit().Tuple(parts)}, {{"axis", axis}})};
}

// diff: `n` times the differences of neighbours. Those of truths are whether they differ.
Operands Diff(NodeContext& c) {
  Operand given = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(given)), order = c.Int("n", 1);
  Operands parts = {given};
  if (c.Has("prepend")) parts.insert(parts.begin(), c.In("prepend"));
  if (c.Has("append")) parts.push_back(c.In("append"));
  std::vector<Operand*> all;
  for (Operand& part : parts) all.push_back(&part);
  c.Promote(all);
  if (c.failed() || c.RankOf(given) < 1) return {c.failed() ? nullptr : c.Fail("its input is a scalar")};
  Term x(c, parts.size() == 1 ? parts[0] : Joined({c, parts[0]}, parts, axis).operand());
  if (order < 0 || order > kMaxOrder) return {c.Unsupported("differences of that order")};
  bool is_truth = c.DTypeOf(x).is_bool();
  for (int64_t i = 0; i < order && !c.failed() && c.ExtentOf(x, axis) != Dim(0); ++i) {
    Term next = Part(x, axis, 1, 0), last = Part(x, axis, 0, -1);
    x = is_truth ? next != last : next - last;
  }
  return {x};
}

// gradient: central differences, and one-sided ones of the first or second order at both ends.
Operands Gradient(NodeContext& c) {
  Term x(c, c.Floating(c.In("self")));
  const Argument* spacing = c.Find("spacing");
  bool is_list = spacing != nullptr && spacing->kind == ArgumentKind::kList;
  if (c.overload().starts_with("tensor"))
    return {c.Unsupported("coordinates of samples; give their spacing as a number")};
  std::vector<int64_t> axes = c.Axes(c.Ints("dim"), c.RankOf(x));
  if (!c.Has("dim")) axes = importing::AllAxes(c.RankOf(x));
  int64_t order = c.Int("edge_order", 1);
  if (c.failed() || (is_list && spacing->list.size() != axes.size())) {
    return {c.failed() ? nullptr : c.Fail("its spacings do not fit its axes")};
  }
  if (order != 1 && order != 2) return {c.Fail("its `edge_order` is neither 1 nor 2")};
  Operands gradients;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i];
    Term step = x.Like(1);
    if (spacing != nullptr)
      step = {c, c.Cast(c.Scalar(is_list ? c.In(spacing->list[i]) : c.In(*spacing)), c.DTypeOf(x))};
    if (c.ExtentOf(x, axis).AsConst().value_or(order + 1) < order + 1) {
      return {c.Fail("an axis has fewer samples than its `edge_order` and one")};
    }
    // Elements counted from the beginning, or from the end.
    auto front = [&](int64_t at) { return Term(c, c.SliceAxis(x, axis, at, at + 1)); };
    Dim extent = c.ExtentOf(x, axis);
    auto back = [&](int64_t at) { return Term(c, c.SliceAxis(x, axis, extent - (at + 1), extent - at)); };
    Term first = front(1) - front(0), last = back(0) - back(1);
    if (order == 2) {
      first = (4 * front(1) - 3 * front(0) - front(2)) / 2;
      last = (3 * back(0) - 4 * back(1) + back(2)) / 2;
    }
    Term inner = (Part(x, axis, 2, 0) - Part(x, axis, 0, -2)) / 2;
    gradients.push_back(Joined(x, {first, inner, last}, axis) / step);
  }
  return gradients;
}

constexpr OperatorRow kRows[] = {
    {"diff", Diff},
    {"gradient", Gradient},
};

}  // namespace

std::span<const OperatorRow> DifferencesOperators() { return kRows; }

}  // namespace rvm::torch::convert
