// Convolutions, also those that are transposed, depthwise or separable.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/checks.h"
#include "compiler/import/keras/windows.h"

namespace rvm::keras {

std::string SpaceLetters(size_t axes) { return axes == 1 ? "W" : axes == 2 ? "HW" : "DHW"; }

std::string DataLayout(const LayerContext& c, size_t axes) {
  const std::string space = SpaceLetters(axes);
  return c.has_channels_last() ? absl::StrCat("N", space, "C") : absl::StrCat("NC", space);
}

Windows ReadWindows(LayerContext& c, Operand x, size_t axes, std::string_view kernel, bool strides_are_kernel) {
  Windows windows;
  windows.kernel = c.Extents(kernel, axes);
  windows.strides = c.Extents("strides", axes);
  if (strides_are_kernel && c.Member("strides") == nullptr) windows.strides = windows.kernel;
  windows.dilations = c.Extents("dilation_rate", axes);
  windows.data_layout = DataLayout(c, axes);
  windows.pads.assign(2 * axes, 0);
  if (!c.failed() && c.RankOf(x) != static_cast<int64_t>(axes) + 2) {
    c.Fail(absl::StrCat("its input has rank ", c.RankOf(x), "; expected ", axes + 2));
  }
  if (!c.failed()) SetPadding(c, x, c.Text("padding", "valid"), windows);
  return windows;
}

void SetPadding(LayerContext& c, Operand x, std::string_view padding, Windows& windows) {
  windows.pads.assign(2 * windows.axes(), 0);
  if (padding == "valid") return;
  for (size_t i = 0; i < windows.axes(); ++i) {
    int64_t total = (windows.kernel[i] - 1) * windows.dilations[i];
    if (padding == "causal") {
      windows.pads[i] = total;
      continue;
    }
    if (windows.strides[i] != 1) {
      const std::optional<int64_t> extent = importing::KnownExtent(c, x, windows.AxisOf(i), "input");
      if (!extent) return;
      const int64_t count = *extent / windows.strides[i] + (*extent % windows.strides[i] != 0 ? 1 : 0);
      total = std::max<int64_t>(0, (count - 1) * windows.strides[i] + total + 1 - *extent);
    }
    windows.pads[i] = total / 2;
    windows.pads[i + windows.axes()] = total - total / 2;
  }
  if (padding != "same" && padding != "causal") c.Unsupported(absl::StrCat("the padding `", Abseil(padding), "`"));
}

Operand WithBias(LayerContext& c, Operand x, Operand bias, std::string_view layout) {
  if (bias == nullptr || c.failed()) return x;
  std::vector<int64_t> axes;
  if (layout[1] == 'C') {
    for (int64_t i = 1; i < c.RankOf(x) - 1; ++i) axes.push_back(i);
  }
  return c.Add(x, axes.empty() ? bias : c.Unsqueeze(bias, axes));
}

namespace {

ir::Attrs ConvAttrs(const Windows& windows, int64_t groups, std::string kernel_layout) {
  return {{"strides", ir::IntList(windows.strides)},    {"padding", ir::IntList(windows.pads)},
          {"dilation", ir::IntList(windows.dilations)}, {"groups", groups},
          {"data_layout", windows.data_layout},         {"kernel_layout", std::move(kernel_layout)}};
}

std::string ConvName(const Windows& windows) { return absl::StrCat("nn.conv", windows.axes(), "d"); }

}  // namespace

Operand Convolved(LayerContext& c, Operand x, Operand kernel, const Windows& windows, int64_t groups) {
  if (c.failed()) return x;
  return c.Op(ConvName(windows), {x, kernel},
              ConvAttrs(windows, groups, absl::StrCat(SpaceLetters(windows.axes()), "IO")));
}

namespace {

Values Conv(LayerContext& c) {
  Operand x = c.Real(), kernel = c.Weight("kernel"), bias = c.Weight("bias");
  if (c.failed()) return {};
  const Windows windows = ReadWindows(c, x, c.space_axes(), "kernel_size");
  Operand y = Convolved(c, x, kernel, windows, c.Int("groups", 1));
  return {{c.Activated(WithBias(c, y, bias, windows.data_layout))}};
}

// Returns the depthwise convolution by a kernel (space..., channels in, filters of a channel).
Operand Depthwise(LayerContext& c, Operand x, Operand kernel, const Windows& windows) {
  if (c.failed()) return x;
  const std::optional<int64_t> channels = importing::KnownExtent(c, kernel, c.RankOf(kernel) - 2, "kernel");
  if (!channels) return x;
  return c.Op(ConvName(windows), {x, kernel},
              ConvAttrs(windows, *channels, absl::StrCat(SpaceLetters(windows.axes()), "OI")));
}

Values DepthwiseConv(LayerContext& c) {
  Operand x = c.Real(), kernel = c.Weight("kernel"), bias = c.Weight("bias");
  if (c.failed()) return {};
  const Windows windows = ReadWindows(c, x, c.space_axes(), "kernel_size");
  return {{c.Activated(WithBias(c, Depthwise(c, x, kernel, windows), bias, windows.data_layout))}};
}

Values SeparableConv(LayerContext& c) {
  Operand x = c.Real(), depthwise = c.Weight("depthwise_kernel"), pointwise = c.Weight("pointwise_kernel");
  Operand bias = c.Weight("bias");
  if (c.failed()) return {};
  Windows windows = ReadWindows(c, x, c.space_axes(), "kernel_size");
  Operand y = Depthwise(c, x, depthwise, windows);
  for (std::vector<int64_t>* extents : {&windows.kernel, &windows.strides, &windows.dilations}) {
    extents->assign(windows.axes(), 1);
  }
  windows.pads.assign(2 * windows.axes(), 0);
  y = Convolved(c, y, pointwise, windows, 1);
  return {{c.Activated(WithBias(c, y, bias, windows.data_layout))}};
}

// Returns how much Keras cuts off a transposed convolution, before and behind; negative: adds. Without `output_padding`
// the result has as many strides as the input has elements, and a kernel's rest without SAME padding.
std::pair<int64_t, int64_t> CutOf(int64_t kernel, int64_t stride, bool is_same, std::optional<int64_t> more) {
  if (!is_same) return {0, -more.value_or(std::max(kernel, stride) - kernel)};
  const int64_t total = more ? kernel + kernel % 2 - 2 + *more : stride + kernel - 2;
  const int64_t before = std::min(total / 2 + total % 2, kernel - 1);
  return {kernel - 1 - before, kernel - 1 - (total - before)};
}

Values ConvTranspose(LayerContext& c) {
  Operand x = c.Real(), kernel = c.Weight("kernel"), bias = c.Weight("bias");
  if (c.failed()) return {};
  const size_t axes = c.space_axes();
  Windows windows = ReadWindows(c, x, axes, "kernel_size");
  const bool is_same = c.Text("padding", "valid") == "same";
  std::vector<int64_t> more = c.Ints("output_padding");
  if (more.size() == 1) more.resize(axes, more[0]);
  if (!more.empty() && more.size() != axes) return {{c.Fail("its `output_padding` does not fit its axes")}};
  if (c.failed()) return {};
  std::vector<int64_t> added(axes, 0);
  for (size_t i = 0; i < axes; ++i) {
    const int64_t reach = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    const auto [before, after] =
        CutOf(reach, windows.strides[i], is_same, more.empty() ? std::nullopt : std::optional(more[i]));
    windows.pads[i] = before;
    windows.pads[i + axes] = std::max<int64_t>(after, 0);
    added[i] = std::max<int64_t>(-after, 0);
  }
  ir::Attrs attrs = ConvAttrs(windows, 1, absl::StrCat(SpaceLetters(axes), "OI"));
  attrs.Set("output_padding", ir::IntList(added));
  Operand y = c.Op(absl::StrCat(ConvName(windows), "_transpose"), {x, kernel}, std::move(attrs));
  return {{c.Activated(WithBias(c, y, bias, windows.data_layout))}};
}

constexpr LayerRow kRows[] = {
    {"Conv1D", Conv, "1"},
    {"Conv1DTranspose", ConvTranspose, "1"},
    {"Conv2D", Conv, "2"},
    {"Conv2DTranspose", ConvTranspose, "2"},
    {"Conv3D", Conv, "3"},
    {"Conv3DTranspose", ConvTranspose, "3"},
    {"DepthwiseConv1D", DepthwiseConv, "1"},
    {"DepthwiseConv2D", DepthwiseConv, "2"},
    {"SeparableConv1D", SeparableConv, "1"},
    {"SeparableConv2D", SeparableConv, "2"},
};

}  // namespace

std::span<const LayerRow> ConvolutionLayers() { return kRows; }

}  // namespace rvm::keras
