// Reads at computed indices, masks, and scans along an axis.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kData[] = {{"data", "a tensor"}};
constexpr Input kIndexed[] = {{"data", "a tensor"}, {"indices", "an integer tensor"}};
constexpr Input kLike[] = {{"data", "a tensor"}, {"like", "a tensor whose shape is taken"}};
constexpr Input kCollapse[] = {
    {"data", "a tensor"},
    {.name = "shape", .doc = "an integer vector, the shape of the result", .decides_shape = true}};
constexpr Input kLengths[] = {{"data", "a tensor"},
                              {.name = "lengths", .doc = "an integer vector, one per batch", .is_count = true}};
constexpr Input kTriluInputs[] = {{"data", "a tensor of matrices (..., m, n)"},
                                  {"k", "the diagonal, an integer scalar"}};
constexpr Input kAdvInputs[] = {{"inputs", "a tuple of data and an integer tensor for each of its first axes", true}};
constexpr AttrSpec kGatherAttrs[] = {{"axis", AttrType::kInt, "", "the axis indexed"}};
constexpr AttrSpec kGatherNdAttrs[] = {{"batch_dims", AttrType::kInt, "0", "leading axes shared by data and indices"},
                                       {"index_rank", AttrType::kInt, "None", "unused, for compatibility", true}};
constexpr AttrSpec kCollapseAttrs[] = {{"shape", AttrType::kAny, "None", "unused, for compatibility", true}};
constexpr AttrSpec kAxesAttrs[] = {{"axes", AttrType::kInts, "None", "the axes sliced; None: those of like", true}};
constexpr AttrSpec kMaskAttrs[] = {
    {"mask_value", AttrType::kFloat, "0", "the value of the elements beyond the lengths"},
    {"axis", AttrType::kInt, "0", "the axis of the sequence: 0 or 1"}};
constexpr AttrSpec kReverseAttrs[] = {{"seq_axis", AttrType::kInt, "1", "the axis reversed"},
                                      {"batch_axis", AttrType::kInt, "0", "the axis of `lengths`"}};
constexpr AttrSpec kTriluAttrs[] = {{"upper", AttrType::kBool, "True", "keep the upper triangle, else the lower"}};
constexpr AttrSpec kScanAttrs[] = {
    {"axis", AttrType::kInt, "None", "the axis scanned; None: the flattened tensor", true},
    {"dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"},
    {"exclusive", AttrType::kBool, "False", "leave out the element itself"}};

Solve GatherRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (data.size() != indices.size())
    return FailRank(context, 1, indices.size(), absl::StrCat("that of `data`, ", data.size()));
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.size()));
  if (!axis) return Solve::kFailed;
  for (size_t i = 0; i < data.size(); ++i) {
    if (static_cast<int64_t>(i) == *axis) continue;
    if (!context.RequireAtLeast(data[i], indices[i], "`gather`: extents of data and indices beside the axis"))
      return Solve::kFailed;
  }
  return ResultTensor(context, indices, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeGather(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  const Dim& extent = data.dims()[axis];
  return {te::ComputeTensor("gather", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    return UnlessEmpty(extent, data(With(i, axis, Clamp(FromEnd(indices, i, extent), extent))));
  })};
}

