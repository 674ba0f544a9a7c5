// Upsampling: enlarges images by a factor.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/resample.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a batch of images"}};
constexpr Input kScales[] = {{"data", "a batch of images"},
                             {"scale_h", "how much higher, a floating-point scalar"},
                             {"scale_w", "how much wider, a floating-point scalar"}};
constexpr Input kScalesAndSize[] = {
    kScales[0],
    kScales[1],
    kScales[2],
    {.name = "size", .doc = "an integer vector, height and width of the result", .decides_shape = true}};

constexpr AttrSpec kUpsamplingAttrs[] = {
    {"scale_h", AttrType::kFloat, "", "how much higher"},
    {"scale_w", AttrType::kFloat, "", "how much wider"},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"method", AttrType::kString, "\"nearest_neighbor\"", "\"nearest_neighbor\", \"bilinear\" or \"bicubic\""},
    {"align_corners", AttrType::kBool, "False", "corners of both images are at the same place"}};
constexpr AttrSpec kDynamicUpsamplingAttrs[] = {{"scale_h", AttrType::kAny, "None", "unused, for compatibility", true},
                                                {"scale_w", AttrType::kAny, "None", "unused, for compatibility", true},
                                                kUpsamplingAttrs[2],
                                                kUpsamplingAttrs[3],
                                                kUpsamplingAttrs[4]};

constexpr AttrSpec kUpsampling3dAttrs[] = {
    {"scale_d", AttrType::kFloat, "", "how much deeper"},
    {"scale_h", AttrType::kFloat, "", "how much higher"},
    {"scale_w", AttrType::kFloat, "", "how much wider"},
    {"layout", AttrType::kString, "\"NCDHW\"", "axes of data"},
    {"method", AttrType::kString, "\"nearest_neighbor\"", "\"nearest_neighbor\" or \"trilinear\""},
    {"coordinate_transformation_mode", AttrType::kString, "\"half_pixel\"",
     "\"half_pixel\", \"align_corners\" or \"asymmetric\""}};
constexpr Example kUpsampling3dExamples[] = {
    {"nn.upsampling3d([[[[[1f, 3f]]]]], scale_d=2f, scale_h=1f, scale_w=1.5f, method=\"trilinear\", "
     "coordinate_transformation_mode=\"align_corners\")",
     "[[[[[1f, 2f, 3f]], [[1f, 2f, 3f]]]]]"}};

constexpr Input kScales3d[] = {{"data", "a batch of volumes"},
                               {"scale_d", "how much deeper, a floating-point scalar"},
                               {"scale_h", "how much higher, a floating-point scalar"},
                               {"scale_w", "how much wider, a floating-point scalar"}};
constexpr Input kScales3dAndSize[] = {
    kScales3d[0],
    kScales3d[1],
    kScales3d[2],
    kScales3d[3],
    {.name = "size", .doc = "an integer vector, depth, height and width of the result", .decides_shape = true}};
constexpr AttrSpec kDynamicUpsampling3dAttrs[] = {
    {"scale_d", AttrType::kAny, "None", "unused, for compatibility", true},
    {"scale_h", AttrType::kAny, "None", "unused, for compatibility", true},
    {"scale_w", AttrType::kAny, "None", "unused, for compatibility", true},
    kUpsampling3dAttrs[3],
    kUpsampling3dAttrs[4],
    kUpsampling3dAttrs[5]};
constexpr Example kDynamicUpsampling3dExamples[] = {
    {"dyn.nn.upsampling3d([[[[[1f, 3f]]]]], 2f, 1f, 1.5f, method=\"trilinear\", "
     "coordinate_transformation_mode=\"align_corners\")",
     "[[[[[1f, 2f, 3f]], [[1f, 2f, 3f]]]]]"}};

// round(extent * scale), with halves rounded to even, like the predecessor rounds known extents. nullopt if this is not
// expressible as a dim.
std::optional<Dim> ScaledExtent(const Dim& extent, double scale) {
  constexpr int64_t kDenominator = 1024;
  if (!(scale > 0) || scale > 1e6) return std::nullopt;
  if (extent.is_const()) {
    const double scaled = static_cast<double>(extent.constant()) * scale;
    return scaled < 0x1p62 ? std::optional(Dim(std::llrint(scaled))) : std::nullopt;
  }
  if (scale == std::floor(scale)) return extent * static_cast<int64_t>(scale);
  double numerator = scale * kDenominator;
  if (numerator != std::floor(numerator)) return std::nullopt;
  // round(x) = floor((x + 1/2) / 2) + ceil((x - 1/2) / 2): the first term steps at 3/2, 7/2, ..., the second one just
  // after 1/2, 5/2, ...
  int64_t common = std::gcd(static_cast<int64_t>(numerator), kDenominator);
  int64_t denominator = kDenominator / common;
  Dim product = extent * (static_cast<int64_t>(numerator) / common);
  return FloorDiv(product + denominator / 2, 2 * denominator) +
         FloorDiv(product + (2 * denominator - 1 - denominator / 2), 2 * denominator);
}

