// Padding with widths that are attributes or run-time values.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families.h"
#include "compiler/ops/gradient_rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"
#include "compiler/ops/window.h"

namespace rvm::ops {
namespace {

constexpr Input kPadInputs[] = {{"data", "a tensor"}, {"pad_value", "a scalar"}};
constexpr Input kDynamicPadInputs[] = {{"data", "a tensor"},
                                       {.name = "pad_width",
                                        .doc = "an integer matrix, for each axis [before, after]; negative crops",
                                        .decides_shape = true},
                                       {"pad_value", "a scalar"}};
constexpr Input kMirrorInputs[] = {{"data", "a tensor"}};
constexpr AttrSpec kMirrorAttrs[] = {
    {"mode", AttrType::kString, "\"SYMMETRIC\"", "\"SYMMETRIC\" repeats the edge, \"REFLECT\" does not"},
    {"pad_width", AttrType::kAny, "", "for each axis [before, after]"}};
constexpr AttrSpec kPadMode = {"pad_mode", AttrType::kString, "\"constant\"",
                               "\"constant\", \"edge\", \"reflect\" or \"wrap\""};
constexpr AttrSpec kPadAttrs[] = {{"pad_width", AttrType::kAny, "", "for each axis [before, after]; negative crops"},
                                  kPadMode};
constexpr AttrSpec kDynamicPadAttrs[] = {{"pad_width", AttrType::kAny, "None", "unused, for compatibility", true},
                                         kPadMode};

constexpr std::string_view kPaddedExtent = "an extent with `pad_width`, which crops where it is negative,";

Solve CheckMode(TypeContext& context) {
  const std::string& mode = context.attrs().GetString("pad_mode");
  if (mode == "constant" || mode == "edge" || mode == "reflect" || mode == "wrap") return Solve::kDone;
  return context.Fail(DiagnosticKind::kBadAttribute,
                      absl::StrCat("`pad_mode` is \"", mode, "\"; expected constant, edge, reflect or wrap"));
}

constexpr Example kPadExamples[] = {
    {"nn.pad([1, 2, 3], 0, pad_width=[[2, -1]])", "[0, 0, 1, 2]"},
    {"nn.pad([1, 2, 3], 0, pad_width=[[4, 1]], pad_mode=\"wrap\")", "[3, 1, 2, 3, 1, 2, 3, 1]"}};

Solve PadRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  if (!args[1]->shape.dims.empty()) return FailRank(context, 1, args[1]->shape.dims.size(), "a scalar");
  auto widths = PadWidths(context.attrs(), "pad_width", out.size(), true);
  if (!widths) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`pad_width` does not fit rank ", out.size(),
                                                                    "; expected a pair [before, after] per axis"));
  }
  if (Solve solve = CheckMode(context); solve != Solve::kDone) return solve;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = out[i] + ((*widths)[i].first + (*widths)[i].second);
    bool crops = (*widths)[i].first < 0 || (*widths)[i].second < 0;
    if (crops && !context.RequireAtLeast(out[i], 0, kPaddedExtent)) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

Solve DynamicPadRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  if (!args[2]->shape.dims.empty()) return FailRank(context, 2, args[2]->shape.dims.size(), "a scalar");
  Dims widths;
  if (!ValueDims(context, 1, 2, widths)) return Solve::kFailed;
  if (widths.size() != 2 * out.size() || args[1]->shape.dims[1] != Dim(2)) {
    return context.Fail(
        DiagnosticKind::kShapeMismatch,
        absl::StrCat("`pad_width` has shape ", DimsToString(args[1]->shape.dims), "; expected (", out.size(), ", 2)"),
        1);
  }
  if (Solve solve = CheckMode(context); solve != Solve::kDone) return solve;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = out[i] + widths[2 * i] + widths[2 * i + 1];
    if (!context.RequireAtLeast(out[i], 0, kPaddedExtent)) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// before(axis): the width of the padding before the data; null if the axis is not padded.
