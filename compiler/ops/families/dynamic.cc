// Operators whose result shape is an argument: the `dyn.` variants of operators that have it as an attribute.
//
// The argument is a small integer tensor of known shape, so the rank of the result is known. Its elements are dims
// (TypeContext::ValueDim), which the relations use like any other dims.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/dynamic_twins.h"
#include "compiler/ops/families/dynamic_reshape.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kData = {"data", "a tensor"};
constexpr Input kShape = {.name = "shape", .doc = "an integer vector, the shape of the result", .decides_shape = true};
constexpr Input kShapeOnly[] = {kShape};
constexpr Input kFullInputs[] = {{"fill_value", "a scalar"}, kShape};
constexpr Input kBroadcastInputs[] = {kData, kShape};
constexpr Input kReshapeInputs[] = {kData,
                                    {.name = "newshape",
                                     .doc = "an integer vector; 0 copies the input's extent, -1 is inferred, -3 joins "
                                            "two extents, -2 copies the last one",
                                     .decides_shape = true}};
constexpr Input kSqueezeInputs[] = {
    kData, {.name = "axis", .doc = "an integer vector, the axes of extent 1 to drop", .decides_shape = true}};
constexpr Input kExpandInputs[] = {
    kData, {.name = "axis", .doc = "an integer scalar, where the new axes stand", .decides_shape = true}};
constexpr Input kTileInputs[] = {
    kData, {.name = "reps", .doc = "an integer vector, how often each axis is repeated", .decides_shape = true}};
constexpr Input kOneHotInputs[] = {
    {"indices", "an integer tensor"},
    {"on_value", "a scalar"},
    {"off_value", "a scalar"},
    {.name = "depth", .doc = "an integer scalar, the extent of the new axis", .decides_shape = true}};
constexpr Input kSliceInputs[] = {
    kData,
    {.name = "begin", .doc = "an integer vector; negative: from the end", .decides_shape = true},
    {.name = "end", .doc = "an integer vector; negative: from the end", .decides_shape = true},
    {.name = "strides", .doc = "an integer vector; negative: backwards", .decides_shape = true}};
constexpr AttrSpec kUnusedShape = {"shape", AttrType::kAny, "None", "unused, for compatibility", true};
constexpr AttrSpec kShapeAttrs[] = {
    kUnusedShape, {"dtype", AttrType::kDType, "\"\"", "the dtype of the result (float32; `dyn.full`: of fill_value)"}};
constexpr AttrSpec kBroadcastAttrs[] = {kUnusedShape, {"dtype", AttrType::kDType, "\"\"", "unused, for compatibility"}};
constexpr AttrSpec kReshapeAttrs[] = {{"newshape", AttrType::kAny, "None", "unused, for compatibility", true},
                                      {"allowzero", AttrType::kInt, "0", "1: a 0 in newshape is an extent of 0"}};
constexpr AttrSpec kSqueezeAttrs[] = {{"axis", AttrType::kAny, "None", "unused, for compatibility", true}};
constexpr AttrSpec kExpandAttrs[] = {{"num_newaxis", AttrType::kInt, "1", "how many axes of extent 1"}};
constexpr AttrSpec kTileAttrs[] = {{"reps", AttrType::kAny, "None", "unused, for compatibility", true}};
constexpr AttrSpec kOneHotAttrs[] = {{"depth", AttrType::kAny, "None", "unused, for compatibility", true},
                                     {"axis", AttrType::kInt, "-1", "where the new axis stands"},
                                     {"dtype", AttrType::kDType, "\"\"", "the dtype of the result (float32)"}};
constexpr AttrSpec kSliceAttrs[] = {
    {"begin", AttrType::kAny, "None", "unused, for compatibility", true},
    {"end", AttrType::kAny, "None", "unused, for compatibility", true},
    {"strides", AttrType::kAny, "None", "unused, for compatibility", true},
    {"slice_mode", AttrType::kString, "\"end\"", "\"end\", or \"size\": `end` has extents, -1 for all"},
    {"axes", AttrType::kInts, "None", "the axes sliced; None: the first ones", true}};

