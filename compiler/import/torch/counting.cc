// Histograms.
#include <cstdint>
#include <span>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

Term Flat(NodeContext& c, Operand x) { return {c, importing::Flat(c, x)}; }

// Returns the sums of `weights` by place; places that are `count` are left out.
Operand SumsByPlace(NodeContext& c, Operand places, Operand weights, int64_t count) {
  DataType dtype = c.DTypeOf(weights);
  Operand zeros = c.BroadcastTo(c.emit().Number(0, dtype), {Dim(count + 1)});
  Operand sums = c.Op("scatter_elements", {zeros, places, weights}, {{"axis", 0}, {"reduction", "add"}});
  return c.SliceAxis(sums, 0, 0, count);
}

constexpr const char* kBadCount = "its number of bins is not from 1 to 2^31";
bool IsCount(int64_t bins) { return bins >= 1 && bins <= int64_t{1} << 31; }

struct Range {
  Term low, high;
};

// Returns the given range, or that of the data; one of width 0 is widened by `margin` to both sides.
Range RangeOf(NodeContext& c, const Term& x, double low, double high, double margin) {
  Range range = {x.Like(low), x.Like(high)};
  if (low == high) {
    bool is_empty = c.DimsOf(x)[0] == Dim(0);
    if (!is_empty) range = {{c, c.Op("min", {x})}, {c, c.Op("max", {x})}};
    Term is_flat = range.low == range.high;
    range = {Select(is_flat, range.low - margin, range.low), Select(is_flat, range.high + margin, range.high)};
  }
  return range;
}

Operands Histc(NodeContext& c) {
  Term x = Flat(c, c.Floating(c.In("self")));
  int64_t bins = c.Int("bins", 100);
  if (c.failed() || !IsCount(bins)) return {c.failed() ? nullptr : c.Fail(kBadCount)};
  Range range = RangeOf(c, x, c.Float("min", 0), c.Float("max", 0), 1);
  double count = static_cast<double>(bins);
  Term place = Min(((x - range.low) * count / (range.high - range.low)).Apply("floor"), x.Like(count - 1));
  place = Select(And(x >= range.low, x <= range.high), place, count);
  Operand sums = SumsByPlace(c, c.Cast(place, kInt64), c.Op("ones_like", {x}), bins);
  return {c.Cast(sums, c.OutputDType(0).value_or(c.DTypeOf(x)))};
}

// Counts in bins that are given by their number and range, or by their edges; and the edges.
Operands Histogram(NodeContext& c) {
  Term x = Flat(c, c.Floating(c.In("self")));
  if (c.failed()) return {};
  const Argument* bins = c.Find("bins");
  Operand edges = nullptr;
  int64_t count = 0;
  if (bins != nullptr && bins->kind == ArgumentKind::kTensor) {
    edges = c.Cast(c.In("bins"), c.DTypeOf(x));
    Dim extent = c.ExtentOf(edges, 0);
    if (!extent.is_const()) return {c.Unsupported("a number of bins that only the running model knows")};
    count = extent.constant() - 1;
  } else {
    count = c.Int("bins", 100);
  }
  if (c.failed() || !IsCount(count)) return {c.failed() ? nullptr : c.Fail(kBadCount)};
  if (edges == nullptr) {
    const Argument* given = c.Find("range");
    bool has_range = given != nullptr && given->kind == ArgumentKind::kList && given->list.size() == 2;
    auto end = [&](size_t i) {
      const Argument& argument = given->list[i];
      return argument.kind == ArgumentKind::kFloat ? argument.number : static_cast<double>(argument.integer);
    };
    Range range = RangeOf(c, x, has_range ? end(0) : 0, has_range ? end(1) : 0, 0.5);
    Term number(c, c.Cast(c.Iota(count + 1), c.DTypeOf(x)));
    Term step = (range.high - range.low) / static_cast<double>(count);
    // From both ends, so that both are exact.
    edges = Select(number < static_cast<double>(count) / 2, range.low + number * step,
                   range.high - (static_cast<double>(count) - number) * step);
  }
  Term last(c, c.Scalar(c.SliceAxis(edges, 0, count, count + 1)));
  Term first(c, c.Scalar(c.SliceAxis(edges, 0, 0, 1)));
  Term place(c, c.Op("searchsorted", {edges, x}, {{"right", true}, {"dtype", "int64"}}));
  place = Select(x == last, static_cast<double>(count) - 1, place - 1);
  place = Select(And(x >= first, x <= last), place, static_cast<double>(count));
  Operand weights = c.Has("weight") ? Flat(c, c.Cast(c.In("weight"), c.DTypeOf(x))).operand() : c.Op("ones_like", {x});
  Term sums(c, SumsByPlace(c, place, weights, count));
  if (c.Bool("density", false)) {
    Term widths(c, c.Sub(c.SliceAxis(edges, 0, 1, count + 1), c.SliceAxis(edges, 0, 0, count)));
    sums = sums / (Term(c, c.Op("sum", {sums})) * widths);
  }
  return {sums, edges};
}

Operands Bincount(NodeContext& c) {
  Operand x = c.In("self");
  if (!c.DTypeOf(x).is_integral()) return {c.Fail("its input is no vector of integers")};
  Operand counts = c.Op("bincount", {c.Cast(x, kInt64)}, {{"minlength", c.Int("minlength", 0)}});
  if (!c.Has("weights")) return {counts};
  Operand weights = c.In("weights");
  weights = c.Cast(weights, c.OutputDType(0).value_or(kFloat64));
  Operand zeros = c.Cast(c.Op("zeros_like", {counts}), c.DTypeOf(weights));
  return {c.Op("scatter_elements", {zeros, c.Cast(x, kInt64), weights}, {{"axis", 0}, {"reduction", "add"}})};
}

constexpr OperatorRow kRows[] = {
    {"bincount", Bincount},
    {"histc", Histc},
    {"histogram", Histogram},
};

}  // namespace

std::span<const OperatorRow> CountingOperators() { return kRows; }

}  // namespace rvm::torch::convert
