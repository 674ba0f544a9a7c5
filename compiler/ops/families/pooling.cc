// Pooling over windows, over all spatial positions, and to a given number of bins.
#include <algorithm>
#include <cstdint>
#include <optional>
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

constexpr Input kInputs[] = {{"data", "a batch of images"}};

#define RVM_POOL_ATTRS(ones, zeros, data_layout)                                                                 \
  {"pool_size", AttrType::kInts, "", "extents of the windows"},                                                  \
      {"strides", AttrType::kInts, ones, "step of the windows"},                                                 \
      {"dilation", AttrType::kInts, ones, "distance of the taps"},                                               \
      {"padding", AttrType::kInts, zeros, "around each axis: one number, one per axis, or befores then afters"}, \
      {"layout", AttrType::kString, data_layout, "axes of data"},                                                \
      {"out_layout", AttrType::kString, "\"\"", "must be that of data"},                                         \
      {"ceil_mode", AttrType::kBool, "False", "keep a last window that extends beyond the edge"}
#define RVM_COUNT_ATTR \
  {"count_include_pad", AttrType::kBool, "False", "the mean counts padding as zeros, but nothing beyond it"}

constexpr AttrSpec kMax1dAttrs[] = {RVM_POOL_ATTRS("[1]", "[0]", "\"NCW\"")};
constexpr AttrSpec kMax2dAttrs[] = {RVM_POOL_ATTRS("[1, 1]", "[0, 0]", "\"NCHW\"")};
constexpr AttrSpec kMax3dAttrs[] = {RVM_POOL_ATTRS("[1, 1, 1]", "[0, 0, 0]", "\"NCDHW\"")};
constexpr AttrSpec kAvg1dAttrs[] = {RVM_POOL_ATTRS("[1]", "[0]", "\"NCW\""), RVM_COUNT_ATTR};
constexpr AttrSpec kAvg2dAttrs[] = {RVM_POOL_ATTRS("[1, 1]", "[0, 0]", "\"NCHW\""), RVM_COUNT_ATTR};
constexpr AttrSpec kAvg3dAttrs[] = {RVM_POOL_ATTRS("[1, 1, 1]", "[0, 0, 0]", "\"NCDHW\""), RVM_COUNT_ATTR};
#undef RVM_POOL_ATTRS
#undef RVM_COUNT_ATTR
constexpr Example kMax1dExamples[] = {
    {"nn.max_pool1d([[[1f, 2f, 3f]]], pool_size=[2], strides=[2], ceil_mode=True)", "[[[2f, 3f]]]"},
    {"nn.max_pool1d([[[1f, 2f, 3f]]], pool_size=[2], strides=[3], padding=[1], ceil_mode=True)", "[[[1f, 3f]]]"},
    {"nn.max_pool1d([[[1f, 2f]]], pool_size=[1], strides=[3], padding=[0, 1], ceil_mode=True)", "[[[1f]]]"}};
constexpr Example kAvg1dExamples[] = {
    {"nn.avg_pool1d([[[1f, 2f, 3f]]], pool_size=[2], strides=[2], ceil_mode=True, count_include_pad=True)",
     "[[[1.5f, 3f]]]"}};