// 1 if `dim` is negative, otherwise 0; the others are analogous.
Dim IsNegative(const Dim& dim) { return Dim(0) - Max(Min(dim, 0), -1); }
Dim IsPositive(const Dim& dim) { return Max(Min(dim, 1), 0); }
Dim IsEqual(const Dim& a, const Dim& b) { return Dim(1) - IsPositive(a - b) - IsNegative(a - b); }

// ---- fills ------------------------------------------------------------------------

Solve FillRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  if (!ShapeValues(context, 0, out)) return Solve::kFailed;
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "dtype", kFloat32));
}

Solve FullRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!args[0]->shape.dims.empty()) return FailRank(context, 0, args[0]->shape.dims.size(), "a scalar");
  Dims out;
  if (!ShapeValues(context, 1, out)) return Solve::kFailed;
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "dtype", args[0]->dtype.dtype));
}

// ---- views -------------------------------------------------------------------------

Solve ExpandDimsRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& in = args[0]->shape.dims;
  int64_t rank = static_cast<int64_t>(in.size()), count = context.attrs().GetInt("num_newaxis");
  if (count < 0 || count > 32) {
    return context.Fail(DiagnosticKind::kAxisOutOfRange,
                        absl::StrCat("`num_newaxis` is ", count, "; expected 0 to 32"));
  }
  Dims values;
  if (!ValueDims(context, 1, 0, values)) return Solve::kFailed;
  if (!context.RequireAtLeast(values[0], -rank - 1, "`axis`") ||
      !context.RequireAtLeast(rank, values[0], "rank and `axis`"))
    return Solve::kFailed;
  Dim axis = values[0] + IsNegative(values[0]) * (rank + 1);
  Dims out;
  for (int64_t i = 0; i < rank + count; ++i) {
    Dim is_before = IsPositive(axis - i), is_after = Dim(1) - IsPositive(axis - i + count);
    Dim extent = Dim(1) - is_before - is_after;
    if (i < rank) extent = extent + is_before * in[static_cast<size_t>(i)];
    if (i >= count) extent = extent + is_after * in[static_cast<size_t>(i - count)];
    out.push_back(extent);
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// The k-th extent that is kept becomes the extent of axis k of the result.
Solve SqueezeRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& in = args[0]->shape.dims;
  Dims dropped;
  if (!ValueDims(context, 1, 1, dropped)) return Solve::kFailed;
  int64_t rank = static_cast<int64_t>(in.size());
  if (dropped.size() > in.size()) return FailRank(context, 0, in.size(), absl::StrCat("at least ", dropped.size()));
  for (Dim& axis : dropped) {
    if (!context.RequireAtLeast(axis, -rank, "`axis`") || !context.RequireAtLeast(rank - 1, axis, "the last axis"))
      return Solve::kFailed;
    axis = axis + IsNegative(axis) * rank;
  }
  Dims out(in.size() - dropped.size(), Dim(0));
  Dim place = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const Dim& extent = in[static_cast<size_t>(i)];
    Dim stays = 1;
    for (const Dim& axis : dropped) stays = stays * (Dim(1) - IsEqual(axis, i));
    if (!context.RequireEqual((Dim(1) - stays) * (extent - 1), 0, "a dropped extent less 1")) return Solve::kFailed;
    for (size_t j = 0; j < out.size() && static_cast<int64_t>(j) <= i; ++j) {
      out[j] = out[j] + stays * IsEqual(place, static_cast<int64_t>(j)) * extent;
    }
    place = place + stays;
  }
  if (!context.RequireEqual(place, static_cast<int64_t>(out.size()), "number of axes that stay")) return Solve::kFailed;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// ---- repetition ---------------------------------------------------------------------

