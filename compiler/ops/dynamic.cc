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
#include "compiler/ops/dynamic_twins.h"
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_rules.h"
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

// 1 if `dim` is zero, otherwise 0.
Dim IsZero(const Dim& dim) { return Dim(1) - Min(Max(dim, Dim(0) - dim), 1); }

// The extents of the input that the elements of `newshape` refer to: element i to axis i, and one axis further for each
// -3 before it.
class ReferredAxes {
 public:
  explicit ReferredAxes(const Dims& in) : in_(in), rank_(static_cast<int64_t>(in.size())) {}

  // The extent that element `i` copies; 0 if it refers to no axis.
  Dim Copied(int64_t i) const {
    return At(i, [&](int64_t axis) { return Extent(axis); });
  }
  // The product of that extent and the next one.
  Dim Joined(int64_t i) const {
    return At(i, [&](int64_t axis) { return axis + 1 < rank_ ? Extent(axis) * Extent(axis + 1) : Dim(0); });
  }
  // 1 if element `i` refers to no axis with at least, or exactly, so many axes behind it, otherwise 0.
  Dim LacksAxes(int64_t i, int64_t behind, bool exactly = false) const {
    if (!exactly && i + most_ + behind < rank_) return 0;
    return Dim(1) - At(i, [&](int64_t axis) {
             int64_t rest = rank_ - 1 - axis;
             return Dim(exactly ? rest == behind : rest >= behind);
           });
  }
  // 1 if element `i` refers to `axis`, otherwise 0.
  Dim IsAt(int64_t i, int64_t axis) const {
    int64_t shift = axis - i;
    if (shift < 0 || shift > most_) return 0;
    if (most_ == 0) return 1;
    if (shift == 0) return Dim(1) - Min(shift_, 1);
    return shift == most_ ? Max(shift_ - (most_ - 1), 0) : IsZero(shift_ - shift);
  }
  // `joins` is 1 if the element before the next one is -3, otherwise 0.
  void Shift(const Dim& joins) {
    if (joins == Dim(0) || rank_ < 2) return;
    shift_ = shift_ + joins;
    ++most_;
  }

 private:
  Dim Extent(int64_t axis) const { return in_[static_cast<size_t>(axis)]; }

  // `of(axis)` of the axis that element `i` refers to; 0 if there is none.
  template <typename F>
  Dim At(int64_t i, F of) const {
    Dim value = 0;
    for (int64_t axis = i; axis < rank_ && axis <= i + most_; ++axis) {
      value = value + IsAt(i, axis) * of(axis);
    }
    return value;
  }

  const Dims& in_;
  int64_t rank_;
  Dim shift_ = 0;     // the number of -3 so far
  int64_t most_ = 0;  // its maximum
};

Solve ReshapeRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& in = args[0]->shape.dims;
  bool copies = context.attrs().GetInt("allowzero") == 0;
  Dims values;
  if (!ValueDims(context, 1, 1, values)) return Solve::kFailed;
  Dims out, is_inferred;
  ReferredAxes axes(in);
  Dim inferred = 0;  // the number of inferred extents
  // The inferred extent is the quotient of the products of these extents. Those that are copied are in neither, so that
  // they may be 0.
  Dim from = 1, known = 1;
  Dims copied(in.size(), Dim(0));  // by axis: 1 if it is copied, otherwise 0
  Dim missing = 0;                 // the number of elements that refer to axes which the input does not have
  for (size_t i = 0; i < values.size(); ++i) {
    const Dim& value = values[i];
    if (!context.RequireAtLeast(value, -3, "an extent of `newshape`")) return Solve::kFailed;
    auto at = static_cast<int64_t>(i);
    Dim joins = Max(Dim(-2) - value, 0), copies_last = IsZero(value + 2), is_copy = copies ? IsZero(value) : Dim(0);
    missing = missing + joins * axes.LacksAxes(at, 1) + is_copy * axes.LacksAxes(at, 0);
    // -2 stands for as many extents as are left: here it must be one.
    bool is_last = i + 1 == values.size();
    missing = missing + (is_last ? copies_last * axes.LacksAxes(at, 0, /*exactly=*/true) : copies_last);
    if (is_last) is_copy = is_copy + copies_last;
    is_inferred.push_back(IsZero(value + 1));
    inferred = inferred + is_inferred[i];
    Dim extent = Max(value, 0) + joins * axes.Joined(at);
    known = known * (extent + is_inferred[i] + is_copy);
    for (size_t axis = i; axis < in.size(); ++axis) {
      copied[axis] = copied[axis] + is_copy * axes.IsAt(at, static_cast<int64_t>(axis));
    }
    out.push_back(extent + is_copy * axes.Copied(at));
    axes.Shift(joins);
  }
  for (size_t axis = 0; axis < in.size(); ++axis) from = from * (in[axis] * (Dim(1) - copied[axis]) + copied[axis]);
  if (!context.RequireEqual(missing, 0, "elements of `newshape` that refer to axes which the input does not have") ||
      !context.RequireAtLeast(1, inferred, "how many extents `newshape` may leave to be inferred"))
    return Solve::kFailed;
  Dim rest = FloorDiv(from, known);
  for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] + is_inferred[i] * rest;
  if (!context.RequireEqual(Volume(out), Volume(in), "`dyn.reshape`: number of elements")) return Solve::kFailed;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

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
      extent = Max(FloorDiv(distance + (step - 1), step), 0);
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
    WithGradient(
        View("dyn.reshape", "the same elements in another shape", kReshapeInputs, kReshapeAttrs, ReshapeRelation),
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
