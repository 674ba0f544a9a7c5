// Images in other sizes.
//
// An output place reads at a coordinate of the input that is a quotient of integers (but for crops).
// The numerator is computed exactly and divided once, so that a coordinate that is a whole number stays one
// whatever the sizes are.
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "compiler/ops/compute_helpers.h"
#include "compiler/ops/families.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/window.h"

namespace rvm::ops {
namespace {

using diagnostics::DiagnosticKind;
using te::BinaryOp;
using te::Expr;
using te::Tensor;
using te::UnaryOp;
using Types = std::vector<const ir::TensorType*>;

constexpr Input kInputs[] = {{"data", "a batch of images"}};
constexpr Input kCropInputs[] = {{"data", "a batch of images"},
                                 {"boxes", "a matrix (boxes, 4) of y1, x1, y2, x2 from 0 to 1"},
                                 {"box_indices", "the batch that each box is cut from"}};

constexpr Input kDynamicInputs[] = {
    {"data", "a batch of images"},
    {.name = "size", .doc = "an integer vector, the new extents of space", .decides_shape = true},
    {"roi", "for tf_crop_and_resize the begins, then the ends of each axis of data, from 0 to 1"}};
constexpr Input kScales[] = {{"data", "a batch of images"},
                             {"scale_h", "how much higher, a floating-point scalar"},
                             {"scale_w", "how much wider, a floating-point scalar"}};
constexpr Input kScalesAndSize[] = {
    kScales[0],
    kScales[1],
    kScales[2],
    {.name = "size", .doc = "an integer vector, height and width of the result", .decides_shape = true}};

#define RVM_RESIZE_ATTRS(data_layout)                                                                            \
  {"size", AttrType::kInts, "None", "the new extents of space", true},                                           \
      {"roi", AttrType::kAny, "None",                                                                            \
       "for tf_crop_and_resize the begins, then the ends of each axis of data, from 0 to 1", true},              \
      {"layout", AttrType::kString, data_layout, "axes of data"},                                                \
      {"method", AttrType::kString, "\"linear\"", "\"nearest_neighbor\", \"linear\" or \"cubic\""},              \
      {"coordinate_transformation_mode", AttrType::kString, "\"half_pixel\"",                                    \
       "\"half_pixel\", \"align_corners\", \"asymmetric\", \"pytorch_half_pixel\", \"tf_half_pixel_for_nn\" or " \
       "\"tf_crop_and_resize\""},                                                                                \
      {"rounding_method", AttrType::kString, "\"round\"",                                                        \
       "of nearest_neighbor: \"round\" (half to even), \"floor\", \"ceil\", \"round_prefer_floor\" or "          \
       "\"round_prefer_ceil\""},                                                                                 \
      {"cubic_alpha", AttrType::kFloat, "-0.5f", "the spline's coefficient"},                                    \
      {"cubic_exclude", AttrType::kInt, "0", "1: taps outside the image do not count"},                          \
      {"extrapolation_value", AttrType::kFloat, "0", "what tf_crop_and_resize reads outside the image"},         \
      {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}
constexpr AttrSpec kResize1dAttrs[] = {RVM_RESIZE_ATTRS("\"NCW\"")};
constexpr AttrSpec kResize2dAttrs[] = {RVM_RESIZE_ATTRS("\"NCHW\"")};
constexpr AttrSpec kResize3dAttrs[] = {RVM_RESIZE_ATTRS("\"NCDHW\"")};
#undef RVM_RESIZE_ATTRS
constexpr AttrSpec kUpsamplingAttrs[] = {
    {"scale_h", AttrType::kFloat, "", "how much higher"},
    {"scale_w", AttrType::kFloat, "", "how much wider"},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"method", AttrType::kString, "\"nearest_neighbor\"", "\"nearest_neighbor\", \"bilinear\" or \"bicubic\""},
    {"align_corners", AttrType::kBool, "False", "corners of both images are at the same place"}};
constexpr AttrSpec kDynamicUpsamplingAttrs[] = {kUpsamplingAttrs[2], kUpsamplingAttrs[3], kUpsamplingAttrs[4]};
constexpr AttrSpec kCropAttrs[] = {
    {"crop_size", AttrType::kInts, "None", "height and width of the result", true},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"method", AttrType::kString, "\"bilinear\"", "\"bilinear\" or \"nearest_neighbor\""},
    {"extrapolation_value", AttrType::kFloat, "0", "what is outside the image"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};

enum class Method : uint8_t { kNearest, kLinear, kCubic };
enum class Coordinates : uint8_t { kHalfPixel, kAlignCorners, kAsymmetric, kPytorch, kTfHalfPixel, kCrop };
enum class Rounding : uint8_t { kRound, kFloor, kCeil, kPreferFloor, kPreferCeil };

struct Resize {
  Method method = Method::kNearest;
  Coordinates coordinates = Coordinates::kHalfPixel;
  Rounding rounding = Rounding::kRound;
  double alpha = -0.5;
  bool exclude = false;
  double extrapolation = 0;
  std::vector<Expr> roi;  // float64
};

template <typename T, size_t n>
std::optional<T> Named(const std::array<std::pair<const char*, T>, n>& names, const std::string& name) {
  for (const auto& [text, value] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::optional<Method> MethodOf(const std::string& name) {
  static constexpr std::array<std::pair<const char*, Method>, 5> kNames = {{{"nearest_neighbor", Method::kNearest},
                                                                            {"linear", Method::kLinear},
                                                                            {"bilinear", Method::kLinear},
                                                                            {"cubic", Method::kCubic},
                                                                            {"bicubic", Method::kCubic}}};
  return Named(kNames, name);
}

Expr Real(Expr value) { return te::Cast(kFloat64, std::move(value)); }
Expr Real(double value) { return te::FloatConst(kFloat64, value); }

// nullopt if an attribute has no such value. `roi`: the argument, of operators that have it as one.
std::optional<Resize> Describe(const ir::Attrs& attrs, size_t rank, const Tensor* roi_tensor = nullptr) {
  static constexpr std::array<std::pair<const char*, Coordinates>, 6> kModes = {
      {{"half_pixel", Coordinates::kHalfPixel},
       {"align_corners", Coordinates::kAlignCorners},
       {"asymmetric", Coordinates::kAsymmetric},
       {"pytorch_half_pixel", Coordinates::kPytorch},
       {"tf_half_pixel_for_nn", Coordinates::kTfHalfPixel},
       {"tf_crop_and_resize", Coordinates::kCrop}}};
  static constexpr std::array<std::pair<const char*, Rounding>, 5> kRoundings = {
      {{"round", Rounding::kRound},
       {"floor", Rounding::kFloor},
       {"ceil", Rounding::kCeil},
       {"round_prefer_floor", Rounding::kPreferFloor},
       {"round_prefer_ceil", Rounding::kPreferCeil}}};
  std::optional<Method> method = MethodOf(attrs.GetString("method"));
  std::optional<Coordinates> coordinates = Named(kModes, attrs.GetString("coordinate_transformation_mode"));
  const std::string& rounding_name = attrs.GetString("rounding_method");
  std::optional<Rounding> rounding = Named(kRoundings, rounding_name);
  if (rounding_name.empty()) rounding = coordinates == Coordinates::kAlignCorners ? Rounding::kRound : Rounding::kFloor;
  if (!method || !coordinates || !rounding) return std::nullopt;
  Resize resize{*method, *coordinates, *rounding};
  resize.alpha = attrs.GetDouble("cubic_alpha");
  resize.exclude = attrs.GetInt("cubic_exclude") != 0;
  resize.extrapolation = attrs.GetDouble("extrapolation_value");
  if (resize.coordinates != Coordinates::kCrop) return resize;
  for (size_t i = 0; roi_tensor != nullptr && i < 2 * rank; ++i) {
    resize.roi.push_back(Real((*roi_tensor)({te::Index(static_cast<int64_t>(i))})));
  }
  if (roi_tensor != nullptr) return resize;
  const ir::AttrValue::List* roi = attrs.Find("roi")->AsList();
  if (roi == nullptr || roi->size() != 2 * rank) return std::nullopt;
  for (const ir::AttrValue& value : *roi) {
    if (!value.AsInt() && !value.AsDouble()) return std::nullopt;
    resize.roi.push_back(Real(value.AsInt() ? static_cast<double>(*value.AsInt()) : *value.AsDouble()));
  }
  return resize;
}

Expr Quotient(const Expr& a, const Expr& b) { return te::Binary(BinaryOp::kDivide, Real(a), Real(b)); }
Expr Round(UnaryOp op, Expr x) { return te::Unary(op, std::move(x)); }

// Where on an axis of extent `in` place `i` of `out` places reads.
Expr Coordinate(const Resize& resize, const Expr& i, const Dim& in, const Dim& out, size_t axis) {
  Expr n = te::DimValue(in), m = te::DimValue(out), one = te::Index(1);
  Expr odd = (i + i + one) * n;
  Expr half_pixel = Quotient(odd - m, m + m);
  Expr is_one = Equal(m, one);
  switch (resize.coordinates) {
    case Coordinates::kHalfPixel: return half_pixel;
    case Coordinates::kAsymmetric: return Quotient(i * n, m);
    case Coordinates::kTfHalfPixel: return Quotient(odd, m + m);
    case Coordinates::kPytorch: return te::Select(is_one, Real(0), half_pixel);
    case Coordinates::kAlignCorners: return te::Select(is_one, Real(0), Quotient(i * (n - one), m - one));
    case Coordinates::kCrop: break;
  }
  const Expr &begin = resize.roi[axis], &end = resize.roi[axis + resize.roi.size() / 2];
  Expr last = Real(n - one);
  Expr step = te::Binary(BinaryOp::kDivide, (end - begin) * last, Real(m - one));
  return te::Select(is_one, Real(0.5) * (begin + end) * last, begin * last + Real(i) * step);
}

Expr Nearest(Rounding rounding, const Expr& x) {
  switch (rounding) {
    case Rounding::kRound: return Round(UnaryOp::kRound, x);
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

// What one axis of the result reads: `taps` places (int64, clamped) and their weights, tensors (extent, taps).
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

// data with its axes `spatial` read at `coordinates`, a vector each.
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
  return te::ComputeTensor("resize", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    std::function<Expr(size_t)> fold = [&](size_t s) -> Expr {
      if (s == axes.size()) return te::Cast(resize.method == Method::kNearest ? out.dtype : wide, data(at));
      Expr sum;
      for (int64_t k = 0; k < axes[s].taps; ++k) {
        Expr place = i[spatial[s]];
        at[spatial[s]] = axes[s].places({place, te::Index(k)});
        Expr value = fold(s + 1);
        if (resize.method != Method::kNearest) value = value * axes[s].weights({place, te::Index(k)});
        sum = sum ? sum + value : value;
      }
      return sum;
    };
    Expr value = te::Cast(out.dtype, fold(0));
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

std::vector<Tensor> ComputeResized(const ComputeContext& context, const Resize& resize) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  std::vector<Tensor> coordinates;
  for (size_t axis : layout.spatial) {
    coordinates.push_back(te::ComputeTensor("coordinate", kFloat64, {out.dims[axis]}, [&](std::span<const Expr> i) {
      return Coordinate(resize, i[0], data.dims()[axis], out.dims[axis], axis);
    }));
  }
  return {Interpolate(resize, data, layout.spatial, coordinates, out)};
}

// What the attributes of a resizing operator must be for data of `rank`.
bool CheckResize(TypeContext& context, const Dims& data, size_t rank, const Tensor* roi) {
  const ir::Attrs& attrs = context.attrs();
  if (data.size() != rank) {
    FailRank(context, 0, data.size(), absl::StrCat("rank ", rank));
    return false;
  }
  if (!CheckLayout(context, attrs.GetString("layout"), rank == 3 ? "NCW" : rank == 4 ? "NCHW" : "NCDHW", "layout"))
    return false;
  if (Describe(attrs, rank, roi)) return true;
  context.Fail(DiagnosticKind::kBadAttribute,
               "`method`, `coordinate_transformation_mode` or `rounding_method` is none that exists, or `roi` "
               "does not fit; see docs/operators.md");
  return false;
}

template <size_t rank>
Solve ResizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  Dims out = args[0]->shape.dims;
  if (!CheckResize(context, out, rank, nullptr)) return Solve::kFailed;
  Layout layout(attrs.GetString("layout"));
  std::vector<int64_t> size = attrs.IsNone("size") ? std::vector<int64_t>() : PerAxis(attrs.GetInts("size"), rank - 2);
  for (size_t s = 0; s < rank - 2; ++s) {
    if (size.size() != rank - 2 || size[s] < 0) {
      return context.Fail(DiagnosticKind::kBadAttribute,
                          absl::StrCat("`size` does not fit; expected ", rank - 2, " extents"));
    }
    out[layout.spatial[s]] = size[s];
  }
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

// `dims` with the extents of space that argument `arg` has.
bool TakeSize(TypeContext& context, size_t arg, Dims& dims) {
  Dims size;
  if (!ValueDims(context, arg, 1, size)) return false;
  Layout layout(context.attrs().GetString("layout"));
  if (!context.RequireEqual(static_cast<int64_t>(size.size()), 2, "elements of `size`")) return false;
  for (size_t s = 0; s < 2; ++s) {
    if (!context.RequireAtLeast(size[s], 0, "an element of `size`")) return false;
    dims[layout.spatial[s]] = size[s];
  }
  return true;
}

Solve DynamicResizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  Dims out = args[0]->shape.dims;
  const Dims& roi = args[2]->shape.dims;
  if (roi.size() != 1) return FailRank(context, 2, roi.size(), "1");
  Tensor roi_tensor = te::Input(2, "roi", args[2]->dtype.dtype, roi);
  if (!CheckResize(context, out, 4, &roi_tensor)) return Solve::kFailed;
  bool crops = attrs.GetString("coordinate_transformation_mode") == "tf_crop_and_resize";
  if (crops && !context.RequireEqual(roi[0], 8, "elements of `roi`")) return Solve::kFailed;
  if (!TakeSize(context, 1, out)) return Solve::kFailed;
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeResize(const ComputeContext& context) {
  return ComputeResized(context, *Describe(context.attrs(), context.input(0).rank()));
}

std::vector<Tensor> ComputeDynamicResize(const ComputeContext& context) {
  return ComputeResized(context, *Describe(context.attrs(), context.input(0).rank(), &context.input(2)));
}

// ---- upsampling --------------------------------------------------------------------

// round(extent * scale); nullopt if that is no expression of the extent.
std::optional<Dim> ScaledExtent(const Dim& extent, double scale) {
  constexpr int64_t kFraction = 1024;
  if (!(scale > 0) || scale > 1e6) return std::nullopt;
  if (extent.is_const()) return Dim(std::llround(static_cast<double>(extent.constant()) * scale));
  double numerator = scale * kFraction;
  if (numerator != std::floor(numerator)) return std::nullopt;
  return FloorDiv(extent * static_cast<int64_t>(numerator) + kFraction / 2, kFraction);
}

// What data and attributes of an upsampling operator must be.
bool CheckUpsampling(TypeContext& context, const Dims& data) {
  const ir::Attrs& attrs = context.attrs();
  if (data.size() != 4) {
    FailRank(context, 0, data.size(), "rank 4");
    return false;
  }
  if (!CheckLayout(context, attrs.GetString("layout"), "NCHW", "layout")) return false;
  if (MethodOf(attrs.GetString("method"))) return true;
  context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`method` is \"", attrs.GetString("method"),
                                                           "\"; expected nearest_neighbor, bilinear or bicubic"));
  return false;
}

Solve UpsamplingRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  Dims out = args[0]->shape.dims;
  if (!CheckUpsampling(context, out)) return Solve::kFailed;
  Layout layout(attrs.GetString("layout"));
  double scales[] = {attrs.GetDouble("scale_h"), attrs.GetDouble("scale_w")};
  for (size_t s = 0; s < 2; ++s) {
    std::optional<Dim> scaled = ScaledExtent(out[layout.spatial[s]], scales[s]);
    if (!scaled) {
      return context.Fail(
          DiagnosticKind::kBadAttribute,
          absl::StrCat("a scale is ", scales[s], " for an extent of ", out[layout.spatial[s]].ToString(),
                       "; expected a positive number, and a multiple of 1/1024 for an extent that is "
                       "not known"));
    }
    out[layout.spatial[s]] = *scaled;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// Data and scales are what dynamic upsampling takes.
Solve ScaledArgs(TypeContext& context, Types& args) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!CheckUpsampling(context, args[0]->shape.dims)) return Solve::kFailed;
  for (int i : {1, 2}) {
    const ir::TensorType& scale = *args[static_cast<size_t>(i)];
    if (!scale.shape.dims.empty()) return FailRank(context, i, scale.shape.dims.size(), "a scalar");
    if (!scale.dtype.dtype.is_float()) return FailDType(context, i, scale.dtype.dtype, "a floating-point dtype");
  }
  return Solve::kDone;
}

template <bool is_given>
Solve DynamicUpsamplingRelation(TypeContext& context) {
  Types args;
  if (Solve solve = ScaledArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  Layout layout(context.attrs().GetString("layout"));
  for (size_t axis : layout.spatial) out[axis] = is_given ? Dim(0) : context.DataDependentDim();
  if (is_given && !TakeSize(context, 3, out)) return Solve::kFailed;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

Solve UpsampledSizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = ScaledArgs(context, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {2}, kInt64);
}

std::vector<Tensor> ComputeUpsampledSize(const ComputeContext& context) {
  Layout layout(context.attrs().GetString("layout"));
  auto scaled = [&](size_t s) {
    Expr extent = Real(te::DimValue(context.input(0).dims()[layout.spatial[s]]));
    Expr size = extent * Real(context.input(s + 1)({}));
    return te::Cast(kInt64, Round(UnaryOp::kFloor, size + Real(0.5)));
  };
  return {te::ComputeTensor("size", kInt64, {2}, [&](std::span<const Expr> i) {
    return te::Select(Equal(i[0], te::Index(0)), scaled(0), scaled(1));
  })};
}

std::vector<Tensor> ComputeUpsampling(const ComputeContext& context) {
  Resize resize;
  resize.method = *MethodOf(context.attrs().GetString("method"));
  resize.rounding = Rounding::kFloor;
  resize.coordinates = context.attrs().GetBool("align_corners") ? Coordinates::kAlignCorners
                       : resize.method == Method::kNearest      ? Coordinates::kAsymmetric
                                                                : Coordinates::kHalfPixel;
  if (resize.coordinates == Coordinates::kAlignCorners) resize.rounding = Rounding::kRound;
  return ComputeResized(context, resize);
}

// ---- crops ---------------------------------------------------------------------------

Solve CropRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &data = args[0]->shape.dims, &boxes = args[1]->shape.dims, &batches = args[2]->shape.dims;
  if (data.size() != 4) return FailRank(context, 0, data.size(), "rank 4");
  if (boxes.size() != 2) return FailRank(context, 1, boxes.size(), "rank 2");
  if (batches.size() != 1) return FailRank(context, 2, batches.size(), "rank 1");
  if (!args[1]->dtype.dtype.is_float()) return FailDType(context, 1, args[1]->dtype.dtype, "a floating-point dtype");
  if (!args[2]->dtype.dtype.is_int()) return FailDType(context, 2, args[2]->dtype.dtype, "an integer dtype");
  if (!CheckLayout(context, attrs.GetString("layout"), "NCHW", "layout")) return Solve::kFailed;
  std::optional<Method> method = MethodOf(attrs.GetString("method"));
  std::vector<int64_t> size = attrs.IsNone("crop_size") ? std::vector<int64_t>() : attrs.GetInts("crop_size");
  if (size.size() != 2 || size[0] < 0 || size[1] < 0 || !method || *method == Method::kCubic) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        "`crop_size` or `method` does not fit; expected two extents, and bilinear or nearest_neighbor");
  }
  if (!context.RequireEqual(boxes[1], 4, "`image.crop_and_resize`: columns of the boxes") ||
      !context.RequireEqual(boxes[0], batches[0], "`image.crop_and_resize`: number of boxes and their batches"))
    return Solve::kFailed;
  Layout layout(attrs.GetString("layout"));
  Dims out = data;
  out[layout.axis('N')] = boxes[0];
  for (size_t s = 0; s < 2; ++s) out[layout.spatial[s]] = size[s];
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeCrop(const ComputeContext& context) {
  const Tensor &data = context.input(0), &boxes = context.input(1), &batches = context.input(2);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  bool nearest = *MethodOf(context.attrs().GetString("method")) == Method::kNearest;
  DataType wide = data.dtype() == kFloat64 ? kFloat64 : kFloat32;
  size_t n = layout.axis('N');
  auto coordinate = [&](std::span<const Expr> i, size_t s) {
    size_t axis = layout.spatial[s];
    Expr begin = Real(boxes({i[n], te::Index(static_cast<int64_t>(s))}));
    Expr end = Real(boxes({i[n], te::Index(static_cast<int64_t>(s + 2))}));
    Expr last = Real(te::DimValue(data.dims()[axis]) - te::Index(1));
    if (out.dims[axis] == Dim(1)) return Real(0.5) * (begin + end) * last;
    Expr step = te::Binary(BinaryOp::kDivide, (end - begin) * last, Real(te::DimValue(out.dims[axis] - 1)));
    return begin * last + Real(i[axis]) * step;
  };
  Dim volume = data.dims()[n];
  for (size_t axis : layout.spatial) volume = volume * data.dims()[axis];
  return {te::ComputeTensor("crop", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    at[n] = Clamp(te::Cast(kInt64, batches({i[n]})), data.dims()[n]);
    Expr inside;
    for (size_t s = 0; s < 2; ++s) {
      Expr x = coordinate(i, s);
      Expr last = Real(te::DimValue(data.dims()[layout.spatial[s]]) - te::Index(1));
      // Comparisons with a NaN are false: a box of NaNs is outside.
      Expr here = And(te::Binary(BinaryOp::kLessEqual, Real(0), x), te::Binary(BinaryOp::kLessEqual, x, last));
      inside = inside ? And(inside, here) : here;
    }
    std::function<Expr(size_t)> fold = [&](size_t s) -> Expr {
      if (s == 2) return te::Cast(nearest ? out.dtype : wide, data(at));
      const Dim& extent = data.dims()[layout.spatial[s]];
      Expr x = coordinate(i, s);
      if (nearest) {
        at[layout.spatial[s]] = Clamp(te::Cast(kInt64, Round(UnaryOp::kRound, x)), extent);
        return fold(s + 1);
      }
      Expr below = Round(UnaryOp::kFloor, x);
      Expr t = te::Cast(wide, x - below);
      at[layout.spatial[s]] = Clamp(te::Cast(kInt64, below), extent);
      Expr low = fold(s + 1);
      at[layout.spatial[s]] = Clamp(te::Cast(kInt64, below) + te::Index(1), extent);
      Expr high = fold(s + 1);
      return low * (te::Const(wide, 1) - t) + high * t;
    };
    Expr outside = te::Cast(out.dtype, Real(context.attrs().GetDouble("extrapolation_value")));
    return UnlessEmpty(volume, te::Select(inside, te::Cast(out.dtype, fold(0)), outside));
  })};
}

