#include "compiler/ops/families/resample.h"

#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "compiler/ops/families/window.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

std::optional<Method> MethodOf(const std::string& name) {
  if (name == "nearest_neighbor") return Method::kNearest;
  if (name == "linear" || name == "bilinear") return Method::kLinear;
  if (name == "cubic" || name == "bicubic") return Method::kCubic;
  return std::nullopt;
}

std::optional<std::pair<size_t, size_t>> PlacesInRoi(const Layout& layout, size_t numbers, size_t s) {
  size_t rank = layout.letters.size(), axes = layout.spatial.size();
  if (numbers == 2 * rank) return std::pair(layout.spatial[s], rank + layout.spatial[s]);
  if (numbers == 2 * axes) return std::pair(s, axes + s);
  return std::nullopt;
}

Expr Real(Expr value) { return te::Cast(kFloat64, std::move(value)); }
Expr Real(double value) { return te::FloatConst(kFloat64, value); }
Expr Round(UnaryOp op, Expr x) { return te::Unary(op, std::move(x)); }

namespace {

Expr Quotient(const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kDivide, Real(a), Real(b)); }

// Returns the coordinate that position `i` of the result reads on an axis that is `scale` times as long in the result.
Expr ScaledCoordinate(const Resize& resize, const Expr& i, double scale) {
  if (resize.coordinates == Coordinates::kAsymmetric) {
    return Real(te::Cast(kFloat32, i) * te::FloatConst(kFloat32, 1 / scale));
  }
  Expr centre = te::Binary(BinaryOp::kDivide, Real(i) + Real(0.5), Real(scale));
  return resize.coordinates == Coordinates::kTfHalfPixel ? centre : centre - Real(0.5);
}

// Returns the coordinate on axis `s` of space, of extent `in`, that position `i` of `out` positions of the result
// reads.
Expr Coordinate(const Resize& resize, const Expr& i, const Dim& in, const Dim& out, size_t s) {
  Expr n = te::DimValue(in), m = te::DimValue(out), one = te::Index(1);
  Expr odd = (i + i + one) * n;
  Expr half_pixel = Quotient(odd - m, m + m);
  Expr is_one = Equal(m, one);
  if (!resize.scales.empty()) return ScaledCoordinate(resize, i, resize.scales[s]);
  switch (resize.coordinates) {
    case Coordinates::kHalfPixel: return half_pixel;
    case Coordinates::kAsymmetric: return Quotient(i * n, m);
    case Coordinates::kTfHalfPixel: return Quotient(odd, m + m);
    case Coordinates::kPytorch: return te::Select(is_one, Real(0), half_pixel);
    case Coordinates::kAlignCorners: return te::Select(is_one, Real(0), Quotient(i * (n - one), m - one));
    case Coordinates::kCrop: break;
  }
  const Expr &begin = resize.roi[s], &end = resize.roi[s + resize.roi.size() / 2];
  Expr last = Real(n - one);
  Expr step = te::Binary(BinaryOp::kDivide, (end - begin) * last, Real(m - one));
  return te::Select(is_one, Real(0.5) * (begin + end) * last, begin * last + Real(i) * step);
}

Expr Nearest(Rounding rounding, const Expr& x) {
  switch (rounding) {
    case Rounding::kRound: return RoundHalfAway(x);
    case Rounding::kFloor: return Round(UnaryOp::kFloor, x);
    case Rounding::kCeil: return Round(UnaryOp::kCeil, x);
    case Rounding::kPreferFloor: return Round(UnaryOp::kCeil, x - Real(0.5));
    case Rounding::kPreferCeil: return Round(UnaryOp::kFloor, x + Real(0.5));
  }
  return x;
}

// Weight of the tap at `distance` (-1, 0, 1, 2) from floor(x), t = x - floor(x): Keys 1981, equation 15
// with its coefficient free.
Expr CubicWeight(double alpha, const Expr& t, int distance) {
  Expr s = te::Unary(UnaryOp::kAbs, t - Real(distance));
  if (distance == 0 || distance == 1) return (Real(alpha + 2) * s - Real(alpha + 3)) * s * s + Real(1);
  return ((Real(alpha) * s - Real(5 * alpha)) * s + Real(8 * alpha)) * s - Real(4 * alpha);
}

