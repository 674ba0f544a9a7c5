// Convolutions, pooling and normalisation. The channels are the last axis or the second one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

// Windows over the axes of space of a batch of images or volumes.
struct Window {
  bool has_channels_last = true;
  std::vector<int64_t> kernel, strides, dilations;
  Dims borders;  // widths of the border: those before all axes, and then those behind

  size_t axes() const { return kernel.size(); }
  int64_t AxisOf(size_t i) const { return static_cast<int64_t>(i) + (has_channels_last ? 1 : 2); }
  int64_t channels() const { return has_channels_last ? static_cast<int64_t>(axes()) + 1 : 1; }
  std::string layout() const {
    const std::string space = axes() == 3 ? "DHW" : "HW";
    return has_channels_last ? "N" + space + "C" : "NC" + space;
  }
};

// Returns the numbers of an attribute for the axes of space; it lists them for all axes. Without the attribute input
// `input` has them.
std::optional<std::vector<int64_t>> SpaceOf(NodeContext& c, const Window& window, std::string_view name, size_t axes,
                                            size_t input = 0) {
  const bool is_input = input != 0 && !c.node().Has(name) && c.Has(input);
  const std::vector<int64_t> all =
      is_input ? c.Ints(input, absl::StrCat("list `", Abseil(name), "`")) : c.node().attr(name).Ints();
  if (c.failed()) return std::nullopt;
  if (all.empty()) return std::vector<int64_t>(axes, 1);
  const size_t first = window.has_channels_last ? 1 : 2;
  const bool fits = all.size() == axes + 2;
  std::vector<int64_t> space;
  for (size_t i = first; fits && i < first + axes; ++i) space.push_back(all[i]);
  const bool is_positive = std::ranges::all_of(space, [](int64_t value) { return value > 0; });
  if (fits && is_positive && all[0] == 1 && all[window.has_channels_last ? axes + 1 : 1] == 1) return space;
  c.Unsupported(absl::StrCat(is_input ? "its input `" : "its attribute `", Abseil(name),
                             "` is no list of numbers above 0 for the axes of space"));
  return std::nullopt;
}

// Reads the widths of the border. The odd element of SAME is behind.
bool ReadBorders(NodeContext& c, Operand x, Window& window) {
  const std::string_view padding = c.TextAttr("padding", "VALID");
  const size_t n = window.axes();
  window.borders.assign(2 * n, Dim(0));
  if (padding == "VALID") return true;
  if (padding == "EXPLICIT") {
    const std::vector<int64_t> widths = c.node().attr("explicit_paddings").Ints();
    if (widths.size() != 2 * (n + 2)) c.Fail("its explicit paddings are not two for each axis");
    for (size_t i = 0; i < n && !c.failed(); ++i) {
      const auto axis = static_cast<size_t>(window.AxisOf(i));
      window.borders[i] = widths[2 * axis];
      window.borders[i + n] = widths[2 * axis + 1];
    }
    return !c.failed();
  }
  if (padding != "SAME") c.Unsupported(absl::StrCat("the padding `", Abseil(padding), "`"));
  for (size_t i = 0; i < n && !c.failed(); ++i) {
    const int64_t span = (window.kernel[i] - 1) * window.dilations[i];
    const Dim total = tensorflow_family::SameBorders(c.ExtentOf(x, window.AxisOf(i)), span, window.strides[i]);
    window.borders[i] = FloorDiv(total, 2);
    window.borders[i + n] = total - window.borders[i];
  }
  return !c.failed();
}

// Reads what all windows have but their kernel, which has `kernel` extents; empty: those of `ksize`. That
// and the strides may be inputs 1 and 2. `dilations_name`: the attribute that has the distances of taps.
std::optional<Window> ReadWindow(NodeContext& c, Operand x, size_t axes, std::vector<int64_t> kernel,
                                 std::string_view dilations_name = "dilations") {
  Window window;
  window.has_channels_last = !c.TextAttr("data_format", "NHWC").starts_with("NC");
  if (c.RankOf(x) != static_cast<int64_t>(axes) + 2) c.Fail(absl::StrCat("its input has not rank ", axes + 2));
  if (c.failed()) return std::nullopt;
  const auto strides = SpaceOf(c, window, "strides", axes, 2), dilations = SpaceOf(c, window, dilations_name, axes);
  const auto sizes = kernel.empty() ? SpaceOf(c, window, "ksize", axes, 1) : std::optional(std::move(kernel));
  if (!strides || !dilations || !sizes) return std::nullopt;
  window.strides = *strides;
  window.dilations = *dilations;
  window.kernel = *sizes;
  return ReadBorders(c, x, window) ? std::optional(std::move(window)) : std::nullopt;
}

