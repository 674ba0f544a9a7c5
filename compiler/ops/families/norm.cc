// Normalisation, with statistics that are computed from the data or given as arguments.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kData[] = {{"data", "a tensor"}};
constexpr Input kScaled[] = {{"data", "a tensor"}, {"gamma", "scale along `axis`"}, {"beta", "shift along `axis`"}};
constexpr Input kBatch[] = {
    {"data", "a tensor (n, ...)"}, {"gamma", "scale along `axis`"}, {"beta", "shift along `axis`"}};

#define RVM_SCALE_ATTRS                                                                                             \
  {"epsilon", AttrType::kFloat, "1e-5f", "added to the variance"}, {"center", AttrType::kBool, "True", "add beta"}, \
      {"scale", AttrType::kBool, "True", "multiply by gamma"}
constexpr AttrSpec kLayerAttrs[] = {{"axis", AttrType::kInt, "-1", "the axis normalised over"}, RVM_SCALE_ATTRS};
constexpr AttrSpec kInstanceAttrs[] = {{"axis", AttrType::kInt, "1", "the axis of channels"}, RVM_SCALE_ATTRS};
constexpr AttrSpec kGroupAttrs[] = {{"num_groups", AttrType::kInt, "0", "channels are normalised in so many groups"},
                                    {"axis", AttrType::kInt, "1", "the axis of channels"},
                                    RVM_SCALE_ATTRS};
#undef RVM_SCALE_ATTRS
constexpr Input kMomentsInputs[] = {{"data", "a tensor"},
                                    {"gamma", "scale along `axis`"},
                                    {"beta", "shift along `axis`"},
                                    {"moving_mean", "mean along `axis`"},
                                    {"moving_var", "variance along `axis`"}};
constexpr AttrSpec kBatchNormAttrs[] = {{"axis", AttrType::kInt, "1", "the axis of channels"},
                                        {"epsilon", AttrType::kFloat, "1e-5f", "added to the variance"},
                                        {"center", AttrType::kBool, "True", "add beta"},
                                        {"scale", AttrType::kBool, "True", "multiply by gamma"}};
constexpr AttrSpec kL2Attrs[] = {{"eps", AttrType::kFloat, "", "least sum of squares"},
                                 {"axis", AttrType::kInts, "", "the axes normalised over"}};
constexpr AttrSpec kLrnAttrs[] = {{"size", AttrType::kInt, "5", "neighbours in the sum, odd"},
                                  {"axis", AttrType::kInt, "1", "the axis of the neighbours"},
                                  {"bias", AttrType::kFloat, "2f", "added to the scaled sum of squares"},
                                  {"alpha", AttrType::kFloat, "0.0001f", "scale of the sum"},
                                  {"beta", AttrType::kFloat, "0.75f", "exponent"}};

// Requires floating-point data; sets `axis` if `named` is an axis of it.
Solve FloatData(TypeContext& context, Types& args, int64_t named, std::optional<int64_t>& axis) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  axis = NormalAxis(context, named, static_cast<int64_t>(args[0]->shape.dims.size()));
  return axis ? Solve::kDone : Solve::kFailed;
}

// gamma * normal + beta; the attributes `scale` and `center` select the factor and the summand.
Expr Scaled(const ComputeContext& context, Expr normal, const Expr& channel) {
  auto along = [&](size_t input) { return te::Cast(normal.dtype(), context.input(input)({channel})); };
  if (context.attrs().GetBool("scale")) normal = normal * along(1);
  if (context.attrs().GetBool("center")) normal = normal + along(2);
  return normal;
}

// 1 / sqrt(squares / count + epsilon)
Expr InverseSpread(const ComputeContext& context, const Expr& squares, const Expr& count) {
  Expr epsilon = te::Const(squares.dtype(), context.attrs().GetDouble("epsilon"));
  return te::Unary(UnaryOp::kRsqrt, te::Binary(BinaryOp::kDivide, squares, count) + epsilon);
}

Solve LayerNormRelation(TypeContext& context) {
  Types args;
  std::optional<int64_t> axis;
  if (Solve solve = FloatData(context, args, context.attrs().GetInt("axis"), axis); solve != Solve::kDone) return solve;
  if (!RequireChannelVectors(context, args, 1, *axis, "nn.layer_norm")) return Solve::kFailed;
  return context.Result(args[0]);
}

