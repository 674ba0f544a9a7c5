// Operators that read images at computed coordinates: grids, deformable convolution.
#include "compiler/ops/families/sampling.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

DataType CoordinateType(DataType dtype) { return dtype == kFloat64 ? kFloat64 : kFloat32; }

Expr Bilinear(const Tensor& data, std::vector<Expr> at, std::span<const size_t> axes, std::span<const Expr> coordinates,
              Outside outside) {
  DataType wide = CoordinateType(data.dtype());
  if (axes.empty()) return te::Cast(wide, data(at));
  size_t axis = axes.front();
  const Dim& extent = data.dims()[axis];
  Expr below = te::Unary(UnaryOp::kFloor, coordinates.front()), t = coordinates.front() - below;
  auto tap = [&](const Expr& place) {
    at[axis] = outside == Outside::kIsZero ? place : Clamp(place, extent);
    Expr value = Bilinear(data, at, axes.subspan(1), coordinates.subspan(1), outside);
    return outside == Outside::kIsZero ? te::Select(InRange(place, extent), value, te::Const(wide, 0)) : value;
  };
  Expr place = te::Cast(kInt64, below);
  Expr low = tap(place), high = tap(place + te::Index(1));
  return low * (te::Const(wide, 1) - t) + high * t;
}

namespace {

Expr Floor(const Expr& x) { return te::Unary(UnaryOp::kFloor, x); }
Expr Quotient(Expr a, Expr b) { return te::Binary(BinaryOp::kDivide, std::move(a), std::move(b)); }
Expr AtLeast(Expr a, Expr b) { return te::Binary(BinaryOp::kMaximum, std::move(a), std::move(b)); }
Expr AtMost(Expr a, Expr b) { return te::Binary(BinaryOp::kMinimum, std::move(a), std::move(b)); }
Expr Extent(const Dim& dim, DataType dtype) { return te::Cast(dtype, te::DimValue(dim)); }

// ---- grids ---------------------------------------------------------------------------

constexpr Input kAffineInputs[] = {{"data", "affine matrices (batch, 2, 3)"}};
constexpr AttrSpec kAffineAttrs[] = {{"target_shape", AttrType::kInts, "", "height and width, each above 1"}};
constexpr Example kAffineExamples[] = {{"image.affine_grid([[[1f, 0f, 0f], [0f, 2f, 1f]]], target_shape=[2, 3])",
                                        "[[[[-1f, 0f, 1f], [-1f, 0f, 1f]], [[-1f, -1f, -1f], [3f, 3f, 3f]]]]"}};
constexpr Input kGridInputs[] = {
    {"data", "a batch of images"},
    {"grid", "(batch, 2 or 3, new extents of space): for each place x, y (and z), from -1 to 1 across the image"}};
constexpr AttrSpec kGridAttrs[] = {
    {"method", AttrType::kString, "\"bilinear\"", "\"nearest\" (halves to even), \"bilinear\" or \"bicubic\""},
    {"layout", AttrType::kString, "\"NCHW\"", "\"NCHW\" or \"NCDHW\""},
    {"padding_mode", AttrType::kString, "\"zeros\"", "outside the image: \"zeros\", \"border\" or \"reflection\""},
    {"align_corners", AttrType::kBool, "True", "-1 and 1 are the centres of the outermost elements, else their edges"}};
constexpr Example kGridExamples[] = {
    {"image.grid_sample([[[[1f, 2f], [3f, 4f]]]], [[[[-1f, 0f, 1f]], [[-1f, 0f, 2f]]]])", "[[[[1f, 2.5f, 2f]]]]"},
    {"image.grid_sample([[[[1f, 2f], [3f, 4f]]]], [[[[-1f, 0.25f, 3f]], [[1f, 1f, 1f]]]], method=\"nearest\", "
     "padding_mode=\"border\")",
     "[[[[3f, 4f, 4f]]]]"}};

Solve AffineRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims& data = args[0]->shape.dims;
  std::vector<int64_t> shape = context.attrs().GetInts("target_shape");
  if (data.size() != 3) return FailRank(context, 0, data.size(), "rank 3");
  if (!args[0]->dtype.dtype.is_float()) return FailDType(context, 0, args[0]->dtype.dtype, "a floating-point dtype");
  if (shape.size() != 2 || shape[0] < 2 || shape[1] < 2) {
    return context.Fail(DiagnosticKind::kBadAttribute, "`target_shape` is not a list of two extents above 1");
  }
  if (!context.RequireEqual(data[1], 2, "rows of the matrices") ||
      !context.RequireEqual(data[2], 3, "columns of the matrices"))
    return Solve::kFailed;
  return ResultTensor(context, {data[0], 2, shape[0], shape[1]}, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeAffine(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  DataType wide = CoordinateType(out.dtype);
  return {te::ComputeTensor("affine_grid", out.dtype, out.dims, [&](Indices i) {
    auto across = [&](size_t axis) {
      double step = (2.0 - 1e-7) / static_cast<double>(out.dims[axis].constant() - 1);
      return te::Const(wide, -1) + te::Cast(wide, i[axis]) * te::FloatConst(wide, step);
    };
    auto at = [&](int64_t column) { return te::Cast(wide, data({i[0], i[1], te::Index(column)})); };
    return te::Cast(out.dtype, at(0) * across(3) + at(1) * across(2) + at(2));
  })};
}

Solve GridRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &grid = args[1]->shape.dims;
  const ir::Attrs& attrs = context.attrs();
  const std::string &layout = attrs.GetString("layout"), &method = attrs.GetString("method");
  const std::string& mode = attrs.GetString("padding_mode");
  bool fits = (layout == "NCHW" || layout == "NCDHW") &&
              (method == "nearest" || method == "bilinear" || method == "bicubic") &&
              (mode == "zeros" || mode == "border" || mode == "reflection");
  if (!fits) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        "`layout`, `method` or `padding_mode` has an unknown value; see docs/operators.md");
  }
  for (int i = 0; i < 2; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.shape.dims.size() != layout.size()) {
      return FailRank(context, i, arg.shape.dims.size(), absl::StrCat("rank ", layout.size()));
    }
    if (!arg.dtype.dtype.is_float()) return FailDType(context, i, arg.dtype.dtype, "a floating-point dtype");
  }
  if (!context.RequireEqual(data[0], grid[0], "`image.grid_sample`: batches") ||
      !context.RequireEqual(grid[1], static_cast<int64_t>(layout.size()) - 2, "`image.grid_sample`: axis 1 of `grid`"))
    return Solve::kFailed;
  Dims out = grid;
  out[1] = data[1];
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// Returns a coordinate reflected at the edges until it is inside.
Expr Reflected(const Expr& x, const Dim& extent, bool align_corners) {
  DataType wide = x.dtype();
  Expr begin = te::FloatConst(wide, align_corners ? 0 : -0.5);
  Expr length = Extent(align_corners ? extent - 1 : extent, wide);
  Expr distance = te::Unary(UnaryOp::kAbs, begin - x);
  Expr turns = te::Unary(UnaryOp::kTrunc, Quotient(distance, length));
  turns = te::Select(Less(te::Const(wide, 0), length), turns, te::Const(wide, 0));
  Expr rest = distance - turns * length;
  Expr is_even = Equal(te::Binary(BinaryOp::kFloorMod, turns, te::Const(wide, 2)), te::Const(wide, 0));
  return begin + te::Select(is_even, rest, length - rest);
}