// indices (m, batch..., y...): the result is (batch..., y..., rest of data).
Solve GatherNdRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  int64_t batch = context.attrs().GetInt("batch_dims");
  if (indices.empty() || batch < 0 || batch >= static_cast<int64_t>(indices.size())) {
    return FailRank(context, 1, indices.size(), absl::StrCat("a rank above `batch_dims`, ", batch));
  }
  size_t b = static_cast<size_t>(batch);
  if (!indices[0].is_const() || b + static_cast<size_t>(indices[0].constant()) > data.size()) {
    return context.Fail(
        DiagnosticKind::kShapeMismatch,
        absl::StrCat("the first extent of `indices` is ", indices[0].ToString(), "; expected a number of at most ",
                     static_cast<int64_t>(data.size()) - batch, ", the axes of `data` it indexes"),
        1);
  }
  for (size_t i = 0; i < b; ++i) {
    if (!context.RequireEqual(data[i], indices[i + 1], "`gather_nd`: batch extents of data and indices"))
      return Solve::kFailed;
  }
  Dims out(indices.begin() + 1, indices.end());
  out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(b) + indices[0].constant(), data.end());
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeGatherNd(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1);
  size_t batch = static_cast<size_t>(context.attrs().GetInt("batch_dims"));
  size_t m = static_cast<size_t>(indices.dims()[0].constant());
  return {te::ComputeTensor("gather_nd", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(batch));
    Dim volume = 1;
    for (size_t k = 0; k < m; ++k) {
      std::vector<Expr> place = {te::Index(static_cast<int64_t>(k))};
      place.insert(place.end(), i.begin(), i.begin() + static_cast<std::ptrdiff_t>(indices.rank() - 1));
      const Dim& extent = data.dims()[batch + k];
      volume = volume * extent;
      at.push_back(Clamp(FromEnd(indices, place, extent), extent));
    }
    at.insert(at.end(), i.begin() + static_cast<std::ptrdiff_t>(indices.rank() - 1), i.end());
    return UnlessEmpty(volume, data(at));
  })};
}

// ---- masks and slices -----------------------------------------------------------

Solve SliceLikeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  const Dims& like = args[1]->shape.dims;
  std::vector<int64_t> axes;
  if (context.attrs().IsNone("axes") || context.attrs().GetInts("axes").empty()) {
    if (like.size() > out.size()) return FailRank(context, 1, like.size(), "at most that of `data`, or `axes`");
    for (size_t i = 0; i < like.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  } else {
    axes = context.attrs().GetInts("axes");
  }
  for (int64_t named : axes) {
    if (!NormalAxis(context, named, static_cast<int64_t>(out.size()), "axes") ||
        !NormalAxis(context, named, static_cast<int64_t>(like.size()), "axes"))
      return Solve::kFailed;
    Dim& dim = out[Normal(named, out.size())];
    const Dim& wanted = like[Normal(named, like.size())];
    if (dim.is_const() && wanted.is_const() && wanted.constant() > dim.constant()) {
      return context.Fail(
          DiagnosticKind::kShapeMismatch,
          absl::StrCat("`like` has extent ", wanted.ToString(), "; expected at most that of `data`, ", dim.ToString()),
          1);
    }
    if (!context.RequireAtLeast(dim, wanted, "extents of `data` and `like`")) return Solve::kFailed;
    dim = wanted;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeSliceLike(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {te::ComputeTensor("slice_like", data.dtype(), context.output().dims,
                            [&](std::span<const Expr> i) { return data(i); })};
}

template <bool reverse>
Solve SequenceRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &lengths = args[1]->shape.dims;
  if (!IsCountType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (data.size() < 2) return FailRank(context, 0, data.size(), "2 or more");
  if (lengths.size() != 1) return FailRank(context, 1, lengths.size(), "1");
  int64_t rank = static_cast<int64_t>(data.size());
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt(reverse ? "seq_axis" : "axis"), reverse ? rank : 2);
  if (!axis) return Solve::kFailed;
  std::optional<int64_t> batch = reverse ? NormalAxis(context, context.attrs().GetInt("batch_axis"), rank) : 1 - *axis;
  if (!batch) return Solve::kFailed;
  if (!context.RequireEqual(data[static_cast<size_t>(*batch)], lengths[0], "batch extents of data and lengths"))
    return Solve::kFailed;
  return ResultTensor(context, data, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeSequenceMask(const ComputeContext& context) {
  const Tensor &data = context.input(0), &lengths = context.input(1);
  size_t axis = Normal(context.attrs().GetInt("axis"), 2);
  Expr mask = te::Const(data.dtype(), context.attrs().GetDouble("mask_value"));
  return {te::ComputeTensor("sequence_mask", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    return te::Select(Less(i[axis], te::Cast(kInt64, lengths({i[1 - axis]}))), data(i), mask);
  })};
}

std::vector<Tensor> ComputeReverseSequence(const ComputeContext& context) {
  const Tensor &data = context.input(0), &lengths = context.input(1);
  size_t axis = Normal(context.attrs().GetInt("seq_axis"), data.rank());
  size_t batch = Normal(context.attrs().GetInt("batch_axis"), data.rank());
  return {te::ComputeTensor("reverse_sequence", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    Expr length =
        te::Binary(BinaryOp::kMinimum, te::Cast(kInt64, lengths({i[batch]})), te::DimValue(data.dims()[axis]));
    Expr at = te::Select(Less(i[axis], length), length - te::Index(1) - i[axis], i[axis]);
    return data(With(i, axis, at));
  })};
}

Solve TriluRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->shape.dims.size() < 2) return FailRank(context, 0, args[0]->shape.dims.size(), "2 or more");
  if (!args[1]->shape.dims.empty()) return FailRank(context, 1, args[1]->shape.dims.size(), "a scalar");
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  return context.Unify(context.arg(0), context.result()) ? Solve::kDone : Solve::kFailed;
}