std::vector<Tensor> ComputeLayerNorm(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  DataType wide = Accumulator(data.dtype());
  auto x = [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); };
  Expr count = te::Cast(wide, te::DimValue(data.dims()[axis]));
  Tensor sum = ReduceAxis(ReduceOp::kSum, wide, data.dims(), axis, x);
  Tensor mean = te::ComputeTensor(
      "mean", wide, sum.dims(), [&](std::span<const Expr> i) { return te::Binary(BinaryOp::kDivide, sum(i), count); });
  Tensor squares = ReduceAxis(ReduceOp::kSum, wide, data.dims(), axis, [&](std::span<const Expr> i) {
    Expr d = x(i) - AtZero(mean, i, axis);
    return d * d;
  });
  Tensor scale = te::ComputeTensor("rsqrt", wide, sum.dims(),
                                   [&](std::span<const Expr> i) { return InverseSpread(context, squares(i), count); });
  Tensor result = te::ComputeTensor("layer_norm", wide, data.dims(), [&](std::span<const Expr> i) {
    return Scaled(context, (x(i) - AtZero(mean, i, axis)) * AtZero(scale, i, axis), i[axis]);
  });
  return {CastTensor(result, data.dtype())};
}

// Group normalisation; instance normalisation if not `by_groups`, which has one group per channel.
template <bool by_groups>
Solve GroupNormRelation(TypeContext& context) {
  Types args;
  std::optional<int64_t> axis;
  if (Solve solve = FloatData(context, args, context.attrs().GetInt("axis"), axis); solve != Solve::kDone) return solve;
  if (*axis == 0)
    return context.Fail(DiagnosticKind::kBadAttribute, "`axis` is 0, that of the batch; expected another");
  if (!RequireChannelVectors(context, args, 1, *axis, by_groups ? "nn.group_norm" : "nn.instance_norm"))
    return Solve::kFailed;
  if (by_groups) {
    int64_t groups = context.attrs().GetInt("num_groups");
    if (groups < 1) {
      return context.Fail(DiagnosticKind::kBadAttribute,
                          absl::StrCat("`num_groups` is ", groups, "; expected 1 or more"));
    }
    if (!context.RequireEqual(FloorMod(args[0]->shape.dims[static_cast<size_t>(*axis)], groups), 0,
                              "`nn.group_norm`: remainder of the channels by `num_groups`"))
      return Solve::kFailed;
  }
  return context.Result(args[0]);
}

// Returns the sums of `body` over the positions of each channel, (batch, channels), of data with its channels last.
// Rows come first: vectors of channels are added up, and sums of fewer numbers are more precise.
Tensor ChannelSums(const Tensor& data, DataType wide, const std::function<Expr(std::span<const Expr>)>& body) {
  Dims dims = data.dims();
  const size_t axis = dims.size() - 2;
  const Dim row = dims[axis];
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
  Tensor sums = ReduceOver(ReduceOp::kSum, wide, dims, {row}, [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::vector<Expr> at(o.begin(), o.end());
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), r[0]);
    return body(at);
  });
  if (dims.size() == 2) return sums;
  return ReduceOver(ReduceOp::kSum, wide, {dims[0], dims.back()}, {dims.begin() + 1, dims.end() - 1},
                    [&](std::span<const Expr> o, std::span<const Expr> r) {
                      std::vector<Expr> at = {o[0]};
                      at.insert(at.end(), r.begin(), r.end());
                      at.push_back(o[1]);
                      return sums(at);
                    });
}

// Group normalisation along the last axis: statistics of groups are kept once for each channel, so that elements of
// neighbouring channels read neighbours.
Tensor NormaliseLastAxis(const ComputeContext& context, const Tensor& data, const Dim& groups, const Dim& per_group) {
  DataType wide = Accumulator(data.dtype());
  const Dims by_group = {data.dims()[0], groups}, by_channel = {data.dims()[0], data.dims().back()};
  Dim count = per_group;
  for (size_t i = 1; i + 1 < data.rank(); ++i) count = count * data.dims()[i];
  const Expr size = te::Cast(wide, te::DimValue(count));
  auto of_groups = [&](const Tensor& sums) {
    return ReduceOver(ReduceOp::kSum, wide, by_group, {per_group},
                      [&](std::span<const Expr> o, std::span<const Expr> r) {
                        return sums({o[0], o[1] * te::DimValue(per_group) + r[0]});
                      });
  };
  auto of_channels = [&](const char* name, const Tensor& sums, const std::function<Expr(Expr)>& value) {
    Tensor of_group = te::ComputeTensor(name, wide, by_group, [&](std::span<const Expr> i) { return value(sums(i)); });
    return te::Stored(te::ComputeTensor(name, wide, by_channel, [&](std::span<const Expr> i) {
      return of_group({i[0], te::Binary(BinaryOp::kFloorDivide, i[1], te::DimValue(per_group))});
    }));
  };
  auto x = [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); };
  Tensor mean = of_channels("mean", of_groups(ChannelSums(data, wide, x)),
                            [&](const Expr& sum) { return te::Binary(BinaryOp::kDivide, sum, size); });
  auto distance = [&](std::span<const Expr> i) { return x(i) - mean({i[0], i.back()}); };
  Tensor squares = ChannelSums(data, wide, [&](std::span<const Expr> i) {
    Expr d = distance(i);
    return d * d;
  });
  Tensor scale =
      of_channels("rsqrt", of_groups(squares), [&](const Expr& sum) { return InverseSpread(context, sum, size); });
  return te::ComputeTensor("group_norm", wide, data.dims(), [&](std::span<const Expr> i) {
    return Scaled(context, distance(i) * scale({i[0], i.back()}), i.back());
  });
}

