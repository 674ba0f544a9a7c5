// Gradients of operators that read images at computed coordinates: grids, deformed filters, boxes.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/pullback.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/gradients/samples.h"
#include "compiler/ops/gradients/terms.h"

namespace rvm::ops {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

// ---- grids

// A product with the matrix of the places x, y and 1.
void AffineGridGradient(Pullback& p) {
  Ints shape = p.attrs().GetInts("target_shape");
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term maps = WideFloat(x[0]);
    auto across = [&](size_t axis) {
      double step = (2.0 - 1e-7) / static_cast<double>(shape[axis] - 1);
      return Cast(Counted(p, shape[axis]), maps.type().dtype) * step - 1;
    };
    Term ones = p.Call("ones_like", {Expanded(across(0), 1) + across(1)});
    Term places = Reshaped(Stacked({ones * across(1), ones * Expanded(across(0), 1), ones}, 0), {3, -1});
    Term grid = Reshaped(p.Call("nn.matmul", {maps, places}), {0, 0, shape[0], shape[1]});
    return Cast(grid, p.type(0).dtype);
  });
}

namespace {

// The coordinates of a grid along one axis of the images.
class GridAxis {
 public:
  GridAxis(const ir::Attrs& attrs, Term extent, ir::DTypeTerm dtype)
      : align_(attrs.GetBool("align_corners")),
        method_(attrs.GetString("method")),
        mode_(attrs.GetString("padding_mode")),
        extent_(extent),
        n_(Cast(extent, dtype)) {}

  Taps Read(Term x) const {
    Term source = align_ ? (x + 1) * (n_ - 1) * 0.5 : (x + 1) * n_ * 0.5 - 0.5;
    if (method_ == "bicubic") {
      constexpr double kAlpha = -0.75;
      Taps taps = CubicTaps(source, kAlpha);
      Term inside = Inside(Cast(taps.places, n_.type().dtype));
      taps.places = Wide(x.code().Call("floor", {inside}));
      return Cut(taps);
    }
    source = Inside(source);
    return Cut(method_ == "nearest" ? NearestTap(x.code().Call("round_half_even", {source})) : LinearTaps(source));
  }

 private:
  Taps Cut(const Taps& taps) const { return mode_ == "zeros" ? InsideOnly(taps, extent_) : taps; }
  // Returns a coordinate moved into the image, as `padding_mode` specifies.
  Term Inside(Term x) const {
    if (mode_ == "zeros") return x;
    Pullback& p = x.code();
    if (mode_ == "reflection") x = Reflected(x);
    return p.Call("minimum", {p.Call("maximum", {x, Zero(x)}), n_ - 1});
  }
  Term Reflected(Term x) const {
    Pullback& p = x.code();
    double begin = align_ ? 0 : -0.5;
    Term length = align_ ? n_ - 1 : n_;
    Term distance = p.Call("abs", {begin - x});
    Term turns = p.Call("trunc", {distance / length});
    turns = Where(p.Call("greater", {length, Zero(length)}), turns, Zero(turns));
    Term rest = distance - turns * length;
    Term is_even = p.Call("equal", {p.Call("floor_mod", {turns, p.Scalar(2, turns)}), Zero(turns)});
    return Where(is_even, rest, length - rest) + begin;
  }

  bool align_;
  std::string method_, mode_;
  Term extent_, n_;  // of the images, as int64 and as the dtype of coordinates
};

}  // namespace

void GridSampleGradient(Pullback& p) {
  int64_t axes = p.rank(0) - 2;
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term images = ChannelsLast(WideFloat(x[0]));
    Term grid = Cast(x[1], images.type().dtype);
    std::vector<Taps> taps;
    for (int64_t s = 0; s < axes; ++s) {
      GridAxis axis(p.attrs(), Extent(images, 1 + s), images.type().dtype);
      // Row k of the grid has the coordinates of the k-th axis from the last.
      taps.push_back(axis.Read(Picked(grid, axes - 1 - s, 1)));
    }
    Term read = Sampled(images, Expanded(Places(images, 0), 1, axes), taps);
    return Cast(ChannelsFirst(read), p.type(0).dtype);
  });
}

// ---- deformed filters