// Multiplies the extent `axis` of `dims` by `scale`; reports an error and returns false if it cannot.
bool ScaleExtent(TypeContext& context, Dims& dims, size_t axis, double scale) {
  std::optional<Dim> scaled = ScaledExtent(dims[axis], scale);
  if (scaled) {
    dims[axis] = *scaled;
    return true;
  }
  context.Fail(DiagnosticKind::kBadAttribute,
               absl::StrCat("a scale is ", scale, " for an extent of ", dims[axis].ToString(),
                            "; expected a positive number, and a multiple of 1/1024 for an extent that is not known"));
  return false;
}

// Checks the data and the attributes of an upsampling operator.
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
    if (!ScaleExtent(context, out, layout.spatial[s], scales[s])) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::optional<Resize> Upsampling3d(const ir::Attrs& attrs) {
  const std::string &method = attrs.GetString("method"), &mode = attrs.GetString("coordinate_transformation_mode");
  Resize resize;
  resize.coordinates = mode == "align_corners" ? Coordinates::kAlignCorners
                       : mode == "asymmetric"  ? Coordinates::kAsymmetric
                                               : Coordinates::kHalfPixel;
  resize.rounding = mode == "align_corners" ? Rounding::kRound : Rounding::kFloor;
  resize.method = method == "trilinear" ? Method::kLinear : Method::kNearest;
  bool has_mode = resize.coordinates != Coordinates::kHalfPixel || mode == "half_pixel";
  bool has_method = resize.method != Method::kNearest || method == "nearest_neighbor";
  return has_mode && has_method ? std::optional(resize) : std::nullopt;
}

// Checks the data and the attributes of an upsampling operator of volumes.
bool CheckUpsampling3d(TypeContext& context, const Dims& data) {
  const ir::Attrs& attrs = context.attrs();
  if (data.size() != 5) {
    FailRank(context, 0, data.size(), "rank 5");
    return false;
  }
  if (!CheckLayout(context, attrs.GetString("layout"), "NCDHW", "layout")) return false;
  if (Upsampling3d(attrs)) return true;
  context.Fail(DiagnosticKind::kBadAttribute,
               "`method` or `coordinate_transformation_mode` has an unknown value; see docs/operators.md");
  return false;
}

Solve Upsampling3dRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  Dims out = args[0]->shape.dims;
  if (!CheckUpsampling3d(context, out)) return Solve::kFailed;
  Layout layout(attrs.GetString("layout"));
  size_t axis = 0;
  for (std::string_view scale : {"scale_d", "scale_h", "scale_w"}) {
    if (!ScaleExtent(context, out, layout.spatial[axis++], attrs.GetDouble(scale))) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeUpsampling3d(const ComputeContext& context) {
  return ComputeResized(context, *Upsampling3d(context.attrs()));
}

// Checks that the arguments are those of dynamic upsampling: data, and a scale for each of `axes`.
Solve ScaledArgs(TypeContext& context, int axes, Types& args) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  if (axes == 2 ? !CheckUpsampling(context, data) : !CheckUpsampling3d(context, data)) return Solve::kFailed;
  for (int i = 1; i <= axes; ++i) {
    const ir::TensorType& scale = *args[static_cast<size_t>(i)];
    if (!scale.shape.dims.empty()) return FailRank(context, i, scale.shape.dims.size(), "a scalar");
    if (!scale.dtype.dtype.is_float()) return FailDType(context, i, scale.dtype.dtype, "a floating-point dtype");
  }
  return Solve::kDone;
}

