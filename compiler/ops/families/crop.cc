// Cropping boxes from images. Unlike in resize, a coordinate is computed from the box and then rounded.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "compiler/ops/families/families.h"
#include "compiler/ops/families/resample.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kCropInputs[] = {{"data", "a batch of images"},
                                 {"boxes", "a matrix (boxes, 4) of y1, x1, y2, x2 from 0 to 1"},
                                 {"box_indices", "the batch that each box is cut from"}};

constexpr AttrSpec kCropAttrs[] = {
    {"crop_size", AttrType::kInts, "None", "height and width of the result", true},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"method", AttrType::kString, "\"bilinear\"", "\"bilinear\" or \"nearest_neighbor\""},
    {"extrapolation_value", AttrType::kFloat, "0", "the value outside the image"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};

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
        at[layout.spatial[s]] = Clamp(te::Cast(kInt64, RoundHalfAway(x)), extent);
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

constexpr OpDef kOps[] = {
    WithGradient(Op("image.crop_and_resize", "boxes cut from images, all of one size", kCropInputs, kCropAttrs,
                    CropRelation, FusionClass::kInjective, ComputeCrop),
                 CropAndResizeGradient),
};

}  // namespace

std::span<const OpDef> CropOps() { return kOps; }

}  // namespace rvm::ops