// Elements that one axis of the result reads: `taps` positions (int64, clamped) and their weights, tensors (extent,
// taps).
struct AxisTaps {
  Tensor places, weights;
  int64_t taps;
};

AxisTaps TapsOf(const Resize& resize, const Tensor& coordinates, const Dim& in, const Dim& out, DataType wide) {
  int64_t taps = resize.method == Method::kNearest ? 1 : resize.method == Method::kLinear ? 2 : 4;
  int64_t before = resize.method == Method::kCubic ? 1 : 0;
  Dims dims = {out, taps};
  auto raw = [&](std::span<const Expr> i) {
    if (taps == 1) return te::Cast(kInt64, Nearest(resize.rounding, coordinates({i[0]})));
    return te::Cast(kInt64, Round(UnaryOp::kFloor, coordinates({i[0]}))) + i[1] - te::Index(before);
  };
  Tensor places = te::ComputeTensor("place", kInt64, dims, [&](std::span<const Expr> i) { return Clamp(raw(i), in); });
  Tensor weights = te::ComputeTensor("weight", kFloat64, dims, [&](std::span<const Expr> i) {
    if (taps == 1) return Real(1);
    Expr x = coordinates({i[0]});
    Expr t = x - Round(UnaryOp::kFloor, x);
    if (taps == 2) return te::Select(Equal(i[1], te::Index(0)), Real(1) - t, t);
    Expr weight = CubicWeight(resize.alpha, t, 2);
    for (int k = 2; k >= 0; --k)
      weight = te::Select(Equal(i[1], te::Index(k)), CubicWeight(resize.alpha, t, k - 1), weight);
    return resize.exclude ? te::Select(InRange(raw(i), in), weight, Real(0)) : weight;
  });
  if (taps == 4 && resize.exclude) {
    Tensor sum = ReduceAxis(te::ReduceOp::kSum, kFloat64, dims, 1, [&](std::span<const Expr> i) { return weights(i); });
    Tensor given = weights;
    weights = te::ComputeTensor("weight", kFloat64, dims, [&](std::span<const Expr> i) {
      return te::Binary(BinaryOp::kDivide, given(i), AtZero(sum, i, 1));
    });
  }
  return {places, CastTensor(weights, wide), taps};
}

// If every element is repeated so many times, and no more is done, how many; else 0.
int64_t Repeats(const Resize& resize, const Dim& in, const Dim& out) {
  bool repeats = resize.method == Method::kNearest && resize.scales.empty() &&
                 resize.coordinates == Coordinates::kAsymmetric && resize.rounding == Rounding::kFloor &&
                 in.is_const() && out.is_const() && in.constant() > 0 && out.constant() % in.constant() == 0;
  return repeats ? out.constant() / in.constant() : 0;
}

// Returns whether the result has at least as many rows as the data: positions of all axes of space but the last one.
bool HasMoreRows(const Tensor& data, const std::vector<size_t>& spatial, const te::TensorSpec& out) {
  for (size_t axis : std::span(spatial).first(spatial.size() - 1)) {
    const Dim &in = data.dims()[axis], &more = out.dims[axis];
    if (!in.is_const() || !more.is_const() || in.constant() > more.constant()) return false;
  }
  return true;
}