template <int axes, bool is_given>
Solve DynamicUpsamplingRelation(TypeContext& context) {
  Types args;
  if (Solve solve = ScaledArgs(context, axes, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  Layout layout(context.attrs().GetString("layout"));
  for (size_t axis : layout.spatial) out[axis] = is_given ? Dim(0) : context.DataDependentDim();
  if (is_given && !TakeSize(context, axes + 1, out)) return Solve::kFailed;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

template <int axes>
Solve UpsampledSizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = ScaledArgs(context, axes, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {axes}, kInt64);
}

std::vector<Tensor> ComputeUpsampledSize(const ComputeContext& context) {
  Layout layout(context.attrs().GetString("layout"));
  auto scaled = [&](size_t s) {
    Expr extent = Real(te::DimValue(context.input(0).dims()[layout.spatial[s]]));
    Expr size = extent * Real(context.input(s + 1)({}));
    return te::Cast(kInt64, Round(UnaryOp::kFloor, size + Real(0.5)));
  };
  size_t axes = layout.spatial.size();
  return {te::ComputeTensor("size", kInt64, {static_cast<int64_t>(axes)}, [&](std::span<const Expr> i) {
    Expr size = scaled(axes - 1);
    for (size_t s = axes - 1; s-- > 0;) {
      size = te::Select(Equal(i[0], te::Index(static_cast<int64_t>(s))), scaled(s), size);
    }
    return size;
  })};
}

std::vector<Tensor> ComputeUpsampling(const ComputeContext& context) {
  Resize resize;
  resize.method = *MethodOf(context.attrs().GetString("method"));
  resize.rounding = Rounding::kFloor;
  // Without aligned corners, position i of the result reads position i / scale, like in the predecessor.
  resize.coordinates = context.attrs().GetBool("align_corners") ? Coordinates::kAlignCorners : Coordinates::kAsymmetric;
  if (resize.coordinates == Coordinates::kAlignCorners) resize.rounding = Rounding::kRound;
  return ComputeResized(context, resize);
}

constexpr OpDef Sized(OpDef op, std::string_view count_op, std::string_view fill_op, int64_t axes) {
  op.count_op = count_op;
  op.fill_op = fill_op;
  op.num_counts = axes;
  return op;
}

constexpr OpDef kOps[] = {
    WithGradient(Op("nn.upsampling", "images larger by a factor", kInputs, kUpsamplingAttrs, UpsamplingRelation,
                    FusionClass::kInjective, ComputeUpsampling),
                 UpsamplingGradient),
    WithGradient(Op("nn.upsampling3d", "volumes larger by a factor", kInputs, kUpsampling3dAttrs, Upsampling3dRelation,
                    FusionClass::kInjective, ComputeUpsampling3d, kUpsampling3dExamples),
                 UpsamplingGradient),
    WithGradient(Sized(Op("dyn.nn.upsampling", "images larger by a factor", kScales, kDynamicUpsamplingAttrs,
                          DynamicUpsamplingRelation<2, false>, FusionClass::kOpaque, nullptr),
                       "dyn.nn.upsampling_size", "dyn.nn.upsampling_fill", 2),
                 DynUpsamplingGradient),
    Op("dyn.nn.upsampling_size", "the height and width that `dyn.nn.upsampling` gives", kScales,
       kDynamicUpsamplingAttrs, UpsampledSizeRelation<2>, FusionClass::kOpaque, ComputeUpsampledSize),
    WithGradient(
        Op("dyn.nn.upsampling_fill", "`dyn.nn.upsampling`, of that size", kScalesAndSize, kDynamicUpsamplingAttrs,
           DynamicUpsamplingRelation<2, true>, FusionClass::kInjective, ComputeUpsampling),
        DynUpsamplingGradient),
    WithGradient(
        Sized(Op("dyn.nn.upsampling3d", "volumes larger by a factor", kScales3d, kDynamicUpsampling3dAttrs,
                 DynamicUpsamplingRelation<3, false>, FusionClass::kOpaque, nullptr, kDynamicUpsampling3dExamples),
              "dyn.nn.upsampling3d_size", "dyn.nn.upsampling3d_fill", 3),
        DynUpsamplingGradient),
    Op("dyn.nn.upsampling3d_size", "the depth, height and width that `dyn.nn.upsampling3d` gives", kScales3d,
       kDynamicUpsampling3dAttrs, UpsampledSizeRelation<3>, FusionClass::kOpaque, ComputeUpsampledSize),
    WithGradient(
        Op("dyn.nn.upsampling3d_fill", "`dyn.nn.upsampling3d`, of that size", kScales3dAndSize,
           kDynamicUpsampling3dAttrs, DynamicUpsamplingRelation<3, true>, FusionClass::kInjective, ComputeUpsampling3d),
        DynUpsamplingGradient),
};

}  // namespace

std::span<const OpDef> UpsamplingOps() { return kOps; }

}  // namespace rvm::ops
