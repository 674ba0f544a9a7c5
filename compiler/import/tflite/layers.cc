// Convolutions, pooling, products and resizing. Images are (batch, height, width, channels).
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

struct Window {
  std::array<int64_t, 2> kernel{}, strides{1, 1}, dilations{1, 1};
};

// Numbers of fields of the options, height before width.
struct Fields {
  std::array<int, 2> strides{2, 1}, dilations{-1, -1};
  int padding = 0;
};

bool ReadWindow(NodeContext& c, const Fields& fields, Window& window) {
  for (size_t i = 0; i < 2; ++i) {
    window.strides[i] = c.options().Number<int32_t>(fields.strides[i], 0);
    if (fields.dilations[i] >= 0) window.dilations[i] = c.options().Number<int32_t>(fields.dilations[i], 1);
    if (window.strides[i] > 0 && window.dilations[i] > 0 && window.kernel[i] > 0) continue;
    c.Fail("a stride, a dilation or an extent of its windows is not above 0");
    return false;
  }
  return true;
}

// The widths of the border, those before both axes and then those behind. SAME gives as many windows as strides fit,
// with the odd element behind, and depends on the extents only where a stride is not 1.
std::optional<std::vector<int64_t>> Border(NodeContext& c, Operand x, const Window& window, int padding) {
  std::vector<int64_t> widths(4, 0);
  if (padding == 1) return widths;
  for (size_t i = 0; i < 2; ++i) {
    int64_t total = (window.kernel[i] - 1) * window.dilations[i];
    if (window.strides[i] != 1) {
      const std::optional<int64_t> extent = importing::KnownExtent(c, x, static_cast<int64_t>(i) + 1, "input");
      if (!extent) return std::nullopt;
      const int64_t count = (*extent + window.strides[i] - 1) / window.strides[i];
      total = std::max<int64_t>(0, (count - 1) * window.strides[i] + total + 1 - *extent);
    }
    widths[i] = total / 2;
    widths[i + 2] = total - total / 2;
  }
  return widths;
}

Operand WithBias(NodeContext& c, Operand y, size_t input) { return c.Has(input) ? c.Add(y, c.In(input)) : y; }

// `is_depthwise`: the filters are (1, height, width, channels), else (channels out, height, width, channels in).
Operand Convolution(NodeContext& c, bool is_depthwise) {
  Operand x = c.In(0), filters = c.In(1);
  if (c.failed()) return x;
  if (c.RankOf(x) != 4 || c.RankOf(filters) != 4) return c.Fail("its input or its filters have not rank 4");
  std::array<int64_t, 4> shape{};
  for (size_t i = 0; i < 4; ++i) {
    const std::optional<int64_t> extent = importing::KnownExtent(c, filters, static_cast<int64_t>(i), "filters");
    if (!extent) return filters;
    shape[i] = *extent;
  }
  const std::optional<int64_t> channels = importing::KnownExtent(c, x, 3, "input");
  Window window{.kernel = {shape[1], shape[2]}};
  const Fields fields = {.dilations = is_depthwise ? std::array{6, 5} : std::array{5, 4}};
  if (!channels || !ReadWindow(c, fields, window)) return x;
  const int64_t own = is_depthwise ? 1 : shape[3];
  if (own < 1 || *channels % own != 0) {
    return c.Fail(absl::StrCat("its filters have ", own, " channels; its input has ", *channels));
  }
  const auto widths = Border(c, x, window, c.options().Number<int8_t>(fields.padding, 0));
  if (!widths) return x;
  constexpr int64_t kOfAll[] = {0, 3, 1, 2}, kOfEach[] = {3, 0, 1, 2};
  const int64_t out = is_depthwise ? shape[3] : shape[0];
  Operand y = c.Op("nn.conv2d", {x, c.Transpose(filters, is_depthwise ? kOfEach : kOfAll)},
                   {{"strides", ir::IntList(window.strides)},
                    {"padding", ir::IntList(*widths)},
                    {"dilation", ir::IntList(window.dilations)},
                    {"groups", *channels / own},
                    {"channels", out},
                    {"kernel_size", ir::IntList(window.kernel)},
                    {"data_layout", "NHWC"},
                    {"kernel_layout", "OIHW"}});
  return WithBias(c, y, 2);
}

