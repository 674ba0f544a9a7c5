// Reductions along axes.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a tensor"}};
constexpr Input kVarianceInputs[] = {
    {"data", "a tensor"}, {.name = "mean", .doc = "its mean, with reduced axes of extent 1", .is_optional = true}};
constexpr AttrSpec kAttrs[] = {
    {"axis", AttrType::kInts, "None", "the axes reduced; None: all", true},
    {"keepdims", AttrType::kBool, "False", "keep reduced axes with extent 1"},
    {"exclude", AttrType::kBool, "False", "reduce all axes but `axis`"},
};
constexpr AttrSpec kArgAttrs[] = {
    {"axis", AttrType::kInts, "None", "the axis searched; None: the flattened tensor", true},
    {"keepdims", AttrType::kBool, "False", "keep reduced axes with extent 1"},
    {"select_last_index", AttrType::kBool, "False", "of equal extremes take the last"},
    {"exclude", AttrType::kBool, "False", "search all axes but `axis`"},
};
constexpr AttrSpec kVarianceAttrs[] = {
    {"axis", AttrType::kInts, "None", "the axes reduced; None: all", true},
    {"keepdims", AttrType::kBool, "False", "keep reduced axes with extent 1"},
    {"exclude", AttrType::kBool, "False", "reduce all axes but `axis`"},
    {"unbiased", AttrType::kBool, "False", "divide by n - 1 instead of n; nan if n < 2"},
};

constexpr Example kLogSumExpExamples[] = {
    {"logsumexp([[0f, 0f], [1000f, 1000f]], axis=[1])", "[0.6931472f, 1000.6931472f]"},
    {"logsumexp([1f64, 2f64, 3f64], keepdims=True)", "[3.4076059644443806f64]"}};

template <DataType (*ResultDType)(DataType)>
Solve ReduceRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (data == nullptr) return Solve::kStuck;
  const Dims& dims = data->shape.dims;
  if (!context.attrs().IsNone("axis")) {
    for (int64_t axis : context.attrs().GetInts("axis")) {
      if (!NormalAxis(context, axis, static_cast<int64_t>(dims.size()))) return Solve::kFailed;
    }
  }
  std::vector<bool> reduced = ReducedAxes(context.attrs(), dims.size());
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!reduced[i]) {
      out.push_back(dims[i]);
    } else if (context.attrs().GetBool("keepdims")) {
      out.push_back(1);
    }
  }
  return ResultTensor(context, std::move(out), ResultDType(data->dtype.dtype));
}

DataType Same(DataType dtype) { return dtype; }
DataType Index(DataType) { return kInt32; }

Solve BoolReduceRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (failed) return Solve::kFailed;
  if (data == nullptr) return Solve::kStuck;
  if (!data->dtype.dtype.is_bool()) {
    return context.Fail(diagnostics::DiagnosticKind::kDTypeMismatch,
                        absl::StrCat("argument 1 has dtype `", data->dtype.dtype.ToString(), "`; expected `bool`"), 0);
  }
  return ReduceRelation<Same>(context);
}

// Returns a tensor of shape `dims` (reduced axes dropped, or kept with extent 1) whose elements are reductions of `f`.
template <typename F>
Tensor ReduceTensor(const Tensor& data, const std::vector<bool>& reduced, bool keepdims, ReduceOp op, DataType dtype,
                    F&& f) {
  Dims dims, extents;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) extents.push_back(data.dims()[i]);
    if (!reduced[i] || keepdims) dims.push_back(reduced[i] ? Dim(1) : data.dims()[i]);
  }
  return te::ComputeTensor("reduce", dtype, dims, [&](std::span<const Expr> outer) {
    return te::Reduce(op, extents, [&](std::span<const Expr> inner) {
      std::vector<Expr> indices;
      size_t o = 0, r = 0;
      for (size_t i = 0; i < reduced.size(); ++i) {
        indices.push_back(reduced[i] ? inner[r++] : outer[o++]);
        if (reduced[i] && keepdims) ++o;
      }
      return f(indices);
    });
  });
}

// Returns the number of elements that are reduced to one.
Dim Count(const Tensor& data, const std::vector<bool>& reduced) {
  Dim count = 1;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) count = count * data.dims()[i];
  }
  return count;
}

Expr CountValue(const Tensor& data, const std::vector<bool>& reduced, DataType dtype) {
  return te::Cast(dtype, te::DimValue(Count(data, reduced)));
}

