// Resize: each axis on its own, as sums of taps whose places and weights are computed in Relay, so that extents and
// scales may be known only when the model runs. What is known is folded into constants.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

struct ResizedAxis {
  int64_t axis;
  Dim in, out;
  Operand scale;                 // a float64 scalar
  std::optional<double> factor;  // the scale where it is known
  double begin = 0, end = 1;     // the region of tf_crop_and_resize
};

class Resizer {
 public:
  explicit Resizer(NodeContext& c)
      : c_(c),
        mode_(c.Text("mode", "nearest")),
        transformation_(c.Text("coordinate_transformation_mode",
                               c.opset() < 11 || c.row().variant == "upsample" ? "asymmetric" : "half_pixel")),
        nearest_(c.Text("nearest_mode", c.opset() < 11 ? "floor" : "round_prefer_floor")) {}

  Operands Run() {
    Operand x = c_.In(0);
    std::vector<ResizedAxis> axes = ReadAxes(x);
    if (c_.failed()) return {};
    DataType dtype = c_.DTypeOf(x);
    bool is_nearest = mode_ == "nearest";
    Operand y = is_nearest || dtype == kFloat64 ? x : c_.Cast(x, kFloat32);
    Operand is_outside = nullptr;
    for (const ResizedAxis& axis : axes) {
      Operand places = Places(axis);
      if (transformation_ == "tf_crop_and_resize") is_outside = AddOutside(is_outside, places, axis, c_.RankOf(x));
      y = is_nearest ? Nearest(y, axis, places) : Interpolated(y, axis, places);
    }
    if (is_outside != nullptr) {
      y = c_.Where(is_outside, c_.Number(c_.Float("extrapolation_value", 0), y), y);
    }
    if (!is_nearest && dtype.is_integral()) {
      double half = std::exp2(dtype.bits - 1);
      double least = dtype.is_uint() ? 0 : -half, greatest = dtype.is_uint() ? 2 * half - 1 : half - 1;
      y = c_.Op("clip", {c_.Op("round_half_even", {y})}, {{"a_min", least}, {"a_max", greatest}});
    }
    return {c_.Cast(y, dtype)};
  }

 private:
  Operand Double(double value) { return c_.emit().Number(value, kFloat64); }
  Operand Extent(const Dim& dim) { return c_.Cast(c_.emit().FromDim(dim), kFloat64); }