std::vector<Tensor> ComputeTrilu(const ComputeContext& context) {
  const Tensor &data = context.input(0), &k = context.input(1);
  BinaryOp keeps = context.attrs().GetBool("upper") ? BinaryOp::kGreaterEqual : BinaryOp::kLessEqual;
  return {te::ComputeTensor("trilu", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    Expr diagonal = i[i.size() - 1] - i[i.size() - 2];
    return te::Select(te::Binary(keeps, diagonal, te::Cast(kInt64, k({}))), data(i), te::Const(data.dtype(), 0));
  })};
}

// ---- scans ------------------------------------------------------------------------

Solve ScanRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  if (context.attrs().IsNone("axis")) {
    out = {Volume(out)};
  } else if (!NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()))) {
    return Solve::kFailed;
  }
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "dtype", args[0]->dtype.dtype));
}

template <BinaryOp op>
std::vector<Tensor> ComputeScan(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  bool flat = context.attrs().IsNone("axis");
  size_t axis = flat ? 0 : Normal(context.attrs().GetInt("axis"), data.rank());
  bool exclusive = context.attrs().GetBool("exclusive");
  DataType wide = Accumulator(out.dtype);
  Expr neutral = te::Const(wide, op == BinaryOp::kMultiply ? 1 : 0);
  Tensor scan = Running(out.dims, axis, neutral, [&](std::span<const Expr> i, const Expr& before) {
    std::vector<Expr> at = With(i, axis, exclusive ? i[axis] - te::Index(1) : i[axis]);
    Expr element = te::Cast(wide, flat ? AtFlat(data, at[0]) : data(at));
    if (exclusive) element = te::Select(Equal(i[axis], te::Index(0)), neutral, element);
    return te::Binary(op, before, element);
  });
  return {CastTensor(scan, out.dtype)};
}

// ---- sums --------------------------------------------------------------

// Data summed to `out`, which broadcasts to its shape.
Solve CollapseSum(TypeContext& context, const ir::TensorType& data, const Dims& out) {
  size_t rank = data.shape.dims.size();
  if (out.size() > rank) return FailRank(context, 0, rank, absl::StrCat("at least that of the result, ", out.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].is_const() && out[i].constant() == 1) continue;
    if (!RequireRepeatable(context, out[i], data.shape.dims[rank - out.size() + i],
                           "extents of data and of what it is summed to"))
      return Solve::kFailed;
  }
  return ResultTensor(context, out, data.dtype.dtype);
}

Solve CollapseSumLikeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return CollapseSum(context, *args[0], args[1]->shape.dims);
}

Solve CollapseSumToRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  if (!ValueDims(context, 1, 1, out)) return Solve::kFailed;
  for (const Dim& dim : out) {
    if (!context.RequireAtLeast(dim, 0, "an extent of the result")) return Solve::kFailed;
  }
  return CollapseSum(context, *args[0], out);
}

