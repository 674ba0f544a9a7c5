// Losses and dropout.
#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kDropoutInputs[] = {{"data", "a tensor"}};
constexpr Input kEntropyInputs[] = {{"predictions", "a matrix (n, classes)"}, {"targets", "a matrix (n, classes)"}};
constexpr Input kNllInputs[] = {{"predictions", "log-probabilities (n, classes, ...)"},
                                {"targets", "class indices (n, ...)"},
                                {"weights", "a weight per class"}};
constexpr AttrSpec kDropoutAttrs[] = {{"rate", AttrType::kFloat, "0.5f", "unused at inference"}};
constexpr AttrSpec kNllAttrs[] = {{"reduction", AttrType::kString, "\"mean\"", "\"mean\", \"sum\" or \"none\""},
                                  {"ignore_index", AttrType::kInt, "-100", "targets of this value do not count"}};

Solve DropoutRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  return context.Result(
      context.arena().New<ir::TupleType>(std::vector<const ir::Type*>{context.arg(0), context.arg(0)}));
}

// Returns the identity: elements are dropped only in training.
std::vector<Tensor> ComputeDropout(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Tensor copy = te::ComputeTensor("copy", data.dtype(), data.dims(), [&](std::span<const Expr> i) { return data(i); });
  Tensor mask = te::ComputeTensor("mask", data.dtype(), data.dims(),
                                  [&](std::span<const Expr>) { return te::Const(data.dtype(), 1); });
  return {copy, mask};
}

Solve CrossEntropyRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (int i = 0; i < 2; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.shape.dims.size() != 2) return FailRank(context, i, arg.shape.dims.size(), "2");
    if (!arg.dtype.dtype.is_float() || arg.dtype.dtype != args[0]->dtype.dtype) {
      return FailDType(context, i, arg.dtype.dtype, "equal floating-point dtypes");
    }
  }
  for (size_t axis = 0; axis < 2; ++axis) {
    if (!context.RequireEqual(args[0]->shape.dims[axis], args[1]->shape.dims[axis],
                              "extents of predictions and targets"))
      return Solve::kFailed;
  }
  return ResultTensor(context, {}, args[0]->dtype.dtype);
}

// with_logits: the predictions are logarithms.
template <bool with_logits>
std::vector<Tensor> ComputeCrossEntropy(const ComputeContext& context) {
  const Tensor &predictions = context.input(0), &targets = context.input(1);
  DataType wide = Accumulator(predictions.dtype());
  Tensor sum =
      ReduceOver(ReduceOp::kSum, wide, {}, predictions.dims(), [&](std::span<const Expr>, std::span<const Expr> r) {
        Expr value = te::Cast(wide, predictions(r));
        if (!with_logits) value = te::Unary(te::UnaryOp::kLog, value);
        return value * te::Cast(wide, targets(r));
      });
  Tensor loss = te::ComputeTensor("loss", wide, {}, [&](std::span<const Expr>) {
    Expr mean = te::Binary(BinaryOp::kDivide, sum({}), te::Cast(wide, te::DimValue(predictions.dims()[0])));
    return te::Unary(te::UnaryOp::kNegative, mean);
  });
  return {CastTensor(loss, predictions.dtype())};
}

Solve NllRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &predictions = args[0]->shape.dims, &targets = args[1]->shape.dims, &weights = args[2]->shape.dims;
  if (predictions.size() < 2) return FailRank(context, 0, predictions.size(), "2 or more");
  if (targets.size() + 1 != predictions.size())
    return FailRank(context, 1, targets.size(), absl::StrCat(predictions.size() - 1));
  if (weights.size() != 1) return FailRank(context, 2, weights.size(), "1");
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  if (!args[1]->dtype.dtype.is_integral() || args[1]->dtype.dtype.is_bool())
    return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `predictions`");
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!context.RequireEqual(predictions[i == 0 ? 0 : i + 1], targets[i], "extents of predictions and targets"))
      return Solve::kFailed;
  }
  if (!context.RequireEqual(predictions[1], weights[0], "classes of predictions and weights")) return Solve::kFailed;
  const std::string& reduction = context.attrs().GetString("reduction");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`reduction` is \"", reduction, "\"; expected mean, sum or none"));
  }
  return ResultTensor(context, reduction == "none" ? targets : Dims{}, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeNll(const ComputeContext& context) {
  const Tensor &predictions = context.input(0), &targets = context.input(1), &weights = context.input(2);
  DataType dtype = predictions.dtype(), wide = Accumulator(dtype);
  const Dim& classes = weights.dims()[0];
  // The weight of a target (0 if it is ignored), and its loss.
  auto weight = [&](std::span<const Expr> t) {
    Expr target = te::Cast(kInt64, targets(t));
    Expr counts = te::Binary(BinaryOp::kNotEqual, target, te::Index(context.attrs().GetInt("ignore_index")));
    return te::Select(And(counts, InRange(target, classes)), te::Cast(wide, weights({target})), te::Const(wide, 0));
  };
  auto loss = [&](std::span<const Expr> t) {
    std::vector<Expr> at(t.begin(), t.end());
    at.insert(at.begin() + 1, Clamp(te::Cast(kInt64, targets(t)), classes));
    return te::Unary(te::UnaryOp::kNegative, UnlessEmpty(classes, te::Cast(wide, predictions(at))) * weight(t));
  };
  const std::string& reduction = context.attrs().GetString("reduction");
  if (reduction == "none") {
    return {CastTensor(te::ComputeTensor("nll", wide, targets.dims(), [&](std::span<const Expr> t) { return loss(t); }),
                       dtype)};
  }
  auto total = [&](const std::function<Expr(std::span<const Expr>)>& f) {
    return ReduceOver(ReduceOp::kSum, wide, {}, targets.dims(),
                      [&](std::span<const Expr>, std::span<const Expr> r) { return f(r); });
  };
  Tensor sum = total(loss);
  if (reduction == "sum") return {CastTensor(sum, dtype)};
  Tensor weight_sum = total(weight);
  return {CastTensor(
      te::ComputeTensor("nll", wide, {},
                        [&](std::span<const Expr>) { return te::Binary(BinaryOp::kDivide, sum({}), weight_sum({})); }),
      dtype)};
}

constexpr OpDef kOps[] = {
    {.name = "nn.dropout",
     .summary = "data as it is, and a mask of ones",
     .inputs = kDropoutInputs,
     .attrs = kDropoutAttrs,
     .type_relation = DropoutRelation,
     .fusion = FusionClass::kElementwise,
     .compute = ComputeDropout,
     .gradient = DropoutGradient},
    {.name = "nn.cross_entropy",
     .summary = "-sum(targets * log(predictions)) / n",
     .inputs = kEntropyInputs,
     .type_relation = CrossEntropyRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeCrossEntropy<false>,
     .gradient = CrossEntropyGradient},
    {.name = "nn.cross_entropy_with_logits",
     .summary = "-sum(targets * predictions) / n",
     .inputs = kEntropyInputs,
     .type_relation = CrossEntropyRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeCrossEntropy<true>,
     .gradient = CrossEntropyWithLogitsGradient},
    {.name = "nn.nll_loss",
     .summary = "weighted negative log-likelihood of target classes",
     .inputs = kNllInputs,
     .attrs = kNllAttrs,
     .type_relation = NllRelation,
     .fusion = FusionClass::kOpaque,
     .compute = ComputeNll,
     .gradient = NllLossGradient},
};

}  // namespace

std::span<const OpDef> LossOps() { return kOps; }

}  // namespace rvm::ops