// Samples the image at the coordinates of the grid.
class GridSampler {
 public:
  explicit GridSampler(const ComputeContext& context)
      : data_(context.input(0)),
        align_(context.attrs().GetBool("align_corners")),
        method_(context.attrs().GetString("method")),
        mode_(context.attrs().GetString("padding_mode")),
        wide_(CoordinateType(data_.dtype())) {
    const Tensor& grid = context.input(1);
    source_ = te::ComputeTensor("source", wide_, grid.dims(), [&](Indices i) {
      Expr axis = i[1], x = te::Cast(wide_, grid(i)), result;
      // Row k of the grid has the coordinates of the k-th spatial axis from the last.
      for (size_t k = 0; k + 2 < data_.rank(); ++k) {
        Expr here = Source(x, data_.dims()[data_.rank() - 1 - k]);
        result = result ? te::Select(Equal(axis, te::Index(static_cast<int64_t>(k))), here, result) : here;
      }
      return result;
    });
  }

  Expr At(Indices out) const {
    std::vector<Expr> at(out.begin(), out.end());
    return Fold(out, at, 2, Expr());
  }

 private:
  struct Tap {
    Expr place, weight;  // a null weight is 1
  };

  Expr Source(const Expr& x, const Dim& extent) const {
    Expr one = te::Const(wide_, 1), half = te::FloatConst(wide_, 0.5), n = Extent(extent, wide_);
    Expr source = align_ ? (x + one) * (n - one) * half : (x + one) * n * half - half;
    return method_ == "bicubic" ? source : Inside(source, extent);
  }
  // Maps a coordinate into the image, as `padding_mode` specifies.
  Expr Inside(const Expr& x, const Dim& extent) const {
    if (mode_ == "zeros") return x;
    Expr inner = mode_ == "reflection" ? Reflected(x, extent, align_) : x;
    return AtMost(AtLeast(inner, te::Const(wide_, 0)), Extent(extent, wide_) - te::Const(wide_, 1));
  }
  std::vector<Tap> Taps(const Expr& x, const Dim& extent) const {
    if (method_ == "nearest") return {{te::Cast(kInt64, te::Unary(UnaryOp::kRound, x)), Expr()}};
    Expr below = Floor(x), t = x - below, one = te::Const(wide_, 1);
    Expr place = te::Cast(kInt64, below);
    if (method_ == "bilinear") return {{place, one - t}, {place + te::Index(1), t}};
    std::vector<Tap> taps;
    for (int64_t k = -1; k <= 2; ++k) {
      Expr tap = Inside(below + te::Const(wide_, static_cast<double>(k)), extent);
      Expr distance = te::Unary(UnaryOp::kAbs, t - te::Const(wide_, static_cast<double>(k)));
      taps.push_back({te::Cast(kInt64, Floor(tap)), CubicWeight(distance, k == 0 || k == 1)});
    }
    return taps;
  }
  // R. Keys, "Cubic convolution interpolation for digital image processing", 1981, with the coefficient -3/4.
  Expr CubicWeight(const Expr& s, bool is_near) const {
    constexpr double a = -0.75;
    auto number = [&](double value) { return te::FloatConst(wide_, value); };
    if (is_near) return (number(a + 2) * s - number(a + 3)) * s * s + number(1);
    return ((number(a) * s - number(5 * a)) * s + number(8 * a)) * s - number(4 * a);
  }
  Expr Fold(Indices out, std::vector<Expr>& at, size_t axis, const Expr& inside) const {
    if (axis == data_.rank()) return te::Select(inside, te::Cast(wide_, data_(at)), te::Const(wide_, 0));
    std::vector<Expr> place(out.begin(), out.end());
    place[1] = te::Index(static_cast<int64_t>(data_.rank() - 1 - axis));
    Expr sum;
    for (const Tap& tap : Taps(source_(place), data_.dims()[axis])) {
      at[axis] = tap.place;
      Expr here = InRange(tap.place, data_.dims()[axis]);
      Expr value = Fold(out, at, axis + 1, inside ? And(inside, here) : here);
      if (tap.weight) value = value * tap.weight;
      sum = sum ? sum + value : value;
    }
    return sum;
  }

