// Convolutions, pooling, products and resizing. Images are (batch, height, width, channels).
#include "compiler/import/tflite/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
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
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

// Numbers of fields of the options, height before width.
struct Fields {
  std::array<int, 2> strides{2, 1}, dilations{-1, -1};
  int padding = 0;
};

// Returns the widths of the border. The odd element of SAME is behind.
Dims Borders(NodeContext& c, Operand x, const Window& window, int padding) {
  Dims widths(4, Dim(0));
  if (padding == 1) return widths;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t span = (window.kernel[i] - 1) * window.dilations[i];
    const Dim extent = c.ExtentOf(x, static_cast<int64_t>(i) + 1);
    const Dim total = tensorflow_family::SameBorders(extent, span, window.strides[i]);
    widths[i] = FloorDiv(total, 2);
    widths[i + 2] = total - widths[i];
  }
  return widths;
}

bool ReadWindow(NodeContext& c, Operand x, const Fields& fields, Window& window) {
  for (size_t i = 0; i < 2; ++i) {
    window.strides[i] = c.options().Number<int32_t>(fields.strides[i], 0);
    if (fields.dilations[i] >= 0) window.dilations[i] = c.options().Number<int32_t>(fields.dilations[i], 1);
    if (window.strides[i] > 0 && window.dilations[i] > 0 && window.kernel[i] > 0) continue;
    c.Fail("a stride, a dilation or an extent of its windows is not above 0");
    return false;
  }
  if (c.RankOf(x) != 4) c.Fail("its input has not rank 4");
  if (!c.failed()) window.borders = Borders(c, x, window, c.options().Number<int8_t>(fields.padding, 0));
  return !c.failed();
}

Operand WithBias(NodeContext& c, Operand y, size_t input) { return c.Has(input) ? c.Add(y, c.In(input)) : y; }

// Maximum extent of a resized image, of which each place is a number of the program.
constexpr int64_t kMaxExtent = 1 << 16;

constexpr int64_t kOfAll[] = {0, 3, 1, 2}, kOfEach[] = {3, 0, 1, 2};

}  // namespace

std::optional<std::array<int64_t, 4>> FilterShape(NodeContext& c, Operand filters) {
  if (c.RankOf(filters) != 4) c.Fail("its filters have not rank 4");
  std::array<int64_t, 4> shape{};
  for (size_t i = 0; i < 4 && !c.failed(); ++i) {
    shape[i] = importing::KnownExtent(c, filters, static_cast<int64_t>(i), "filters").value_or(0);
  }
  return c.failed() ? std::nullopt : std::optional(shape);
}

bool Window::HasBorder() const {
  return std::ranges::any_of(borders, [](const Dim& width) { return width != Dim(0); });
}

std::optional<Window> ReadPool(NodeContext& c) {
  Operand x = c.In(0);
  Window window{.kernel = {c.options().Number<int32_t>(4, 0), c.options().Number<int32_t>(3, 0)}, .borders = {}};
  return !c.failed() && ReadWindow(c, x, {}, window) ? std::optional(window) : std::nullopt;
}

ir::Attrs PoolAttrs(NodeContext& c, const Window& window) {
  const std::optional<Shape> widths = StaticShape(window.borders);
  if (!widths) c.Unsupported("a border of pooling with strides that depends on unknown extents; give them by --shape");
  return {{"pool_size", ir::IntList(window.kernel)},
          {"strides", ir::IntList(window.strides)},
          {"padding", ir::IntList(widths.value_or(Shape(4, 0)))},
          {"layout", "NHWC"}};
}

