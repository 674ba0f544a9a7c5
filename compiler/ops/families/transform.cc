// Operators that rearrange elements without computing on them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "compiler/ops/dynamic_twins.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr Input kLikeInputs[] = {{"data", "a tensor"}, {"like", "a tensor whose shape is taken"}};
constexpr AttrSpec kReshapeLikeAttrs[] = {
    {"lhs_begin", AttrType::kInt, "0", "the first axis of data that is replaced"},
    {"lhs_end", AttrType::kInt, "None", "the axis of data after the last replaced one; None: the rank", true},
    {"rhs_begin", AttrType::kInt, "0", "the first axis of like that is taken"},
    {"rhs_end", AttrType::kInt, "None", "the axis of like after the last one taken; None: the rank", true}};
constexpr AttrSpec kReshapeAttrs[] = {
    {"newshape", AttrType::kInts, "",
     "extents; 0 copies the input's, -1 is inferred, -2 copies the rest, -3 merges two, -4 splits one"},
    {"allowzero", AttrType::kInt, "0", "1: a 0 in newshape is an extent of 0"}};
constexpr AttrSpec kTransposeAttrs[] = {{"axes", AttrType::kInts, "None", "the permutation; None: reversed", true}};
constexpr AttrSpec kExpandAttrs[] = {{"axis", AttrType::kInt, "", "where the new axes stand"},
                                     {"num_newaxis", AttrType::kInt, "1", "how many axes of extent 1"}};
constexpr AttrSpec kSqueezeAttrs[] = {
    {"axis", AttrType::kInts, "None", "axes of extent 1 to drop; None: all, of known extents", true}};
constexpr AttrSpec kBroadcastAttrs[] = {
    {"shape", AttrType::kInts, "", "the shape of the result; -1 keeps the extent of data"},
    {"dtype", AttrType::kDType, "\"\"", "unused, for compatibility"}};
constexpr AttrSpec kRepeatAttrs[] = {
    {"repeats", AttrType::kInt, "", "how often each element is repeated"},
    {"axis", AttrType::kInt, "None", "along which axis; None: the flattened tensor", true}};
constexpr AttrSpec kTileAttrs[] = {{"reps", AttrType::kInts, "", "how often each axis is repeated"}};
constexpr AttrSpec kReverseAttrs[] = {{"axis", AttrType::kInt, "", "the axis reversed"}};

const ir::TensorType* Data(TypeContext& context, Solve& solve) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  solve = failed ? Solve::kFailed : Solve::kStuck;
  return data;
}

Solve BadShape(TypeContext& context, std::string message) {
  return context.Fail(DiagnosticKind::kShapeMismatch, std::move(message));
}

// Requires that a reshape from `in` to `out` keeps the number of elements. `known` is the product of the extents of
// `out` but the inferred one, if there is one.
bool RequireElements(TypeContext& context, const Dims& in, const Dims& out, const Dim& known, bool has_inferred) {
  Dim total = Volume(in), result = Volume(out);
  std::vector<int64_t> code = context.attrs().GetInts("newshape");
  std::string shape = ShapeToString(Shape(code.begin(), code.end()));
  if (!known.is_const() || !total.is_const()) {
    return context.RequireEqual(result, total, absl::StrCat("`reshape` to ", shape, ": number of elements"),
                                DiagnosticKind::kElementCountMismatch);
  }
  if (result == total) return true;
  int64_t want = known.constant(), have = total.constant();
  context.Fail(DiagnosticKind::kElementCountMismatch,
               absl::StrCat("`reshape` of ", DimsToString(in), " with ", have, " elements to ", shape,
                            has_inferred ? "" : absl::StrCat(" with ", want), "; expected ",
                            has_inferred ? absl::StrCat("a multiple of ", want, " elements") : "equally many"));
  return false;
}

