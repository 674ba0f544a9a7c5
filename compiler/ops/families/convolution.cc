// Convolutions and dilation, for any number of spatial axes and any order of axes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/families/blocked_layout.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kInputs[] = {{"data", "a batch of images"},
                             {"weight", "the filters; (C, M, ...) if each of C groups is one channel"}};
constexpr Input kDilateInputs[] = {{"data", "a tensor"}};

constexpr std::string_view kZerosAround = "zeros around each axis: one number, one per axis, or befores then afters";
constexpr std::string_view kCutAround =
    "elements of the result cut off around each axis, or added if negative: one number, one per axis, or befores then "
    "afters";

#define RVM_CONV_ATTRS(ones, zeros, data_layout, kernel_layout) \
  RVM_PADDED_ATTRS(ones, zeros, data_layout, kernel_layout, kZerosAround)
#define RVM_PADDED_ATTRS(ones, zeros, data_layout, kernel_layout, padding)                                 \
  {"strides", AttrType::kInts, ones, "step of the windows"}, {"padding", AttrType::kInts, zeros, padding}, \
      {"dilation", AttrType::kInts, ones, "distance of the taps"},                                         \
      {"groups", AttrType::kInt, "1", "channels are split in as many groups"},                             \
      {"channels", AttrType::kInt, "None", "output channels, checked", true},                              \
      {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},                   \
      {"data_layout", AttrType::kString, data_layout, "axes of data"},                                     \
      {"kernel_layout", AttrType::kString, kernel_layout, "axes of weight"},                               \
      {"out_layout", AttrType::kString, "\"\"", "axes of the result (those of data)"},                     \
      {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}

constexpr AttrSpec kConv1dAttrs[] = {RVM_CONV_ATTRS("[1]", "[0]", "\"NCW\"", "\"OIW\"")};
constexpr AttrSpec kConv2dAttrs[] = {RVM_CONV_ATTRS("[1, 1]", "[0, 0]", "\"NCHW\"", "\"OIHW\"")};
constexpr AttrSpec kConv3dAttrs[] = {RVM_CONV_ATTRS("[1, 1, 1]", "[0, 0, 0]", "\"NCDHW\"", "\"OIDHW\"")};
constexpr AttrSpec kTranspose1dAttrs[] = {RVM_PADDED_ATTRS("[1]", "[0]", "\"NCW\"", "\"IOW\"", kCutAround),
                                          {"output_padding", AttrType::kInts, "[0]", "added to the result's extents"}};
constexpr AttrSpec kTranspose2dAttrs[] = {
    RVM_PADDED_ATTRS("[1, 1]", "[0, 0]", "\"NCHW\"", "\"IOHW\"", kCutAround),
    {"output_padding", AttrType::kInts, "[0, 0]", "added to the result's extents"}};
constexpr AttrSpec kTranspose3dAttrs[] = {
    RVM_PADDED_ATTRS("[1, 1, 1]", "[0, 0, 0]", "\"NCDHW\"", "\"IODHW\"", kCutAround),
    {"output_padding", AttrType::kInts, "[0, 0, 0]", "added to the result's extents"}};
#undef RVM_CONV_ATTRS
#undef RVM_PADDED_ATTRS
constexpr AttrSpec kDilateAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "distance of the elements, one per axis"},
    {"dilation_value", AttrType::kFloat, "0", "the value of the elements in the gaps"}};

std::string SpatialLetters(size_t rank) { return rank == 3 ? "W" : rank == 4 ? "HW" : "DHW"; }

struct Convolution {
  Layout data, kernel, out;
  std::vector<Window> windows;
  int64_t groups;
};

