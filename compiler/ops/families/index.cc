// Operators that select, join and split.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/dynamic_twins.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kTupleInputs[] = {{"data", "a tuple of tensors", true}};
constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr Input kTakeInputs[] = {{"data", "a tensor"}, {"indices", "an integer tensor"}};
constexpr AttrSpec kAxis0Attrs[] = {{"axis", AttrType::kInt, "0", "the axis joined along"}};
constexpr AttrSpec kSplitAttrs[] = {
    {"indices_or_sections", AttrType::kIntOrInts, "", "a number of equal parts, or the positions where parts begin"},
    {"axis", AttrType::kInt, "0", "the axis split"}};
constexpr AttrSpec kSliceAttrs[] = {
    {"begin", AttrType::kInts, "", "first index of each axis; negative counts from the end"},
    {"end", AttrType::kInts, "", "index after the last; with slice_mode \"size\" the extent (-1: the rest)"},
    {"strides", AttrType::kInts, "[1]", "step of each axis; negative goes backwards"},
    {"slice_mode", AttrType::kString, "\"end\"", "\"end\" or \"size\""},
    {"axes", AttrType::kInts, "None", "the axes that begin, end and strides name; None: the first ones", true}};
constexpr AttrSpec kTakeAttrs[] = {
    {"batch_dims", AttrType::kInt, "0",
     "leading axes shared by data and indices; negative counts from the end of those of indices"},
    {"axis", AttrType::kInt, "None", "the axis indexed; None: the flattened tensor", true},
    {"mode", AttrType::kString, "\"clip\"", "\"clip\" clamps, \"wrap\" is modulo, \"fast\" clamps as well"}};
constexpr AttrSpec kOneHotAttrs[] = {{"depth", AttrType::kInt, "1", "extent of the new axis"},
                                     {"axis", AttrType::kInt, "-1", "where the new axis stands"},
                                     {"dtype", AttrType::kDType, "\"\"", "dtype of the result (float32)"}};
constexpr Input kOneHotInputs[] = {
    {"indices", "an integer tensor"}, {"on_value", "a scalar"}, {"off_value", "a scalar"}};

// The fields of the tuple argument as tensors; kStuck or kFailed if they are not.
Solve TupleFields(TypeContext& context, std::vector<const ir::TensorType*>& fields) {
  const ir::Type* type = context.arg(0);
  if (type->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  if (tuple == nullptr || tuple->fields.empty()) {
    return context.Fail(
        DiagnosticKind::kNotTensorTuple,
        absl::StrCat("argument 1 has type `", ir::TypeToString(type), "`; expected a tuple of one or more tensors"), 0);
  }
  for (const ir::Type* field : tuple->fields) {
    const auto* tensor = ir::DynCast<ir::TensorType>(field);
    if (field->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
    if (tensor == nullptr) {
      return context.Fail(DiagnosticKind::kNotTensorTuple,
                          absl::StrCat("the tuple holds a `", ir::TypeToString(field), "`; expected tensors"), 0);
    }
    if (!tensor->shape.is_dims() || !tensor->dtype.is_concrete()) return Solve::kStuck;
    fields.push_back(tensor);
  }
  for (const ir::TensorType* field : fields) {
    if (field->dtype.dtype != fields[0]->dtype.dtype) {
      return context.Fail(DiagnosticKind::kOperandDTypesDiffer,
                          absl::StrCat("the tuple holds dtypes `", fields[0]->dtype.dtype.ToString(), "` and `",
                                       field->dtype.dtype.ToString(), "`; expected equal dtypes (use `cast`)"),
                          0);
    }
    if (field->shape.dims.size() != fields[0]->shape.dims.size()) {
      return context.Fail(DiagnosticKind::kRankMismatch,
                          absl::StrCat("the tuple holds tensors of rank ", fields[0]->shape.dims.size(), " and ",
                                       field->shape.dims.size(), "; expected equal ranks"),
                          0);
    }
  }
  return Solve::kDone;
}

// Returns the begin of each of the tensors along an axis, and at last the end of the last one. Sums of many extents are
// added in parts: no deep expressions.
template <typename ExtentOf>
std::vector<Dim> Starts(size_t count, ExtentOf&& extent) {
  constexpr size_t kPart = 32;
  std::vector<Dim> starts = {Dim(0)};
  Dim whole(0), part(0);
  for (size_t i = 0; i < count; ++i) {
    part = part + extent(i);
    starts.push_back(whole + part);
    if ((i + 1) % kPart == 0) whole = whole + std::exchange(part, Dim(0));
  }
  return starts;
}

Solve ConcatenateRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> fields;
  if (Solve solve = TupleFields(context, fields); solve != Solve::kDone) return solve;
  Dims out = fields[0]->shape.dims;
  if (out.empty()) {
    return context.Fail(DiagnosticKind::kRankMismatch,
                        "the tuple holds scalars; expected tensors of one or more axes (`stack` joins scalars)", 0);
  }
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()));
  if (!axis) return Solve::kFailed;
  size_t at = static_cast<size_t>(*axis);
  for (size_t f = 1; f < fields.size(); ++f) {
    const Dims& dims = fields[f]->shape.dims;
    for (size_t i = 0; i < out.size(); ++i) {
      if (i == at) continue;
      if (!context.RequireEqual(out[i], dims[i], "`concatenate`: extents of the axes not joined"))
        return Solve::kFailed;
      if (!out[i].is_const()) out[i] = dims[i];
    }
  }
  out[at] = Starts(fields.size(), [&](size_t i) { return fields[i]->shape.dims[at]; }).back();
  return ResultTensor(context, out, fields[0]->dtype.dtype);
}