// reverse: the input's axes and `newshape` are read from the last to the first.
template <bool reverse>
Solve ReshapeRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  Dims in = data->shape.dims;
  std::vector<int64_t> code = context.attrs().GetInts("newshape");
  if (reverse) {
    std::reverse(in.begin(), in.end());
    std::reverse(code.begin(), code.end());
    // The parts of a split stand behind their -4, which thereby came last.
    for (size_t i = 2; i < code.size(); ++i) {
      if (code[i] == -4) std::rotate(&code[i - 2], &code[i], &code[i] + 1);
    }
  }
  bool allow_zero = context.attrs().GetInt("allowzero") != 0;
  Dims out;
  size_t at = 0;
  int infer = -1;
  // The inferred extent is a quotient of products. Axes that `newshape` refers to are in neither, so that they may be
  // empty.
  Dims rest = in;
  Dim given = 1;
  auto take = [&]() {
    rest[at] = 1;
    return in[at++];
  };
  for (size_t i = 0; i < code.size(); ++i) {
    int64_t c = code[i];
    size_t needed = c == 0 && !allow_zero ? 1 : c == -3 ? 2 : c == -4 ? 1 : 0;
    if (needed > 0 && at + needed > in.size())
      return BadShape(context,
                      absl::StrCat("`newshape` refers to axis ", at + needed - 1, " of an input of rank ", in.size()));
    if (c > 0 || (c == 0 && allow_zero)) {
      out.push_back(c);
      given = given * c;
      ++at;
    } else if (c == 0) {
      out.push_back(take());
    } else if (c == -1) {
      if (infer >= 0) return BadShape(context, "`newshape` has -1 twice; expected at most one extent to infer");
      infer = static_cast<int>(out.size());
      out.push_back(1);
      ++at;
    } else if (c == -2) {
      while (at < in.size()) out.push_back(take());
    } else if (c == -3) {
      Dim first = take();
      out.push_back(first * take());
    } else if (c == -4 && i + 2 < code.size()) {
      int64_t a = code[i + 1], b = code[i + 2];
      if ((a == -1) == (b == -1) && a == -1)
        return BadShape(context, "-4 in `newshape` splits into two unknown extents");
      Dim whole = take();
      out.push_back(a == -1 ? FloorDiv(whole, b) : Dim(a));
      out.push_back(b == -1 ? FloorDiv(whole, a) : Dim(b));
      i += 2;
    } else {
      return BadShape(context, absl::StrCat("`newshape` has ", c, "; expected an extent or one of 0, -1, -2, -3, -4"));
    }
  }
  Dim known = Volume(out);
  if (infer >= 0) out[static_cast<size_t>(infer)] = given == Dim(0) ? Dim(0) : FloorDiv(Volume(rest), given);
  if (!RequireElements(context, data->shape.dims, out, known, infer >= 0)) return Solve::kFailed;
  if (reverse) std::reverse(out.begin(), out.end());
  return ResultTensor(context, out, data->dtype.dtype);
}

// The axes [begin, end) that two attributes name; nullopt after an error.
std::optional<std::pair<std::ptrdiff_t, std::ptrdiff_t>> AxisRange(TypeContext& context, std::string_view begin_name,
                                                                   std::string_view end_name, size_t rank) {
  int64_t count = static_cast<int64_t>(rank), begin = context.attrs().GetInt(begin_name), end = count;
  if (!context.attrs().IsNone(end_name)) end = context.attrs().GetInt(end_name);
  int64_t first = begin < 0 ? begin + count : begin, behind = end < 0 ? end + count : end;
  if (0 <= first && first <= behind && behind <= count) return std::pair(first, behind);
  context.Fail(DiagnosticKind::kAxisOutOfRange,
               absl::StrCat("`", absl::string_view(begin_name.data(), begin_name.size()), "` is ", begin, " and `",
                            absl::string_view(end_name.data(), end_name.size()), "` ", end,
                            "; expected a range of axes for rank ", rank));
  return std::nullopt;
}