template <bool by_groups>
std::vector<Tensor> ComputeGroupNorm(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  DataType wide = Accumulator(data.dtype());
  const Dim& channels = data.dims()[axis];
  Dim groups = by_groups ? Dim(context.attrs().GetInt("num_groups")) : channels;
  Dim per_group = by_groups ? FloorDiv(channels, groups) : Dim(1);
  if (axis > 1 && axis + 1 == data.rank())
    return {CastTensor(NormaliseLastAxis(context, data, groups, per_group), data.dtype())};
  Dims extents = {per_group};
  Dim count = per_group;
  for (size_t i = 1; i < data.rank(); ++i) {
    if (i == axis) continue;
    extents.push_back(data.dims()[i]);
    count = count * data.dims()[i];
  }
  Dims dims = {data.dims()[0], groups};
  auto member = [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::vector<Expr> at = {o[0]};
    size_t next = 1;
    for (size_t i = 1; i < data.rank(); ++i)
      at.push_back(i == axis ? o[1] * te::DimValue(per_group) + r[0] : r[next++]);
    return te::Cast(wide, data(at));
  };
  Expr size = te::Cast(wide, te::DimValue(count));
  Tensor sum = ReduceOver(ReduceOp::kSum, wide, dims, extents, member);
  Tensor mean = te::ComputeTensor("mean", wide, dims,
                                  [&](std::span<const Expr> i) { return te::Binary(BinaryOp::kDivide, sum(i), size); });
  Tensor squares =
      ReduceOver(ReduceOp::kSum, wide, dims, extents, [&](std::span<const Expr> o, std::span<const Expr> r) {
        Expr d = member(o, r) - mean(o);
        return d * d;
      });
  Tensor scale = te::ComputeTensor("rsqrt", wide, dims,
                                   [&](std::span<const Expr> i) { return InverseSpread(context, squares(i), size); });
  Tensor result = te::ComputeTensor("group_norm", wide, data.dims(), [&](std::span<const Expr> i) {
    Expr group = by_groups ? te::Binary(BinaryOp::kFloorDivide, i[axis], te::DimValue(per_group)) : i[axis];
    return Scaled(context, (te::Cast(wide, data(i)) - mean({i[0], group})) * scale({i[0], group}), i[axis]);
  });
  return {CastTensor(result, data.dtype())};
}

Solve L2NormalizeRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  for (int64_t named : context.attrs().GetInts("axis")) {
    if (!NormalAxis(context, named, static_cast<int64_t>(args[0]->shape.dims.size()))) return Solve::kFailed;
  }
  return context.Result(args[0]);
}

std::vector<Tensor> ComputeL2Normalize(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  DataType wide = Accumulator(data.dtype());
  std::vector<size_t> axes;
  for (int64_t named : context.attrs().GetInts("axis")) {
    size_t axis = Normal(named, data.rank());
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
  }
  Dims kept = data.dims(), extents;
  for (size_t axis : axes) {
    extents.push_back(kept[axis]);
    kept[axis] = 1;
  }
  Tensor sum = ReduceOver(ReduceOp::kSum, wide, kept, extents, [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::vector<Expr> at(o.begin(), o.end());
    for (size_t k = 0; k < axes.size(); ++k) at[axes[k]] = r[k];
    return te::Cast(wide, data(at)) * te::Cast(wide, data(at));
  });
  Tensor scale = te::ComputeTensor("rsqrt", wide, kept, [&](std::span<const Expr> i) {
    Expr least = te::Const(wide, context.attrs().GetDouble("eps"));
    return te::Unary(UnaryOp::kRsqrt, te::Binary(BinaryOp::kMaximum, sum(i), least));
  });
  Tensor result = te::ComputeTensor("l2_normalize", wide, data.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    for (size_t axis : axes) at[axis] = te::Index(0);
    return te::Cast(wide, data(i)) * scale(at);
  });
  return {CastTensor(result, data.dtype())};
}

Solve LrnRelation(TypeContext& context) {
  Types args;
  std::optional<int64_t> axis;
  if (Solve solve = FloatData(context, args, context.attrs().GetInt("axis"), axis); solve != Solve::kDone) return solve;
  int64_t size = context.attrs().GetInt("size");
  if (size < 1 || size % 2 == 0) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`size` is ", size, "; expected an odd number"));
  }
  return context.Result(args[0]);
}