// Sums along axes that are known at run time only: reads all of each axis that may be summed.
std::vector<Tensor> ComputeCollapseSum(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const Dims& out = context.output().dims;
  size_t lead = data.rank() - out.size();
  enum class Axis : uint8_t { kKept, kSummed, kEither };
  std::vector<Axis> axes(data.rank(), Axis::kSummed);
  Dims extents;
  for (size_t i = 0; i < data.rank(); ++i) {
    if (i >= lead) {
      const Dim& dim = out[i - lead];
      bool same = CompareDims(dim, data.dims()[i]) == DimEquality::kEqual;
      axes[i] = same             ? Axis::kKept
                : dim.is_const() ? (dim.constant() == 1 ? Axis::kSummed : Axis::kKept)
                                 : Axis::kEither;
    }
    if (axes[i] != Axis::kKept) extents.push_back(data.dims()[i]);
  }
  if (extents.empty()) {
    return {te::ComputeTensor("copy", data.dtype(), out, [&](std::span<const Expr> i) { return data(i); })};
  }
  DataType wide = Accumulator(data.dtype());
  Tensor sum = ReduceOver(ReduceOp::kSum, wide, out, extents, [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::vector<Expr> at;
    Expr counts;
    size_t next = 0;
    for (size_t i = 0; i < data.rank(); ++i) {
      at.push_back(axes[i] == Axis::kKept ? o[i - lead] : r[next++]);
      if (axes[i] != Axis::kEither) continue;
      Expr is_one = Equal(te::DimValue(out[i - lead]), te::Index(1));
      Expr here = te::Binary(BinaryOp::kOr, is_one, Equal(at.back(), o[i - lead]));
      counts = counts ? And(counts, here) : here;
    }
    Expr value = te::Cast(wide, data(at));
    return counts ? te::Select(counts, value, te::Const(wide, 0)) : value;
  });
  return {CastTensor(sum, data.dtype())};
}

// Fields of the one tuple argument, each a known tensor.
Solve Fields(TypeContext& context, Types& fields) {
  const ir::Type* type = context.arg(0);
  if (type->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
  const auto* tuple = ir::DynCast<ir::TupleType>(type);
  for (const ir::Type* field : tuple != nullptr ? tuple->fields : std::vector<const ir::Type*>()) {
    const auto* tensor = ir::DynCast<ir::TensorType>(field);
    if (field->type_kind == ir::TypeKind::kHole) return Solve::kStuck;
    if (tensor == nullptr) break;
    if (!tensor->shape.is_dims() || !tensor->dtype.is_concrete()) return Solve::kStuck;
    fields.push_back(tensor);
  }
  if (tuple != nullptr && fields.size() == tuple->fields.size() && !fields.empty()) return Solve::kDone;
  return context.Fail(DiagnosticKind::kNotTensorTuple,
                      absl::StrCat("argument 1 has type `", ir::TypeToString(type), "`; expected a tuple of tensors"),
                      0);
}

Solve AdvIndexRelation(TypeContext& context) {
  Types fields;
  if (Solve solve = Fields(context, fields); solve != Solve::kDone) return solve;
  const Dims& data = fields[0]->shape.dims;
  if (fields.size() < 2 || fields.size() - 1 > data.size()) {
    return context.Fail(DiagnosticKind::kWrongNumberOfFields,
                        absl::StrCat("the tuple has ", fields.size() - 1, " index tensors for data of rank ",
                                     data.size(), "; expected 1 or more, and at most one per axis"),
                        0);
  }
  Dims out;
  for (size_t f = 1; f < fields.size(); ++f) {
    if (!IsIndexType(fields[f]->dtype.dtype)) return FailDType(context, 0, fields[f]->dtype.dtype, "integer indices");
    const Dims& dims = fields[f]->shape.dims;
    if (dims.size() > out.size()) out.insert(out.begin(), dims.size() - out.size(), Dim(1));
    for (size_t k = 0; k < dims.size(); ++k) {
      Dim& dim = out[out.size() - dims.size() + k];
      bool differ = dim.is_const() && dims[k].is_const() && dim != dims[k] && dim != Dim(1) && dims[k] != Dim(1);
      if (differ) {
        return context.Fail(DiagnosticKind::kShapeMismatch,
                            absl::StrCat("indices have extents ", dim.ToString(), " and ", dims[k].ToString(),
                                         ", which do not broadcast"),
                            0);
      }
      dim = context.RequireBroadcast(dim, dims[k], "`adv_index`: extents of the indices");
    }
  }
  out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(fields.size()) - 1, data.end());
  return ResultTensor(context, out, fields[0]->dtype.dtype);
}

