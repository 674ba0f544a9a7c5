// Convolution of images in a blocked layout, such as NCHW8c: blocks of channels are the innermost axis, which suits
// vector instructions.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "images (n, c, h, w, block of channels)"},
                             {"weight", "filters (o, i, h, w, block of i, block of o)"}};
constexpr AttrSpec kAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"groups", AttrType::kInt, "1", "channels are split in as many groups"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data, as in \"NCHW8c\""},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "axes of weight, as in \"OIHW8i4o\""},
    {"out_layout", AttrType::kString, "\"\"", "axes of the result, as in \"NCHW4c\""},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};

// Returns whether `layout` consists of `outer` and then of blocks `blocks`, each an extent followed by a letter.
// Reports an error if not.
bool CheckBlocks(TypeContext& context, std::string_view attr, std::string_view outer,
                 std::initializer_list<std::pair<Dim, char>> blocks) {
  const std::string& layout = context.attrs().GetString(attr);
  bool fits = layout.starts_with(outer);
  const char *at = layout.data() + std::min(outer.size(), layout.size()), *end = layout.data() + layout.size();
  for (const auto& [extent, letter] : blocks) {
    int64_t block = 0;
    auto [rest, error] = std::from_chars(at, end, block);
    fits = fits && error == std::errc() && rest != end && *rest == letter;
    if (!fits) break;
    at = rest + 1;
    if (!context.RequireEqual(extent, block, absl::StrCat("a block of `", std::string(attr), "` and its extent")))
      return false;
  }
  if (fits && at == end) return true;
  std::string expected(outer);
  for (const auto& [extent, letter] : blocks) {
    absl::StrAppend(&expected, extent.is_const() ? extent.ToString() : "8", std::string(1, letter));
  }
  context.Fail(DiagnosticKind::kLayoutMismatch,
               absl::StrCat("`", std::string(attr), "` is \"", layout, "\"; expected one like \"", expected, "\""));
  return false;
}

Solve Relation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &data = args[0]->shape.dims, &weight = args[1]->shape.dims;
  if (args[0]->dtype.dtype != args[1]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
  if (data.size() != 5) return FailRank(context, 0, data.size(), "rank 5");
  if (weight.size() != 6) return FailRank(context, 1, weight.size(), "rank 6");
  if (!weight[2].is_const() || !weight[3].is_const() || attrs.GetInt("groups") < 1) {
    return context.Fail(DiagnosticKind::kShapeMismatch,
                        absl::StrCat("the filters have shape ", DimsToString(weight), " in ", attrs.GetInt("groups"),
                                     " groups; expected known spatial extents and 1 group or more"),
                        1);
  }
  if (!CheckBlocks(context, "data_layout", "NCHW", {{data[4], 'c'}}) ||
      !CheckBlocks(context, "kernel_layout", "OIHW", {{weight[4], 'i'}, {weight[5], 'o'}}))
    return Solve::kFailed;
  if (!attrs.GetString("out_layout").empty() && !CheckBlocks(context, "out_layout", "NCHW", {{weight[5], 'c'}}))
    return Solve::kFailed;
  std::vector<int64_t> extents = {weight[2].constant(), weight[3].constant()};
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, extents, &context);
  if (!windows) return Solve::kFailed;
  if (!attrs.IsNone("kernel_size") && PerAxis(attrs.GetInts("kernel_size"), 2) != extents) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`kernel_size` does not fit the filters of shape ", DimsToString(weight)));
  }
  if (!context.RequireEqual(data[1], weight[1] * attrs.GetInt("groups"), "blocks of channels of data and filters") ||
      !context.RequireEqual(data[4], weight[4], "channels in a block of data and filters"))
    return Solve::kFailed;
  if (!attrs.IsNone("channels") &&
      !context.RequireEqual(weight[0] * weight[5], attrs.GetInt("channels"), "`channels` and the filters"))
    return Solve::kFailed;
  Dims out = {data[0], weight[0], WindowCount(data[2], (*windows)[0]), WindowCount(data[3], (*windows)[1]), weight[5]};
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeBlocked(const ComputeContext& context) {
  const Tensor &data = context.input(0), &weight = context.input(1);
  const te::TensorSpec& out = context.output();
  const Dims& taps = weight.dims();
  std::vector<Window> windows = *MakeWindows(context.attrs(), {taps[2].constant(), taps[3].constant()}, nullptr);
  int64_t groups = context.attrs().GetInt("groups");
  DataType wide = Accumulator(out.dtype);
  Dims extents = {taps[1], taps[2], taps[3], taps[4]};
  Tensor sum =
      ReduceOver(te::ReduceOp::kSum, wide, out.dims, extents, [&](std::span<const Expr> o, std::span<const Expr> r) {
        Expr channel = r[0];
        if (groups > 1) {
          Expr per_group = te::DimValue(FloorDiv(taps[0], groups));
          channel = te::Binary(BinaryOp::kFloorDivide, o[1], per_group) * te::DimValue(taps[1]) + r[0];
        }
        std::vector<Expr> at = {o[0], channel, Expr(), Expr(), r[3]};
        Expr inside;
        for (size_t s = 0; s < 2; ++s) {
          const Window& window = windows[s];
          Expr place = o[s + 2] * te::Index(window.stride) + r[s + 1] * te::Index(window.dilation);
          at[s + 2] = place - te::Index(window.pad_before);
          if (window.pad_before == 0 && window.pad_after == 0) continue;
          Expr fits = InRange(at[s + 2], data.dims()[s + 2]);
          inside = inside ? And(inside, fits) : fits;
        }
        Expr value = te::Cast(wide, data(at));
        if (inside) value = te::Select(inside, value, te::Const(wide, 0));
        return value * te::Cast(wide, weight({o[1], r[0], r[1], r[2], r[3], o[4]}));
      });
  return {CastTensor(sum, out.dtype)};
}

constexpr OpDef kOps[] = {{.name = "nn.contrib_conv2d_NCHWc",
                           .summary = "convolution along two axes, channels in blocks",
                           .inputs = kInputs,
                           .attrs = kAttrs,
                           .type_relation = Relation,
                           .fusion = FusionClass::kContraction,
                           .compute = ComputeBlocked,
                           .gradient = BlockedConvolutionGradient}};

}  // namespace

std::span<const OpDef> BlockedConvolutionOps() { return kOps; }

}  // namespace rvm::ops