Solve ReshapeLikeRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  bool failed = false;
  const ir::TensorType* like = TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  if (data == nullptr || like == nullptr) return failed ? Solve::kFailed : solve;
  const Dims &own = data->shape.dims, &other = like->shape.dims;
  auto replaced = AxisRange(context, "lhs_begin", "lhs_end", own.size());
  if (!replaced) return Solve::kFailed;
  auto taken = AxisRange(context, "rhs_begin", "rhs_end", other.size());
  if (!taken) return Solve::kFailed;
  Dims out(own.begin(), own.begin() + replaced->first);
  out.insert(out.end(), other.begin() + taken->first, other.begin() + taken->second);
  out.insert(out.end(), own.begin() + replaced->second, own.end());
  Dims before(own.begin() + replaced->first, own.begin() + replaced->second);
  Dims after(other.begin() + taken->first, other.begin() + taken->second);
  if (!context.RequireEqual(Volume(before), Volume(after), "`reshape_like`: number of elements",
                            DiagnosticKind::kElementCountMismatch))
    return Solve::kFailed;
  return ResultTensor(context, out, data->dtype.dtype);
}

std::vector<size_t> Permutation(const ir::Attrs& attrs, size_t rank) {
  std::vector<size_t> axes;
  if (attrs.IsNone("axes") || attrs.GetInts("axes").empty()) {
    for (size_t i = rank; i-- > 0;) axes.push_back(i);
    return axes;
  }
  for (int64_t axis : attrs.GetInts("axes"))
    axes.push_back(static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(rank) : axis));
  return axes;
}

Solve TransposeRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  const Dims& in = data->shape.dims;
  if (!context.attrs().IsNone("axes") && !context.attrs().GetInts("axes").empty()) {
    std::vector<int64_t> axes = context.attrs().GetInts("axes");
    std::vector<bool> seen(in.size());
    for (int64_t axis : axes) {
      std::optional<int64_t> normal = NormalAxis(context, axis, static_cast<int64_t>(in.size()), "axes");
      if (!normal) return Solve::kFailed;
      seen[static_cast<size_t>(*normal)] = true;
    }
    if (axes.size() != in.size() || std::find(seen.begin(), seen.end(), false) != seen.end()) {
      return context.Fail(DiagnosticKind::kBadAttribute,
                          absl::StrCat("`axes` is no permutation of the ", in.size(), " axes of the input"));
    }
  }
  Dims out;
  for (size_t axis : Permutation(context.attrs(), in.size())) out.push_back(in[axis]);
  return ResultTensor(context, out, data->dtype.dtype);
}

std::vector<Tensor> ComputeTranspose(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<size_t> axes = Permutation(context.attrs(), data.rank());
  return {te::ComputeTensor("transpose", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(data.rank());
    for (size_t k = 0; k < axes.size(); ++k) at[axes[k]] = i[k];
    return data(at);
  })};
}

Solve ExpandDimsRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  Dims out = data->shape.dims;
  int64_t count = context.attrs().GetInt("num_newaxis");
  std::optional<int64_t> axis =
      NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()) + 1);
  if (!axis) return Solve::kFailed;
  if (count < 0 || count > 32)
    return context.Fail(DiagnosticKind::kAxisOutOfRange,
                        absl::StrCat("`num_newaxis` is ", count, "; expected 0 to 32"));
  out.insert(out.begin() + *axis, static_cast<size_t>(count), Dim(1));
  return ResultTensor(context, out, data->dtype.dtype);
}