// Returns the extents of filters; a mistake, and nullopt, if they are not known.
std::optional<std::vector<int64_t>> FilterShape(NodeContext& c, Operand filters, size_t axes) {
  if (c.failed()) return std::nullopt;
  if (c.RankOf(filters) != static_cast<int64_t>(axes) + 2) c.Fail(absl::StrCat("its filters have not rank ", axes + 2));
  std::vector<int64_t> shape;
  for (size_t i = 0; i < axes + 2 && !c.failed(); ++i) {
    shape.push_back(importing::KnownExtent(c, filters, static_cast<int64_t>(i), "filters").value_or(1));
    if (shape.back() < 1) c.Fail("an extent of its filters is not above 0");
  }
  return c.failed() ? std::nullopt : std::optional(shape);
}

// Pads x where the border is no number of the program.
Operand PadUnknown(NodeContext& c, Operand x, double value, Window& window) {
  if (StaticShape(window.borders)) return x;
  const size_t n = window.axes();
  Dims widths(2 * (n + 2), Dim(0));
  for (size_t i = 0; i < n; ++i) {
    const auto axis = static_cast<size_t>(window.AxisOf(i));
    widths[2 * axis] = window.borders[i];
    widths[2 * axis + 1] = window.borders[i + n];
  }
  window.borders.assign(2 * n, Dim(0));
  return importing::PadBy(c, x, value, widths);
}

ir::Attrs WindowAttrs(const Window& window) {
  return {{"strides", ir::IntList(window.strides)},
          {"padding", ir::IntList(*StaticShape(window.borders))},
          {"dilation", ir::IntList(window.dilations)}};
}

// Filters are (space..., channels in of a group, channels out); those of a depthwise convolution (space..., channels,
// filters of each).
Operands Conv(NodeContext& c) {
  const bool is_depthwise = c.row().variant == "depthwise";
  const size_t axes = c.row().variant == "volumes" ? 3 : 2;
  Operand x = c.In(0), filters = c.In(1);
  const auto shape = FilterShape(c, filters, axes);
  if (!shape) return {};
  auto window = ReadWindow(c, x, axes, {shape->begin(), shape->begin() + static_cast<ptrdiff_t>(axes)});
  if (!window) return {};
  const auto channels = importing::KnownExtent(c, x, window->channels(), "input");
  if (!channels) return {};
  const int64_t own = is_depthwise ? 1 : (*shape)[axes];
  const bool fits = is_depthwise ? (*shape)[axes] == *channels : *channels % own == 0;
  if (!fits) return {c.Fail(absl::StrCat("its filters have ", (*shape)[axes], " channels; its input has ", *channels))};
  x = PadUnknown(c, x, 0, *window);
  const auto n = static_cast<int64_t>(axes);
  std::vector<int64_t> order = is_depthwise ? std::vector<int64_t>{n, n + 1} : std::vector<int64_t>{n + 1, n};
  for (int64_t i = 0; i < n; ++i) order.push_back(i);
  ir::Attrs attrs = WindowAttrs(*window);
  attrs.Set("groups", *channels / own);
  attrs.Set("data_layout", window->layout());
  return {c.Op(axes == 3 ? "nn.conv3d" : "nn.conv2d", {x, c.Transpose(filters, order)}, std::move(attrs))};
}