// Returns the attributes that determine shapes. If they do not fit, reports an error to `context` if given, and returns
// nullopt.
std::optional<Convolution> Describe(const ir::Attrs& attrs, const Dims& weight, TypeContext* context, bool transposed) {
  std::string out_layout =
      attrs.GetString("out_layout").empty() ? attrs.GetString("data_layout") : attrs.GetString("out_layout");
  if (context != nullptr) {
    std::string letters = SpatialLetters(weight.size());
    if (!CheckLayout(*context, attrs.GetString("data_layout"), "NC" + letters, "data_layout") ||
        !CheckLayout(*context, attrs.GetString("kernel_layout"), "OI" + letters, "kernel_layout") ||
        !CheckLayout(*context, out_layout, "NC" + letters, "out_layout")) {
      return std::nullopt;
    }
  }
  Convolution conv{Layout(attrs.GetString("data_layout")),
                   Layout(attrs.GetString("kernel_layout")),
                   Layout(out_layout),
                   {},
                   attrs.GetInt("groups")};
  std::vector<int64_t> extents;
  for (size_t axis : conv.kernel.spatial) {
    if (!weight[axis].is_const()) {
      if (context != nullptr) {
        context->Fail(DiagnosticKind::kShapeMismatch,
                      absl::StrCat("the filters have shape ", DimsToString(weight), "; expected known spatial extents"),
                      1);
      }
      return std::nullopt;
    }
    extents.push_back(weight[axis].constant());
  }
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, extents, context, /*may_be_negative=*/transposed);
  if (!windows) return std::nullopt;
  conv.windows = *std::move(windows);
  bool kernel_size_fits =
      attrs.IsNone("kernel_size") || PerAxis(attrs.GetInts("kernel_size"), extents.size()) == extents;
  if (context != nullptr && (!kernel_size_fits || conv.groups < 1)) {
    context->Fail(DiagnosticKind::kBadAttribute,
                  conv.groups < 1
                      ? "`groups` is below 1"
                      : absl::StrCat("`kernel_size` does not fit the filters of shape ", DimsToString(weight)));
    return std::nullopt;
  }
  return conv;
}

// Returns whether `weight` is (C, M, ...), an alternative form of the filters (C * M, 1, ...) of a depthwise
// convolution with C groups and M output channels per input channel.
bool IsDepthwise(const Convolution& conv, const Dims& data, const Dims& weight) {
  Dim groups = conv.groups;
  return conv.groups > 1 && data[conv.data.axis('C')] == groups && weight[conv.kernel.axis('O')] == groups &&
         weight[conv.kernel.axis('I')] != Dim(1);
}

// Returns the name of the operator, by the axes of space of its data.
std::string NameOf(const ir::Attrs& attrs, bool transposed) {
  return absl::StrCat("nn.conv", Layout(attrs.GetString("data_layout")).spatial.size(), "d",
                      transposed ? "_transpose" : "");
}

// If `transposed`, weight is (I, O / groups, ...), and each input element is added to the window of outputs that a
// convolution would read.
template <bool transposed>
Solve ConvolutionRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (HasBlockedLayout(context.attrs())) return BlockedLayoutRelation(context, NameOf(context.attrs(), transposed));
  const Dims &data = args[0]->shape.dims, &weight = args[1]->shape.dims;
  if (!RequireFactors(context, args[0]->dtype.dtype, args[1]->dtype.dtype)) return Solve::kFailed;
  size_t rank = context.attrs().GetString("data_layout").size();
  if (data.size() != rank) return FailRank(context, 0, data.size(), absl::StrCat("rank ", rank));
  if (weight.size() != rank) return FailRank(context, 1, weight.size(), absl::StrCat("rank ", rank));
  std::optional<Convolution> conv = Describe(context.attrs(), weight, &context, transposed);
  if (!conv) return Solve::kFailed;
  Dim per_group = weight[conv->kernel.axis(transposed ? 'O' : 'I')];
  Dim inputs = transposed ? weight[conv->kernel.axis('I')] : per_group * conv->groups;
  Dim outputs = transposed ? per_group * conv->groups : weight[conv->kernel.axis('O')];
  if (!transposed && IsDepthwise(*conv, data, weight)) {
    inputs = weight[conv->kernel.axis('O')];
    outputs = per_group * conv->groups;
  }
  if (!context.RequireEqual(data[conv->data.axis('C')], inputs, "channels of data and filters")) return Solve::kFailed;
  if (!context.attrs().IsNone("channels") &&
      !context.RequireEqual(outputs, context.attrs().GetInt("channels"), "`channels` and the filters"))
    return Solve::kFailed;
  Dims out(rank);
  out[conv->out.axis('N')] = data[conv->data.axis('N')];
  out[conv->out.axis('C')] = outputs;
  std::vector<int64_t> extra(conv->windows.size(), 0);
  if (transposed) extra = PerAxis(context.attrs().GetInts("output_padding"), extra.size());
  for (size_t s = 0; s < conv->windows.size(); ++s) {
    const Window& window = conv->windows[s];
    const Dim& extent = data[conv->data.spatial[s]];
    out[conv->out.spatial[s]] =
        transposed ? ClampedToNatural(extent * window.stride +
                                      (window.span() - window.stride + extra[s] - window.pad_before - window.pad_after))
                   : WindowCount(extent, window);
  }
  return ResultTensor(context, out, DTypeAttr(context.attrs(), "out_dtype", args[0]->dtype.dtype));
}

