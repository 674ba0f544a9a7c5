// Gradients of convolution and pooling as operators, for programs that were differentiated by the predecessor.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kWeightInputs[] = {{"grad", "gradient of the convolution's result"},
                                   {"data", "the input of the convolution, a batch of images"}};
constexpr Input kPoolInputs[] = {{"grad", "gradient of the pooling's result"},
                                 {"data", "the input of the pooling, a batch of images"}};
constexpr AttrSpec kWeightAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"groups", AttrType::kInt, "1", "channels are split in as many groups"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "", "extents of the filters"},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of grad, and of data unless `kernel_layout` has an N"},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "axes of the result; with an N: of data"},
    {"out_layout", AttrType::kString, "\"\"", "axes of the result if `kernel_layout` has an N (\"OIHW\")"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of grad)"}};
#define RVM_POOL_GRAD_ATTRS                                                                                         \
  {"pool_size", AttrType::kInts, "", "extents of the windows"},                                                     \
      {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},                                                \
      {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},                                              \
      {"padding", AttrType::kInts, "[0, 0]", "around each axis: one number, one per axis, or befores then afters"}, \
      {"layout", AttrType::kString, "\"NCHW\"", "axes of data and grad"},                                           \
      {"out_layout", AttrType::kString, "\"\"", "must be that of data"},                                            \
      {"ceil_mode", AttrType::kBool, "False", "the pooling kept a last window that extends beyond the edge"}
constexpr AttrSpec kMaxAttrs[] = {RVM_POOL_GRAD_ATTRS};
constexpr AttrSpec kAvgAttrs[] = {
    RVM_POOL_GRAD_ATTRS,
    {"count_include_pad", AttrType::kBool, "False", "the mean counted padding as zeros, but nothing beyond it"}};
#undef RVM_POOL_GRAD_ATTRS

// The position in data that tap `r` of window `o` reads, and whether it is inside.
struct Tap {
  Expr place, inside;
};
Tap TapAt(const Window& window, const Expr& o, const Expr& r, const Dim& extent) {
  Expr place = o * te::Index(window.stride) + r * te::Index(window.dilation) - te::Index(window.pad_before);
  return {place, InRange(place, extent)};
}

// ---- convolution -----------------------------------------------------------------

struct WeightLayouts {
  std::string grad, data, weight;
};

WeightLayouts WeightGradientLayouts(const ir::Attrs& attrs) {
  const std::string &data = attrs.GetString("data_layout"), &kernel = attrs.GetString("kernel_layout");
  const std::string& out = attrs.GetString("out_layout");
  if (kernel.find('N') == std::string::npos) return {data, data, kernel};
  return {data, kernel, out.empty() ? "OIHW" : out};
}

Solve WeightGradientRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &grad = args[0]->shape.dims, &data = args[1]->shape.dims;
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `grad`");
  for (int i = 0; i < 2; ++i) {
    if (size_t rank = args[static_cast<size_t>(i)]->shape.dims.size(); rank != 4)
      return FailRank(context, i, rank, "rank 4");
  }
  WeightLayouts layouts = WeightGradientLayouts(attrs);
  if (!CheckLayout(context, layouts.grad, "NCHW", "data_layout") ||
      !CheckLayout(context, layouts.data, "NCHW", "kernel_layout") ||
      !CheckLayout(context, layouts.weight, "OIHW", "out_layout"))
    return Solve::kFailed;
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, PerAxis(attrs.GetInts("kernel_size"), 2), &context);
  if (!windows) return Solve::kFailed;
  int64_t groups = attrs.GetInt("groups");
  if (groups < 1) return context.Fail(DiagnosticKind::kBadAttribute, "`groups` is below 1");
  Layout g(layouts.grad), d(layouts.data), w(layouts.weight);
  bool fits = context.RequireEqual(grad[g.axis('N')], data[d.axis('N')], "batches of grad and data") &&
              context.RequireEqual(FloorMod(data[d.axis('C')], groups), 0, "remainder of the channels by `groups`") &&
              context.RequireEqual(FloorMod(grad[g.axis('C')], groups), 0, "remainder of the channels by `groups`");
  if (fits && !attrs.IsNone("channels"))
    fits = context.RequireEqual(grad[g.axis('C')], attrs.GetInt("channels"), "channels of grad and `channels`");
  Dims out(4);
  out[w.axis('O')] = grad[g.axis('C')];
  out[w.axis('I')] = FloorDiv(data[d.axis('C')], groups);
  for (size_t s = 0; s < 2 && fits; ++s) {
    out[w.spatial[s]] = (*windows)[s].extent;
    fits = context.RequireEqual(grad[g.spatial[s]], WindowCount(data[d.spatial[s]], (*windows)[s]),
                                "`nn.conv2d_backward_weight`: extents of grad and of the windows on data");
  }
  if (!fits) return Solve::kFailed;
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeWeightGradient(const ComputeContext& context) {
  const Tensor &grad = context.input(0), &data = context.input(1);
  const ir::Attrs& attrs = context.attrs();
  WeightLayouts layouts = WeightGradientLayouts(attrs);
  Layout g(layouts.grad), d(layouts.data), w(layouts.weight);
  std::vector<Window> windows = *MakeWindows(attrs, PerAxis(attrs.GetInts("kernel_size"), 2), nullptr);
  const te::TensorSpec& out = context.output();
  DataType wide = Accumulator(out.dtype);
  int64_t groups = attrs.GetInt("groups");
  Dim out_per_group = FloorDiv(out.dims[w.axis('O')], groups);
  Dims extents = {grad.dims()[g.axis('N')], grad.dims()[g.spatial[0]], grad.dims()[g.spatial[1]]};
  auto product = [&](std::span<const Expr> o, std::span<const Expr> r) {
    std::vector<Expr> at(4), from(4);
    at[d.axis('N')] = from[g.axis('N')] = r[0];
    from[g.axis('C')] = o[w.axis('O')];
    at[d.axis('C')] = o[w.axis('I')];
    if (groups > 1) {
      Expr group = te::Binary(BinaryOp::kFloorDivide, o[w.axis('O')], te::DimValue(out_per_group));
      at[d.axis('C')] = group * te::DimValue(out.dims[w.axis('I')]) + o[w.axis('I')];
    }
    Expr inside;
    for (size_t s = 0; s < 2; ++s) {
      Tap tap = TapAt(windows[s], r[s + 1], o[w.spatial[s]], data.dims()[d.spatial[s]]);
      at[d.spatial[s]] = tap.place;
      from[g.spatial[s]] = r[s + 1];
      if (windows[s].pad_before == 0 && windows[s].pad_after == 0) continue;
      inside = inside ? And(inside, tap.inside) : tap.inside;
    }
    Expr value = te::Cast(wide, data(at));
    if (inside) value = te::Select(inside, value, te::Const(wide, 0));
    return te::Cast(wide, grad(from)) * value;
  };
  return {CastTensor(ReduceOver(ReduceOp::kSum, wide, out.dims, extents, product), out.dtype)};
}