std::optional<Convolution> ReadConvolution(NodeContext& c, bool is_depthwise) {
  Operand x = c.In(0), filters = c.In(1);
  if (c.failed()) return std::nullopt;
  const auto shape = FilterShape(c, filters);
  if (!shape) return std::nullopt;
  Convolution convolution{.window = {.kernel = {(*shape)[1], (*shape)[2]}, .borders = {}},
                          .is_depthwise = is_depthwise};
  const Fields fields = {.dilations = is_depthwise ? std::array{6, 5} : std::array{5, 4}};
  if (!ReadWindow(c, x, fields, convolution.window)) return std::nullopt;
  const std::optional<int64_t> channels = importing::KnownExtent(c, x, 3, "input");
  if (!channels) return std::nullopt;
  const int64_t own = is_depthwise ? 1 : (*shape)[3];
  if (own < 1 || *channels % own != 0) {
    c.Fail(absl::StrCat("its filters have ", own, " channels; its input has ", *channels));
    return std::nullopt;
  }
  convolution.groups = *channels / own;
  convolution.channels = is_depthwise ? (*shape)[3] : (*shape)[0];
  if (__builtin_mul_overflow(own * (*shape)[1], (*shape)[2], &convolution.depth)) {
    c.Fail("its filters are too large");
    return std::nullopt;
  }
  return convolution;
}

Operand Convolve(NodeContext& c, const Convolution& convolution, Operand x, Operand filters, double border,
                 std::string_view out_dtype) {
  const Window& window = convolution.window;
  std::optional<Shape> widths = StaticShape(window.borders);
  if (!widths || (border != 0 && window.HasBorder())) {
    const Dims& b = window.borders;
    x = importing::PadBy(c, x, border, {0, 0, b[0], b[2], b[1], b[3], 0, 0});
    widths = Shape(4, 0);
  }
  ir::Attrs attrs = {{"strides", ir::IntList(window.strides)},
                     {"padding", ir::IntList(*widths)},
                     {"dilation", ir::IntList(window.dilations)},
                     {"groups", convolution.groups},
                     {"channels", convolution.channels},
                     {"kernel_size", ir::IntList(window.kernel)},
                     {"data_layout", "NHWC"},
                     {"kernel_layout", "OIHW"}};
  if (!out_dtype.empty()) attrs.Set("out_dtype", std::string(out_dtype));
  return c.Op("nn.conv2d", {x, c.Transpose(filters, convolution.is_depthwise ? kOfEach : kOfAll)}, std::move(attrs));
}

namespace {

// Strides, and what is cut off the sums before and behind, by axis: height and width.
struct TransposedWindow {
  ir::AttrValue::List strides, before, behind;
};

Operand ConvolveTransposed(NodeContext& c, Operand x, Operand filters, const std::array<int64_t, 4>& kernel,
                           const TransposedWindow& window, std::string_view out_dtype) {
  ir::AttrValue::List cut = window.before;
  cut.insert(cut.end(), window.behind.begin(), window.behind.end());
  ir::Attrs attrs = {{"strides", window.strides}, {"padding", cut},
                     {"channels", kernel[0]},     {"kernel_size", ir::IntList({{kernel[1], kernel[2]}})},
                     {"data_layout", "NHWC"},     {"kernel_layout", "IOHW"}};
  if (!out_dtype.empty()) attrs.Set("out_dtype", std::string(out_dtype));
  constexpr int64_t kOrder[] = {3, 0, 1, 2};
  return c.Op("nn.conv2d_transpose", {x, c.Transpose(filters, kOrder)}, std::move(attrs));
}

}  // namespace

Operand ConvolveTransposed(NodeContext& c, Operand x, Operand filters, std::string_view out_dtype) {
  const std::vector<int64_t> shape = c.Ints(0, "shape of the result");
  if (c.failed()) return x;
  const auto kernel = FilterShape(c, filters);
  if (!kernel || shape.size() != 4) return c.failed() ? x : c.Fail("the shape of its result has not rank 4");
  const int padding = c.options().Number<int8_t>(0, 0);
  TransposedWindow window;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t stride = c.options().Number<int32_t>(i == 0 ? 2 : 1, 0), extent = shape[i + 1];
    const std::optional<int64_t> from = importing::KnownExtent(c, x, static_cast<int64_t>(i) + 1, "input");
    if (!from) return x;
    if (stride < 1 || (*kernel)[i + 1] < 1) return c.Fail("a stride or an extent of its windows is not above 0");
    // SAME drops what the forward convolution would have padded; the rest of the difference is behind.
    const int64_t full = (*from - 1) * stride + (*kernel)[i + 1];
    const int64_t before = padding == 1 ? 0 : std::max<int64_t>(full - extent, 0) / 2;
    window.strides.emplace_back(stride);
    window.before.emplace_back(before);
    window.behind.emplace_back(full - extent - before);
  }
  return ConvolveTransposed(c, x, filters, *kernel, window, out_dtype);
}