constexpr OpDef Sized(OpDef op) {
  op.count_op = "dyn.nn.upsampling_size";
  op.fill_op = "dyn.nn.upsampling_fill";
  op.num_counts = 2;
  return op;
}

constexpr OpDef kOps[] = {
    Op("image.resize1d", "images of another length", kInputs, kResize1dAttrs, ResizeRelation<3>,
       FusionClass::kInjective, ComputeResize),
    Op("image.resize2d", "images of another height and width", kInputs, kResize2dAttrs, ResizeRelation<4>,
       FusionClass::kInjective, ComputeResize),
    Op("image.resize3d", "images of another depth, height and width", kInputs, kResize3dAttrs, ResizeRelation<5>,
       FusionClass::kInjective, ComputeResize),
    Op("nn.upsampling", "images larger by a factor", kInputs, kUpsamplingAttrs, UpsamplingRelation,
       FusionClass::kInjective, ComputeUpsampling),
    Op("dyn.image.resize2d", "images of another height and width", kDynamicInputs, kResize2dAttrs,
       DynamicResizeRelation, FusionClass::kInjective, ComputeDynamicResize),
    Sized(Op("dyn.nn.upsampling", "images larger by a factor", kScales, kDynamicUpsamplingAttrs,
             DynamicUpsamplingRelation<false>, FusionClass::kOpaque, nullptr)),
    Op("dyn.nn.upsampling_size", "the height and width that `dyn.nn.upsampling` gives", kScales,
       kDynamicUpsamplingAttrs, UpsampledSizeRelation, FusionClass::kOpaque, ComputeUpsampledSize),
    Op("dyn.nn.upsampling_fill", "`dyn.nn.upsampling`, of that size", kScalesAndSize, kDynamicUpsamplingAttrs,
       DynamicUpsamplingRelation<true>, FusionClass::kInjective, ComputeUpsampling),
    Op("image.crop_and_resize", "boxes cut from images, all of one size", kCropInputs, kCropAttrs, CropRelation,
       FusionClass::kInjective, ComputeCrop),
};

}  // namespace

std::span<const OpDef> ImageOps() { return kOps; }

}  // namespace rvm::ops