// The gradient of a convolution by its input: input 0 is the shape of the result, and filters are (space..., channels
// out, channels in).
Operands ConvTransposed(NodeContext& c) {
  const size_t axes = c.row().variant == "volumes" ? 3 : 2;
  Operand filters = c.In(1), x = c.In(2), target = c.In(0);
  const auto shape = FilterShape(c, filters, axes);
  if (!shape) return {};
  const auto window = ReadWindow(c, x, axes, {shape->begin(), shape->begin() + static_cast<ptrdiff_t>(axes)});
  const std::optional<Dims> extents = window ? c.Symbols(target) : std::nullopt;
  if (c.failed()) return {};
  if (!extents || extents->size() != axes + 2) {
    return {c.Unsupported("a shape of the result that is not known; give the extents of the input by --shape")};
  }
  const bool is_same = c.TextAttr("padding", "VALID") == "SAME";
  ir::AttrValue::List before, behind;
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = (window->kernel[i] - 1) * window->dilations[i] + 1, stride = window->strides[i];
    const Dim from = c.ExtentOf(x, window->AxisOf(i)), to = (*extents)[static_cast<size_t>(window->AxisOf(i))];
    // The input of a forward convolution with such windows has this extent where strides fit exactly.
    std::optional<int64_t> first, rest;
    const Dim full = (from - 1) * Dim(stride) + Dim(reach);
    if (is_same && window->borders[i].is_const() && CompareDims(to, from * Dim(stride)) == DimEquality::kEqual) {
      const int64_t total = std::max<int64_t>(reach - stride, 0);
      first = total / 2;
      rest = reach - stride - *first;
    } else if (full.is_const() && to.is_const()) {
      first = is_same ? std::max<int64_t>(full.constant() - to.constant(), 0) / 2 : 0;
      rest = full.constant() - to.constant() - *first;
    } else if (!is_same && CompareDims(to, full) == DimEquality::kEqual) {
      first = rest = 0;
    }
    if (!first || !rest) return {c.Unsupported("extents of the result that are not known; give them by --shape")};
    before.emplace_back(*first);
    behind.emplace_back(*rest);
  }
  before.insert(before.end(), behind.begin(), behind.end());
  const auto n = static_cast<int64_t>(axes);
  std::vector<int64_t> order = {n + 1, n};
  for (int64_t i = 0; i < n; ++i) order.push_back(i);
  return {c.Op(axes == 3 ? "nn.conv3d_transpose" : "nn.conv2d_transpose", {x, c.Transpose(filters, order)},
               {{"strides", ir::IntList(window->strides)},
                {"padding", before},
                {"dilation", ir::IntList(window->dilations)},
                {"data_layout", window->layout()}})};
}

Operands Pool(NodeContext& c) {
  const size_t axes = c.row().variant.ends_with("3d") ? 3 : 2;
  Operand x = c.In(0);
  if (c.failed()) return {};
  auto window = ReadWindow(c, x, axes, {});
  if (!window) return {};
  const bool is_average = c.row().variant.starts_with("nn.avg");
  if (!is_average) x = PadUnknown(c, x, importing::LeastOf(c.DTypeOf(x)), *window);
  const std::optional<Shape> widths = StaticShape(window->borders);
  if (!widths) {
    return {c.Unsupported("a border of pooling with strides that depends on unknown extents; give them by --shape")};
  }
  ir::Attrs attrs = WindowAttrs(*window);
  attrs.Set("pool_size", ir::IntList(window->kernel));
  attrs.Set("layout", window->layout());
  if (is_average) attrs.Set("count_include_pad", false);
  return {c.Op(c.row().variant, {x}, std::move(attrs))};
}

// (x - mean) * scale / sqrt(variance + epsilon) + offset, with the statistics of the model.
Operands BatchNorm(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  if (c.IntAttr("is_training", 1) != 0) return {c.Unsupported("statistics of the batch (is_training)")};
  const int64_t rank = c.RankOf(x), axis = c.TextAttr("data_format", "NHWC").starts_with("NC") ? 1 : rank - 1;
  Operand all = c.Op("nn.batch_norm", {x, c.In(1), c.In(2), c.In(3), c.In(4)},
                     {{"axis", axis}, {"epsilon", c.FloatAttr("epsilon", 1e-4)}});
  return {c.emit().Field(all, 0)};
}