Operand RowsOf(NodeContext& c, Operand x, int64_t depth) {
  const bool keeps = c.options().Number<uint8_t>(2, 0) != 0;
  if (c.options().Number<int8_t>(1, 0) != 0) return c.Unsupported("shuffled weights");
  return keeps || c.RankOf(x) == 2 ? x : c.Op("reshape", {x}, {{"newshape", ir::IntList({{int64_t{-1}, depth}})}});
}

Taps NearestTaps(int64_t from, int64_t to, bool aligns, bool is_half) {
  Taps taps;
  const float scale = aligns && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                       : static_cast<float>(from) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    const float place = (static_cast<float>(i) + (is_half ? 0.5f : 0.0f)) * scale;
    const auto at = static_cast<int64_t>(aligns ? std::round(place) : std::floor(place));
    taps.first.push_back(std::clamp<int64_t>(at, 0, from - 1));
  }
  return taps;
}

Taps LinearTaps(int64_t from, int64_t to, bool aligns, bool is_half) {
  constexpr int64_t kOne = 1024;
  Taps taps;
  const int64_t a = aligns && to > 1 ? from - 1 : from, b = aligns && to > 1 ? to - 1 : to;
  const int64_t scale = (kOne * a + b / 2) / b;
  for (int64_t i = 0; i < to; ++i) {
    const int64_t place = i * scale + (is_half ? scale / 2 - kOne / 2 : 0);
    taps.first.push_back(std::max<int64_t>(place / kOne, 0));
    taps.second.push_back(std::min((place + kOne - 1) / kOne, from - 1));
    taps.weights.push_back(place - kOne * taps.first.back());
  }
  return taps;
}

namespace {

Operands Conv(NodeContext& c) {
  const bool is_depthwise = c.row().variant == "depthwise";
  const std::optional<Convolution> convolution = ReadConvolution(c, is_depthwise);
  if (!convolution) return {};
  return {c.Activated(WithBias(c, Convolve(c, *convolution, c.In(0), c.In(1), 0), 2), is_depthwise ? 4 : 3)};
}

Operands TransposeConv(NodeContext& c) {
  Operand filters = c.In(1), x = c.In(2);
  if (c.failed()) return {};
  return {c.Activated(WithBias(c, ConvolveTransposed(c, x, filters), 3), 3)};
}

// MediaPipe's operator: x, filters and bias; its options are three int32: padding (1: SAME, 2: VALID), and the strides
// of columns and rows.
Operands TransposeConvBias(NodeContext& c) {
  Operand x = c.In(0), filters = c.In(1);
  if (c.failed()) return {};
  int32_t options[3] = {};
  const Bytes& custom = c.node().custom;
  if (custom.size() != sizeof(options)) return {c.Fail("its options are not three numbers of 4 bytes")};
  std::memcpy(options, custom.data(), sizeof(options));
  const auto kernel = FilterShape(c, filters);
  if (!kernel) return {};
  if (options[0] != 1 && options[0] != 2) return {c.Fail("its padding is neither SAME nor VALID")};
  TransposedWindow window;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t stride = options[i == 0 ? 2 : 1], extent = (*kernel)[i + 1];
    if (stride < 1 || extent < 1) return {c.Fail("a stride or an extent of its windows is not above 0")};
    const int64_t cut = options[0] == 1 ? std::max<int64_t>(extent - stride, 0) : 0;
    window.strides.emplace_back(stride);
    window.before.emplace_back(cut / 2);
    window.behind.emplace_back(cut - cut / 2);
  }
  return {WithBias(c, ConvolveTransposed(c, x, filters, *kernel, window, ""), 2)};
}