Solve SqueezeRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  const Dims& in = data->shape.dims;
  std::vector<bool> drop(in.size());
  if (context.attrs().IsNone("axis")) {
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].is_const()) {
        return context.Fail(DiagnosticKind::kRankDependsOnExtent,
                            absl::StrCat("extent ", in[i].ToString(), " of axis ", i,
                                         " decides whether the axis is dropped; expected known extents, or `axis` "
                                         "naming the axes to drop"),
                            0);
      }
      drop[i] = in[i] == Dim(1);
    }
  } else {
    for (int64_t a : context.attrs().GetInts("axis")) {
      std::optional<int64_t> axis = NormalAxis(context, a, static_cast<int64_t>(in.size()));
      if (!axis ||
          !context.RequireEqual(in[static_cast<size_t>(*axis)], 1, "`squeeze`: extent of a dropped axis and 1"))
        return Solve::kFailed;
      drop[static_cast<size_t>(*axis)] = true;
    }
  }
  Dims out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (!drop[i]) out.push_back(in[i]);
  }
  return ResultTensor(context, out, data->dtype.dtype);
}

Solve FlattenRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  Dims in = data->shape.dims;
  if (in.empty())
    return context.Fail(DiagnosticKind::kRankMismatch,
                        "argument 1 of `nn.batch_flatten` has rank 0; expected rank 1 or more", 0);
  Dim first = in[0];
  in.erase(in.begin());
  return ResultTensor(context, {first, Volume(in)}, data->dtype.dtype);
}

Solve BroadcastShape(TypeContext& context, const Dims& out) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  const Dims& in = data->shape.dims;
  if (in.size() > out.size())
    return BadShape(context, absl::StrCat("an input of rank ", in.size(), " does not broadcast to rank ", out.size()));
  for (size_t i = 0; i < in.size(); ++i) {
    const Dim& to = out[out.size() - in.size() + i];
    if (!RequireRepeatable(context, in[i], to, "broadcast: extents of input and result")) return Solve::kFailed;
  }
  return ResultTensor(context, out, data->dtype.dtype);
}

Solve BroadcastToRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  const Dims& in = data->shape.dims;
  std::vector<int64_t> shape = context.attrs().GetInts("shape");
  Dims out;
  for (size_t i = 0; i < shape.size(); ++i) {
    bool is_kept = shape[i] == -1 && i + in.size() >= shape.size();
    if (shape[i] < 0 && !is_kept) {
      return BadShape(context, absl::StrCat("`shape` has ", shape[i], " at axis ", i,
                                            "; expected extents >= 0, or -1 for an axis that data has"));
    }
    out.push_back(is_kept && shape.size() >= in.size() ? in[i + in.size() - shape.size()] : Dim(shape[i]));
  }
  return BroadcastShape(context, out);
}

Solve BroadcastToLikeRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* like = TensorArg(context, 1, &failed);
  if (failed) return Solve::kFailed;
  return like == nullptr ? Solve::kStuck : BroadcastShape(context, like->shape.dims);
}

Solve RepeatRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  int64_t repeats = context.attrs().GetInt("repeats");
  if (repeats < 0) return BadShape(context, absl::StrCat("`repeats` is ", repeats, "; expected 0 or more"));
  Dims out = data->shape.dims;
  if (context.attrs().IsNone("axis")) return ResultTensor(context, {Volume(out) * repeats}, data->dtype.dtype);
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(out.size()));
  if (!axis) return Solve::kFailed;
  Dim& dim = out[static_cast<size_t>(*axis)];
  dim = dim * repeats;
  return ResultTensor(context, out, data->dtype.dtype);
}

std::vector<Tensor> ComputeRepeat(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  // A result of no elements evaluates nothing; the expression still divides by a valid number.
  Expr repeats = te::Index(std::max<int64_t>(context.attrs().GetInt("repeats"), 1));
  return {te::ComputeTensor("repeat", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    if (context.attrs().IsNone("axis")) return AtFlat(data, te::Binary(BinaryOp::kFloorDivide, i[0], repeats));
    std::vector<Expr> at(i.begin(), i.end());
    int64_t axis = context.attrs().GetInt("axis");
    Expr& index = at[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(at.size()) : axis)];
    index = te::Binary(BinaryOp::kFloorDivide, index, repeats);
    return data(at);
  })};
}