  const Tensor& data_;
  bool align_;
  std::string method_, mode_;
  DataType wide_;
  Tensor source_;
};

std::vector<Tensor> ComputeGrid(const ComputeContext& context) {
  GridSampler sampler(context);
  const te::TensorSpec& out = context.output();
  return {te::ComputeTensor("grid_sample", out.dtype, out.dims,
                            [&](Indices i) { return te::Cast(out.dtype, sampler.At(i)); })};
}

// ---- deformed filters ----------------------------------------------------------------

constexpr Input kDeformableInputs[] = {
    {"data", "a batch of images"},
    {"offset", "(batch, deformable_groups * taps * 2, new extents of space): how far down and right each tap is moved"},
    {"weight", "the filters"}};
constexpr AttrSpec kDeformableAttrs[] = {
    {"strides", AttrType::kInts, "[1, 1]", "step of the windows"},
    {"padding", AttrType::kInts, "[0, 0]", "zeros around each axis: one number, one per axis, or befores then afters"},
    {"dilation", AttrType::kInts, "[1, 1]", "distance of the taps"},
    {"deformable_groups", AttrType::kInt, "1", "channels share offsets in as many groups"},
    {"groups", AttrType::kInt, "1", "channels are split in as many groups"},
    {"channels", AttrType::kInt, "None", "output channels, checked", true},
    {"kernel_size", AttrType::kInts, "None", "extents of the filters, checked", true},
    {"data_layout", AttrType::kString, "\"NCHW\"", "axes of data, of offset and of the result"},
    {"kernel_layout", AttrType::kString, "\"OIHW\"", "axes of weight"},
    {"out_layout", AttrType::kString, "\"\"", "must be that of data"},
    {"out_dtype", AttrType::kDType, "\"\"", "dtype of the result (that of data)"}};
