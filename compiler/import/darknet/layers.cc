// Layers with weights.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/norms.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/darknet/importer.h"

namespace rvm::darknet {
namespace {

using importing::KnownExtent;
using importing::Windows;

Operand Convolutional(LayerContext& c) {
  Operand x = c.Image();
  c.Refuse({"antialiasing", "binary", "bin_output", "coordconv", "dontload", "dontloadscales", "flipped", "rotate",
            "share_index", "stretch", "stretch_sway", "sway", "xnor"});
  const int64_t outputs = c.Int("filters", 1, 1), size = c.Int("size", 1, 1, kMaxWindow);
  const int64_t groups = c.Int("groups", 1, 1), stride = c.Int("stride", 1, 1, kMaxWindow);
  const int64_t dilation = size == 1 ? 1 : c.Int("dilation", 1, 1, kMaxWindow);
  const int64_t pad = (c.Bool("pad") ? size / 2 : c.Int("padding", 0, 0, kMaxWindow)) * dilation;
  const Windows windows = {
      .axes = 2,
      .kernel = {size, size},
      .strides = {c.Int("stride_y", stride, 1, kMaxWindow), c.Int("stride_x", stride, 1, kMaxWindow)},
      .dilations = {dilation, dilation},
      .pads = {pad, pad, pad, pad}};
  const std::optional<int64_t> channels = KnownExtent(c, x, 1, "input");
  if (!channels) return x;
  if (*channels % groups != 0 || outputs % groups != 0) {
    return c.Fail(absl::StrCat("its ", outputs, " filters and the ", *channels, " channels of its input are not ",
                               groups, " groups"));
  }
  const Filters filters = c.TakeConvolution({outputs, *channels / groups, size, size}, c.Bool("batch_normalize"));
  Operand y = Convolve(c, x, filters.weights, windows, groups);
  return c.Activated(c.Add(y, AlongChannels(c, filters.bias, y)));
}

Operand Connected(LayerContext& c) {
  Operand x = c.Rows();
  c.Refuse({"dontload", "dontloadscales"});
  const int64_t outputs = c.Int("output", 1, 1);
  const std::optional<int64_t> inputs = KnownExtent(c, x, 1, "input");
  if (!inputs) return x;
  return c.Activated(c.Connected(x, c.TakeConnected(outputs, *inputs, c.Bool("batch_normalize"))));
}

// Returns a convolution with filters of its own at each place.
Operand Local(LayerContext& c) {
  Operand x = c.Image();
  const int64_t outputs = c.Int("filters", 1, 1), size = c.Int("size", 1, 1, kMaxWindow);
  const int64_t stride = c.Int("stride", 1, 1, kMaxWindow), pad = c.Bool("pad") ? 1 : 0;
  if (pad == 1 && size != 3) c.Unsupported("`pad` of windows that are not 3 wide");
  const Windows windows = {.axes = 2,
                           .kernel = {size, size},
                           .strides = {stride, stride},
                           .dilations = {1, 1},
                           .pads = {pad, pad, pad, pad}};
  const auto extents = c.ImageExtents(x);
  if (!extents) return x;
  const auto [channels, rows, columns] = *extents;
  const int64_t height = (rows + 2 * pad - size) / stride + 1, width = (columns + 2 * pad - size) / stride + 1;
  if (rows + 2 * pad < size || columns + 2 * pad < size) return c.Fail("its windows are larger than its input");
  Operand bias = c.TakeWeights({outputs, height, width});
  Operand weights = c.TakeWeights({height, width, outputs, channels, size, size});
  const Dims kernel = {Dim(size), Dim(size)};
  Operand places = GatherWindows(c, PadSpace(c, x, 0, windows), kernel, windows);
  Operand y = c.Op("einsum", {c.emit().Tuple({places, weights})}, {{"equation", "bcpuqv,pqocuv->bopq"}});
  return c.Activated(c.Add(y, bias));
}

constexpr LayerRow kRows[] = {
    {"conn", Connected}, {"connected", Connected}, {"conv", Convolutional}, {"convolutional", Convolutional},
    {"local", Local},
};

}  // namespace

std::span<const LayerRow> WeightedLayers() { return kRows; }

}  // namespace rvm::darknet