Operands LocalResponse(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t radius = c.IntAttr("depth_radius", 5), size = 2 * radius + 1;
  if (c.failed()) return {};
  if (radius < 0 || radius > (1 << 20)) return {c.Unsupported(absl::StrCat("a radius of ", radius))};
  return {c.Op("nn.lrn", {x},
               {{"size", size},
                {"axis", c.RankOf(x) - 1},
                {"bias", c.FloatAttr("bias", 1)},
                {"alpha", c.FloatAttr("alpha", 1) * static_cast<double>(size)},
                {"beta", c.FloatAttr("beta", 0.5)}})};
}

// Returns the greatest sums of windows and filters (space..., channels). Elements outside of the image do not count.
Operands Dilation(NodeContext& c) {
  Operand x = c.In(0), filters = c.In(1);
  if (!c.failed() && c.RankOf(filters) != 3) c.Fail("its filters have not rank 3");
  if (c.failed()) return {};
  const auto height = importing::KnownExtent(c, filters, 0, "filters"),
             width = importing::KnownExtent(c, filters, 1, "filters");
  if (!height || !width) return {};
  const auto window = ReadWindow(c, x, 2, {*height, *width}, "rates");
  if (!window) return {};
  const Dims& borders = window->borders;
  const Dims widths = {Dim(0), Dim(0), borders[0], borders[2], borders[1], borders[3], Dim(0), Dim(0)};
  return {c.Op("image.dilation2d", {importing::PadBy(c, x, importing::LeastOf(c.DTypeOf(x)), widths), filters},
               {{"strides", ir::IntList(window->strides)},
                {"dilations", ir::IntList(window->dilations)},
                {"data_layout", "NHWC"},
                {"kernel_layout", "HWI"}})};
}

// Puts the elements of each window along the channels: those of one place are next to each other.
Operands ExtractPatches(NodeContext& c) {
  Operand x = c.In(0);
  if (!c.failed() && c.RankOf(x) != 4) c.Fail("its input has not rank 4");
  if (c.failed()) return {};
  Window window;
  const auto sizes = SpaceOf(c, window, "ksizes", 2);
  const auto given = sizes ? ReadWindow(c, x, 2, *sizes, "rates") : std::nullopt;
  if (!given) return {};
  const Dims& borders = given->borders;
  x = importing::PadBy(c, x, 0, {Dim(0), Dim(0), borders[0], borders[2], borders[1], borders[3], Dim(0), Dim(0)});
  const importing::Windows windows{.axes = 2,
                                   .kernel = given->kernel,
                                   .strides = given->strides,
                                   .dilations = given->dilations,
                                   .pads = {0, 0, 0, 0}};
  Operand elements = importing::WindowElements(c, c.Transpose(x, {{0, 3, 1, 2}}), windows);
  if (c.failed()) return {};
  elements = c.Transpose(elements, {{0, 2, 3, 4, 1}});
  Dims dims = c.DimsOf(elements);
  dims[3] = dims[3] * dims[4];
  dims.pop_back();
  return {c.Reshape(elements, dims)};
}

constexpr OperatorRow kRows[] = {
    {"AvgPool", Pool, "nn.avg_pool2d"},
    {"AvgPool3D", Pool, "nn.avg_pool3d"},
    {"Conv2D", Conv},
    {"Conv2DBackpropInput", ConvTransposed},
    {"Conv3D", Conv, "volumes"},
    {"Conv3DBackpropInputV2", ConvTransposed, "volumes"},
    {"DepthwiseConv2dNative", Conv, "depthwise"},
    {"Dilation2D", Dilation},
    {"ExtractImagePatches", ExtractPatches},
    {"FusedBatchNorm", BatchNorm, "", "y batch_mean batch_variance"},
    {"FusedBatchNormV2", BatchNorm, "", "y batch_mean batch_variance"},
    {"FusedBatchNormV3", BatchNorm, "", "y batch_mean batch_variance"},
    {"LRN", LocalResponse},
    {"MaxPool", Pool, "nn.max_pool2d"},
    {"MaxPool3D", Pool, "nn.max_pool3d"},
    {"MaxPoolV2", Pool, "nn.max_pool2d"},
};

}  // namespace

std::span<const OperatorRow> LayerOperators() { return kRows; }

}  // namespace rvm::tensorflow