template <ReduceOp op>
std::vector<Tensor> ComputeReduce(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<bool> reduced = ReducedAxes(context.attrs(), data.rank());
  DataType wide = op == ReduceOp::kSum ? SumAccumulator(data.dtype(), Count(data, reduced)) : Accumulator(data.dtype());
  Tensor out = ReduceTensor(data, reduced, context.attrs().GetBool("keepdims"), op, wide,
                            [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); });
  return {CastTensor(out, data.dtype())};
}

Tensor Mean(const Tensor& data, const std::vector<bool>& reduced, bool keepdims, DataType wide) {
  Tensor sum = ReduceTensor(data, reduced, keepdims, ReduceOp::kSum, wide,
                            [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); });
  return te::ComputeTensor("mean", wide, sum.dims(), [&](std::span<const Expr> i) {
    return te::Binary(te::BinaryOp::kDivide, sum(i), CountValue(data, reduced, wide));
  });
}

std::vector<Tensor> ComputeMean(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<bool> reduced = ReducedAxes(context.attrs(), data.rank());
  Tensor mean =
      Mean(data, reduced, context.attrs().GetBool("keepdims"), SumAccumulator(data.dtype(), Count(data, reduced)));
  return {CastTensor(mean, data.dtype())};
}

// The result has the dtype of data; a given mean has the rank of data.
Solve VarianceRelation(TypeContext& context) {
  if (context.num_args() == 2) {
    std::vector<const ir::TensorType*> args;
    if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
    const Dims &data = args[0]->shape.dims, &mean = args[1]->shape.dims;
    if (mean.size() != data.size()) return FailRank(context, 1, mean.size(), "that of `data`");
    if (args[1]->dtype.dtype != args[0]->dtype.dtype)
      return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
    for (size_t i = 0; i < data.size(); ++i) {
      if (!RequireRepeatable(context, mean[i], data[i], "`variance`: extents of `mean` and `data`"))
        return Solve::kFailed;
    }
  }
  return ReduceRelation<Same>(context);
}

// Two passes: the mean, unless it is given, then the mean square of the deviations.
std::vector<Tensor> ComputeVariance(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<bool> reduced = ReducedAxes(context.attrs(), data.rank());
  DataType wide = SumAccumulator(data.dtype(), Count(data, reduced));
  Tensor mean = context.num_inputs() == 2 ? CastTensor(context.input(1), wide) : Mean(data, reduced, true, wide);
  Tensor squares = ReduceTensor(
      data, reduced, context.attrs().GetBool("keepdims"), ReduceOp::kSum, wide, [&](std::span<const Expr> i) {
        Expr deviation = te::Cast(wide, data(i)) - mean(BroadcastIndices(i, mean.dims(), data.dims()));
        return deviation * deviation;
      });
  Expr count = CountValue(data, reduced, wide);
  if (context.attrs().GetBool("unbiased")) {
    count = te::Binary(te::BinaryOp::kMaximum, count - te::Const(wide, 1), te::Const(wide, 0));
  }
  Tensor variance = te::ComputeTensor("variance", wide, squares.dims(), [&](std::span<const Expr> i) {
    return te::Binary(te::BinaryOp::kDivide, squares(i), count);
  });
  return {CastTensor(variance, data.dtype())};
}

Solve FloatReduceRelation(TypeContext& context) {
  bool failed = false;
  const ir::TensorType* data = TensorArg(context, 0, &failed);
  if (data == nullptr) return failed ? Solve::kFailed : Solve::kStuck;
  if (!data->dtype.dtype.is_float()) return FailDType(context, 0, data->dtype.dtype, "a floating-point dtype");
  return ReduceRelation<Same>(context);
}