std::vector<Tensor> Pad(const ComputeContext& context, const Tensor& fill,
                        const std::function<Expr(size_t axis)>& before) {
  const Tensor& data = context.input(0);
  const std::string& mode = context.attrs().GetString("pad_mode");
  return {te::ComputeTensor("pad", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    Expr inside;
    for (size_t axis = 0; axis < i.size(); ++axis) {
      const Dim& extent = data.dims()[axis];
      Expr start = before(axis);
      if (!start) {
        at.push_back(i[axis]);
        continue;
      }
      Expr index = i[axis] - start;
      if (mode == "constant") {
        inside = inside ? And(inside, InRange(index, extent)) : InRange(index, extent);
      } else if (mode == "reflect") {
        index = Mirrored(index, extent, 0);
      } else if (mode == "wrap") {
        index = te::Binary(te::BinaryOp::kFloorMod, index, te::DimValue(extent));
      } else {
        index = Clamp(index, extent);
      }
      at.push_back(index);
    }
    Expr value = data(at);
    if (mode != "constant") return UnlessEmpty(Volume(data.dims()), value);
    return inside ? te::Select(inside, value, te::Cast(data.dtype(), fill({}))) : value;
  })};
}

std::vector<Tensor> ComputePad(const ComputeContext& context) {
  auto widths = *PadWidths(context.attrs(), "pad_width", context.input(0).rank(), true);
  return Pad(context, context.input(1), [&](size_t axis) {
    bool is_padded = widths[axis].first != 0 || widths[axis].second != 0;
    return is_padded ? te::Index(widths[axis].first) : Expr();
  });
}

std::vector<Tensor> ComputeDynamicPad(const ComputeContext& context) {
  const Tensor& widths = context.input(1);
  return Pad(context, context.input(2), [&](size_t axis) {
    return te::Cast(kInt64, widths({te::Index(static_cast<int64_t>(axis)), te::Index(0)}));
  });
}

Solve MirrorPadRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  auto widths = PadWidths(context.attrs(), "pad_width", out.size());
  const std::string& mode = context.attrs().GetString("mode");
  if (!widths || (mode != "SYMMETRIC" && mode != "REFLECT")) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`pad_width` and `mode` \"", mode, "\" do not fit rank ", out.size(),
                                     "; expected a pair [before, after] per axis, and \"SYMMETRIC\" or \"REFLECT\""));
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = out[i] + ((*widths)[i].first + (*widths)[i].second);
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeMirrorPad(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  auto widths = *PadWidths(context.attrs(), "pad_width", data.rank());
  int64_t edge = context.attrs().GetString("mode") == "SYMMETRIC" ? 1 : 0;
  return {te::ComputeTensor("mirror_pad", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    Dim volume = 1;
    for (size_t axis = 0; axis < i.size(); ++axis) {
      auto [before, after] = widths[axis];
      if (before == 0 && after == 0) continue;
      const Dim& extent = data.dims()[axis];
      at[axis] = Mirrored(i[axis] - te::Index(before), extent, edge);
      volume = volume * extent;
    }
    return UnlessEmpty(volume, data(at));
  })};
}

constexpr OpDef kOps[] = {
    {.name = "nn.pad",
     .summary = "data with a border, or cropped",
     .inputs = kPadInputs,
     .attrs = kPadAttrs,
     .type_relation = PadRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputePad,
     .examples = kPadExamples,
     .gradient = PadGradient},
    {.name = "dyn.nn.pad",
     .summary = "data with a border, or cropped",
     .inputs = kDynamicPadInputs,
     .attrs = kDynamicPadAttrs,
     .type_relation = DynamicPadRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeDynamicPad,
     .gradient = DynPadGradient},
    WithGradient(Op("nn.mirror_pad", "data with a border that mirrors it; no wider than data itself", kMirrorInputs,
                    kMirrorAttrs, MirrorPadRelation, FusionClass::kInjective, ComputeMirrorPad),
                 MoveGradient),
};

}  // namespace

std::span<const OpDef> PadOps() { return kOps; }

}  // namespace rvm::ops