// Picks by position along an axis: part 0 below bound 0, ...
Expr PickPart(const std::vector<Tensor>& parts, const Expr& position, const std::vector<Expr>& starts,
              const std::function<Expr(const Tensor&, Expr local)>& read) {
  Expr result = read(parts.back(), position - starts.back());
  for (size_t i = parts.size() - 1; i-- > 0;) {
    result =
        te::Select(te::Binary(BinaryOp::kLess, position, starts[i + 1]), read(parts[i], position - starts[i]), result);
  }
  return result;
}

std::vector<Tensor> ComputeConcatenate(const ComputeContext& context) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < context.num_inputs(); ++i) parts.push_back(context.input(i));
  size_t axis = Normal(context.attrs().GetInt("axis"), parts[0].rank());
  std::vector<Expr> starts;
  for (const Dim& start : Starts(parts.size(), [&](size_t i) { return parts[i].dims()[axis]; })) {
    starts.push_back(te::DimValue(start));
  }
  starts.pop_back();
  auto read_at = [axis](std::span<const Expr> i) {
    return [i, axis](const Tensor& part, Expr local) {
      std::vector<Expr> at(i.begin(), i.end());
      at[axis] = std::move(local);
      return part(at);
    };
  };
  Tensor joined =
      te::ComputeTensor("concatenate", parts[0].dtype(), context.output().dims,
                        [&](std::span<const Expr> i) { return PickPart(parts, i[axis], starts, read_at(i)); });
  const Dims& dims = parts[0].dims();
  bool is_outer = std::all_of(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis),
                              [](const Dim& dim) { return dim == Dim(1); });
  if (parts.size() < 2 || !is_outer) return {joined};
  // The first part is how the result begins in memory; the others are appended.
  std::vector<Tensor> rest(parts.begin() + 1, parts.end());
  std::vector<Dim> ends = Starts(rest.size(), [&](size_t i) { return rest[i].dims()[axis]; });
  Dims extents = context.output().dims;
  extents[axis] = ends.back();
  std::vector<Expr> rest_starts;
  for (size_t i = 0; i < rest.size(); ++i) rest_starts.push_back(te::DimValue(ends[i]));
  return {te::WithUpdate(joined, {.base = parts[0], .estimate = NumElements(extents)}, extents,
                         [&](std::span<const Expr> u) {
                           te::TensorUpdate::Position position{.place = {u.begin(), u.end()}};
                           position.place[axis] = u[axis] + te::DimValue(dims[axis]);
                           position.value = PickPart(rest, u[axis], rest_starts, read_at(u));
                           return position;
                         })};
}