constexpr Example kDeformableExamples[] = {
    {"nn.deformable_conv2d([[[[1f, 2f], [3f, 4f]]]], [[[[0f, 0.5f], [0f, 0f]], [[0.5f, 0f], [0f, -1.5f]]]], "
     "[[[[2f]]]])",
     "[[[[3f, 6f], [6f, 3f]]]]"}};

Solve DeformableRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const ir::Attrs& attrs = context.attrs();
  for (int i = 0; i < 3; ++i) {
    const ir::TensorType& arg = *args[static_cast<size_t>(i)];
    if (arg.shape.dims.size() != 4) return FailRank(context, i, arg.shape.dims.size(), "rank 4");
    if (!arg.dtype.dtype.is_float()) return FailDType(context, i, arg.dtype.dtype, "a floating-point dtype");
  }
  if (!CheckLayout(context, attrs.GetString("data_layout"), "NCHW", "data_layout") ||
      !CheckLayout(context, attrs.GetString("kernel_layout"), "OIHW", "kernel_layout"))
    return Solve::kFailed;
  Layout layout(attrs.GetString("data_layout")), kernel(attrs.GetString("kernel_layout"));
  const Dims &data = args[0]->shape.dims, &offset = args[1]->shape.dims, &weight = args[2]->shape.dims;
  int64_t groups = attrs.GetInt("groups"), deformable = attrs.GetInt("deformable_groups");
  std::vector<int64_t> taps;
  for (size_t axis : kernel.spatial) {
    if (weight[axis].is_const()) taps.push_back(weight[axis].constant());
  }
  if (taps.size() != 2 || groups < 1 || deformable < 1) {
    return context.Fail(
        DiagnosticKind::kBadAttribute,
        absl::StrCat("filters have shape ", DimsToString(weight), ", `groups` is ", groups, " and `deformable_groups` ",
                     deformable, "; expected known spatial extents, and positive numbers of groups"));
  }
  std::optional<std::vector<Window>> windows = MakeWindows(attrs, taps, &context);
  if (!windows) return Solve::kFailed;
  const Dim& channels = data[layout.axis('C')];
  if (!context.RequireEqual(channels, weight[kernel.axis('I')] * groups, "channels of data and filters") ||
      !context.RequireEqual(FloorMod(channels, deformable), 0, "remainder of channels by `deformable_groups`") ||
      !context.RequireEqual(offset[layout.axis('C')], deformable * taps[0] * taps[1] * 2, "channels of `offset`") ||
      !context.RequireEqual(offset[layout.axis('N')], data[layout.axis('N')], "batches of `offset` and data"))
    return Solve::kFailed;
  Dims out = data;
  out[layout.axis('C')] = weight[kernel.axis('O')];
  for (size_t s = 0; s < 2; ++s) {
    Dim& dim = out[layout.spatial[s]];
    dim = WindowCount(dim, (*windows)[s]);
    if (!context.RequireEqual(offset[layout.spatial[s]], dim, "extents of `offset` and of the result"))
      return Solve::kFailed;
  }
  return ResultTensor(context, out, DTypeAttr(attrs, "out_dtype", args[0]->dtype.dtype));
}