// The greatest element is subtracted first, so that exp does not overflow. If it is infinite, it is the result.
std::vector<Tensor> ComputeLogSumExp(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<bool> reduced = ReducedAxes(context.attrs(), data.rank());
  DataType wide = SumAccumulator(data.dtype(), Count(data, reduced));
  auto element = [&](std::span<const Expr> i) { return te::Cast(wide, data(i)); };
  Tensor raw = ReduceTensor(data, reduced, true, ReduceOp::kMaximum, wide, element);
  Tensor greatest = te::ComputeTensor("greatest", wide, raw.dims(), [&](std::span<const Expr> i) {
    return te::Select(te::Unary(te::UnaryOp::kIsFinite, raw(i)), raw(i), te::Const(wide, 0));
  });
  bool keepdims = context.attrs().GetBool("keepdims");
  Tensor sum = ReduceTensor(data, reduced, keepdims, ReduceOp::kSum, wide, [&](std::span<const Expr> i) {
    return te::Unary(te::UnaryOp::kExp, element(i) - greatest(BroadcastIndices(i, greatest.dims(), data.dims())));
  });
  Tensor result = te::ComputeTensor("logsumexp", wide, sum.dims(), [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    size_t next = 0;
    for (size_t axis = 0; axis < reduced.size(); ++axis) {
      at.push_back(reduced[axis] ? te::Index(0) : i[next]);
      if (!reduced[axis] || keepdims) ++next;
    }
    return te::Unary(te::UnaryOp::kLog, sum(i)) + greatest(at);
  });
  return {CastTensor(result, data.dtype())};
}

// No element of none is the greatest or the least.
Solve ArgRelation(TypeContext& context) {
  Solve solve = ReduceRelation<Index>(context);
  if (solve != Solve::kDone) return solve;
  const Dims& dims = ir::DynCast<ir::TensorType>(context.arg(0))->shape.dims;
  std::vector<bool> searched = ReducedAxes(context.attrs(), dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (searched[i] && !context.RequireAtLeast(dims[i], 1, "the number of elements searched")) return Solve::kFailed;
  }
  return solve;
}

template <ReduceOp first, ReduceOp last>
std::vector<Tensor> ComputeArg(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  ReduceOp op = context.attrs().GetBool("select_last_index") ? last : first;
  Tensor out = ReduceTensor(data, ReducedAxes(context.attrs(), data.rank()), context.attrs().GetBool("keepdims"), op,
                            kInt64, [&](std::span<const Expr> i) { return data(i); });
  return {CastTensor(out, kInt32)};
}

template <ReduceOp op>
constexpr OpDef Reduction(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .attrs = kAttrs,
          .type_relation = ReduceRelation<Same>,
          .fusion = FusionClass::kReduction,
          .compute = ComputeReduce<op>};
}
template <ReduceOp op>
constexpr OpDef BoolReduction(std::string_view name, std::string_view summary) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .attrs = kAttrs,
          .type_relation = BoolReduceRelation,
          .fusion = FusionClass::kReduction,
          .compute = ComputeReduce<op>};
}

constexpr OpDef kOps[] = {
    WithGradient(Reduction<ReduceOp::kSum>("sum", "sum of the elements"), SumGradient),
    WithGradient(Reduction<ReduceOp::kProduct>("prod", "product of the elements"), ProdGradient),
    WithGradient(Reduction<ReduceOp::kMaximum>("max", "greatest element; NaN wins"), ExtremeOfGradient),
    WithGradient(Reduction<ReduceOp::kMinimum>("min", "least element; NaN wins"), ExtremeOfGradient),
    BoolReduction<ReduceOp::kAll>("all", "whether all elements are true"),
    BoolReduction<ReduceOp::kAny>("any", "whether any element is true"),
    {.name = "mean",
     .summary = "sum divided by the count",
     .inputs = kInputs,
     .attrs = kAttrs,
     .type_relation = ReduceRelation<Same>,
     .fusion = FusionClass::kReduction,
     .compute = ComputeMean,
     .gradient = MeanGradient},
    {.name = "variance",
     .summary = "mean square deviation from the mean",
     .inputs = kVarianceInputs,
     .attrs = kVarianceAttrs,
     .type_relation = VarianceRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeVariance,
     .gradient = VarianceGradient},
    WithGradient(Op("logsumexp", "log(sum(exp(x))) without overflow", kInputs, kAttrs, FloatReduceRelation,
                    FusionClass::kReduction, ComputeLogSumExp, kLogSumExpExamples),
                 LogSumExpGradient),
    {.name = "argmax",
     .summary = "index (int32) of the greatest element; an error if there is none",
     .inputs = kInputs,
     .attrs = kArgAttrs,
     .type_relation = ArgRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeArg<ReduceOp::kArgMax, ReduceOp::kArgMaxLast>},
    {.name = "argmin",
     .summary = "index (int32) of the least element; an error if there is none",
     .inputs = kInputs,
     .attrs = kArgAttrs,
     .type_relation = ArgRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeArg<ReduceOp::kArgMin, ReduceOp::kArgMinLast>},
};

}  // namespace

std::span<const OpDef> ReduceOps() { return kOps; }

}  // namespace rvm::ops
