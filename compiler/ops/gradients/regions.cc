// Gradients of pooling of regions of interest.
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/samples.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

Term Both(Term a, Term b) { return a.code().Call("logical_and", {a, b}); }
Term Either(Term a, Term b) { return a.code().Call("logical_or", {a, b}); }
Term Compared(std::string_view compare, Term a, Term b) { return a.code().Call(compare, {a, b}); }
Term Maximum(Term a, Term b) { return a.code().Call("maximum", {a, b}); }
Term Minimum(Term a, Term b) { return a.code().Call("minimum", {a, b}); }

// Returns the column of regions with the least coordinate of axis `s` of space; the greatest is two columns further.
int64_t Column(int64_t s) { return s == 0 ? 2 : 1; }

// The samples of all bins along one axis of space, (regions, bins, samples). The last three are there if bins differ in
// the number of their samples; then only as many are read as can be inside of the image.
struct Samples {
  Term at;      // clamped into the image
  Term inside;  // whether it was inside
  std::optional<Term> exists = {};
  std::optional<Term> count = {};     // of a bin, (regions, 1, 1)
  std::optional<Term> left_out = {};  // whether some of a bin are not read, (regions, bins, 1)
};

// `images` is (N, height, width, C).
Samples SamplesOf(Pullback& p, Term rois, Term images, int64_t s, int64_t bins) {
  int64_t ratio = p.attrs().GetInt("sample_ratio");
  ir::DTypeTerm dtype = images.type().dtype;
  Term extent = Extent(images, 1 + s), n = Cast(extent, dtype);
  auto corner = [&](int64_t column) { return Expanded(Picked(rois, column, 1), 1, 2); };
  Term first = corner(Column(s)) * p.attrs().GetDouble("spatial_scale");
  Term end = corner(Column(s) + 2) * p.attrs().GetDouble("spatial_scale");
  double least = p.attrs().GetDouble("least_length");
  Term length = end - first;
  if (!std::isinf(least)) length = Maximum(length, p.Scalar(least, end));
  length = length / static_cast<double>(bins);
  Term start = first + length * Cast(Expanded(Counted(p, bins), 1), dtype);
  if (ratio > 0) {
    Term steps = (Cast(Counted(p, ratio), dtype) + 0.5) / static_cast<double>(ratio);
    Term at = start + length * steps;
    Term inside = Both(Compared("greater_equal", at, p.Scalar(-1, at)), Compared("less_equal", at, n));
    return {Minimum(Maximum(at, Zero(at)), n - 1), inside};
  }
  // About one sample per element, from the first one inside: twice the extent and four suffice, because several samples
  // are at least half an element apart.
  Term existing = p.Call("ceil", {length}), count = existing;
  if (least <= 0) count = Maximum(count, p.Scalar(1, count));  // a bin may have none
  Term before = p.Call("floor", {(-1 - start) * count / length - 1});
  Term begin = Maximum(before, Zero(before));
  if (least <= 0) begin = Where(Compared("greater", existing, Zero(existing)), begin, Zero(begin));
  Term places = Places(images, 1 + s);
  Term read = Cast(p.CallOnTuple("concatenate", {places, places + extent, p.Ints({0, 1, 2, 3}) + extent + extent},
                                 ir::Attrs{{"axis", 0}}),
                   dtype);
  Term k = begin + read;
  Term at = start + (k + 0.5) * length / count;
  Term inside = Both(Compared("greater_equal", at, p.Scalar(-1, at)), Compared("less_equal", at, n));
  Term left_out = Either(Compared("greater", begin, Zero(begin)), Compared("less", begin + n + n + 4, count));
  return {Minimum(Maximum(at, Zero(at)), n - 1), inside, Compared("less", k, existing), count, left_out};
}

// The mean of bins is a matmul: (regions, bins, elements) for each axis, what elements count for a bin.
Term MeansOfSamples(Pullback& p, Term images, Term batches, const std::vector<Samples>& axes) {
  // (regions, C, height, width)
  Term result = p.Call("take", {ChannelsFirst(images), batches}, ir::Attrs{{"axis", 0}});
  for (int64_t s : {0, 1}) {
    const Samples& samples = axes[static_cast<size_t>(s)];
    Term places = Cast(Places(images, 1 + s), images.type().dtype);
    Term near = p.Call("nn.relu", {1 - p.Call("abs", {Expanded(samples.at, 3) - places})});
    Term counts = Cast(Both(samples.inside, *samples.exists), near.type().dtype) / *samples.count;
    Term sums = p.Call("sum", {near * Expanded(counts, 3)}, ir::Attrs{{"axis", ir::IntList({{2}})}});
    Term matrix = Expanded(sums, 1);
    ir::Attrs transposed{{"transpose_b", true}};
    result = s == 0 ? p.Call("nn.matmul", {matrix, result}) : p.Call("nn.matmul", {result, matrix}, transposed);
  }
  return result;
}

