// Operators on windows of images other than convolution and pooling: dilation, correlation, sliding windows.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kDilationInputs[] = {{"data", "a batch of images"}, {"weight", "the values added, for each channel"}};
constexpr AttrSpec kDilationAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilations", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"kernel_layout", AttrType::kString, "\"IHW\"", "axes of weight"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};
constexpr Example kDilationExamples[] = {{"image.dilation2d([[[[1f, 5f, 2f]]]], [[[0f, 1f]]])", "[[[[6f, 5f]]]]"}};
constexpr Input kCorrelationInputs[] = {{"data1", "a batch of images (n, c, h, w)"},
                                        {"data2", "another of that shape"}};
constexpr AttrSpec kCorrelationAttrs[] = {
    {"kernel_size", AttrType::kInt, "1", "extent of the patches compared, odd"},
    {"max_displacement", AttrType::kInt, "1", "the greatest distance of two patches"},
    {"stride1", AttrType::kInt, "1", "step of the patches of data1"},
    {"stride2", AttrType::kInt, "1", "step of those of data2"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"is_multiply", AttrType::kBool, "True", "the mean of products, else of absolute differences"},
    {"layout", AttrType::kString, "\"NCHW\"", "only \"NCHW\""}};
constexpr Example kCorrelationExamples[] = {
    {"nn.correlation([[[[1f, 2f, 3f]]]], [[[[4f, 5f, 6f]]]], max_displacement=0)", "[[[[4f, 10f, 18f]]]]"},
    {"nn.correlation([[[[1f, 2f, 3f]]]], [[[[4f, 5f, 6f]]]], max_displacement=1, padding=[1, 1])",
     "[[[[0f, 0f, 0f]], [[0f, 0f, 0f]], [[0f, 0f, 0f]], [[0f, 8f, 15f]], [[4f, 10f, 18f]], [[5f, 12f, 0f]], "
     "[[0f, 0f, 0f]], [[0f, 0f, 0f]], [[0f, 0f, 0f]]]]"}};
constexpr Input kSlidingInputs[] = {{"data", "a tensor"}};
constexpr AttrSpec kSlidingAttrs[] = {
    {"axis", AttrType::kInt, "0", "the first axis along which windows slide; they also slide along all following axes"},
    {"window_shape", AttrType::kInts, "", "extents of the windows, one for each of these axes"},
    {"strides", AttrType::kInts, "", "steps of the windows, one for each of these axes"}};
constexpr Example kSlidingExamples[] = {
    {"sliding_window([1, 2, 3, 4, 5], axis=0, window_shape=[3], strides=[2])", "[[1, 2, 3], [3, 4, 5]]"}};

// ---- dilation ------------------------------------------------------------------------

// Returns the windows that the attributes describe; `dilations` is the attribute that other operators call `dilation`.
std::optional<std::vector<Window>> DilationWindows(const ir::Attrs& attrs, const Dims& weight, TypeContext* context) {
  Layout kernel(attrs.GetString("kernel_layout"));
  ir::Attrs spelt = attrs;
  spelt.Set("dilation", *attrs.Find("dilations"));
  std::vector<int64_t> extents;
  for (size_t axis : kernel.spatial) {
    if (weight[axis].is_const()) extents.push_back(weight[axis].constant());
  }
  if (extents.size() == kernel.spatial.size()) return MakeWindows(spelt, extents, context);
  if (context != nullptr) {
    context->Fail(DiagnosticKind::kShapeMismatch,
                  absl::StrCat("`weight` has shape ", DimsToString(weight), "; expected known spatial extents"), 1);
  }
  return std::nullopt;
}