Solve StackRelation(TypeContext& context) {
  std::vector<const ir::TensorType*> fields;
  if (Solve solve = TupleFields(context, fields); solve != Solve::kDone) return solve;
  Dims out = fields[0]->shape.dims;
  for (const ir::TensorType* field : fields) {
    for (size_t i = 0; i < out.size(); ++i) {
      if (!context.RequireEqual(out[i], field->shape.dims[i], "`stack`: extents of the tensors")) return Solve::kFailed;
    }
  }
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()) + 1);
  if (!axis) return Solve::kFailed;
  out.insert(out.begin() + *axis, Dim(static_cast<int64_t>(fields.size())));
  return ResultTensor(context, out, fields[0]->dtype.dtype);
}

std::vector<Tensor> ComputeStack(const ComputeContext& context) {
  std::vector<Tensor> parts;
  std::vector<Expr> starts;
  for (size_t i = 0; i < context.num_inputs(); ++i) {
    parts.push_back(context.input(i));
    starts.push_back(te::Index(static_cast<int64_t>(i)));
  }
  size_t axis = Normal(context.attrs().GetInt("axis"), parts[0].rank() + 1);
  return {te::ComputeTensor("stack", parts[0].dtype(), context.output().dims, [&](std::span<const Expr> i) {
    return PickPart(parts, i[axis], starts, [&](const Tensor& part, Expr) {
      std::vector<Expr> at(i.begin(), i.end());
      at.erase(at.begin() + static_cast<std::ptrdiff_t>(axis));
      return part(at);
    });
  })};
}

// Returns the begin of each part, and at last the end of the last one.
std::vector<Dim> SplitBounds(const ir::Attrs& attrs, const Dim& extent) {
  std::vector<Dim> bounds = {0};
  const ir::AttrValue& how = *attrs.Find("indices_or_sections");
  if (const int64_t* sections = how.AsInt()) {
    for (int64_t i = 1; i <= *sections; ++i) bounds.push_back(FloorDiv(extent, *sections) * i);
  } else {
    for (int64_t at : attrs.GetInts("indices_or_sections")) bounds.push_back(at);
    bounds.push_back(extent);
  }
  return bounds;
}

Solve SplitRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  const Dims& in = data->shape.dims;
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(in.size()));
  if (!axis) return Solve::kFailed;
  const Dim& extent = in[static_cast<size_t>(*axis)];
  if (const int64_t* sections = context.attrs().Find("indices_or_sections")->AsInt()) {
    if (*sections < 1 || *sections > 4096) {
      return context.Fail(DiagnosticKind::kBadAttribute,
                          absl::StrCat("`indices_or_sections` is ", *sections, "; expected 1 to 4096 parts"));
    }
    if (!context.RequireEqual(FloorMod(extent, *sections), 0,
                              "`split`: remainder of the extent by the number of parts"))
      return Solve::kFailed;
  }
  std::vector<Dim> bounds = SplitBounds(context.attrs(), extent);
  std::vector<const ir::Type*> fields;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    Dims dims = in;
    Dim part = bounds[i + 1] - bounds[i];
    if (part.is_const() && part.constant() < 0) {
      return context.Fail(DiagnosticKind::kShapeMismatch,
                          absl::StrCat("part ", i + 1, " of `split` would have extent ", part.constant()));
    }
    dims[static_cast<size_t>(*axis)] = part;
    fields.push_back(ir::MakeTensorType(context.arena(), dims, data->dtype.dtype));
  }
  return context.Result(context.arena().New<ir::TupleType>(std::move(fields)));
}

std::vector<Tensor> ComputeSplit(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  std::vector<Dim> bounds = SplitBounds(context.attrs(), data.dims()[axis]);
  std::vector<Tensor> parts;
  for (size_t p = 0; p < context.num_outputs(); ++p) {
    parts.push_back(te::ComputeTensor("split", data.dtype(), context.output(p).dims, [&](std::span<const Expr> i) {
      std::vector<Expr> at(i.begin(), i.end());
      at[axis] = at[axis] + te::DimValue(bounds[p]);
      return data(at);
    }));
  }
  return parts;
}