Solve TileRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims reps;
  if (!ValueDims(context, 1, 1, reps)) return Solve::kFailed;
  Dims out = args[0]->shape.dims;
  while (out.size() < reps.size()) out.insert(out.begin(), Dim(1));
  for (size_t i = 0; i < reps.size(); ++i) {
    if (!context.RequireAtLeast(reps[i], 0, "an element of `reps`")) return Solve::kFailed;
    Dim& dim = out[out.size() - reps.size() + i];
    dim = dim * reps[i];
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

Solve BroadcastToRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& in = args[0]->shape.dims;
  Dims out;
  if (!ShapeValues(context, 1, out)) return Solve::kFailed;
  if (in.size() > out.size()) return FailRank(context, 0, in.size(), absl::StrCat("at most ", out.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    const Dim& to = out[out.size() - in.size() + i];
    if (!RequireRepeatable(context, in[i], to, "broadcast: extents of input and result")) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

Solve OneHotRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i : {1, 2}) {
    size_t rank = args[static_cast<size_t>(i)]->shape.dims.size();
    if (rank != 0) return FailRank(context, i, rank, "a scalar");
  }
  Dims out = args[0]->shape.dims;
  Dims depth;
  if (!ValueDims(context, 3, 0, depth)) return Solve::kFailed;
  if (!context.RequireAtLeast(depth[0], 0, "`depth`")) return Solve::kFailed;
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()) + 1);
  if (!axis) return Solve::kFailed;
  out.insert(out.begin() + *axis, depth[0]);
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "dtype", kFloat32));
}

// ---- slices -----------------------------------------------------------------------

// The axes of `data` to which begin, end and strides apply. Reports an error and returns nullopt if they do not fit.
std::optional<std::vector<size_t>> SlicedAxes(TypeContext& context, size_t rank, size_t count) {
  std::vector<size_t> axes;
  if (context.attrs().IsNone("axes") || context.attrs().GetInts("axes").empty()) {
    for (size_t i = 0; i < count; ++i) axes.push_back(i);
  } else {
    for (int64_t named : context.attrs().GetInts("axes")) {
      std::optional<int64_t> axis = NormalAxis(context, named, static_cast<int64_t>(rank), "axes");
      if (!axis) return std::nullopt;
      axes.push_back(static_cast<size_t>(*axis));
    }
  }
  if (axes.size() == count && count <= rank) return axes;
  context.Fail(DiagnosticKind::kShapeMismatch,
               absl::StrCat("`begin` has ", count, " elements; expected one for each of ", axes.size(),
                            " axes of an input of rank ", rank),
               1);
  return std::nullopt;
}

// Returns the position `at`, counted from the end if it is negative, clamped to [0, extent]; nullopt if its sign is not
// known.
std::optional<Dim> ClampedPosition(const Dim& at, const Dim& extent) {
  if (IsNatural(at)) return IsAtMost(at, extent) ? at : Min(at, extent);
  if (!IsAtMost(at, -1)) return std::nullopt;
  return ClampedToNatural(extent + at);
}

// Returns the extent of slice `k`, of stride 1, of an axis of extent `extent`; nullopt if its ends are not known.
std::optional<Dim> KnownSlice(TypeContext& context, const Dim& extent, size_t k) {
  auto element = static_cast<int64_t>(k);
  std::optional<Dim> begin = context.KnownValue(1, element), end = context.KnownValue(2, element);
  if (!begin || !end || context.KnownValue(3, element) != Dim(1)) return std::nullopt;
  std::optional<Dim> from = ClampedPosition(*begin, extent), to = ClampedPosition(*end, extent);
  if (!from || !to) return std::nullopt;
  Dim size = WithoutCancelled(*to - *from);
  return IsAtMost(*from, *to) ? size : ClampedToNatural(size);
}