// `data` interpolated along its axes `spatial` at `coordinates`, one vector per axis.
Tensor Interpolate(const Resize& resize, const Tensor& data, const std::vector<size_t>& spatial,
                   const std::vector<Tensor>& coordinates, const te::TensorSpec& out) {
  DataType wide = data.dtype() == kFloat64 ? kFloat64 : kFloat32;
  std::vector<AxisTaps> axes;
  Dim volume = 1;
  for (size_t s = 0; s < spatial.size(); ++s) {
    const Dim& in = data.dims()[spatial[s]];
    axes.push_back(TapsOf(resize, coordinates[s], in, out.dims[spatial[s]], wide));
    volume = volume * in;
  }
  const bool is_nearest = resize.method == Method::kNearest;
  // Returns the interpolation of `from` along the axes [first, end) for position `i` of the result.
  auto interpolated = [&](const Tensor& from, std::span<const Expr> i, size_t first, size_t end) {
    std::vector<Expr> at(i.begin(), i.end());
    std::function<Expr(size_t)> fold = [&](size_t s) -> Expr {
      if (s == end) return te::Cast(is_nearest ? out.dtype : wide, from(at));
      Expr sum;
      for (int64_t k = 0; k < axes[s].taps; ++k) {
        Expr place = i[spatial[s]];
        int64_t repeats = Repeats(resize, data.dims()[spatial[s]], out.dims[spatial[s]]);
        at[spatial[s]] = repeats > 0 ? te::Binary(BinaryOp::kFloorDivide, place, te::Index(repeats))
                                     : axes[s].places({place, te::Index(k)});
        Expr value = fold(s + 1);
        if (!is_nearest) value = value * axes[s].weights({place, te::Index(k)});
        sum = sum ? sum + value : value;
      }
      return sum;
    };
    return fold(first);
  };
  Tensor from = data;
  size_t end = axes.size();
  if (!is_nearest && end > 1 && spatial.back() + 1 == data.rank() && HasMoreRows(data, spatial, out)) {
    // Neighbours in a row are read at computed places. Rows that are interpolated first do so once for all rows of the
    // result, which read them as they lie in memory.
    Dims dims = data.dims();
    dims.back() = out.dims.back();
    from = te::Stored(te::ComputeTensor("rows", wide, std::move(dims), [&](std::span<const Expr> i) {
      return UnlessEmpty(data.dims().back(), interpolated(data, i, end - 1, end));
    }));
    --end;
  }
  return te::ComputeTensor("resize", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr value = te::Cast(out.dtype, interpolated(from, i, 0, end));
    Expr outside;
    for (size_t s = 0; s < axes.size() && resize.coordinates == Coordinates::kCrop; ++s) {
      Expr x = coordinates[s]({i[spatial[s]]});
      Expr last = Real(te::DimValue(data.dims()[spatial[s]]) - te::Index(1));
      Expr here = te::Binary(BinaryOp::kOr, Less(x, Real(0)), Less(last, x));
      outside = outside ? te::Binary(BinaryOp::kOr, outside, here) : here;
    }
    if (outside) value = te::Select(outside, te::Cast(out.dtype, Real(resize.extrapolation)), value);
    return UnlessEmpty(volume, value);
  });
}

}  // namespace

std::vector<Tensor> ComputeResized(const ComputeContext& context, const Resize& resize) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  std::vector<Tensor> coordinates;
  for (size_t s = 0; s < layout.spatial.size(); ++s) {
    size_t axis = layout.spatial[s];
    coordinates.push_back(te::ComputeTensor("coordinate", kFloat64, {out.dims[axis]}, [&](std::span<const Expr> i) {
      return Coordinate(resize, i[0], data.dims()[axis], out.dims[axis], s);
    }));
  }
  return {Interpolate(resize, data, layout.spatial, coordinates, out)};
}

bool TakeSize(TypeContext& context, size_t arg, Dims& dims) {
  Dims size;
  if (!ValueDims(context, arg, 1, size)) return false;
  Layout layout(context.attrs().GetString("layout"));
  if (!context.RequireEqual(static_cast<int64_t>(size.size()), static_cast<int64_t>(layout.spatial.size()),
                            "elements of `size`"))
    return false;
  for (size_t s = 0; s < size.size(); ++s) {
    if (!context.RequireAtLeast(size[s], 0, "an element of `size`")) return false;
    dims[layout.spatial[s]] = size[s];
  }
  return true;
}

}  // namespace rvm::ops