struct Slice {
  Dim begin, extent;
  int64_t stride;
};

// One slice per axis of the data; nullopt if an error was reported (context may be null later).
std::optional<std::vector<Slice>> Slices(const ir::Attrs& attrs, const Dims& in, TypeContext* context) {
  std::vector<Slice> slices;
  for (const Dim& dim : in) slices.push_back({0, dim, 1});
  std::vector<int64_t> begin = attrs.GetInts("begin"), end = attrs.GetInts("end"), strides = attrs.GetInts("strides");
  bool by_size = attrs.GetString("slice_mode") == "size";
  std::vector<int64_t> axes;
  if (!attrs.IsNone("axes")) axes = attrs.GetInts("axes");
  for (size_t k = 0; k < begin.size() && k < end.size(); ++k) {
    int64_t named = axes.empty()      ? static_cast<int64_t>(k)
                    : k < axes.size() ? axes[k]
                                      : static_cast<int64_t>(in.size());
    if (context != nullptr && !NormalAxis(*context, named, static_cast<int64_t>(in.size()), "axes"))
      return std::nullopt;
    Slice& slice = slices[Normal(named, in.size())];
    Dim extent = slice.extent;
    int64_t stride = k < strides.size() && !by_size ? strides[k] : 1;
    if (stride == 0) {
      if (context != nullptr) {
        context->Fail(DiagnosticKind::kBadAttribute,
                      "`strides` has 0; expected a positive step, or a negative one to go backwards");
      }
      return std::nullopt;
    }
    // Backwards the last element comes first, and -1 is behind the first one.
    Dim behind = stride < 0 ? Dim(-1) : Dim(0);
    auto clamp = [&](int64_t at) { return at < 0 ? Max(extent + at, behind) : Min(Dim(at), extent + behind); };
    Dim from = clamp(begin[k]);
    Dim to = by_size ? (end[k] < 0 ? extent : Min(from + end[k], extent)) : clamp(end[k]);
    Dim distance = stride < 0 ? from - to : to - from;
    int64_t step = stride < 0 ? -stride : stride;
    slice = {from, ClampedToNatural(FloorDiv(distance + (step - 1), step)), stride};
  }
  return slices;
}

Solve StridedSliceRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  std::optional<std::vector<Slice>> slices = Slices(context.attrs(), data->shape.dims, &context);
  if (!slices) return Solve::kFailed;
  Dims out;
  for (const Slice& slice : *slices) out.push_back(slice.extent);
  return ResultTensor(context, out, data->dtype.dtype);
}

std::vector<Tensor> ComputeStridedSlice(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<Slice> slices = *Slices(context.attrs(), data.dims(), nullptr);
  return {te::ComputeTensor("slice", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    for (size_t k = 0; k < slices.size(); ++k)
      at.push_back(te::DimValue(slices[k].begin) + i[k] * te::Index(slices[k].stride));
    return data(at);
  })};
}

int64_t TakeBatch(const ir::Attrs& attrs, size_t index_rank) {
  int64_t batch = attrs.GetInt("batch_dims");
  return batch < 0 ? batch + static_cast<int64_t>(index_rank) : batch;
}

Solve TakeRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  const ir::TensorType* indices = failed ? nullptr : TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  if (data == nullptr || indices == nullptr) return Solve::kStuck;
  if (!indices->dtype.dtype.is_integral() || indices->dtype.dtype.is_bool()) {
    return context.Fail(DiagnosticKind::kDTypeMismatch,
                        absl::StrCat("argument 2 of `take` has dtype `", indices->dtype.dtype.ToString(),
                                     "`; expected an integer dtype"),
                        1);
  }
  const std::string& mode = context.attrs().GetString("mode");
  if (mode != "clip" && mode != "wrap" && mode != "fast") {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`mode` is \"", mode, "\"; expected \"clip\", \"wrap\" or \"fast\""));
  }
  Dims out = data->shape.dims;
  const Dims& places = indices->shape.dims;
  std::optional<int64_t> axis = 0;
  if (!context.attrs().IsNone("axis"))
    axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()));
  if (!axis) return Solve::kFailed;
  int64_t batch = TakeBatch(context.attrs(), places.size());
  if (batch < 0 || batch > *axis || batch > static_cast<int64_t>(places.size())) {
    return context.Fail(
        DiagnosticKind::kBadAttribute,
        absl::StrCat("`batch_dims` is ", context.attrs().GetInt("batch_dims"), "; expected at most `axis`, ", *axis,
                     ", and the rank of the indices, ", places.size()));
  }
  for (size_t i = 0; i < static_cast<size_t>(batch); ++i) {
    if (!context.RequireEqual(out[i], places[i], "`take`: batch extents of data and indices")) return Solve::kFailed;
  }
  if (context.attrs().IsNone("axis")) return ResultTensor(context, places, data->dtype.dtype);
  out.erase(out.begin() + *axis);
  out.insert(out.begin() + *axis, places.begin() + batch, places.end());
  return ResultTensor(context, out, data->dtype.dtype);
}