Solve StridedSliceRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims begin, end, strides;
  if (!ValueDims(context, 1, 1, begin) || !ValueDims(context, 2, 1, end) || !ValueDims(context, 3, 1, strides))
    return Solve::kFailed;
  if (end.size() != begin.size() || strides.size() != begin.size()) {
    return context.Fail(DiagnosticKind::kShapeMismatch,
                        absl::StrCat("`begin`, `end` and `strides` have ", begin.size(), ", ", end.size(), " and ",
                                     strides.size(), " elements; expected equally many"));
  }
  Dims out = args[0]->shape.dims;
  std::optional<std::vector<size_t>> axes = SlicedAxes(context, out.size(), begin.size());
  if (!axes) return Solve::kFailed;
  bool by_size = context.attrs().GetString("slice_mode") == "size";
  for (size_t k = 0; k < begin.size(); ++k) {
    if (std::optional<Dim> known = by_size ? std::nullopt : KnownSlice(context, out[(*axes)[k]], k)) {
      out[(*axes)[k]] = *known;
      continue;
    }
    Dim stride = by_size ? Dim(1) : strides[k];
    Dim step = Max(stride, Dim(0) - stride);
    if (!context.RequireAtLeast(step, 1, "`dyn.strided_slice`: magnitude of an element of `strides`"))
      return Solve::kFailed;
    Dim& extent = out[(*axes)[k]];
    // With a negative stride, the slice begins at the last element, and -1 is the position after the first element.
    Dim behind = Dim(0) - IsNegative(stride);
    auto clamp = [&](const Dim& at) { return Min(Max(at + IsNegative(at) * extent, behind), extent + behind); };
    Dim from = clamp(begin[k]);
    if (by_size) {
      Dim rest = extent - from;
      extent = Min(Max(end[k], 0) + IsNegative(end[k]) * rest, rest);
    } else {
      Dim distance = (clamp(end[k]) - from) * (behind * 2 + 1);
      extent = ClampedToNatural(FloorDiv(distance + (step - 1), step));
    }
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeStridedSlice(const ComputeContext& context) {
  const Tensor &data = context.input(0), &begin = context.input(1), &strides = context.input(3);
  bool by_size = context.attrs().GetString("slice_mode") == "size";
  std::vector<int64_t> named;
  if (!context.attrs().IsNone("axes")) named = context.attrs().GetInts("axes");
  return {te::ComputeTensor("slice", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    for (int64_t k = 0; k < begin.dims()[0].constant(); ++k) {
      size_t axis = named.empty() ? static_cast<size_t>(k) : Normal(named[static_cast<size_t>(k)], data.rank());
      Expr extent = te::DimValue(data.dims()[axis]), zero = te::Index(0);
      Expr from = te::Cast(kInt64, begin({te::Index(k)}));
      Expr stride = by_size ? te::Index(1) : te::Cast(kInt64, strides({te::Index(k)}));
      Expr behind = te::Select(Less(stride, zero), te::Index(-1), zero);
      from = te::Select(Less(from, zero), te::Binary(BinaryOp::kMaximum, from + extent, behind),
                        te::Binary(BinaryOp::kMinimum, from, extent + behind));
      at[axis] = from + i[axis] * stride;
    }
    return data(at);
  })};
}

constexpr OpDef kOps[] = {
    Op("dyn.zeros", "zeros of a shape", kShapeOnly, kShapeAttrs, FillRelation, FusionClass::kElementwise,
       ComputeFill<0>),
    Op("dyn.ones", "ones of a shape", kShapeOnly, kShapeAttrs, FillRelation, FusionClass::kElementwise, ComputeFill<1>),
    WithGradient(Op("dyn.full", "a shape filled with a scalar", kFullInputs, kShapeAttrs, FullRelation,
                    FusionClass::kElementwise, ComputeFull<0>),
                 FullGradient),
    WithGradient(View("dyn.reshape", "the same elements in another shape", kReshapeInputs, kReshapeAttrs,
                      DynamicReshapeRelation),
                 ReshapeGradient),
    WithGradient(View("dyn.squeeze", "axes of extent 1 dropped", kSqueezeInputs, kSqueezeAttrs, SqueezeRelation),
                 ReshapeGradient),
    WithGradient(View("dyn.expand_dims", "new axes of extent 1", kExpandInputs, kExpandAttrs, ExpandDimsRelation),
                 ReshapeGradient),
    WithGradient(Op("dyn.tile", "the whole tensor repeated", kTileInputs, kTileAttrs, TileRelation,
                    FusionClass::kInjective, ComputeTile),
                 MoveGradient),
    WithGradient(Op("dyn.broadcast_to", "data broadcast to a shape", kBroadcastInputs, kBroadcastAttrs,
                    BroadcastToRelation, FusionClass::kBroadcast, ComputeBroadcast),
                 BroadcastGradient),
    WithGradient(Op("dyn.one_hot", "on_value at the index, off_value elsewhere, along a new axis", kOneHotInputs,
                    kOneHotAttrs, OneHotRelation, FusionClass::kInjective, ComputeOneHot),
                 OneHotGradient),
    WithGradient(Op("dyn.strided_slice", "a range of axes", kSliceInputs, kSliceAttrs, StridedSliceRelation,
                    FusionClass::kInjective, ComputeStridedSlice),
                 DynStridedSliceGradient),
};

}  // namespace

std::span<const OpDef> DynamicOps() { return kOps; }

}  // namespace rvm::ops
