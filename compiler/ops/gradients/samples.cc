#include "compiler/ops/gradients/samples.h"

#include <limits>
#include <numeric>
#include <utility>

#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

// `taps` (t, ...) with `before` and `after` axes of one element around its first axis.
Term Spread(Term taps, int64_t before, int64_t after) { return Expanded(Expanded(taps, 1, after), 0, before); }

Term Exchanged(Term x, int64_t a, int64_t b) {
  if (a == b) return x;
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<size_t>(a)], axes[static_cast<size_t>(b)]);
  return Transposed(x, axes);
}

}  // namespace

Taps NearestTap(Term place) { return {Expanded(Wide(place), 0), std::nullopt}; }

Taps LinearTaps(Term x) {
  Term below = x.code().Call("floor", {x}), t = x - below;
  Term place = Wide(below);
  return {Stacked({place, place + 1}, 0), Stacked({1 - t, t}, 0)};
}

Taps CubicTaps(Term x, double alpha) {
  Term below = x.code().Call("floor", {x}), t = x - below;
  Term place = Wide(below);
  auto near = [&](Term s) { return (s * (alpha + 2) - (alpha + 3)) * s * s + 1; };
  auto far = [&](Term s) { return ((s * alpha - 5 * alpha) * s + 8 * alpha) * s - 4 * alpha; };
  return {Stacked({place - 1, place, place + 1, place + 2}, 0),
          Stacked({far(t + 1), near(t), near(1 - t), far(2 - t)}, 0)};
}

Taps InsideOnly(Taps taps, Term extent) {
  Pullback& p = extent.code();
  Term inside = p.Call("logical_and", {p.Call("greater_equal", {taps.places, Zero(taps.places)}),
                                       p.Call("less", {taps.places, extent})});
  // Without weights, the dtype of the images is not known here: Sampled casts.
  ir::DTypeTerm dtype = taps.weights ? taps.weights->type().dtype : ir::DTypeTerm::Of(kFloat32);
  Term mask = Cast(inside, dtype);
  return {taps.places, taps.weights ? *taps.weights * mask : mask};
}

Term ChannelsLast(Term x) {
  std::vector<int64_t> axes = {0};
  for (int64_t i = 2; i < x.rank(); ++i) axes.push_back(i);
  axes.push_back(1);
  return Transposed(x, axes);
}

Term ChannelsFirst(Term x) {
  std::vector<int64_t> axes = {0, x.rank() - 1};
  for (int64_t i = 1; i + 1 < x.rank(); ++i) axes.push_back(i);
  return Transposed(x, axes);
}

Term Sampled(Term images, Term batches, const std::vector<Taps>& taps) {
  Pullback& p = images.code();
  auto axes = static_cast<int64_t>(taps.size());
  Term zero = p.Int(0);
  // All combinations of taps: the place of each is the number of a row (C) of the images.
  Term row = Clamped(batches, zero, Extent(images, 0));
  std::optional<Term> weight;
  for (int64_t s = 0; s < axes; ++s) {
    const Taps& along = taps[static_cast<size_t>(s)];
    Term extent = Extent(images, 1 + s);
    row = row * extent + Spread(Clamped(along.places, zero, extent), s, axes - 1 - s);
    if (!along.weights) continue;
    Term next = Cast(Spread(*along.weights, s, axes - 1 - s), images.type().dtype);
    weight = weight ? *weight * next : next;
  }
  Term rows = images;
  while (rows.rank() > 2) rows = Reshaped(rows, {-3, -2});
  Term read = p.Call("take", {rows, row}, ir::Attrs{{"axis", 0}});
  if (weight) read = read * Expanded(*weight, weight->rank());
  std::vector<int64_t> summed(static_cast<size_t>(axes));
  std::iota(summed.begin(), summed.end(), 0);
  return p.Call("sum", {read}, ir::Attrs{{"axis", ir::IntList(summed)}});
}

Term FirstGreatest(Term x, int64_t axis, Term ranges) {
  Pullback& p = x.code();
  int64_t last = x.rank() - 1;
  Term lanes = Expanded(Exchanged(x, axis, last), last);
  Term inside = Where(ranges, lanes, p.Scalar(-std::numeric_limits<double>::infinity(), x));
  Term places = p.Call("argmax", {inside}, ir::Attrs{{"axis", ir::IntList({{-1}})}});
  return Exchanged(Wide(places), axis, last);
}

Term GreatestOfBins(Term images, const std::vector<int64_t>& bins) {
  Pullback& p = images.code();
  // From the last axis on, so that of equal elements the first in row-major order stays.
  for (size_t s = bins.size(); s > 0; --s) {
    auto axis = static_cast<int64_t>(1 + s);
    Term bin = Expanded(Counted(p, bins[s - 1]), 1), count = p.Int(bins[s - 1]);
    Term extent = Extent(images, axis), place = Places(images, axis);
    Term begin = p.Call("floor_divide", {bin * extent, count});
    Term end = p.Call("floor_divide", {(bin + 1) * extent + count - 1, count});
    Term ranges = p.Call("logical_and", {p.Call("less_equal", {begin, place}), p.Call("less", {place, end})});
    images = p.Call("gather", {images, FirstGreatest(images, axis, ranges)}, ir::Attrs{{"axis", axis}});
  }
  return images;
}

}  // namespace rvm::ops