// ---- pooling -----------------------------------------------------------------------

Solve PoolGradientRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &grad = args[0]->shape.dims, &data = args[1]->shape.dims;
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `grad`");
  for (int i = 0; i < 2; ++i) {
    if (size_t rank = args[static_cast<size_t>(i)]->shape.dims.size(); rank != 4)
      return FailRank(context, i, rank, "rank 4");
  }
  const std::string& text = attrs.GetString("layout");
  if (!CheckLayout(context, text, "NCHW", "layout")) return Solve::kFailed;
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, PerAxis(attrs.GetInts("pool_size"), 2), &context);
  if (!windows) return Solve::kFailed;
  Layout layout(text);
  Dims pooled = data;
  for (size_t s = 0; s < 2; ++s)
    pooled[layout.spatial[s]] = WindowCount(data[layout.spatial[s]], (*windows)[s], attrs.GetBool("ceil_mode"));
  for (size_t axis = 0; axis < 4; ++axis) {
    if (!context.RequireEqual(grad[axis], pooled[axis], "extents of grad and of the pooling of data"))
      return Solve::kFailed;
  }
  return context.Result(args[1]);
}

struct Pooling {
  Layout layout;
  std::vector<Window> windows;
};
Pooling Describe(const ir::Attrs& attrs) {
  return {Layout(attrs.GetString("layout")), *MakeWindows(attrs, PerAxis(attrs.GetInts("pool_size"), 2), nullptr)};
}

// Returns the gradient of each element of data: the sum of `share(window, r)`, with dtype `wide`, over all taps `r`
// through which a window reads it.
Tensor SumOverReaders(const Pooling& pooling, const Tensor& grad, const Tensor& data, DataType wide,
                      const std::function<Expr(std::span<const Expr> window, std::span<const Expr> r)>& share) {
  Dims extents = {pooling.windows[0].extent, pooling.windows[1].extent};
  return ReduceOver(ReduceOp::kSum, wide, data.dims(), extents, [&](std::span<const Expr> i, std::span<const Expr> r) {
    std::vector<Expr> window(i.begin(), i.end());
    Expr reads;
    for (size_t s = 0; s < 2; ++s) {
      const Window& w = pooling.windows[s];
      size_t axis = pooling.layout.spatial[s];
      Expr scaled = i[axis] + te::Index(w.pad_before) - r[s] * te::Index(w.dilation);
      window[axis] = te::Binary(BinaryOp::kFloorDivide, scaled, te::Index(w.stride));
      Expr here = And(InRange(window[axis], grad.dims()[axis]), Equal(window[axis] * te::Index(w.stride), scaled));
      reads = reads ? And(reads, here) : here;
    }
    return te::Select(reads, share(window, r), te::Const(wide, 0));
  });
}