std::vector<Tensor> ComputeDeformable(const ComputeContext& context) {
  const Tensor &data = context.input(0), &offset = context.input(1), &weight = context.input(2);
  const ir::Attrs& attrs = context.attrs();
  const te::TensorSpec& out = context.output();
  Layout layout(attrs.GetString("data_layout")), kernel(attrs.GetString("kernel_layout"));
  std::vector<int64_t> taps;
  for (size_t axis : kernel.spatial) taps.push_back(weight.dims()[axis].constant());
  std::vector<Window> windows = *MakeWindows(attrs, taps, nullptr);
  size_t n = layout.axis('N'), c = layout.axis('C');
  int64_t groups = attrs.GetInt("groups"), deformable = attrs.GetInt("deformable_groups");
  Expr shared = te::DimValue(FloorDiv(data.dims()[c], deformable));
  DataType wide = CoordinateType(data.dtype());
  // (n, channel, tap, y, x)
  Dims dims = {data.dims()[n], data.dims()[c], taps[0] * taps[1], out.dims[layout.spatial[0]],
               out.dims[layout.spatial[1]]};
  Tensor moved = te::ComputeTensor("moved", wide, dims, [&](Indices i) {
    std::vector<Expr> at(4), coordinates;
    at[n] = i[0];
    Expr group = te::Binary(BinaryOp::kFloorDivide, i[1], shared);
    Expr first = (group * te::Index(taps[0] * taps[1]) + i[2]) * te::Index(2);
    for (size_t s = 0; s < 2; ++s) at[layout.spatial[s]] = i[3 + s];
    for (size_t s = 0; s < 2; ++s) {
      const Window& window = windows[s];
      BinaryOp part = s == 0 ? BinaryOp::kFloorDivide : BinaryOp::kFloorMod;
      Expr tap = te::Binary(part, i[2], te::Index(taps[1]));
      Expr place =
          i[3 + s] * te::Index(window.stride) + tap * te::Index(window.dilation) - te::Index(window.pad_before);
      at[c] = first + te::Index(static_cast<int64_t>(s));
      coordinates.push_back(te::Cast(wide, place) + te::Cast(wide, offset(at)));
    }
    at[c] = i[1];
    return Bilinear(data, at, layout.spatial, coordinates, Outside::kIsZero);
  });
  Dims reduced = {weight.dims()[kernel.axis('I')], taps[0] * taps[1]};
  Expr outputs = te::DimValue(FloorDiv(out.dims[c], groups)), inputs = te::DimValue(reduced[0]);
  Tensor sum = ReduceOver(ReduceOp::kSum, wide, out.dims, reduced, [&](Indices o, Indices r) {
    Expr channel = r[0];
    if (groups > 1) channel = channel + te::Binary(BinaryOp::kFloorDivide, o[c], outputs) * inputs;
    std::vector<Expr> tap(4);
    tap[kernel.axis('O')] = o[c];
    tap[kernel.axis('I')] = r[0];
    tap[kernel.spatial[0]] = te::Binary(BinaryOp::kFloorDivide, r[1], te::Index(taps[1]));
    tap[kernel.spatial[1]] = te::Binary(BinaryOp::kFloorMod, r[1], te::Index(taps[1]));
    return moved({o[n], channel, r[1], o[layout.spatial[0]], o[layout.spatial[1]]}) * te::Cast(wide, weight(tap));
  });
  return {CastTensor(sum, out.dtype)};
}

constexpr OpDef kOps[] = {
    WithGradient(
        Op("image.affine_grid", "the places at which affine maps read an image, as `image.grid_sample` takes them",
           kAffineInputs, kAffineAttrs, AffineRelation, FusionClass::kInjective, ComputeAffine, kAffineExamples),
        AffineGridGradient),
    WithGradient(Op("image.grid_sample", "images read at the places of a grid", kGridInputs, kGridAttrs, GridRelation,
                    FusionClass::kOpaque, ComputeGrid, kGridExamples),
                 GridSampleGradient),
    WithGradient(
        Op("nn.deformable_conv2d", "convolution whose taps are moved by offsets; data is 0 outside (Dai et al. 2017)",
           kDeformableInputs, kDeformableAttrs, DeformableRelation, FusionClass::kOpaque, ComputeDeformable,
           kDeformableExamples),
        DeformableConv2dGradient),
};

}  // namespace

std::span<const OpDef> SamplingOps() { return kOps; }

}  // namespace rvm::ops
