// Annotations: operators that return their argument. The predecessor's passes used them as markers.
#include <span>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kData[] = {{"data", "a tensor"}};
constexpr Input kSimulatedInputs[] = {{"data", "a floating-point tensor"},
                                      {"dom_scale", "the step, a scalar"},
                                      {"clip_min", "least number of steps, a scalar"},
                                      {"clip_max", "greatest number of steps, a scalar"}};
constexpr AttrSpec kHintAttrs[] = {{"dtype", AttrType::kDType, "", "what the tensor may be cast to"}};
constexpr AttrSpec kCompilerAttrs[] = {{"compiler", AttrType::kString, "", "the name of a back-end"}};
constexpr AttrSpec kSimulatedAttrs[] = {
    {"kind", AttrType::kInt, "", "0: the identity"},
    {"sign", AttrType::kBool, "True", "unused, for compatibility"},
    {"rounding", AttrType::kString, "\"round\"", "only \"round\": halves away from 0"}};

std::vector<Tensor> ComputeIdentity(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {te::ComputeTensor("copy", data.dtype(), data.dims(), [&](std::span<const Expr> i) { return data(i); })};
}

Solve SimulatedRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  for (int i = 1; i < 4; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (!arg.shape.dims.empty()) return FailRank(context, i, arg.shape.dims.size(), "a scalar");
    if (arg.dtype.dtype != args[0]->dtype.dtype) return FailOtherDType(context, i, arg.dtype.dtype, "that of `data`");
  }
  if (context.attrs().GetString("rounding") != "round") {
    return context.Fail(
        DiagnosticKind::kBadAttribute,
        absl::StrCat("`rounding` is \"", context.attrs().GetString("rounding"), "\"; expected \"round\""));
  }
  return context.Result(args[0]);
}

std::vector<Tensor> ComputeSimulated(const ComputeContext& context) {
  if (context.attrs().GetInt("kind") == 0) return ComputeIdentity(context);
  const Tensor& data = context.input(0);
  DataType wide = Accumulator(data.dtype());
  auto scalar = [&](size_t input) { return te::Cast(wide, context.input(input)({})); };
  Tensor result = te::ComputeTensor("simulated_quantize", wide, data.dims(), [&](std::span<const Expr> i) {
    Expr steps = te::Binary(BinaryOp::kDivide, te::Cast(wide, data(i)), scalar(1));
    steps = te::Binary(BinaryOp::kMaximum, te::Binary(BinaryOp::kMinimum, steps, scalar(3)), scalar(2));
    return RoundHalfAway(steps) * scalar(1);
  });
  return {CastTensor(result, data.dtype())};
}

constexpr OpDef Mark(std::string_view name, std::string_view summary, std::span<const AttrSpec> attrs,
                     FusionClass fusion) {
  return {.name = name,
          .summary = summary,
          .inputs = kData,
          .attrs = attrs,
          .type_relation = IdentityRelation,
          .fusion = fusion,
          .compute = ComputeIdentity};
}

constexpr OpDef kOps[] = {
    WithGradient(Mark("annotation.checkpoint", "data; gradients recompute it instead of storing it", {},
                      FusionClass::kElementwise),
                 IdentityGradient),
    WithGradient(
        Mark("debug", "data, computed by a separate kernel, so that it can be inspected", {}, FusionClass::kOpaque),
        IdentityGradient),
    WithGradient(Mark("annotation.stop_fusion", "data, computed by a separate kernel", {}, FusionClass::kOpaque),
                 IdentityGradient),
    WithGradient(Mark("annotation.cast_hint", "data, which may be cast", kHintAttrs, FusionClass::kElementwise),
                 IdentityGradient),
    WithGradient(Mark("annotation.compiler_begin", "data, where a part for another back-end begins", kCompilerAttrs,
                      FusionClass::kElementwise),
                 IdentityGradient),
    WithGradient(Mark("annotation.compiler_end", "data, where a part for another back-end ends", kCompilerAttrs,
                      FusionClass::kElementwise),
                 IdentityGradient),
    {.name = "relay.op.annotation.simulated_quantize",
     .summary = "data rounded to steps of dom_scale, clipped",
     .inputs = kSimulatedInputs,
     .attrs = kSimulatedAttrs,
     .type_relation = SimulatedRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeSimulated},
};

}  // namespace

std::span<const OpDef> AnnotationOps() { return kOps; }

}  // namespace rvm::ops