// Returns a convolution of volumes; the filters are (depth, height, width, channels in, channels out), or the last two
// the other way round for the transposed one, whose first input is the shape of its result.
Operands Conv3d(NodeContext& c) {
  const bool is_transposed = c.row().variant == "nn.conv3d_transpose";
  Operand x = c.In(is_transposed ? 2 : 0), filters = c.In(1);
  const std::vector<int64_t> target = is_transposed ? c.Ints(0, "shape of the result") : std::vector<int64_t>(5);
  if (c.failed()) return {};
  if (c.RankOf(x) != 5 || c.RankOf(filters) != 5 || target.size() != 5) return {c.Fail("an input has not rank 5")};
  // Fields of the options for depth, height and width.
  constexpr int kStrides[] = {1, 3, 2}, kDilations[] = {5, 7, 6};
  ir::AttrValue::List strides, dilations, before, behind;
  for (int i = 0; i < 3; ++i) {
    const int64_t stride = c.options().Number<int32_t>(kStrides[i], 0);
    const int64_t dilation = c.options().Number<int32_t>(kDilations[i], 1);
    const auto kernel = importing::KnownExtent(c, filters, i, "filters");
    const auto extent = importing::KnownExtent(c, x, i + 1, "input");
    if (!kernel || !extent) return {};
    if (stride < 1 || dilation < 1 || *kernel < 1) return {c.Fail("a stride, a dilation or an extent is not above 0")};
    const int64_t reach = (*kernel - 1) * dilation + 1;
    const int64_t total = is_transposed ? (*extent - 1) * stride + reach - target[static_cast<size_t>(i) + 1]
                                        : ((*extent + stride - 1) / stride - 1) * stride + reach - *extent;
    const bool is_valid = c.options().Number<int8_t>(0, 0) == 1;
    const int64_t first = is_valid ? 0 : std::max<int64_t>(total, 0) / 2;
    strides.emplace_back(stride);
    dilations.emplace_back(dilation);
    before.emplace_back(first);
    behind.emplace_back(is_transposed ? total - first : is_valid ? 0 : std::max<int64_t>(total, 0) - first);
  }
  before.insert(before.end(), behind.begin(), behind.end());
  constexpr int64_t kFilters[] = {4, 3, 0, 1, 2}, kFirst[] = {0, 4, 1, 2, 3}, kLast[] = {0, 2, 3, 4, 1};
  Operand y = c.Op(c.row().variant, {c.Transpose(x, kFirst), c.Transpose(filters, kFilters)},
                   {{"strides", strides}, {"padding", before}, {"dilation", dilations}});
  return {c.Activated(WithBias(c, c.Transpose(y, kLast), is_transposed ? 3 : 2), 4)};
}

Operands Pool(NodeContext& c) {
  const std::optional<Window> window = ReadPool(c);
  if (!window) return {};
  ir::Attrs attrs = PoolAttrs(c, *window);
  if (c.failed()) return {};
  Operand x = c.In(0);
  const bool is_squares = c.row().variant == "squares";
  const std::string_view op = is_squares ? "nn.avg_pool2d" : c.row().variant;
  if (op == "nn.avg_pool2d") attrs.Set("count_include_pad", false);
  Operand y = c.Op(op, {is_squares ? c.Mul(x, x) : x}, std::move(attrs));
  return {c.Activated(is_squares ? c.Op("sqrt", {y}) : y, 5)};
}

// The last axis of a tensor by a matrix; without `keep_num_dims` all other axes become one.
Operands FullyConnected(NodeContext& c) {
  Operand x = c.In(0), weights = c.In(1);
  if (c.failed()) return {};
  const std::optional<int64_t> depth = importing::KnownExtent(c, weights, 1, "weights");
  if (!depth) return {};
  return {c.Activated(WithBias(c, c.Op("nn.dense", {RowsOf(c, x, *depth), weights}), 2), 0)};
}

Operands BatchMatMul(NodeContext& c) {
  const bool turns_a = c.options().Number<uint8_t>(0, 0) != 0, turns_b = c.options().Number<uint8_t>(1, 0) != 0;
  return {c.Op("nn.matmul", {c.In(0), c.In(1)}, {{"transpose_a", turns_a}, {"transpose_b", turns_b}})};
}