Operands Conv2d(NodeContext& c) { return {c.Activated(Convolution(c, false), 3)}; }
Operands DepthwiseConv2d(NodeContext& c) { return {c.Activated(Convolution(c, true), 4)}; }

Operands Pool(NodeContext& c) {
  Operand x = c.In(0);
  Window window{.kernel = {c.options().Number<int32_t>(4, 0), c.options().Number<int32_t>(3, 0)}};
  if (c.failed() || !ReadWindow(c, {}, window)) return {};
  const auto widths = Border(c, x, window, c.options().Number<int8_t>(0, 0));
  if (!widths) return {};
  ir::Attrs attrs = {{"pool_size", ir::IntList(window.kernel)},
                     {"strides", ir::IntList(window.strides)},
                     {"padding", ir::IntList(*widths)},
                     {"layout", "NHWC"}};
  if (c.row().variant == "nn.avg_pool2d") attrs.Set("count_include_pad", false);
  return {c.Activated(c.Op(c.row().variant, {x}, std::move(attrs)), 5)};
}

// The last axis of a tensor by a matrix; without `keep_num_dims` all other axes become one.
Operands FullyConnected(NodeContext& c) {
  Operand x = c.In(0), weights = c.In(1);
  if (c.failed()) return {};
  if (c.options().Number<int8_t>(1, 0) != 0) return {c.Unsupported("shuffled weights")};
  const std::optional<int64_t> depth = importing::KnownExtent(c, weights, 1, "weights");
  if (!depth) return {};
  const bool keeps = c.options().Number<uint8_t>(2, 0) != 0;
  if (!keeps && c.RankOf(x) != 2) {
    x = c.Op("reshape", {x}, {{"newshape", ir::IntList({{int64_t{-1}, *depth}})}});
  }
  return {c.Activated(WithBias(c, c.Op("nn.dense", {x, weights}), 2), 0)};
}

Operands BatchMatMul(NodeContext& c) {
  const bool turns_a = c.options().Number<uint8_t>(0, 0) != 0, turns_b = c.options().Number<uint8_t>(1, 0) != 0;
  return {c.Op("nn.matmul", {c.In(0), c.In(1)}, {{"transpose_a", turns_a}, {"transpose_b", turns_b}})};
}

Operand Resized(NodeContext& c, bool is_linear) {
  const std::vector<int64_t> size = c.Ints(1, "size");
  if (c.failed()) return c.emit().Placeholder();
  const int first = is_linear ? 2 : 0;
  const bool aligns = c.options().Number<uint8_t>(first, 0) != 0,
             is_half = c.options().Number<uint8_t>(first + 1, 0) != 0;
  ir::Attrs attrs = {{"size", ir::IntList(size)},
                     {"layout", "NHWC"},
                     {"method", is_linear ? "linear" : "nearest_neighbor"},
                     {"coordinate_transformation_mode", aligns    ? "align_corners"
                                                        : is_half ? "half_pixel"
                                                                  : "asymmetric"}};
  if (!is_linear) attrs.Set("rounding_method", aligns ? "round" : "floor");
  // Half pixels of the nearest element are at floor((i + 0.5) * scale).
  if (!is_linear && is_half) return c.Unsupported("the nearest element at half pixels");
  return c.Op("image.resize2d", {c.In(0)}, std::move(attrs));
}
Operands ResizeBilinear(NodeContext& c) { return {Resized(c, true)}; }
Operands ResizeNearest(NodeContext& c) { return {Resized(c, false)}; }

constexpr OperatorRow kRows[] = {
    {"AVERAGE_POOL_2D", Pool, "nn.avg_pool2d"},
    {"BATCH_MATMUL", BatchMatMul},
    {"CONV_2D", Conv2d},
    {"DEPTHWISE_CONV_2D", DepthwiseConv2d},
    {"FULLY_CONNECTED", FullyConnected},
    {"MAX_POOL_2D", Pool, "nn.max_pool2d"},
    {"RESIZE_BILINEAR", ResizeBilinear},
    {"RESIZE_NEAREST_NEIGHBOR", ResizeNearest},
};

}  // namespace

std::span<const OperatorRow> LayerOperators() { return kRows; }

}  // namespace rvm::tflite