Solve TileRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  std::vector<int64_t> reps = context.attrs().GetInts("reps");
  Dims dims = data->shape.dims;
  while (dims.size() < reps.size()) dims.insert(dims.begin(), Dim(1));
  for (size_t i = 0; i < reps.size(); ++i) {
    if (reps[i] < 0) return BadShape(context, absl::StrCat("`reps` has ", reps[i], "; expected 0 or more"));
    Dim& dim = dims[dims.size() - reps.size() + i];
    dim = dim * reps[i];
  }
  return ResultTensor(context, dims, data->dtype.dtype);
}

Solve ReverseRelation(TypeContext& context) {
  Solve solve;
  const ir::TensorType* data = Data(context, solve);
  if (data == nullptr) return solve;
  if (!NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data->shape.dims.size())))
    return Solve::kFailed;
  return context.Result(data);
}

std::vector<Tensor> ComputeReverse(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  int64_t axis = context.attrs().GetInt("axis");
  size_t at = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(data.rank()) : axis);
  return {te::ComputeTensor("reverse", data.dtype(), data.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> indices(i.begin(), i.end());
    indices[at] = te::DimValue(data.dims()[at]) - te::Index(1) - indices[at];
    return data(indices);
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(View("reshape", "the same elements in another shape", kInputs, kReshapeAttrs, ReshapeRelation<false>),
                 ReshapeGradient),
    WithGradient(
        View("contrib_reverse_reshape", "`reshape` whose special extents are read from the last axis to the first",
             kInputs, kReshapeAttrs, ReshapeRelation<true>),
        ReshapeGradient),
    WithGradient(View("reshape_like", "the elements in the shape of `like`, or some axes in those of `like`",
                      kLikeInputs, kReshapeLikeAttrs, ReshapeLikeRelation),
                 ReshapeGradient),
    WithGradient(View("expand_dims", "new axes of extent 1", kInputs, kExpandAttrs, ExpandDimsRelation),
                 ReshapeGradient),
    WithGradient(View("squeeze", "axes of extent 1 dropped", kInputs, kSqueezeAttrs, SqueezeRelation), ReshapeGradient),
    WithGradient(View("nn.batch_flatten", "all axes but the first merged", kInputs, {}, FlattenRelation),
                 ReshapeGradient),
    {.name = "transpose",
     .summary = "axes permuted",
     .inputs = kInputs,
     .attrs = kTransposeAttrs,
     .type_relation = TransposeRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeTranspose,
     .gradient = TransposeGradient},
    {.name = "broadcast_to",
     .summary = "data broadcast to `shape`",
     .inputs = kInputs,
     .attrs = kBroadcastAttrs,
     .type_relation = BroadcastToRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeBroadcast,
     .gradient = BroadcastGradient},
    {.name = "broadcast_to_like",
     .summary = "data broadcast to the shape of `like`",
     .inputs = kLikeInputs,
     .type_relation = BroadcastToLikeRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeBroadcast,
     .gradient = BroadcastGradient},
    {.name = "repeat",
     .summary = "each element repeated",
     .inputs = kInputs,
     .attrs = kRepeatAttrs,
     .type_relation = RepeatRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeRepeat,
     .gradient = RepeatGradient},
    {.name = "tile",
     .summary = "the whole tensor repeated",
     .inputs = kInputs,
     .attrs = kTileAttrs,
     .type_relation = TileRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeTile,
     .gradient = TileGradient},
    {.name = "reverse",
     .summary = "elements along `axis` in reverse",
     .inputs = kInputs,
     .attrs = kReverseAttrs,
     .type_relation = ReverseRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeReverse,
     .gradient = ReverseGradient},
};

}  // namespace

std::span<const OpDef> TransformOps() { return kOps; }

}  // namespace rvm::ops