constexpr AttrSpec kGlobalAttrs[] = {{"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
                                     {"out_layout", AttrType::kString, "\"\"", "must be that of data"}};
#define RVM_ADAPTIVE_ATTRS(data_layout)                                                                     \
  {{"output_size", AttrType::kInts, "[]", "bins: one number, or one per axis; empty: as many as elements"}, \
   {"layout", AttrType::kString, data_layout, "axes of data"},                                              \
   {"out_layout", AttrType::kString, "\"\"", "must be that of data"}}
constexpr AttrSpec kAdaptive1dAttrs[] = RVM_ADAPTIVE_ATTRS("\"NCW\"");
constexpr AttrSpec kAdaptive2dAttrs[] = RVM_ADAPTIVE_ATTRS("\"NCHW\"");
constexpr AttrSpec kAdaptive3dAttrs[] = RVM_ADAPTIVE_ATTRS("\"NCDHW\"");
#undef RVM_ADAPTIVE_ATTRS

constexpr Example kAdaptive1dExamples[] = {
    {"nn.adaptive_avg_pool1d([[[1f, 2f, 3f, 4f]]], output_size=[2])", "[[[1.5f, 3.5f]]]"}};
constexpr Example kAdaptiveMax1dExamples[] = {
    {"nn.adaptive_max_pool1d([[[1f, 5f, 3f, 4f, 2f]]], output_size=[2])", "[[[5f, 4f]]]"}};
constexpr Example kAdaptive3dExamples[] = {
    {"nn.adaptive_avg_pool3d([[[[[1f, 2f], [3f, 4f]], [[5f, 6f], [7f, 8f]]]]], output_size=[2, 1, 1])",
     "[[[[[2.5f]], [[6.5f]]]]]"}};
constexpr Example kAdaptiveMax3dExamples[] = {
    {"nn.adaptive_max_pool3d([[[[[1f, 2f], [3f, 4f]], [[5f, 6f], [7f, 8f]]]]], output_size=[1])", "[[[[[8f]]]]]"}};

// Checks rank and layout; returns the layout.
std::optional<Layout> PoolLayout(TypeContext& context, const ir::TensorType& data, size_t rank) {
  const std::string& layout = context.attrs().GetString("layout");
  std::string_view letters = rank == 3 ? "NCW" : rank == 4 ? "NCHW" : "NCDHW";
  if (!CheckLayout(context, layout, letters, "layout")) return std::nullopt;
  const std::string& out_layout = context.attrs().GetString("out_layout");
  if (!out_layout.empty() && out_layout != layout) {
    context.Fail(DiagnosticKind::kUnsupported,
                 "`out_layout` differs from `layout`; use `layout_transform` after the pooling");
    return std::nullopt;
  }
  if (data.shape.dims.size() != rank) {
    FailRank(context, 0, data.shape.dims.size(), absl::StrCat("rank ", rank));
    return std::nullopt;
  }
  return Layout(layout);
}

template <size_t rank>
Solve PoolRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Layout> layout = PoolLayout(context, *args[0], rank);
  if (!layout) return Solve::kFailed;
  std::optional<std::vector<Window>> windows =
      MakeWindows(context.attrs(), PerAxis(context.attrs().GetInts("pool_size"), rank - 2), &context);
  if (!windows) return Solve::kFailed;
  Dims out = args[0]->shape.dims;
  for (size_t s = 0; s < windows->size(); ++s) {
    Dim& dim = out[layout->spatial[s]];
    dim = WindowCount(dim, (*windows)[s], context.attrs().GetBool("ceil_mode"));
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// The position that tap `r` of the window at `o` reads, and whether it is inside the data.
Expr WindowAt(const std::vector<Window>& windows, const Layout& layout, const Tensor& data, std::span<const Expr> o,
              std::span<const Expr> r, std::vector<Expr>& at) {
  at.assign(o.begin(), o.end());
  Expr inside;
  for (size_t s = 0; s < windows.size(); ++s) {
    size_t axis = layout.spatial[s];
    at[axis] = o[axis] * te::Index(windows[s].stride) + r[s] * te::Index(windows[s].dilation) -
               te::Index(windows[s].pad_before);
    Expr fits = InRange(at[axis], data.dims()[axis]);
    inside = inside ? And(inside, fits) : fits;
  }
  return inside;
}

// How many taps of the window at each place of the spatial axes are inside the data, at least 1.
Tensor CountInside(const std::vector<Window>& windows, const Layout& layout, const Dims& data, const Dims& out,
                   DataType dtype) {
  Dims places;
  for (size_t axis : layout.spatial) places.push_back(out[axis]);
  return te::ComputeTensor("count", dtype, places, [&](std::span<const Expr> o) {
    Expr product = te::Index(1);
    for (size_t s = 0; s < windows.size(); ++s) {
      const Window& window = windows[s];
      Expr begin = o[s] * te::Index(window.stride) - te::Index(window.pad_before),
           distance = te::Index(window.dilation);
      Expr before = te::Binary(BinaryOp::kMaximum, te::Index(0) - begin, te::Index(0));
      Expr first = te::Binary(BinaryOp::kFloorDivide, before + te::Index(window.dilation - 1), distance);
      Expr reach = te::DimValue(data[layout.spatial[s]] - 1) - begin;
      Expr end = te::Binary(BinaryOp::kMinimum, te::Binary(BinaryOp::kFloorDivide, reach, distance) + te::Index(1),
                            te::Index(window.extent));
      product = product * te::Binary(BinaryOp::kMaximum, end - first, te::Index(0));
    }
    return te::Cast(dtype, te::Binary(BinaryOp::kMaximum, product, te::Index(1)));
  });
}

template <bool average>
std::vector<Tensor> ComputePool(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  std::vector<Window> windows =
      *MakeWindows(context.attrs(), PerAxis(context.attrs().GetInts("pool_size"), layout.spatial.size()), nullptr);
  Dims extents;
  for (const Window& window : windows) extents.push_back(window.extent);
  DataType wide = average ? Accumulator(data.dtype()) : data.dtype();
  Expr neutral = average ? te::Const(wide, 0) : Lowest(wide);
  Tensor folded = ReduceOver(average ? ReduceOp::kSum : ReduceOp::kMaximum, wide, out.dims, extents,
                             [&](std::span<const Expr> o, std::span<const Expr> r) {
                               std::vector<Expr> at;
                               Expr inside = WindowAt(windows, layout, data, o, r, at);
                               return te::Select(inside, te::Cast(wide, data(at)), neutral);
                             });
  if (!average) return {folded};
  Dims counted = data.dims();
  bool has_full_windows = context.attrs().GetBool("count_include_pad");
  if (has_full_windows) {
    // A last window may extend beyond the padding. What is there does not count.
    for (size_t s = 0; s < windows.size(); ++s) {
      const Dim& extent = data.dims()[layout.spatial[s]];
      has_full_windows = has_full_windows && out.dims[layout.spatial[s]] == WindowCount(extent, windows[s]);
      counted[layout.spatial[s]] = extent + (windows[s].pad_before + windows[s].pad_after);
      windows[s].pad_before = windows[s].pad_after = 0;
    }
  }
  if (has_full_windows) {
    Expr count = te::Cast(wide, te::DimValue(Volume(extents)));
    return {CastTensor(
        te::ComputeTensor("mean", wide, out.dims,
                          [&](std::span<const Expr> o) { return te::Binary(BinaryOp::kDivide, folded(o), count); }),
        out.dtype)};
  }
  Tensor count = CountInside(windows, layout, counted, out.dims, wide);
  return {CastTensor(te::ComputeTensor("mean", wide, out.dims,
                                       [&](std::span<const Expr> o) {
                                         std::vector<Expr> at;
                                         for (size_t axis : layout.spatial) at.push_back(o[axis]);
                                         return te::Binary(BinaryOp::kDivide, folded(o), count(at));
                                       }),
                     out.dtype)};
}

Solve GlobalRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Layout> layout = PoolLayout(context, *args[0], 4);
  if (!layout) return Solve::kFailed;
  Dims out = args[0]->shape.dims;
  for (size_t axis : layout->spatial) out[axis] = 1;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

template <bool average>
std::vector<Tensor> ComputeGlobal(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Layout layout(context.attrs().GetString("layout"));
  Dims extents;
  for (size_t axis : layout.spatial) extents.push_back(data.dims()[axis]);
  DataType wide = average ? SumAccumulator(data.dtype(), Volume(extents)) : data.dtype();
  Tensor folded = ReduceOver(average ? ReduceOp::kSum : ReduceOp::kMaximum, wide, context.output().dims, extents,
                             [&](std::span<const Expr> o, std::span<const Expr> r) {
                               std::vector<Expr> at(o.begin(), o.end());
                               for (size_t s = 0; s < r.size(); ++s) at[layout.spatial[s]] = r[s];
                               return te::Cast(wide, data(at));
                             });
  if (!average) return {folded};
  return {CastTensor(te::ComputeTensor("mean", wide, context.output().dims,
                                       [&](std::span<const Expr> o) {
                                         return te::Binary(BinaryOp::kDivide, folded(o),
                                                           te::Cast(wide, te::DimValue(Volume(extents))));
                                       }),
                     data.dtype())};
}

// Returns the number of bins along each spatial axis, for data of shape `data`.
Dims Bins(const ir::Attrs& attrs, const Layout& layout, const Dims& data) {
  Dims bins;
  for (int64_t count : PerAxis(attrs.GetInts("output_size"), layout.spatial.size())) bins.push_back(count);
  for (size_t s = 0; bins.size() < layout.spatial.size(); ++s) bins.push_back(data[layout.spatial[s]]);
  return bins;
}

template <size_t rank>
Solve AdaptiveRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  std::optional<Layout> layout = PoolLayout(context, *args[0], rank);
  if (!layout) return Solve::kFailed;
  std::vector<int64_t> size = context.attrs().GetInts("output_size");
  bool is_positive = std::all_of(size.begin(), size.end(), [](int64_t count) { return count >= 1; });
  if (!is_positive || (size.size() > 1 && size.size() != rank - 2)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`output_size` is not one or ", rank - 2, " positive numbers"));
  }
  Dims out = args[0]->shape.dims;
  Dims bins = Bins(context.attrs(), *layout, out);
  for (size_t s = 0; s < bins.size(); ++s) out[layout->spatial[s]] = bins[s];
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// Bin b of n covers [floor(b * extent / n), ceil((b + 1) * extent / n)).
template <bool average>
std::vector<Tensor> ComputeAdaptive(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Layout layout(context.attrs().GetString("layout"));
  Dims bins = Bins(context.attrs(), layout, data.dims());
  Dims extents;
  for (size_t axis : layout.spatial) extents.push_back(data.dims()[axis]);
  auto from = [&](Expr bin, size_t s) {
    return te::Binary(BinaryOp::kFloorDivide, bin * te::DimValue(extents[s]), te::DimValue(bins[s]));
  };
  auto to = [&](Expr bin, size_t s) {
    Expr scaled = (bin + te::Index(1)) * te::DimValue(extents[s]) + te::DimValue(bins[s] - 1);
    return te::Binary(BinaryOp::kFloorDivide, scaled, te::DimValue(bins[s]));
  };
  DataType wide = average ? Accumulator(data.dtype()) : data.dtype();
  Expr neutral = average ? te::Const(wide, 0) : Lowest(wide);
  Tensor folded = ReduceOver(average ? ReduceOp::kSum : ReduceOp::kMaximum, wide, context.output().dims, extents,
                             [&](std::span<const Expr> o, std::span<const Expr> r) {
                               std::vector<Expr> at(o.begin(), o.end());
                               Expr inside;
                               for (size_t s = 0; s < r.size(); ++s) {
                                 Expr bin = o[layout.spatial[s]];
                                 at[layout.spatial[s]] = r[s];
                                 Expr fits =
                                     And(te::Binary(BinaryOp::kLessEqual, from(bin, s), r[s]), Less(r[s], to(bin, s)));
                                 inside = inside ? And(inside, fits) : fits;
                               }
                               return te::Select(inside, te::Cast(wide, data(at)), neutral);
                             });
  if (!average) return {folded};
  return {CastTensor(te::ComputeTensor("mean", wide, context.output().dims,
                                       [&](std::span<const Expr> o) {
                                         Expr count = te::Index(1);
                                         for (size_t s = 0; s < bins.size(); ++s) {
                                           Expr bin = o[layout.spatial[s]];
                                           count = count * (to(bin, s) - from(bin, s));
                                         }
                                         return te::Binary(BinaryOp::kDivide, folded(o), te::Cast(wide, count));
                                       }),
                     data.dtype())};
}

constexpr OpDef Pool(std::string_view name, std::string_view summary, std::span<const AttrSpec> attrs,
                     TypeRelation relation, Compute compute, std::span<const Example> examples = {}) {
  return {.name = name,
          .summary = summary,
          .inputs = kInputs,
          .attrs = attrs,
          .type_relation = relation,
          .fusion = FusionClass::kReduction,
          .compute = compute,
          .examples = examples};
}

constexpr OpDef kOps[] = {
    WithGradient(Pool("nn.max_pool1d", "greatest element of each window", kMax1dAttrs, PoolRelation<3>,
                      ComputePool<false>, kMax1dExamples),
                 MaxPoolGradient),
    WithGradient(
        Pool("nn.max_pool2d", "greatest element of each window", kMax2dAttrs, PoolRelation<4>, ComputePool<false>),
        MaxPoolGradient),
    WithGradient(
        Pool("nn.max_pool3d", "greatest element of each window", kMax3dAttrs, PoolRelation<5>, ComputePool<false>),
        MaxPoolGradient),
    WithGradient(
        Pool("nn.avg_pool1d", "mean of each window", kAvg1dAttrs, PoolRelation<3>, ComputePool<true>, kAvg1dExamples),
        AvgPoolGradient),
    WithGradient(Pool("nn.avg_pool2d", "mean of each window", kAvg2dAttrs, PoolRelation<4>, ComputePool<true>),
                 AvgPoolGradient),
    WithGradient(Pool("nn.avg_pool3d", "mean of each window", kAvg3dAttrs, PoolRelation<5>, ComputePool<true>),
                 AvgPoolGradient),
    WithGradient(Pool("nn.global_max_pool2d", "greatest element of each channel", kGlobalAttrs, GlobalRelation,
                      ComputeGlobal<false>),
                 GlobalMaxPool2dGradient),
    WithGradient(
        Pool("nn.global_avg_pool2d", "mean of each channel", kGlobalAttrs, GlobalRelation, ComputeGlobal<true>),
        GlobalAvgPool2dGradient),
    WithGradient(Op("nn.adaptive_max_pool1d", "greatest element of each of a number of bins", kInputs, kAdaptive1dAttrs,
                    AdaptiveRelation<3>, FusionClass::kReduction, ComputeAdaptive<false>, kAdaptiveMax1dExamples),
                 AdaptiveMaxPoolGradient),
    WithGradient(Op("nn.adaptive_max_pool2d", "greatest element of each of a number of bins", kInputs, kAdaptive2dAttrs,
                    AdaptiveRelation<4>, FusionClass::kReduction, ComputeAdaptive<false>),
                 AdaptiveMaxPoolGradient),
    WithGradient(Op("nn.adaptive_max_pool3d", "greatest element of each of a number of bins", kInputs, kAdaptive3dAttrs,
                    AdaptiveRelation<5>, FusionClass::kReduction, ComputeAdaptive<false>, kAdaptiveMax3dExamples),
                 AdaptiveMaxPoolGradient),
    WithGradient(Op("nn.adaptive_avg_pool1d", "mean of each of a number of bins", kInputs, kAdaptive1dAttrs,
                    AdaptiveRelation<3>, FusionClass::kReduction, ComputeAdaptive<true>, kAdaptive1dExamples),
                 AdaptiveAvgPoolGradient),
    WithGradient(Op("nn.adaptive_avg_pool2d", "mean of each of a number of bins", kInputs, kAdaptive2dAttrs,
                    AdaptiveRelation<4>, FusionClass::kReduction, ComputeAdaptive<true>),
                 AdaptiveAvgPoolGradient),
    WithGradient(Op("nn.adaptive_avg_pool3d", "mean of each of a number of bins", kInputs, kAdaptive3dAttrs,
                    AdaptiveRelation<5>, FusionClass::kReduction, ComputeAdaptive<true>, kAdaptive3dExamples),
                 AdaptiveAvgPoolGradient),
};

}  // namespace

std::span<const OpDef> PoolingOps() { return kOps; }

}  // namespace rvm::ops
