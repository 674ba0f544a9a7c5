// Images in other sizes.
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/resample.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"

namespace rvm::ops {
namespace {

using te::Expr;
using te::Tensor;

constexpr Input kInputs[] = {{"data", "a batch of images"}};
constexpr Input kDynamicInputs[] = {
    {"data", "a batch of images"},
    {.name = "size", .doc = "an integer vector, the new extents of space", .decides_shape = true},
    {"roi", "for tf_crop_and_resize the begins, then the ends of each axis of data, or of space, from 0 to 1"}};

#define RVM_RESIZE_ATTRS(data_layout)                                                                            \
  {"size", AttrType::kInts, "None", "the new extents of space", true},                                           \
      {"roi", AttrType::kAny, "None",                                                                            \
       "for tf_crop_and_resize the begins, then the ends of each axis of data, or of space, from 0 to 1", true}, \
      {"layout", AttrType::kString, data_layout, "axes of data"},                                                \
      {"method", AttrType::kString, "\"linear\"", "\"nearest_neighbor\", \"linear\" or \"cubic\""},              \
      {"coordinate_transformation_mode", AttrType::kString, "\"half_pixel\"",                                    \
       "\"half_pixel\", \"align_corners\", \"asymmetric\", \"pytorch_half_pixel\", \"tf_half_pixel_for_nn\" or " \
       "\"tf_crop_and_resize\""},                                                                                \
      {"rounding_method", AttrType::kString, "\"round\"",                                                        \
       "of nearest_neighbor: \"round\" (halves away from 0), \"floor\", \"ceil\", \"round_prefer_floor\" or "    \
       "\"round_prefer_ceil\""},                                                                                 \
      {"scales", AttrType::kAny, "None",                                                                         \
       "for each axis of space, by what coordinates are divided; None: by the quotient of the extents; not for " \
       "align_corners and tf_crop_and_resize",                                                                   \
       true},                                                                                                    \
      {"cubic_alpha", AttrType::kFloat, "-0.5f", "the spline's coefficient"},                                    \
      {"cubic_exclude", AttrType::kInt, "0", "1: taps outside the image do not count"},                          \
      {"extrapolation_value", AttrType::kFloat, "0", "what tf_crop_and_resize reads outside the image"},         \
      {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}
constexpr AttrSpec kResize1dAttrs[] = {RVM_RESIZE_ATTRS("\"NCW\"")};
constexpr AttrSpec kResize2dAttrs[] = {RVM_RESIZE_ATTRS("\"NCHW\"")};
constexpr AttrSpec kResize3dAttrs[] = {RVM_RESIZE_ATTRS("\"NCDHW\"")};
#undef RVM_RESIZE_ATTRS

template <typename T, size_t n>
std::optional<T> Named(const std::array<std::pair<const char*, T>, n>& names, const std::string& name) {
  for (const auto& [text, value] : names) {
    if (name == text) return value;
  }
  return std::nullopt;
}

// Reads `scales`. Returns false if it does not fit.
bool ReadScales(const ir::Attrs& attrs, size_t axes, Resize& resize) {
  const ir::AttrValue::List* scales = attrs.Find("scales")->AsList();
  if (scales == nullptr || scales->size() != axes) return false;
  for (const ir::AttrValue& value : *scales) {
    if (!value.AsInt() && !value.AsDouble()) return false;
    resize.scales.push_back(value.AsInt() ? static_cast<double>(*value.AsInt()) : *value.AsDouble());
    if (!(resize.scales.back() > 0) || std::isinf(resize.scales.back())) return false;
  }
  return resize.coordinates != Coordinates::kAlignCorners && resize.coordinates != Coordinates::kCrop;
}

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
  if (!attrs.IsNone("scales") && !ReadScales(attrs, rank - 2, resize)) return std::nullopt;
  if (resize.coordinates != Coordinates::kCrop) return resize;
  std::vector<Expr> roi;
  if (roi_tensor != nullptr) {
    // A tensor whose type has no number of elements has those of all axes.
    size_t numbers = static_cast<size_t>(roi_tensor->dims()[0].AsConst().value_or(static_cast<int64_t>(2 * rank)));
    for (size_t i = 0; i < numbers && numbers <= 2 * rank; ++i) {
      roi.push_back(Real((*roi_tensor)({te::Index(static_cast<int64_t>(i))})));
    }
  } else {
    const ir::AttrValue::List* list = attrs.Find("roi")->AsList();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const ir::AttrValue& value = (*list)[i];
      if (!value.AsInt() && !value.AsDouble()) return std::nullopt;
      roi.push_back(Real(value.AsInt() ? static_cast<double>(*value.AsInt()) : *value.AsDouble()));
    }
  }
  Layout layout(attrs.GetString("layout"));
  for (bool is_end : {false, true}) {
    for (size_t s = 0; s < layout.spatial.size(); ++s) {
      auto places = PlacesInRoi(layout, roi.size(), s);
      if (!places) return std::nullopt;
      resize.roi.push_back(roi[is_end ? places->second : places->first]);
    }
  }
  return resize;
}

// Checks the attributes of a resizing operator for data of `rank`.
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
               "`method`, `coordinate_transformation_mode` or `rounding_method` has an unknown value, or `roi` "
               "or `scales` does not fit; see docs/operators.md");
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
  bool is_known = roi[0].is_const();  // and was checked
  if (crops && !is_known && !context.RequireEqual(roi[0], 8, "elements of `roi`")) return Solve::kFailed;
  if (!TakeSize(context, 1, out)) return Solve::kFailed;
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeResize(const ComputeContext& context) {
  return ComputeResized(context, *Describe(context.attrs(), context.input(0).rank()));
}

std::vector<Tensor> ComputeDynamicResize(const ComputeContext& context) {
  return ComputeResized(context, *Describe(context.attrs(), context.input(0).rank(), &context.input(2)));
}

constexpr OpDef kOps[] = {
    WithGradient(Op("image.resize1d", "images of another length", kInputs, kResize1dAttrs, ResizeRelation<3>,
                    FusionClass::kInjective, ComputeResize),
                 ResizeGradient),
    WithGradient(Op("image.resize2d", "images of another height and width", kInputs, kResize2dAttrs, ResizeRelation<4>,
                    FusionClass::kInjective, ComputeResize),
                 ResizeGradient),
    WithGradient(Op("image.resize3d", "images of another depth, height and width", kInputs, kResize3dAttrs,
                    ResizeRelation<5>, FusionClass::kInjective, ComputeResize),
                 ResizeGradient),
    WithGradient(Op("dyn.image.resize2d", "images of another height and width", kDynamicInputs, kResize2dAttrs,
                    DynamicResizeRelation, FusionClass::kInjective, ComputeDynamicResize),
                 DynResizeGradient),
};

}  // namespace

std::span<const OpDef> ImageOps() { return kOps; }

}  // namespace rvm::ops