// The gradient is assigned to the first of the greatest elements of the window.
std::vector<Tensor> ComputeMaxPoolGradient(const ComputeContext& context) {
  const Tensor &grad = context.input(0), &data = context.input(1);
  Pooling pooling = Describe(context.attrs());
  DataType wide = Accumulator(grad.dtype());
  int64_t width = pooling.windows[1].extent;
  Dim taps = pooling.windows[0].extent * width;
  Tensor first =
      ReduceOver(ReduceOp::kArgMax, kInt64, grad.dims(), {taps}, [&](std::span<const Expr> o, std::span<const Expr> r) {
        std::vector<Expr> at(o.begin(), o.end());
        Expr place[] = {te::Binary(BinaryOp::kFloorDivide, r[0], te::Index(width)),
                        te::Binary(BinaryOp::kFloorMod, r[0], te::Index(width))};
        Expr inside;
        for (size_t s = 0; s < 2; ++s) {
          size_t axis = pooling.layout.spatial[s];
          Tap tap = TapAt(pooling.windows[s], o[axis], place[s], data.dims()[axis]);
          at[axis] = tap.place;
          inside = inside ? And(inside, tap.inside) : tap.inside;
        }
        return te::Select(inside, data(at), Lowest(data.dtype()));
      });
  Tensor sum = SumOverReaders(pooling, grad, data, wide, [&](std::span<const Expr> o, std::span<const Expr> r) {
    Expr is_first = Equal(first(o), r[0] * te::Index(width) + r[1]);
    return te::Select(is_first, te::Cast(wide, grad(o)), te::Const(wide, 0));
  });
  return {CastTensor(sum, data.dtype())};
}

std::vector<Tensor> ComputeAvgPoolGradient(const ComputeContext& context) {
  const Tensor &grad = context.input(0), &data = context.input(1);
  Pooling pooling = Describe(context.attrs());
  DataType wide = Accumulator(grad.dtype());
  bool counts_padding = context.attrs().GetBool("count_include_pad");
  Dims extents = {pooling.windows[0].extent, pooling.windows[1].extent};
  // A window may extend beyond the padding. What is there does not count.
  bool counts_all = counts_padding && !context.attrs().GetBool("ceil_mode");
  auto counts = [&](size_t s, const Expr& o, const Expr& r) {
    Window window = pooling.windows[s];
    Dim extent = data.dims()[pooling.layout.spatial[s]];
    if (!counts_padding) return TapAt(window, o, r, extent).inside;
    extent = extent + (window.pad_before + window.pad_after);
    window.pad_before = 0;
    return TapAt(window, o, r, extent).inside;
  };
  Tensor count =
      ReduceOver(ReduceOp::kSum, wide, grad.dims(), extents, [&](std::span<const Expr> o, std::span<const Expr> r) {
        Expr one = te::Const(wide, 1);
        for (size_t s = 0; s < 2 && !counts_all; ++s) {
          one = te::Select(counts(s, o[pooling.layout.spatial[s]], r[s]), one, te::Const(wide, 0));
        }
        return one;
      });
  Tensor share = te::ComputeTensor("share", wide, grad.dims(), [&](std::span<const Expr> o) {
    return te::Binary(BinaryOp::kDivide, te::Cast(wide, grad(o)),
                      te::Binary(BinaryOp::kMaximum, count(o), te::Const(wide, 1)));
  });
  Tensor sum = SumOverReaders(pooling, grad, data, wide,
                              [&](std::span<const Expr> o, std::span<const Expr>) { return share(o); });
  return {CastTensor(sum, data.dtype())};
}

constexpr OpDef kOps[] = {
    {.name = "nn.conv2d_backward_weight",
     .summary = "gradient of `nn.conv2d` by its filters",
     .inputs = kWeightInputs,
     .attrs = kWeightAttrs,
     .type_relation = WeightGradientRelation,
     .fusion = FusionClass::kContraction,
     .compute = ComputeWeightGradient,
     .gradient = Conv2dBackwardWeightGradient},
    {.name = "nn.max_pool2d_grad",
     .summary = "gradient of `nn.max_pool2d`; of equal elements the first gets it",
     .inputs = kPoolInputs,
     .attrs = kMaxAttrs,
     .type_relation = PoolGradientRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeMaxPoolGradient,
     .gradient = MaxPool2dGradGradient},
    {.name = "nn.avg_pool2d_grad",
     .summary = "gradient of `nn.avg_pool2d`",
     .inputs = kPoolInputs,
     .attrs = kAvgAttrs,
     .type_relation = PoolGradientRelation,
     .fusion = FusionClass::kReduction,
     .compute = ComputeAvgPoolGradient,
     .gradient = AvgPool2dGradGradient},
};

}  // namespace

std::span<const OpDef> WindowGradientOps() { return kOps; }

}  // namespace rvm::ops