// Krizhevsky et al. 2012, section 3.3, but with the mean in place of the sum, like the predecessor.
std::vector<Tensor> ComputeLrn(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  int64_t size = context.attrs().GetInt("size");
  DataType wide = Accumulator(data.dtype());
  Tensor sum =
      ReduceOver(ReduceOp::kSum, wide, data.dims(), {size}, [&](std::span<const Expr> o, std::span<const Expr> r) {
        Expr place = o[axis] + r[0] - te::Index(size / 2);
        Expr x = te::Cast(wide, data(With(o, axis, place)));
        return te::Select(InRange(place, data.dims()[axis]), x * x, te::Const(wide, 0));
      });
  Tensor result = te::ComputeTensor("lrn", wide, data.dims(), [&](std::span<const Expr> i) {
    const ir::Attrs& attrs = context.attrs();
    Expr base = te::Const(wide, attrs.GetDouble("bias")) +
                te::Const(wide, attrs.GetDouble("alpha") / static_cast<double>(size)) * sum(i);
    Expr power = te::Binary(BinaryOp::kPower, base, te::Const(wide, attrs.GetDouble("beta")));
    return te::Binary(BinaryOp::kDivide, te::Cast(wide, data(i)), power);
  });
  return {CastTensor(result, data.dtype())};
}

// ---- with given statistics ----------------------------------------------------------

Solve BatchNormRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.size()));
  if (!axis) return Solve::kFailed;
  if (!RequireChannelVectors(context, args, 1, *axis, "nn.batch_norm")) return Solve::kFailed;
  const Dim& channels = data[static_cast<size_t>(*axis)];
  const ir::Type* vector = ir::MakeTensorType(context.arena(), {channels}, args[0]->dtype.dtype);
  return context.Result(
      context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{context.arg(0), vector, vector}));
}

std::vector<Tensor> ComputeBatchNorm(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  DataType wide = Accumulator(data.dtype());
  auto along = [&](size_t input, const Expr& index) { return te::Cast(wide, context.input(input)({index})); };
  Tensor out = te::ComputeTensor("batch_norm", wide, data.dims(), [&](std::span<const Expr> i) {
    Expr spread =
        te::Unary(te::UnaryOp::kSqrt, along(4, i[axis]) + te::Const(wide, context.attrs().GetDouble("epsilon")));
    Expr value = te::Binary(BinaryOp::kDivide, te::Cast(wide, data(i)) - along(3, i[axis]), spread);
    if (context.attrs().GetBool("scale")) value = value * along(1, i[axis]);
    if (context.attrs().GetBool("center")) value = value + along(2, i[axis]);
    return value;
  });
  auto copy = [&](size_t input) {
    const Tensor& tensor = context.input(input);
    return te::ComputeTensor("copy", tensor.dtype(), context.output(1).dims,
                             [&](std::span<const Expr> i) { return tensor(i); });
  };
  return {CastTensor(out, data.dtype()), copy(3), copy(4)};
}

constexpr OpDef kOps[] = {
    {.name = "nn.batch_norm",
     .summary = "data normalised by the moving statistics; also those",
     .inputs = kMomentsInputs,
     .attrs = kBatchNormAttrs,
     .type_relation = BatchNormRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeBatchNorm,
     .gradient = BatchNormGradient},
    WithGradient(Op("nn.layer_norm", "(x - mean) / sqrt(variance + epsilon) * gamma + beta along `axis`", kScaled,
                    kLayerAttrs, LayerNormRelation, FusionClass::kReduction, ComputeLayerNorm),
                 LayerNormGradient),
    WithGradient(Op("nn.instance_norm", "layer_norm over all axes but those of batch and channels", kBatch,
                    kInstanceAttrs, GroupNormRelation<false>, FusionClass::kReduction, ComputeGroupNorm<false>),
                 InstanceNormGradient),
    WithGradient(Op("nn.group_norm", "layer_norm over groups of channels and all axes but that of the batch", kBatch,
                    kGroupAttrs, GroupNormRelation<true>, FusionClass::kReduction, ComputeGroupNorm<true>),
                 GroupNormGradient),
    WithGradient(Op("nn.l2_normalize", "x / sqrt(max(sum of squares, eps)) over `axis`", kData, kL2Attrs,
                    L2NormalizeRelation, FusionClass::kReduction, ComputeL2Normalize),
                 L2NormalizeGradient),
    WithGradient(Op("nn.lrn", "x / (bias + alpha * mean of neighbouring squares) ^ beta", kData, kLrnAttrs, LrnRelation,
                    FusionClass::kReduction, ComputeLrn),
                 LrnGradient),
};

}  // namespace

std::span<const OpDef> NormOps() { return kOps; }

}  // namespace rvm::ops