// One axis of a transposed convolution by phases: position q * stride + p of the sums takes the taps j * stride + p of
// the filter, at position q - j of the data, so that no zeros between elements are multiplied. The sums are those of
// the output with the padding that is cut off, without the multiples of the stride before `first`.
struct Phases {
  bool apart = false;  // false: the positions of the output, which read elements at multiples of the stride only
  int64_t stride = 1;
  Dim extent;         // of the sums
  int64_t taps = 1;   // per phase; those beyond the filter are zero
  int64_t first = 0;  // q of the first sums
  int64_t cut = 0;    // sums before the output
};

Phases PhasesOf(const Window& window, const Dim& extent, const Dim& out, int64_t extra) {
  // One element never meets another, as if the stride were larger.
  int64_t stride = extent == Dim(1) ? std::max(window.stride, window.extent) : window.stride;
  Phases phases{.stride = stride, .extent = out, .taps = window.extent};
  // Taps at a distance visit the phases in another order.
  if (stride == 1 || window.dilation != 1) return phases;
  auto blocks = [&](int64_t count) { return (count + stride - 1) / stride; };
  int64_t last = window.extent + extra - window.pad_after;  // sums needed behind the last multiple of the stride
  if (last < 1) return phases;
  phases.apart = true;
  phases.taps = blocks(window.extent);
  // Rounded down: padding below 0 adds sums before those of the first element.
  phases.first = window.pad_before >= 0 ? window.pad_before / stride : -blocks(-window.pad_before);
  phases.cut = window.pad_before - phases.first * stride;
  phases.extent = ClampedToNatural(extent + (blocks(last) - 1 - phases.first)) * stride;
  return phases;
}

// Returns the part `out` of `sums`, which may begin before it and reach beyond it.
Tensor CutPhases(const Tensor& sums, const std::vector<size_t>& axes, const std::vector<Phases>& phases,
                 const Dims& out) {
  bool same = true;
  for (size_t i = 0; i < out.size(); ++i) {
    same = same && CompareDims(sums.dims()[i], out[i]) == DimEquality::kEqual;
  }
  for (const Phases& axis : phases) same = same && axis.cut == 0;
  if (same) return sums;
  return te::ComputeTensor("cut", sums.dtype(), out, [&](std::span<const Expr> o) {
    std::vector<Expr> at(o.begin(), o.end());
    for (size_t s = 0; s < axes.size(); ++s) at[axes[s]] = at[axes[s]] + te::Index(phases[s].cut);
    return sums(at);
  });
}