// Returns the fold of all samples: (regions, C, bins, bins).
Term FoldOfSamples(Pullback& p, Term images, Term batches, const std::vector<Samples>& axes, bool is_mean) {
  // Samples are (regions, bins, samples, bins, samples).
  auto spread = [&](Term x, size_t s) { return s == 0 ? Expanded(x, 3, 2) : Expanded(x, 1, 2); };
  std::vector<Taps> taps;
  for (size_t s = 0; s < 2; ++s) {
    Taps linear = LinearTaps(spread(axes[s].at, s));
    Term mask = Cast(spread(axes[s].inside, s), images.type().dtype);
    taps.push_back({linear.places, *linear.weights * mask});
  }
  Term read = Sampled(images, Expanded(batches, 1, 4), taps);
  ir::Attrs over_samples{{"axis", ir::IntList({{2, 4}})}};
  if (is_mean) return ChannelsFirst(p.Call("mean", {read}, over_samples));
  if (!axes[0].exists) return ChannelsFirst(p.Call("max", {read}, over_samples));
  Term exists = Both(spread(*axes[0].exists, 0), spread(*axes[1].exists, 1));
  Term lowest = p.Scalar(-std::numeric_limits<double>::infinity(), read);
  Term folded = p.Call("max", {Where(Expanded(exists, 5), read, lowest)}, over_samples);
  // Samples outside of the image count as zeros.
  auto of_bins = [&](Term x) { return p.Call("squeeze", {x}, ir::Attrs{{"axis", ir::IntList({{2}})}}); };
  Term left_out = Either(Expanded(of_bins(*axes[0].left_out), 2), Expanded(of_bins(*axes[1].left_out), 1));
  return ChannelsFirst(Where(Expanded(left_out, 3), Maximum(folded, Zero(folded)), folded));
}

// Returns the batch of each region.
Term BatchesOf(Term rois, Term images) {
  Term batches = Wide(Picked(rois, 0, 1));
  return Clamped(batches, Zero(batches), Extent(images, 0));
}

}  // namespace

void RoiAlignGradient(Pullback& p) {
  const std::string& layout = p.attrs().GetString("layout");
  Ints size = PerAxis(p.attrs().GetInts("pooled_size"), 2);
  bool is_mean = p.attrs().GetString("mode") == "avg";
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term images = ChannelsLast(InLayout(WideFloat(x[0]), layout, "NCHW"));
    Term rois = Cast(x[1], images.type().dtype), batches = BatchesOf(rois, images);
    std::vector<Samples> axes;
    for (int64_t s = 0; s < 2; ++s) axes.push_back(SamplesOf(p, rois, images, s, size[static_cast<size_t>(s)]));
    bool is_product = is_mean && p.attrs().GetInt("sample_ratio") <= 0;
    Term made =
        is_product ? MeansOfSamples(p, images, batches, axes) : FoldOfSamples(p, images, batches, axes, is_mean);
    return Cast(InLayout(made, "NCHW", layout), p.type(0).dtype);
  });
}

namespace {

// Elements in the bins of regions along one axis, bools (regions, bins, elements); and which bins have any, (regions,
// bins).
struct Ranges {
  Term elements, has_any;
};

Ranges RangesOf(Pullback& p, Term rois, Term images, int64_t s, int64_t bins) {
  auto corner = [&](int64_t column) {
    return Expanded(Wide(p.Call("round", {Picked(rois, column, 1) * p.attrs().GetDouble("spatial_scale")})), 1);
  };
  Term first = corner(Column(s)), span = corner(Column(s) + 2) - first + 1;
  Term length = Cast(Maximum(span, p.Int(1)), rois.type().dtype) / static_cast<double>(bins);
  Term bin = Cast(Counted(p, bins), rois.type().dtype), extent = Extent(images, 2 + s);
  // Absorbs the rounding errors of numbers that should be integers, like the operator.
  constexpr double kEpsilon = 1e-5;
  auto edge = [&](Term x) { return Minimum(Maximum(Wide(x) + first, p.Int(0)), extent); };
  Term begin = edge(p.Call("floor", {bin * length + kEpsilon}));
  Term end = edge(p.Call("ceil", {(bin + 1) * length - kEpsilon}));
  Term place = Places(images, 2 + s);
  Term elements = Both(Compared("less_equal", Expanded(begin, 2), place), Compared("less", place, Expanded(end, 2)));
  return {elements, Compared("less", begin, end)};
}

}  // namespace

// Each bin reads its first greatest element.
void RoiPoolGradient(Pullback& p) {
  const std::string& layout = p.attrs().GetString("layout");
  Ints size = PerAxis(p.attrs().GetInts("pooled_size"), 2);
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term images = InLayout(x[0], layout, "NCHW"), rois = WideFloat(x[1]);
    Term batches = BatchesOf(rois, images);
    Ranges rows = RangesOf(p, rois, images, 0, size[0]), columns = RangesOf(p, rois, images, 1, size[1]);
    Term regions = p.Call("take", {images, batches}, ir::Attrs{{"axis", 0}});
    // First the column of the greatest element of each row of a region, (regions, C, height, bins), then the row.
    Term column = FirstGreatest(regions, 3, Expanded(columns.elements, 1, 2));
    Term of_rows = p.Call("gather", {regions, column}, ir::Attrs{{"axis", 3}});
    Term row = FirstGreatest(of_rows, 2, Expanded(rows.elements, 1, 2));
    column = p.Call("gather", {column, row}, ir::Attrs{{"axis", 2}});
    Term channel = Expanded(batches, 1) * Extent(images, 1) + Places(images, 1);
    Term place = (Expanded(channel, 2, 2) * Extent(images, 2) + row) * Extent(images, 3) + column;
    Term read = p.Call("take", {Reshaped(images, {-1}), place}, ir::Attrs{{"axis", 0}});
    Term has_any = Expanded(Both(Expanded(rows.has_any, 2), Expanded(columns.has_any, 1)), 1);
    return InLayout(Where(has_any, read, Zero(read)), "NCHW", layout);
  });
}

}  // namespace rvm::ops
