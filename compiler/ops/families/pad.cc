// Padding with widths that are attributes or run-time values.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

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
constexpr AttrSpec kPadMode = {
    "pad_mode", AttrType::kString, "\"constant\"",
    "\"constant\", \"edge\", \"reflect\", narrower than data, or \"wrap\", by what is not cropped"};
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

// Requires that the data have what a border of `before` and `after` elements is made of: for "reflect" the extent is
// above both; for "wrap" not all elements are cropped; for "edge" there is an element.
bool RequireSource(TypeContext& context, const Dim& extent, const Dim& before, const Dim& after) {
  const std::string& mode = context.attrs().GetString("pad_mode");
  Dim widest = Max(Max(before, after), 0), has_border = Min(widest, 1);
  if (mode == "constant" || widest == Dim(0)) return true;
  if (mode == "reflect")
    return context.RequireAtLeast(extent, widest + has_border,
                                  "the extent, and the least that its mirrored border needs");
  Dim cropped = mode == "wrap" ? Min(before, 0) + Min(after, 0) : Dim(0);
  return context.RequireAtLeast(extent + cropped, has_border, "the number of elements that `pad_width` repeats");
}

constexpr Example kPadExamples[] = {
    {"nn.pad([1, 2, 3], 0, pad_width=[[2, -1]])", "[0, 0, 1, 2]"},
    {"nn.pad([1, 2, 3], 0, pad_width=[[4, 1]], pad_mode=\"wrap\")", "[3, 1, 2, 3, 1, 2, 3, 1]"},
    {"nn.pad([1, 2, 3], 0, pad_width=[[-1, 3]], pad_mode=\"wrap\")", "[2, 3, 2, 3, 2]"}};

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
    if (!RequireSource(context, args[0]->shape.dims[i], (*widths)[i].first, (*widths)[i].second)) return Solve::kFailed;
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
    if (!RequireSource(context, args[0]->shape.dims[i], widths[2 * i], widths[2 * i + 1])) return Solve::kFailed;
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// The border of an axis.
struct Border {
  Expr before;                         // its width before the data; null if the axis is neither padded nor cropped
  Expr cropped_before, cropped_after;  // how many elements are cropped; null if none
};

// Returns the element at `index` modulo those that are not cropped.
Expr Wrapped(Expr index, const Dim& extent, const Border& border) {
  Expr count = te::DimValue(extent);
  if (border.cropped_after) count = count - border.cropped_after;
  if (!border.cropped_before) return te::Binary(te::BinaryOp::kFloorMod, index, count);
  index = te::Binary(te::BinaryOp::kFloorMod, index - border.cropped_before, count - border.cropped_before);
  return index + border.cropped_before;
}

std::vector<Tensor> Pad(const ComputeContext& context, const Tensor& fill,
                        const std::function<Border(size_t axis)>& border_of) {
  const Tensor& data = context.input(0);
  const std::string& mode = context.attrs().GetString("pad_mode");
  return {te::ComputeTensor("pad", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    Expr inside;
    for (size_t axis = 0; axis < i.size(); ++axis) {
      const Dim& extent = data.dims()[axis];
      Border border = border_of(axis);
      if (!border.before) {
        at.push_back(i[axis]);
        continue;
      }
      Expr index = i[axis] - border.before;
      if (mode == "constant") {
        inside = inside ? And(inside, InRange(index, extent)) : InRange(index, extent);
      } else if (mode == "reflect") {
        index = Mirrored(index, extent, 0);
      } else if (mode == "wrap") {
        index = Wrapped(index, extent, border);
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
    auto [before, after] = widths[axis];
    Border border;
    if (before != 0 || after != 0) border.before = te::Index(before);
    if (before < 0) border.cropped_before = te::Index(-before);
    if (after < 0) border.cropped_after = te::Index(-after);
    return border;
  });
}

std::vector<Tensor> ComputeDynamicPad(const ComputeContext& context) {
  const Tensor& widths = context.input(1);
  return Pad(context, context.input(2), [&](size_t axis) {
    Expr zero = te::Index(0);
    auto width = [&](int64_t end) {
      return te::Cast(kInt64, widths({te::Index(static_cast<int64_t>(axis)), te::Index(end)}));
    };
    auto cropped = [&](int64_t end) { return te::Binary(te::BinaryOp::kMaximum, zero - width(end), zero); };
    return Border{width(0), cropped(0), cropped(1)};
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
  for (size_t i = 0; i < out.size(); ++i) {
    auto [before, after] = (*widths)[i];
    int64_t widest = std::max(before, after), least = mode == "REFLECT" && widest > 0 ? widest + 1 : widest;
    if (!context.RequireAtLeast(out[i], least, "the extent, and the least that its mirrored border needs"))
      return Solve::kFailed;
    out[i] = out[i] + (before + after);
  }
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
    WithGradient(Op("nn.mirror_pad", "data with a border that mirrors it; an error if it is wider than data",
                    kMirrorInputs, kMirrorAttrs, MirrorPadRelation, FusionClass::kInjective, ComputeMirrorPad),
                 MoveGradient),
};

}  // namespace

std::span<const OpDef> PadOps() { return kOps; }

}  // namespace rvm::ops