Operands ResizeBilinear(NodeContext& c) {
  const std::vector<int64_t> size = c.Ints(1, "size");
  if (c.failed()) return {};
  const bool aligns = c.options().Number<uint8_t>(2, 0) != 0, is_half = c.options().Number<uint8_t>(3, 0) != 0;
  return {c.Op("image.resize2d", {c.In(0)},
               {{"size", ir::IntList(size)},
                {"layout", "NHWC"},
                {"method", "linear"},
                {"coordinate_transformation_mode", aligns    ? "align_corners"
                                                   : is_half ? "half_pixel"
                                                             : "asymmetric"}})};
}

Operands ResizeNearest(NodeContext& c) {
  const std::vector<int64_t> size = c.Ints(1, "size");
  Operand x = c.In(0);
  if (c.failed()) return {};
  if (size.size() != 2 || c.RankOf(x) != 4) return {c.Fail("its size is not that of an image")};
  const bool aligns = c.options().Number<uint8_t>(0, 0) != 0, is_half = c.options().Number<uint8_t>(1, 0) != 0;
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i) + 1;
    const std::optional<int64_t> extent = importing::KnownExtent(c, x, axis, "input");
    if (!extent) return {};
    if (size[i] < 1 || size[i] > kMaxExtent || *extent < 1) return {c.Fail("an extent is not above 0")};
    const Taps taps = NearestTaps(*extent, size[i], aligns, is_half);
    x = c.Op("take", {x, c.emit().Vector(taps.first)}, {{"axis", axis}, {"mode", "fast"}});
  }
  return {x};
}

Operands Normalised(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {
      c.Activated(c.Op("nn.l2_normalize", {x}, {{"eps", 1e-6 * 1e-6}, {"axis", ir::IntList({{c.RankOf(x) - 1}})}}), 0)};
}

// x / (bias + alpha * sum)^beta, for a sum of the squares of `radius` channels before each, and of it and those behind
// it, of which there is one fewer.
Operands LocalResponse(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t radius = c.options().Number<int32_t>(0, 0);
  const double bias = c.options().Number<float>(1, 0), alpha = c.options().Number<float>(2, 0),
               beta = c.options().Number<float>(3, 0);
  if (c.failed()) return {};
  if (radius < 1 || radius > (1 << 20)) return {c.Unsupported(absl::StrCat("a radius of ", radius))};
  if (c.RankOf(x) != 4) return {c.Fail("its input has not rank 4")};
  Operand squares = importing::PadBy(c, c.Mul(x, x), 0, {0, 0, 0, 0, 0, 0, radius, radius - 1});
  Operand windows = c.Op("sliding_window", {squares},
                         {{"axis", 3}, {"window_shape", ir::IntList({{2 * radius}})}, {"strides", ir::IntList({{1}})}});
  Operand sums = c.Op("sum", {windows}, {{"axis", ir::IntList({{4}})}});
  Operand scale = c.Add(c.Number(bias, x), c.Mul(sums, c.Number(alpha, x)));
  return {c.Mul(x, c.Op("power", {scale, c.Number(-beta, x)}))};
}

constexpr OperatorRow kRows[] = {
    {"AVERAGE_POOL_2D", Pool, "nn.avg_pool2d"},
    {"BATCH_MATMUL", BatchMatMul},
    {"CONV_2D", Conv},
    {"CONV_3D", Conv3d, "nn.conv3d"},
    {"CONV_3D_TRANSPOSE", Conv3d, "nn.conv3d_transpose"},
    {"DEPTHWISE_CONV_2D", Conv, "depthwise"},
    {"FULLY_CONNECTED", FullyConnected},
    {"L2_NORMALIZATION", Normalised},
    {"L2_POOL_2D", Pool, "squares"},
    {"LOCAL_RESPONSE_NORMALIZATION", LocalResponse},
    {"MAX_POOL_2D", Pool, "nn.max_pool2d"},
    {"RESIZE_BILINEAR", ResizeBilinear},
    Moves("RESIZE_NEAREST_NEIGHBOR", ResizeNearest),
    {"TRANSPOSE_CONV", TransposeConv},
    {"CUSTOM.Convolution2DTransposeBias", TransposeConvBias},
};

}  // namespace

std::span<const OperatorRow> LayerOperators() { return kRows; }

}  // namespace rvm::tflite