std::vector<Tensor> ComputeTake(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1);
  bool flat = context.attrs().IsNone("axis");
  size_t axis = flat ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  size_t batch = static_cast<size_t>(TakeBatch(context.attrs(), indices.rank()));
  bool wrap = context.attrs().GetString("mode") == "wrap";
  Dim extent = flat ? Volume(data.dims()) : data.dims()[axis];
  return {te::ComputeTensor("take", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> place(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch));
    std::span<const Expr> own = i.subspan(axis, indices.rank() - batch);
    place.insert(place.end(), own.begin(), own.end());
    Expr index = te::Cast(kInt64, indices(place));
    index = wrap ? te::Binary(BinaryOp::kFloorMod, index, te::DimValue(extent)) : Clamp(index, extent);
    if (flat) return UnlessEmpty(extent, AtFlat(data, index));
    std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(axis));
    at.push_back(index);
    at.insert(at.end(), i.begin() + static_cast<std::ptrdiff_t>(axis + own.size()), i.end());
    return UnlessEmpty(extent, data(at));
  })};
}

Solve OneHotRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* indices = TensorArg(context, 0, &failed);
  if (indices == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  Dims out = indices->shape.dims;
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()) + 1);
  if (!axis) return Solve::kFailed;
  int64_t depth = context.attrs().GetInt("depth");
  if (depth < 0) {
    return context.Fail(DiagnosticKind::kNegativeExtent, absl::StrCat("`depth` is ", depth, "; expected 0 or more"));
  }
  out.insert(out.begin() + *axis, Dim(depth));
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "dtype", kFloat32));
}

constexpr OpDef kOps[] = {
    {.name = "concatenate",
     .summary = "tensors joined along an axis",
     .inputs = kTupleInputs,
     .attrs = kAxis0Attrs,
     .type_relation = ConcatenateRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeConcatenate,
     .gradient = ConcatenateGradient},
    {.name = "stack",
     .summary = "tensors joined along a new axis",
     .inputs = kTupleInputs,
     .attrs = kAxis0Attrs,
     .type_relation = StackRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeStack,
     .gradient = StackGradient},
    {.name = "split",
     .summary = "a tuple of the parts along an axis",
     .inputs = kInputs,
     .attrs = kSplitAttrs,
     .type_relation = SplitRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeSplit,
     .gradient = SplitGradient},
    {.name = "strided_slice",
     .summary = "a range of each axis",
     .inputs = kInputs,
     .attrs = kSliceAttrs,
     .type_relation = StridedSliceRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeStridedSlice,
     .gradient = StridedSliceGradient},
    {.name = "take",
     .summary = "elements or slices by index",
     .inputs = kTakeInputs,
     .attrs = kTakeAttrs,
     .type_relation = TakeRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeTake,
     .gradient = TakeGradient},
    {.name = "one_hot",
     .summary = "on_value at the index, off_value elsewhere, along a new axis",
     .inputs = kOneHotInputs,
     .attrs = kOneHotAttrs,
     .type_relation = OneHotRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeOneHot,
     .gradient = OneHotGradient},
};

}  // namespace

std::span<const OpDef> IndexOps() { return kOps; }

}  // namespace rvm::ops
