// Convolutions, pooling, products and resizing. Channels stand before the axes of space.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "base/utf8.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/norms.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/mxnet/importer.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"

namespace rvm::mxnet {
namespace {

using importing::KnownExtent;
using importing::Term;
using importing::Windows;

constexpr int64_t kMaxWindow = int64_t{1} << 20, kMaxCount = int64_t{1} << 30;

// Names of attributes, in MXNet and in NNVM.
struct Names {
  std::string_view kernel, strides, dilations, pads, groups, layout;
};
constexpr Names kMxnetNames = {"kernel", "stride", "dilate", "pad", "num_group", "layout"};
constexpr Names kNnvmNames = {"kernel_size", "strides", "dilation", "padding", "groups", "layout"};
constexpr Names kNnvmPoolNames = {"pool_size", "strides", "dilation", "padding", "groups", "layout"};

// A mistake if an element is not from `least` to kMaxWindow.
void CheckWindow(NodeContext& c, std::string_view name, std::span<const int64_t> values, int64_t least) {
  for (int64_t value : values) {
    if (value < least || value > kMaxWindow) {
      c.Fail(absl::StrCat("`", Abseil(name), "` has ", value, "; expected integers from ", least, " to ", kMaxWindow));
    }
  }
}

// Reads the windows over `x`, (batch, channels, space...).
Windows ReadWindows(NodeContext& c, Operand x, const Names& names, std::vector<int64_t> kernel) {
  Windows windows;
  const int64_t rank = c.RankOf(x);
  if (c.failed()) return windows;
  if (rank < 3 || rank > 5) {
    c.Fail(absl::StrCat("its input has rank ", rank, "; expected 3 to 5"));
    return windows;
  }
  windows.axes = static_cast<size_t>(rank - 2);
  const std::string layout = c.Text(names.layout, "");
  if (!layout.empty() && layout != importing::ImageLayout(windows.axes)) {
    c.Unsupported(absl::StrCat("the layout `", ReadableText(layout.substr(0, 40)), "`"));
  }
  windows.kernel = std::move(kernel);
  windows.strides = c.IntsOf(names.strides, windows.axes, 1);
  windows.dilations = c.IntsOf(names.dilations, windows.axes, 1);
  std::vector<int64_t> pads = c.Ints(names.pads);
  // NNVM may say both borders of each axis.
  windows.pads = pads.size() == 2 * windows.axes ? pads : c.IntsOf(names.pads, windows.axes, 0);
  if (windows.pads.size() == windows.axes) {
    windows.pads.insert(windows.pads.end(), windows.pads.begin(),
                        windows.pads.begin() + static_cast<ptrdiff_t>(windows.axes));
  }
  if (windows.kernel.size() != windows.axes && !c.failed()) {
    c.Fail(
        absl::StrCat("its windows have ", windows.kernel.size(), " axes; its input has ", windows.axes, " of space"));
  }
  CheckWindow(c, names.kernel, windows.kernel, 1);
  CheckWindow(c, names.strides, windows.strides, 1);
  CheckWindow(c, names.dilations, windows.dilations, 1);
  CheckWindow(c, names.pads, windows.pads, 0);
  return windows;
}

// Returns the extents of filters in space.
std::vector<int64_t> KernelOf(NodeContext& c, Operand filters) {
  std::vector<int64_t> kernel;
  for (int64_t axis = 2; axis < c.RankOf(filters); ++axis) {
    kernel.push_back(KnownExtent(c, filters, axis, "filters").value_or(1));
  }
  return kernel;
}

Operand WithBias(NodeContext& c, Operand y, bool has_bias) {
  return has_bias && !c.failed() ? c.Add(y, AlongChannels(c, c.In(2), y)) : y;
}

// ---- convolutions

Operand Convolved(NodeContext& c, const Names& names, bool has_bias) {
  Operand x = c.In(0), filters = c.In(1);
  if (c.failed()) return x;
  const Windows windows = ReadWindows(c, x, names, KernelOf(c, filters));
  const int64_t groups = c.IntWithin(names.groups, 1, 1, kMaxCount);
  if (c.failed()) return x;
  return WithBias(c, Convolve(c, x, filters, windows, groups), has_bias);
}
Operands Convolution(NodeContext& c) { return {Convolved(c, kMxnetNames, !c.Bool("no_bias", false))}; }
Operands NnvmConv2d(NodeContext& c) { return {Convolved(c, kNnvmNames, c.Bool("use_bias", true))}; }

Operand Deconvolved(NodeContext& c, const Names& names, std::string_view rest, bool has_bias) {
  Operand x = c.In(0), filters = c.In(1);
  if (c.failed()) return x;
  const Windows windows = ReadWindows(c, x, names, KernelOf(c, filters));
  for (int64_t extent : c.Ints("target_shape")) {
    if (extent != 0) return c.Unsupported("`target_shape`");
  }
  const std::vector<int64_t> more = c.IntsOf(rest, windows.axes, 0);
  CheckWindow(c, rest, more, 0);
  const int64_t groups = c.IntWithin(names.groups, 1, 1, kMaxCount);
  if (c.failed()) return x;
  Operand y = c.Op(absl::StrCat("nn.conv", windows.axes, "d_transpose"), {x, filters},
                   {{"strides", ir::IntList(windows.strides)},
                    {"padding", ir::IntList(windows.pads)},
                    {"dilation", ir::IntList(windows.dilations)},
                    {"output_padding", ir::IntList(more)},
                    {"groups", groups}});
  return WithBias(c, y, has_bias);
}
Operands Deconvolution(NodeContext& c) { return {Deconvolved(c, kMxnetNames, "adj", !c.Bool("no_bias", true))}; }
Operands NnvmConv2dTranspose(NodeContext& c) {
  return {Deconvolved(c, kNnvmNames, "output_padding", c.Bool("use_bias", true))};
}

// ---- pooling

// Returns the mean, the greatest element or the sum over all axes of space.
Operand PoolGlobally(NodeContext& c, Operand x, std::string_view op) {
  return c.Op(op, {x}, {{"axis", importing::AxesFrom(2, c.RankOf(x))}, {"keepdims", true}});
}

Operands Pooling(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const std::string kind = c.Text("pool_type", "max"), convention = c.Text("pooling_convention", "valid");
  const bool is_mean = kind == "avg", is_sum = kind == "sum";
  if (!is_mean && !is_sum && kind != "max") {
    return {c.Unsupported(absl::StrCat("`pool_type=", ReadableText(kind.substr(0, 40)), "`"))};
  }
  if (c.Bool("global_pool", false)) {
    const std::string layout = c.Text("layout", "");
    if (layout.ends_with('C')) return {c.Unsupported(absl::StrCat("the layout `", ReadableText(layout), "`"))};
    return {PoolGlobally(c, x, is_mean ? "mean" : kind)};
  }
  if (convention != "valid" && convention != "full") {
    return {c.Unsupported(absl::StrCat("`pooling_convention=", ReadableText(convention.substr(0, 40)), "`"))};
  }
  const Windows windows = ReadWindows(c, x, kMxnetNames, c.Ints("kernel"));
  if (c.failed()) return {};
  const bool is_full = convention == "full";
  if (is_sum && is_full) return {c.Unsupported("sums of windows with `pooling_convention=full`")};
  ir::Attrs attrs = PoolAttrs(windows, is_full);
  if (!is_mean && !is_sum) return {c.Op(PoolName("max", windows), {x}, std::move(attrs))};
  attrs.Set("count_include_pad", is_sum || c.Bool("count_include_pad", true));
  Operand y = c.Op(PoolName("avg", windows), {x}, std::move(attrs));
  double size = 1;
  for (int64_t extent : windows.kernel) size *= static_cast<double>(extent);
  return {is_sum ? c.Mul(y, c.Number(size, y)) : y};
}

Operands NnvmPool(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const Windows windows = ReadWindows(c, x, kNnvmPoolNames, c.Ints("pool_size"));
  ir::Attrs attrs = PoolAttrs(windows, c.Bool("ceil_mode", false));
  const bool is_mean = c.row().variant == "avg";
  if (is_mean) attrs.Set("count_include_pad", c.Bool("count_include_pad", false));
  return {c.failed() ? x : c.Op(PoolName(c.row().variant, windows), {x}, std::move(attrs))};
}
Operands NnvmGlobalPool(NodeContext& c) { return {PoolGlobally(c, c.In(0), c.row().variant)}; }

Operands AdaptiveAverage(NodeContext& c) {
  return {c.Op("nn.adaptive_avg_pool2d", {c.In(0)}, {{"output_size", ir::IntList(c.IntsOf("output_size", 2, 1))}})};
}

// ---- products

// Rows of (batch, numbers): the axes behind the first one become one.
Operand Rows(NodeContext& c, Operand x) {
  const Dims dims = c.DimsOf(x);
  if (c.failed() || dims.empty()) return x;
  return c.Reshape(x, {dims[0], importing::Product(std::span(dims).subspan(1))});
}
Operands Flatten(NodeContext& c) { return {Rows(c, c.In(0))}; }

Operand Dense(NodeContext& c, bool flattens, bool has_bias) {
  Operand x = c.In(0);
  if (flattens && !c.failed()) x = Rows(c, x);
  Operand y = c.Op("nn.dense", {x, c.In(1)});
  return has_bias ? c.Add(y, c.In(2)) : y;
}
Operands FullyConnected(NodeContext& c) { return {Dense(c, c.Bool("flatten", true), !c.Bool("no_bias", false))}; }
Operands NnvmDense(NodeContext& c) { return {Dense(c, false, c.Bool("use_bias", true))}; }

// The last axis of a with the first one of b.
Operands Dot(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  const bool turns_a = c.Bool("transpose_a", false), turns_b = c.Bool("transpose_b", false);
  Dims of_a = c.DimsOf(a), of_b = c.DimsOf(b);
  if (c.failed()) return {};
  if (of_a.empty() || of_b.empty()) return {c.Fail("an input is a scalar")};
  if ((turns_a && of_a.size() != 2) || (turns_b && of_b.size() != 2)) {
    return {c.Unsupported("a transposed input that is no matrix")};
  }
  if (turns_a) std::swap(of_a[0], of_a[1]);
  if (turns_b) std::swap(of_b[0], of_b[1]);
  if (of_a.size() > 2) a = c.Reshape(a, {importing::Product(std::span(of_a).first(of_a.size() - 1)), of_a.back()});
  if (of_b.size() > 2) b = c.Reshape(b, {of_b[0], importing::Product(std::span(of_b).subspan(1))});
  if (of_a.size() == 1) a = c.Unsqueeze(a, {0});
  if (of_b.size() == 1) b = c.Unsqueeze(b, {1});
  Operand y = c.Op("nn.matmul", {a, b}, {{"transpose_a", turns_a}, {"transpose_b", turns_b}});
  Dims dims(of_a.begin(), of_a.end() - 1);
  dims.insert(dims.end(), of_b.begin() + 1, of_b.end());
  // MXNet's scalars have one axis.
  if (dims.empty()) dims.emplace_back(1);
  return {c.Reshape(y, dims)};
}

Operands BatchDot(NodeContext& c) {
  Operand y = c.Op("nn.matmul", {c.In(0), c.In(1)},
                   {{"transpose_a", c.Bool("transpose_a", false)}, {"transpose_b", c.Bool("transpose_b", false)}});
  const double alpha = c.Float("alpha", 1);
  if (c.Int("axis", -2) != -2) return {c.Unsupported("`axis` that is not -2")};
  return {alpha == 1 ? y : c.Mul(y, c.Number(alpha, y))};
}

// ---- resizing

// Bilinear upsampling is a transposed convolution whose filters are an input.
Operands UpSampling(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t scale = c.IntWithin("scale", 1, 1, 4096);
  const std::string kind = c.Text("sample_type", "nearest");
  if (c.failed()) return {};
  if (kind == "nearest") {
    if (c.num_inputs() != 1) return {c.Unsupported("several images")};
    const double factor = static_cast<double>(scale);
    return {c.Op("nn.upsampling", {x}, {{"scale_h", factor}, {"scale_w", factor}})};
  }
  if (kind != "bilinear") {
    return {c.Unsupported(absl::StrCat("`sample_type=", ReadableText(kind.substr(0, 40)), "`"))};
  }
  const std::optional<int64_t> channels = KnownExtent(c, x, 1, "input");
  if (!channels) return {};
  const int64_t pad = scale / 2;
  return {c.Op(
      "nn.conv2d_transpose", {x, c.In(1)},
      {{"strides", ir::IntList({{scale, scale}})}, {"padding", ir::IntList({{pad, pad}})}, {"groups", *channels}})};
}

Operands NnvmUpsampling(NodeContext& c) {
  const double factor = static_cast<double>(c.IntWithin("scale", 1, 1, 4096));
  const bool is_linear = c.Text("method", "NEAREST_NEIGHBOR") == "BILINEAR";
  return {c.Op("nn.upsampling", {c.In(0)},
               {{"scale_h", factor},
                {"scale_w", factor},
                {"layout", c.Text("layout", "NCHW")},
                {"method", is_linear ? "bilinear" : "nearest_neighbor"}})};
}

Operands BilinearResize(NodeContext& c) {
  const std::string mode = c.Text("mode", "size");
  if (mode != "size" || c.num_inputs() != 1 || c.HasAttr("scale_height")) {
    return {c.Unsupported("extents that are not `height` and `width`")};
  }
  const int64_t height = c.IntWithin("height", 1, 1, kMaxWindow), width = c.IntWithin("width", 1, 1, kMaxWindow);
  return {c.Op("image.resize2d", {c.In(0)},
               {{"size", ir::IntList({{height, width}})},
                {"method", "linear"},
                {"coordinate_transformation_mode", c.Bool("align_corners", true) ? "align_corners" : "half_pixel"}})};
}

constexpr OperatorRow kRows[] = {
    {"Convolution", Convolution},
    {"Convolution_v1", Convolution},
    {"Deconvolution", Deconvolution},
    {"Flatten", Flatten},
    {"FullyConnected", FullyConnected},
    {"Pooling", Pooling},
    {"Pooling_v1", Pooling},
    {"UpSampling", UpSampling},
    {"_contrib_AdaptiveAvgPooling2D", AdaptiveAverage},
    {"_contrib_BilinearResize2D", BilinearResize},
    {"_linalg_gemm2", BatchDot},
    {"avg_pool2d", NnvmPool, "avg"},
    {"batch_dot", BatchDot},
    {"conv2d", NnvmConv2d},
    {"conv2d_transpose", NnvmConv2dTranspose},
    {"dense", NnvmDense},
    {"dot", Dot},
    {"flatten", Flatten},
    {"global_avg_pool2d", NnvmGlobalPool, "mean"},
    {"global_max_pool2d", NnvmGlobalPool, "max"},
    {"linalg_gemm2", BatchDot},
    {"matmul", BatchDot},
    {"max_pool2d", NnvmPool, "max"},
    {"upsampling", NnvmUpsampling},
};

}  // namespace

std::span<const OperatorRow> LayerOperators() { return kRows; }

}  // namespace rvm::mxnet