template <bool transposed>
std::vector<Tensor> ComputeConvolution(const ComputeContext& context) {
  if (HasBlockedLayout(context.attrs())) return ComputeBlockedLayout(context, NameOf(context.attrs(), transposed));
  const Tensor &data = context.input(0), &weight = context.input(1);
  const te::TensorSpec& out = context.output();
  Convolution conv = *Describe(context.attrs(), weight.dims(), nullptr, transposed);
  DataType wide = Accumulator(out.dtype);
  bool is_depthwise = !transposed && IsDepthwise(conv, data.dims(), weight.dims());
  Dims extents;  // the channels of a group, then the extents of the filters; or these before the channels
  Dim in_channels = is_depthwise ? Dim(1) : weight.dims()[conv.kernel.axis('I')];
  if (transposed) in_channels = FloorDiv(in_channels, conv.groups);
  Dim out_channels = FloorDiv(out.dims[conv.out.axis('C')], conv.groups);
  extents.push_back(in_channels);
  for (const Window& window : conv.windows) extents.push_back(window.extent);
  Dims dims = out.dims;
  std::vector<Phases> phases;
  if (transposed) {
    std::vector<int64_t> extra = PerAxis(context.attrs().GetInts("output_padding"), conv.windows.size());
    for (size_t s = 0; s < conv.windows.size(); ++s) {
      Dim& extent = dims[conv.out.spatial[s]];
      phases.push_back(PhasesOf(conv.windows[s], data.dims()[conv.data.spatial[s]], extent, extra[s]));
      extent = phases[s].extent;
      extents[s + 1] = phases[s].taps;
    }
  }
  // Sums up innermost what lies side by side: else the taps would compete for the cache, channel by channel.
  const bool has_channels_last = !transposed && conv.data.axis('C') + 1 == data.rank();
  if (has_channels_last) std::rotate(extents.begin(), extents.begin() + 1, extents.end());
  Tensor sum =
      ReduceOver(te::ReduceOp::kSum, wide, dims, extents, [&](std::span<const Expr> o, std::span<const Expr> steps) {
        std::vector<Expr> r(steps.begin(), steps.end());
        if (has_channels_last) std::rotate(r.begin(), r.end() - 1, r.end());
        Expr channel = o[conv.out.axis('C')];
        Expr group =
            conv.groups == 1 ? te::Index(0) : te::Binary(BinaryOp::kFloorDivide, channel, te::DimValue(out_channels));
        std::vector<Expr> at(data.rank()), tap(weight.rank());
        at[conv.data.axis('N')] = o[conv.out.axis('N')];
        at[conv.data.axis('C')] = conv.groups == 1 ? r[0] : group * te::DimValue(in_channels) + r[0];
        if (transposed) {
          tap[conv.kernel.axis('I')] = at[conv.data.axis('C')];
          tap[conv.kernel.axis('O')] =
              conv.groups == 1 ? channel : te::Binary(BinaryOp::kFloorMod, channel, te::DimValue(out_channels));
        } else if (is_depthwise) {
          tap[conv.kernel.axis('O')] = group;
          tap[conv.kernel.axis('I')] = te::Binary(BinaryOp::kFloorMod, channel, te::DimValue(out_channels));
        } else {
          tap[conv.kernel.axis('O')] = channel;
          tap[conv.kernel.axis('I')] = r[0];
        }
        Expr inside, has_tap;
        for (size_t s = 0; s < conv.windows.size(); ++s) {
          const Window& window = conv.windows[s];
          const Dim& extent = data.dims()[conv.data.spatial[s]];
          Expr place = o[conv.out.spatial[s]];
          Expr offset = r[s + 1] * te::Index(window.dilation);
          Expr here, fits, number = r[s + 1];
          if (transposed && phases[s].apart) {
            Expr stride = te::Index(phases[s].stride);
            here = te::Binary(BinaryOp::kFloorDivide, place, stride) + te::Index(phases[s].first) - r[s + 1];
            number = r[s + 1] * stride + te::Binary(BinaryOp::kFloorMod, place, stride);
            // With one tap a phase, and no sums behind it, every position has its element.
            bool all = phases[s].taps == 1 && phases[s].first == 0 &&
                       CompareDims(phases[s].extent, extent * phases[s].stride) == DimEquality::kEqual;
            if (!all) fits = InRange(here, extent);
            if (window.extent % phases[s].stride != 0) {
              Expr within = InRange(number, window.extent);
              has_tap = has_tap ? And(has_tap, within) : within;
            }
          } else if (transposed) {
            Expr scaled = place + te::Index(window.pad_before) - offset;
            here = te::Binary(BinaryOp::kFloorDivide, scaled, te::Index(window.stride));
            fits = And(InRange(here, extent), Equal(here * te::Index(window.stride), scaled));
          } else {
            here = place * te::Index(window.stride) + offset - te::Index(window.pad_before);
            if (window.pad_before != 0 || window.pad_after != 0) fits = InRange(here, extent);
          }
          if (fits) inside = inside ? And(inside, fits) : fits;
          at[conv.data.spatial[s]] = here;
          tap[conv.kernel.spatial[s]] = number;
        }
        Expr value = te::Cast(wide, data(at)), factor = te::Cast(wide, weight(tap));
        if (inside) value = te::Select(inside, value, te::Const(wide, 0));
        if (has_tap) factor = te::Select(has_tap, factor, te::Const(wide, 0));
        return value * factor;
      });
  if (transposed) sum = CutPhases(sum, conv.out.spatial, phases, out.dims);
  return {CastTensor(sum, out.dtype)};
}

