// Annotations: operators that return their argument. The predecessor's passes used them as markers.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/identity.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"
#include "compiler/ops/virtual_device.h"

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

constexpr AttrSpec kOnDeviceAttrs[] = {
    {"virtual_device", AttrType::kString, "None",
     "`host` or `cpu`; `gpu`, `opencl`, `sim` and others: the device that the program is compiled for", true},
    {"constrain_result", AttrType::kBool, "False", "unused: values are copied when they are needed elsewhere"},
    {"constrain_body", AttrType::kBool, "True", "the operator that gives body runs there"}};
constexpr AttrSpec kDeviceCopyAttrs[] = {
    {"src_virtual_device", AttrType::kString, "None", "where the operator that gives data runs", true},
    {"dst_virtual_device", AttrType::kString, "None", "unused: values are copied when they are needed elsewhere",
     true}};
constexpr Example kOnDeviceExamples[] = {{"on_device([1f, 2f], virtual_device=\"gpu\")", "[1f, 2f]"}};
constexpr Input kBody[] = {{"body", "a tensor"}};

// The identity of a tensor, whose attributes among `names` are devices.
Solve DeviceRelation(TypeContext& context, std::span<const char* const> names) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  for (const char* name : names) {
    if (context.attrs().IsNone(name) || FindVirtualDevice(context.attrs().GetString(name)) != nullptr) continue;
    std::string known;
    for (const VirtualDevice& device : VirtualDevices()) {
      absl::StrAppend(&known, known.empty() ? "" : ", ", Abseil(device.name));
    }
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`", name, "` is \"", context.attrs().GetString(name), "\"; expected one of ",
                                     known, ", which a number may follow: \"gpu:1\""));
  }
  return context.Result(args[0]);
}

Solve OnDeviceRelation(TypeContext& context) {
  constexpr const char* kNames[] = {"virtual_device"};
  return DeviceRelation(context, kNames);
}

Solve DeviceCopyRelation(TypeContext& context) {
  constexpr const char* kNames[] = {"src_virtual_device", "dst_virtual_device"};
  return DeviceRelation(context, kNames);
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
    // Removed by the pass `place_ops`.
    WithGradient({.name = "on_device",
                  .summary = "body, given by an operator that runs on a device",
                  .inputs = kBody,
                  .attrs = kOnDeviceAttrs,
                  .type_relation = OnDeviceRelation,
                  .fusion = FusionClass::kElementwise,
                  .compute = ComputeIdentity,
                  .examples = kOnDeviceExamples},
                 IdentityGradient),
    WithGradient({.name = "device_copy",
                  .summary = "data, given by an operator that runs on a device and needed on another",
                  .inputs = kData,
                  .attrs = kDeviceCopyAttrs,
                  .type_relation = DeviceCopyRelation,
                  .fusion = FusionClass::kElementwise,
                  .compute = ComputeIdentity},
                 IdentityGradient),
    {.name = "relay.op.annotation.simulated_quantize",
     .summary = "data rounded to steps of dom_scale, clipped",
     .inputs = kSimulatedInputs,
     .attrs = kSimulatedAttrs,
     .type_relation = SimulatedRelation,
     .fusion = FusionClass::kBroadcast,
     .compute = ComputeSimulated,
     .gradient = SimulatedRoundingGradient},
};

}  // namespace

std::span<const OpDef> AnnotationOps() { return kOps; }

}  // namespace rvm::ops