std::vector<Tensor> ComputeAdvIndex(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  size_t indexed = context.num_inputs() - 1;
  size_t rank = out.dims.size() - (data.rank() - indexed);
  Dims places(out.dims.begin(), out.dims.begin() + static_cast<std::ptrdiff_t>(rank));
  return {te::ComputeTensor("adv_index", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    Dim volume = 1;
    for (size_t k = 0; k < indexed; ++k) {
      const Tensor& indices = context.input(k + 1);
      const Dim& extent = data.dims()[k];
      Expr index = te::Cast(kInt64, indices(BroadcastIndices(i.subspan(0, rank), indices.dims(), places)));
      index = te::Select(Less(index, te::Index(0)), index + te::DimValue(extent), index);
      at.push_back(Clamp(index, extent));
      volume = volume * extent;
    }
    at.insert(at.end(), i.begin() + static_cast<std::ptrdiff_t>(rank), i.end());
    return UnlessEmpty(volume, data(at));
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("gather", "data at indices along an axis, element by element", kIndexed, kGatherAttrs,
                    GatherRelation, FusionClass::kInjective, ComputeGather),
                 GatherGradient),
    WithGradient(Op("gather_nd", "slices of data at index tuples", kIndexed, kGatherNdAttrs, GatherNdRelation,
                    FusionClass::kInjective, ComputeGatherNd),
                 GatherNdGradient),
    WithGradient(Op("slice_like", "the first elements of each axis, as many as `like` has", kLike, kAxesAttrs,
                    SliceLikeRelation, FusionClass::kInjective, ComputeSliceLike),
                 SliceLikeGradient),
    WithGradient(Op("sequence_mask", "data where the position is within the sequence's length, else mask_value",
                    kLengths, kMaskAttrs, SequenceRelation<false>, FusionClass::kInjective, ComputeSequenceMask),
                 SequenceMaskGradient),
    WithGradient(Op("reverse_sequence", "each sequence reversed within its length", kLengths, kReverseAttrs,
                    SequenceRelation<true>, FusionClass::kInjective, ComputeReverseSequence),
                 ReverseSequenceGradient),
    WithGradient(Op("trilu", "the upper or lower triangle of matrices, zero elsewhere", kTriluInputs, kTriluAttrs,
                    TriluRelation, FusionClass::kInjective, ComputeTrilu),
                 TriluGradient),
    WithGradient(Op("cumsum", "running sums", kData, kScanAttrs, ScanRelation, FusionClass::kOpaque,
                    ComputeScan<BinaryOp::kAdd>),
                 CumsumGradient),
    WithGradient(Op("cumprod", "running products", kData, kScanAttrs, ScanRelation, FusionClass::kOpaque,
                    ComputeScan<BinaryOp::kMultiply>),
                 CumprodGradient),
    WithGradient(Op("collapse_sum_like", "sums over the axes that broadcasting to data's shape would repeat", kLike, {},
                    CollapseSumLikeRelation, FusionClass::kReduction, ComputeCollapseSum),
                 CollapseSumLikeGradient),
    WithGradient(Op("collapse_sum_to", "sums over the axes that broadcasting `shape` to data's would repeat", kCollapse,
                    kCollapseAttrs, CollapseSumToRelation, FusionClass::kReduction, ComputeCollapseSum),
                 CollapseSumLikeGradient),
    {.name = "adv_index",
     .summary = "data at index tuples that broadcast with each other",
     .inputs = kAdvInputs,
     .type_relation = AdvIndexRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeAdvIndex,
     .gradient = MoveGradient},
};

}  // namespace

std::span<const OpDef> GatherOps() { return kOps; }

}  // namespace rvm::ops