// Samples (N, groups, channels * taps, height * width), which the filters multiply as in a convolution by 1 element.
void DeformableConv2dGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  const std::string &layout = attrs.GetString("data_layout"), &kernel = attrs.GetString("kernel_layout");
  int64_t groups = attrs.GetInt("groups"), deformable = attrs.GetInt("deformable_groups");
  Ints extents;
  for (size_t axis : Layout(kernel).spatial) extents.push_back(p.type(2).shape.dims[axis].constant());
  std::vector<Window> windows = *MakeWindows(attrs, extents, nullptr);
  int64_t count = extents[0] * extents[1];
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term images = InLayout(WideFloat(x[0]), layout, "NCHW");
    ir::DTypeTerm dtype = images.type().dtype;
    Term filters = InLayout(Cast(x[2], dtype), kernel, "OIHW");
    // (N, deformable groups, taps, 2, height, width)
    Term offsets = InLayout(Cast(x[1], dtype), layout, "NCHW");
    Term rows = Places(offsets, 2), columns = Places(offsets, 3);
    Term moves = Reshaped(Reshaped(offsets, {0, -4, deformable, -1, -2}), {0, 0, -4, count, 2, -2});
    std::vector<Taps> taps;
    for (int64_t s = 0; s < 2; ++s) {
      const Window& window = windows[static_cast<size_t>(s)];
      Ints begins;
      for (int64_t t = 0; t < count; ++t) {
        int64_t tap = s == 0 ? t / extents[1] : t % extents[1];
        begins.push_back(tap * window.dilation - window.pad_before);
      }
      Term windows_at = (s == 0 ? Expanded(rows, 1) : columns) * static_cast<double>(window.stride);
      Term places = Expanded(p.Ints(begins), 1, 2) + windows_at;
      Term at = Picked(moves, s, 3) + Cast(places, dtype);
      taps.push_back(InsideOnly(LinearTaps(at), Extent(images, 2 + s)));
    }
    // The channels of a deformable group are one image.
    Term apart = Transposed(Reshaped(images, {0, -4, deformable, -1, -2}), {0, 1, 3, 4, 2});
    Term batches =
        Expanded(Places(images, 0) * static_cast<double>(deformable), 1, 4) + Expanded(Counted(p, deformable), 1, 3);
    Term read = Sampled(Reshaped(apart, {-3, -2}), batches, taps);
    // (N, deformable groups, channels, taps, height, width) as (N, groups, channels * taps, height * width).
    Term moved = Reshaped(Transposed(read, {0, 1, 5, 2, 3, 4}), {0, -3, -2});
    moved = Reshaped(Reshaped(Reshaped(moved, {0, -4, groups, -1, -2}), {0, 0, -3, -2}), {0, 0, 0, -3});
    Term factors = Reshaped(Reshaped(Reshaped(filters, {-4, groups, -1, -2}), {0, 0, -3, -2}), {0, 0, -3});
    Term sums = Reshaped(p.Call("nn.matmul", {factors, moved}), {0, -3, -2});
    Term d = InLayout(p.d(), layout, "NCHW");
    return Cast(InLayout(p.Call("reshape_like", {sums, d}), "NCHW", layout), d.type().dtype);
  });
}

// ---- boxes

void CropAndResizeGradient(Pullback& p) {
  const ir::Attrs& attrs = p.attrs();
  const std::string& layout = attrs.GetString("layout");
  Ints size = attrs.GetInts("crop_size");
  p.GiveThrough([&](const std::vector<Term>& x) {
    Term images = ChannelsLast(InLayout(WideFloat(x[0]), layout, "NCHW"));
    Term boxes = Cast(x[1], ir::DTypeTerm::Of(kFloat64));
    std::vector<Taps> taps;
    std::optional<Term> inside;
    for (int64_t s = 0; s < 2; ++s) {
      int64_t count = size[static_cast<size_t>(s)];
      Term last = Cast(Extent(images, 1 + s) - 1, boxes.type().dtype);
      Term begin = Expanded(Picked(boxes, s, 1), 1), end = Expanded(Picked(boxes, s + 2, 1), 1);
      Term steps = Cast(Counted(p, count), boxes.type().dtype);
      Term at = count == 1 ? (begin + end) * 0.5 * last
                           : begin * last + (end - begin) * last / static_cast<double>(count - 1) * steps;
      at = s == 0 ? Expanded(at, 2) : Expanded(at, 1);
      Term here = p.Call("logical_and", {p.Call("greater_equal", {at, Zero(at)}), p.Call("less_equal", {at, last})});
      inside = inside ? p.Call("logical_and", {*inside, here}) : here;
      bool is_nearest = attrs.GetString("method") == "nearest_neighbor";
      taps.push_back(is_nearest ? NearestTap(p.Call("round", {at})) : LinearTaps(at));
    }
    Term read = Sampled(images, Expanded(Wide(x[2]), 1, 2), taps);
    Term outside = p.Scalar(attrs.GetDouble("extrapolation_value"), read);
    Term made = ChannelsFirst(Where(Expanded(*inside, 3), read, outside));
    return Cast(InLayout(made, "NCHW", layout), p.d().type().dtype);
  });
}

}  // namespace rvm::ops