Solve DilationRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  const Dims &data = args[0]->shape.dims, &weight = args[1]->shape.dims;
  if (data.size() != 4) return FailRank(context, 0, data.size(), "rank 4");
  if (weight.size() != 3) return FailRank(context, 1, weight.size(), "rank 3");
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data`");
  if (!CheckLayout(context, attrs.GetString("data_layout"), "NCHW", "data_layout") ||
      !CheckLayout(context, attrs.GetString("kernel_layout"), "IHW", "kernel_layout"))
    return Solve::kFailed;
  Layout layout(attrs.GetString("data_layout")), kernel(attrs.GetString("kernel_layout"));
  std::optional<std::vector<Window>> windows = DilationWindows(attrs, weight, &context);
  if (!windows ||
      !context.RequireEqual(data[layout.axis('C')], weight[kernel.axis('I')], "channels of data and `weight`"))
    return Solve::kFailed;
  Dims out = data;
  for (size_t s = 0; s < 2; ++s) {
    Dim& dim = out[layout.spatial[s]];
    dim = WindowCount(dim, (*windows)[s]);
  }
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeDilation(const ComputeContext& context) {
  const Tensor &data = context.input(0), &weight = context.input(1);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("data_layout")), kernel(context.attrs().GetString("kernel_layout"));
  std::vector<Window> windows = *DilationWindows(context.attrs(), weight.dims(), nullptr);
  Dims extents;
  for (const Window& window : windows) extents.push_back(window.extent);
  return {ReduceOver(ReduceOp::kMaximum, out.dtype, out.dims, extents, [&](Indices o, Indices r) {
    std::vector<Expr> at(o.begin(), o.end()), tap(3);
    tap[kernel.axis('I')] = o[layout.axis('C')];
    Expr inside;
    for (size_t s = 0; s < 2; ++s) {
      const Window& window = windows[s];
      size_t axis = layout.spatial[s];
      at[axis] = o[axis] * te::Index(window.stride) + r[s] * te::Index(window.dilation) - te::Index(window.pad_before);
      Expr here = InRange(at[axis], data.dims()[axis]);
      inside = inside ? And(inside, here) : here;
      tap[kernel.spatial[s]] = r[s];
    }
    Expr value = te::Select(inside, te::Cast(out.dtype, data(at)), te::Const(out.dtype, 0));
    return value + te::Cast(out.dtype, weight(tap));
  })};
}

// ---- correlation ---------------------------------------------------------------------

struct Correlation {
  int64_t kernel, displacement, stride1, stride2;
  std::vector<int64_t> padding;  // top, left, bottom, right
  // The displacements along an axis are `stride2` apart, `radius` of them in each direction.
  int64_t radius() const { return displacement / stride2; }
  int64_t positions() const { return 2 * radius() + 1; }
};

std::optional<Correlation> Describe(const ir::Attrs& attrs) {
  Correlation c{attrs.GetInt("kernel_size"), attrs.GetInt("max_displacement"), attrs.GetInt("stride1"),
                attrs.GetInt("stride2"), PerAxis(attrs.GetInts("padding"), 2)};
  if (c.padding.size() == 2) c.padding.insert(c.padding.end(), {c.padding[0], c.padding[1]});
  bool is_padding =
      c.padding.size() == 4 && std::all_of(c.padding.begin(), c.padding.end(), [](int64_t p) { return p >= 0; });
  bool fits = is_padding && c.kernel >= 1 && c.kernel % 2 == 1 && c.displacement >= 0 && c.displacement <= 1024 &&
              c.stride1 >= 1 && c.stride2 >= 1 && attrs.GetString("layout") == "NCHW";
  return fits ? std::optional(c) : std::nullopt;
}

Solve CorrelationRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &other = args[1]->shape.dims;
  for (int i = 0; i < 2; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.shape.dims.size() != 4) return FailRank(context, i, arg.shape.dims.size(), "rank 4");
    if (!arg.dtype.dtype.is_float()) return FailDType(context, i, arg.dtype.dtype, "a floating-point dtype");
  }
  if (args[1]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 1, args[1]->dtype.dtype, "that of `data1`");
  for (size_t i = 0; i < 4; ++i) {
    if (!context.RequireEqual(data[i], other[i], "`nn.correlation`: extents of the images")) return Solve::kFailed;
  }
  std::optional<Correlation> c = Describe(context.attrs());
  if (!c) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        "`kernel_size` must be odd, steps positive, displacement and padding not negative, and the "
                        "layout \"NCHW\"");
  }
  Dims out = data;
  out[1] = c->positions() * c->positions();
  for (size_t s = 0; s < 2; ++s) {
    Dim room = data[2 + s] + (c->padding[s] + c->padding[2 + s] - 2 * (c->displacement + (c->kernel - 1) / 2));
    out[2 + s] = ClampedToNatural(FloorDiv(room + (c->stride1 - 1), c->stride1));
  }
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeCorrelation(const ComputeContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  const te::TensorSpec& out = context.output();
  Correlation c = *Describe(context.attrs());
  bool multiply = context.attrs().GetBool("is_multiply");
  DataType wide = Accumulator(out.dtype);
  const Dim& channels = a.dims()[1];
  Tensor sum = ReduceOver(ReduceOp::kSum, wide, out.dims, {channels, c.kernel, c.kernel}, [&](Indices o, Indices r) {
    std::vector<Expr> first = {o[0], r[0]}, second = {o[0], r[0]};
    for (size_t s = 0; s < 2; ++s) {
      Expr number = te::Binary(s == 0 ? BinaryOp::kFloorDivide : BinaryOp::kFloorMod, o[1], te::Index(c.positions()));
      Expr moved = (number - te::Index(c.radius())) * te::Index(c.stride2);
      Expr place = o[2 + s] * te::Index(c.stride1) + te::Index(c.displacement - c.padding[s]) + r[1 + s];
      first.push_back(place);
      second.push_back(place + moved);
    }
    auto read = [&](const Tensor& data, const std::vector<Expr>& at) {
      Expr inside = And(InRange(at[2], data.dims()[2]), InRange(at[3], data.dims()[3]));
      return te::Select(inside, te::Cast(wide, data(at)), te::Const(wide, 0));
    };
    Expr x = read(a, first), y = read(b, second);
    return multiply ? x * y : te::Unary(UnaryOp::kAbs, x - y);
  });
  return {te::ComputeTensor("correlation", out.dtype, out.dims, [&](Indices i) {
    Expr count = te::Cast(wide, te::DimValue(channels * (c.kernel * c.kernel)));
    return te::Cast(out.dtype, te::Binary(BinaryOp::kDivide, sum(i), count));
  })};
}

// ---- sliding windows -----------------------------------------------------------------

Solve SlidingRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  std::vector<int64_t> shape = context.attrs().GetInts("window_shape"), strides = context.attrs().GetInts("strides");
  std::optional<int64_t> axis = NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.size()));
  if (!axis) return Solve::kFailed;
  size_t first = static_cast<size_t>(*axis);
  auto positive = [](const std::vector<int64_t>& values) {
    return std::all_of(values.begin(), values.end(), [](int64_t value) { return value >= 1; });
  };
  if (shape.size() != data.size() - first || strides.size() != shape.size() || !positive(shape) || !positive(strides)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`window_shape` or `strides` does not fit; expected ", data.size() - first,
                                     " positive numbers, one for each axis from `axis` on"));
  }
  Dims out(data.begin(), data.begin() + *axis);
  for (size_t s = 0; s < shape.size(); ++s) {
    if (!context.RequireAtLeast(data[first + s], shape[s], "`sliding_window`: extents of data and of the windows"))
      return Solve::kFailed;
    out.push_back(FloorDiv(data[first + s] - shape[s], strides[s]) + 1);
  }
  for (int64_t extent : shape) out.push_back(extent);
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeSliding(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  size_t first = Normal(context.attrs().GetInt("axis"), data.rank());
  std::vector<int64_t> strides = context.attrs().GetInts("strides");
  return {te::ComputeTensor("sliding_window", data.dtype(), context.output().dims, [&](Indices i) {
    std::vector<Expr> at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(first));
    for (size_t s = 0; s < strides.size(); ++s) {
      at.push_back(i[first + s] * te::Index(strides[s]) + i[first + strides.size() + s]);
    }
    return data(at);
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("image.dilation2d", "the greatest sum of a window and the weights", kDilationInputs, kDilationAttrs,
                    DilationRelation, FusionClass::kReduction, ComputeDilation, kDilationExamples),
                 Dilation2dGradient),
    WithGradient(
        Op("nn.correlation", "the correlation of patches of two images, for each displacement", kCorrelationInputs,
           kCorrelationAttrs, CorrelationRelation, FusionClass::kOpaque, ComputeCorrelation, kCorrelationExamples),
        CorrelationGradient),
    WithGradient(Op("sliding_window", "the windows of data, along new axes", kSlidingInputs, kSlidingAttrs,
                    SlidingRelation, FusionClass::kInjective, ComputeSliding, kSlidingExamples),
                 MoveGradient),
};

}  // namespace

std::span<const OpDef> NeighbourhoodOps() { return kOps; }

}  // namespace rvm::ops