  std::vector<ResizedAxis> ReadAxes(Operand x) {
    int64_t rank = c_.RankOf(x);
    std::vector<int64_t> axes = c_.Axes(c_.Ints("axes"), rank);
    for (int64_t i = 0; i < rank && !c_.HasAttr("axes"); ++i) axes.push_back(i);
    bool has_roi = c_.opset() >= 11 && c_.row().variant != "upsample";
    size_t scales_input = has_roi ? 2 : 1;
    bool has_sizes = has_roi && c_.Has(3);
    bool is_input = has_sizes || !c_.HasAttr("scales");
    if (is_input && !importing::KnownExtent(c_, c_.In(has_sizes ? 3 : scales_input), 0, has_sizes ? "sizes" : "scales"))
      return {};
    Operand sizes = has_sizes ? c_.Cast(c_.In(3), kInt64) : nullptr;
    Operand scales = nullptr;
    if (sizes == nullptr) {
      std::vector<float> given = c_.Floats("scales");
      scales =
          c_.HasAttr("scales")
              ? c_.emit().Constant(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(given.size())}, given))
              : c_.In(scales_input);
      scales = c_.Cast(scales, kFloat64);
    }
    has_sizes_ = sizes != nullptr;
    Operand given = has_sizes_ ? sizes : scales;
    if (c_.ExtentOf(given, 0) != Dim(static_cast<int64_t>(axes.size())))
      c_.Fail("its scales or sizes do not fit its axes");
    std::vector<ResizedAxis> result;
    for (size_t i = 0; i < axes.size() && !c_.failed(); ++i) {
      ResizedAxis axis = {.axis = axes[i], .in = c_.ExtentOf(x, axes[i])};
      int64_t at = static_cast<int64_t>(i);
      Operand own = c_.Scalar(c_.SliceAxis(given, 0, at, at + 1));
      if (sizes != nullptr) {
        SetSize(axis, own);
      } else {
        SetScale(axis, own);
      }
      if (transformation_ == "tf_crop_and_resize") ReadRegion(axis, i, axes.size());
      bool stays = axis.factor == 1.0 && CompareDims(axis.in, axis.out) == DimEquality::kEqual;
      if (!stays || transformation_ == "tf_crop_and_resize") result.push_back(axis);
    }
    if (sizes != nullptr) KeepRatio(result);
    return result;
  }

  void SetSize(ResizedAxis& axis, Operand size) {
    std::optional<Dims> known = c_.Symbols(size);
    axis.out = known ? (*known)[0] : Dim::Any();
    if (axis.out.is_const() && axis.out.constant() < 0) c_.Fail(absl::StrCat("a size is ", axis.out.constant()));
    if (axis.in.is_const() && axis.out.is_const() && axis.in.constant() > 0) {
      axis.factor = static_cast<double>(axis.out.constant()) / static_cast<double>(axis.in.constant());
      axis.scale = Double(*axis.factor);
    } else {
      axis.scale = c_.Div(c_.Cast(size, kFloat64), Extent(axis.in));
    }
    out_[axis.axis] = size;
  }

  void SetScale(ResizedAxis& axis, Operand scale) {
    axis.out = Dim::Any();
    if (scale->constant) {
      axis.factor = scale->constant->DoubleAt(0);
    } else {
      Operand is_positive = c_.Cast(c_.Op("greater", {scale, Double(0)}), kInt64);
      scale = importing::CheckAtLeast(c_, scale, is_positive, c_.Integer(1), "a scale is not above 0: whether it is");
    }
    axis.scale = scale;
    if (axis.factor && (!(*axis.factor > 0) || *axis.factor > 1e6)) {
      c_.Fail(absl::StrCat("a scale is ", *axis.factor));
      return;
    }
    if (axis.factor && axis.in.is_const()) {
      axis.out = Dim(static_cast<int64_t>(std::floor(static_cast<double>(axis.in.constant()) * *axis.factor)));
    } else if (axis.factor && *axis.factor == std::floor(*axis.factor)) {
      axis.out = axis.in * Dim(static_cast<int64_t>(*axis.factor));
    } else if (axis.factor && 1 / *axis.factor == std::floor(1 / *axis.factor)) {
      axis.out = FloorDiv(axis.in, static_cast<int64_t>(1 / *axis.factor));
    }
    out_[axis.axis] = axis.out.is_any() ? c_.Cast(c_.Op("floor", {c_.Mul(Extent(axis.in), scale)}), kInt64)
                                        : c_.emit().FromDim(axis.out);
  }

  void ReadRegion(ResizedAxis& axis, size_t i, size_t count) {
    Operand roi = c_.In(1);
    if (!roi->constant || roi->constant->num_elements() != static_cast<int64_t>(2 * count)) {
      c_.Unsupported("a region that is known only when the model runs; freeze the input it is");
      return;
    }
    axis.begin = roi->constant->DoubleAt(static_cast<int64_t>(i));
    axis.end = roi->constant->DoubleAt(static_cast<int64_t>(i + count));
  }

  // One scale for all axes, so that the result has at most, or at least, the sizes.
  void KeepRatio(std::vector<ResizedAxis>& axes) {
    std::string policy = c_.Text("keep_aspect_ratio_policy", "stretch");
    if (policy == "stretch" || axes.empty()) return;
    double factor = policy == "not_larger" ? 1e30 : 0;
    for (const ResizedAxis& axis : axes) {
      if (!axis.factor) {
        c_.Unsupported("a ratio of extents that are known only when the model runs");
        return;
      }
      factor = policy == "not_larger" ? std::min(factor, *axis.factor) : std::max(factor, *axis.factor);
    }
    for (ResizedAxis& axis : axes) {
      axis.factor = factor;
      axis.scale = Double(factor);
      axis.out = Dim(static_cast<int64_t>(std::floor(static_cast<double>(axis.in.constant()) * factor + 0.5)));
      out_[axis.axis] = c_.emit().FromDim(axis.out);
    }
  }

  // Returns the coordinate in the input of each element of the result: a float64 vector.
  Operand Places(const ResizedAxis& axis) {
    Operand count = out_[axis.axis];
    Operand x = c_.Cast(c_.emit().OpAs({axis.out}, "arange", {c_.Integer(0), count, c_.Integer(1)}), kFloat64);
    Operand in = Extent(axis.in), one = Double(1), half = Double(0.5);
    // Not rounded down where a scale is given.
    Operand out = has_sizes_ ? c_.Cast(count, kFloat64) : c_.Mul(in, axis.scale);
    Operand is_one = c_.Op("less_equal", {out, one});
    auto half_pixel = [&] { return c_.Sub(c_.Div(c_.Add(x, half), axis.scale), half); };
    auto stretched = [&](Operand extent) {
      return c_.Div(c_.Mul(x, extent), c_.Op("maximum", {c_.Sub(out, one), one}));
    };
    if (transformation_ == "asymmetric") return c_.Div(x, axis.scale);
    if (transformation_ == "tf_half_pixel_for_nn") return c_.Div(c_.Add(x, half), axis.scale);
    if (transformation_ == "align_corners") return stretched(c_.Sub(in, one));
    if (transformation_ == "pytorch_half_pixel") return c_.Where(is_one, Double(-0.5), half_pixel());
    if (transformation_ == "half_pixel_symmetric") {
      Operand adjustment = c_.Div(c_.Cast(count, kFloat64), c_.Mul(axis.scale, in));
      Operand offset = c_.Mul(c_.Mul(in, half), c_.Sub(one, adjustment));
      return c_.Add(offset, half_pixel());
    }
    if (transformation_ == "tf_crop_and_resize") {
      Operand last = c_.Sub(in, one);
      Operand moved = c_.Add(c_.Mul(Double(axis.begin), last), stretched(c_.Mul(Double(axis.end - axis.begin), last)));
      return c_.Where(is_one, c_.Mul(Double(0.5 * (axis.begin + axis.end)), last), moved);
    }
    if (transformation_ != "half_pixel") return c_.Unsupported(absl::StrCat("coordinates ", transformation_));
    return half_pixel();
  }

  // Returns a vector along `axis` of a tensor of `rank` axes.
  Operand Along(Operand vector, int64_t axis, int64_t rank) {
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < rank - axis; ++i) axes.push_back(i);
    return c_.Unsqueeze(vector, axes);
  }

  Operand AddOutside(Operand others, Operand places, const ResizedAxis& axis, int64_t rank) {
    Operand last = c_.Sub(Extent(axis.in), Double(1));
    Operand outside = c_.Op("logical_or", {c_.Op("less", {places, Double(0)}), c_.Op("greater", {places, last})});
    outside = Along(outside, axis.axis, rank);
    return others == nullptr ? outside : c_.Op("logical_or", {others, outside});
  }

  Operand Clamped(Operand places, const ResizedAxis& axis) {
    Operand last = c_.Sub(c_.emit().FromDim(axis.in), c_.Integer(1));
    return c_.Op("maximum", {c_.Op("minimum", {c_.Cast(places, kInt64), last}), c_.Integer(0)});
  }

  Operand Nearest(Operand x, const ResizedAxis& axis, Operand places) {
    Operand half = Double(0.5), at;
    if (nearest_ == "floor") {
      at = c_.Op("floor", {places});
    } else if (nearest_ == "ceil") {
      at = c_.Op("ceil", {places});
    } else if (nearest_ == "round_prefer_ceil") {
      at = c_.Op("floor", {c_.Add(places, half)});
    } else {
      at = c_.Op("ceil", {c_.Sub(places, half)});
    }
    return c_.Op("take", {x, Clamped(at, axis)}, {{"axis", axis.axis}});
  }

  // Returns the weight of a tap at a distance from the place.
  Operand Weight(Operand distance) {
    Operand a = c_.Op("abs", {distance}), one = Double(1), zero = Double(0);
    if (mode_ == "linear") return c_.Op("maximum", {c_.Sub(one, a), zero});
    double alpha = c_.Float("cubic_coeff_a", -0.75);
    auto polynomial = [&](std::initializer_list<double> coefficients) {
      Operand sum = nullptr;
      for (double coefficient : coefficients) {
        sum = sum == nullptr ? Double(coefficient) : c_.Add(c_.Mul(sum, a), Double(coefficient));
      }
      return sum;
    };
    Operand near = polynomial({alpha + 2, -(alpha + 3), 0, 1});
    Operand far = polynomial({alpha, -5 * alpha, 8 * alpha, -4 * alpha});
    far = c_.Where(c_.Op("less", {a, Double(2)}), far, zero);
    return c_.Where(c_.Op("less_equal", {a, one}), near, far);
  }

  Operand Interpolated(Operand x, const ResizedAxis& axis, Operand places) {
    bool antialias = c_.Int("antialias", 0) != 0, excludes = c_.Int("exclude_outside", 0) != 0;
    double reach = mode_ == "linear" ? 1 : 2, shrink = 1;
    if (antialias) {
      if (!axis.factor) return c_.Unsupported("antialiasing by a scale that is known only when the model runs");
      shrink = std::min(*axis.factor, 1.0);
      if (reach / shrink > 256) return c_.Unsupported("antialiasing by so small a scale");
    }
    int64_t first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1, last = 1 - first;
    Operand base = c_.Op("floor", {places}), ratio = c_.Sub(places, base);
    Operands weights, taps;
    Operand total = nullptr;
    for (int64_t tap = first; tap <= last; ++tap) {
      Operand at = c_.Add(base, Double(static_cast<double>(tap)));
      Operand weight = Weight(c_.Mul(c_.Sub(Double(static_cast<double>(tap)), ratio), Double(shrink)));
      if (excludes) {
        Operand end = c_.Sub(Extent(axis.in), Double(1));
        Operand outside = c_.Op("logical_or", {c_.Op("less", {at, Double(0)}), c_.Op("greater", {at, end})});
        weight = c_.Where(outside, Double(0), weight);
      }
      total = total == nullptr ? weight : c_.Add(total, weight);
      taps.push_back(at);
      weights.push_back(weight);
    }
    int64_t rank = c_.RankOf(x);
    Operand sum = nullptr;
    for (size_t i = 0; i < taps.size(); ++i) {
      Operand weight = antialias || excludes ? c_.Div(weights[i], total) : weights[i];
      Operand part = c_.Op("take", {x, Clamped(taps[i], axis)}, {{"axis", axis.axis}});
      part = c_.Mul(part, Along(c_.Cast(weight, c_.DTypeOf(x)), axis.axis, rank));
      sum = sum == nullptr ? part : c_.Add(sum, part);
    }
    return sum;
  }

  NodeContext& c_;
  std::string mode_, transformation_, nearest_;
  bool has_sizes_ = false;
  std::map<int64_t, Operand> out_;  // the extents of the result, int64 scalars
};

Operands Resize(NodeContext& c) { return Resizer(c).Run(); }

constexpr OperatorRow kRows[] = {
    {"Resize", Resize},
    {"Upsample", Resize, "upsample"},
};

}  // namespace

std::span<const OperatorRow> ResizeOperators() { return kRows; }

}  // namespace rvm::onnx::convert