// ---- dilation --------------------------------------------------------------------

Solve DilateRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  std::vector<int64_t> strides = context.attrs().GetInts("strides");
  bool fits =
      strides.size() == out.size() && std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s >= 1; });
  if (!fits) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`strides` does not fit rank ", out.size(),
                                                                    "; expected one positive number per axis"));
  }
  for (size_t i = 0; i < out.size(); ++i) out[i] = ClampedToNatural((out[i] - 1) * strides[i] + 1);
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeDilate(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  std::vector<int64_t> strides = context.attrs().GetInts("strides");
  return {te::ComputeTensor("dilate", data.dtype(), context.output().dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at;
    Expr hit;
    for (size_t axis = 0; axis < i.size(); ++axis) {
      Expr stride = te::Index(strides[axis]);
      at.push_back(te::Binary(BinaryOp::kFloorDivide, i[axis], stride));
      Expr here = Equal(te::Binary(BinaryOp::kFloorMod, i[axis], stride), te::Index(0));
      hit = hit ? And(hit, here) : here;
    }
    Expr value = data(at);
    return hit ? te::Select(hit, value, te::Const(data.dtype(), context.attrs().GetDouble("dilation_value"))) : value;
  })};
}

constexpr OpDef Conv(std::string_view name, std::string_view summary, std::span<const AttrSpec> attrs) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .attrs = attrs,
          .type_relation = ConvolutionRelation<false>,
          .fusion = FusionClass::kContraction,
          .compute = ComputeConvolution<false>};
}
constexpr OpDef ConvTranspose(std::string_view name, std::string_view summary, std::span<const AttrSpec> attrs) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .attrs = attrs,
          .type_relation = ConvolutionRelation<true>,
          .fusion = FusionClass::kContraction,
          .compute = ComputeConvolution<true>};
}

constexpr OpDef kOps[] = {
    WithGradient(Conv("nn.conv1d", "convolution along one axis", kConv1dAttrs), ConvolutionGradient),
    WithGradient(Conv("nn.conv2d", "convolution along two axes", kConv2dAttrs), ConvolutionGradient),
    WithGradient(Conv("nn.conv3d", "convolution along three axes", kConv3dAttrs), ConvolutionGradient),
    WithGradient(ConvTranspose("nn.conv1d_transpose", "the transposed convolution along one axis", kTranspose1dAttrs),
                 ConvolutionTransposeGradient),
    WithGradient(ConvTranspose("nn.conv2d_transpose", "the transposed convolution along two axes", kTranspose2dAttrs),
                 ConvolutionTransposeGradient),
    WithGradient(ConvTranspose("nn.conv3d_transpose", "the transposed convolution along three axes", kTranspose3dAttrs),
                 ConvolutionTransposeGradient),
    {.name = "nn.dilate",
     .summary = "data with gaps between its elements",
     .inputs = kDilateInputs,
     .attrs = kDilateAttrs,
     .type_relation = DilateRelation,
     .fusion = FusionClass::kInjective,
     .compute = ComputeDilate,
     .gradient = DilateGradient},
};

}  // namespace

std::span<const OpDef> ConvolutionOps() { return kOps; }

}  // namespace rvm::ops
