#include "compiler/import/blocks/windows.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"

namespace rvm::importing {

std::string_view ImageLayout(size_t axes) { return axes == 1 ? "NCW" : axes == 2 ? "NCHW" : "NCDHW"; }
std::string_view ChannelsLastLayout(size_t axes) { return axes == 1 ? "NWC" : axes == 2 ? "NHWC" : "NDHWC"; }

Operand Convolve(Steps& c, Operand x, Operand weight, const Windows& windows, int64_t groups,
                 std::string_view out_dtype, bool has_channels_last) {
  Dims dims = c.DimsOf(weight);
  if (dims.size() < 3) return c.Fail("its kernel has fewer than 3 axes");
  // Relay's layout of filters of one channel each is (channels, filters of a channel, ...).
  std::optional<int64_t> outputs = dims[0].AsConst();
  const int64_t channels = has_channels_last ? static_cast<int64_t>(windows.axes) + 1 : 1;
  bool is_depthwise = groups > 1 && c.ExtentOf(x, channels) == Dim(groups) && dims[1] == Dim(1);
  if (is_depthwise && outputs && *outputs != groups && *outputs % groups == 0) {
    dims[0] = groups;
    dims[1] = *outputs / groups;
    weight = c.Reshape(weight, dims);
  }
  ir::Attrs attrs = {{"strides", ir::IntList(windows.strides)},
                     {"padding", ir::IntList(windows.pads)},
                     {"dilation", ir::IntList(windows.dilations)},
                     {"groups", groups}};
  if (!out_dtype.empty()) attrs.Set("out_dtype", std::string(out_dtype));
  if (has_channels_last) attrs.Set("data_layout", std::string(ChannelsLastLayout(windows.axes)));
  return c.Op(absl::StrCat("nn.conv", windows.axes, "d"), {x, weight}, std::move(attrs));
}

Operand PadBy(Steps& c, Operand x, double value, const Dims& widths) {
  return PadWith(c, x, c.Number(value, x), widths);
}

Operand PadWith(Steps& c, Operand x, Operand value, const Dims& widths, std::string_view mode) {
  const std::string pad_mode(mode);
  if (std::optional<Shape> known = StaticShape(widths)) {
    return c.Op("nn.pad", {x, value}, {{"pad_width", PadWidths(*known)}, {"pad_mode", pad_mode}});
  }
  Operand matrix = c.Reshape(c.emit().FromDims(widths), {c.RankOf(x), 2});
  return c.Op("dyn.nn.pad", {x, matrix, value}, {{"pad_mode", pad_mode}});
}

Operand GatherWindows(Steps& c, Operand x, const Dims& kernel, const Windows& windows, bool turns) {
  for (size_t i = 0; i < kernel.size(); ++i) {
    int64_t axis = 2 + 2 * static_cast<int64_t>(i), stride = windows.strides[i], dilation = windows.dilations[i];
    Dim reach = (kernel[i] - 1) * dilation + 1;
    Dim count = FloorDiv(c.ExtentOf(x, axis) - reach, stride) + 1;
    Operand taps = c.Iota(kernel[i]);
    if (turns) taps = c.Sub(c.emit().FromDim(kernel[i] - 1), taps);
    Operand begins = c.Mul(c.Unsqueeze(c.Iota(count), {1}), c.Integer(stride));
    x = c.Op("take", {x, c.Add(begins, c.Mul(taps, c.Integer(dilation)))}, {{"axis", axis}});
  }
  return x;
}

Operand ConvolveGathered(Steps& c, Operand x, Operand weight, const Windows& windows, int64_t groups, bool transposes,
                         std::string_view out_dtype) {
  const Dims filters = c.DimsOf(weight);
  if (filters.size() != windows.axes + 2) return c.Fail("its kernel has another rank than its input");
  if (!out_dtype.empty()) {
    DataType dtype = *ParseDataType(out_dtype);
    x = c.Cast(x, dtype);
    weight = c.Cast(weight, dtype);
  }
  Dims kernel(filters.begin() + 2, filters.end());
  Operand places = GatherWindows(c, PadSpace(c, x, 0, windows), kernel, windows, transposes);
  // Groups as an axis of their own: (batch, group, channels of a group, windows...).
  Dims split = c.DimsOf(places);
  if (c.failed()) return places;
  split[1] = transposes ? FloorDiv(filters[0], groups) : filters[1];
  split.insert(split.begin() + 1, Dim(groups));
  Dims grouped = {Dim(groups), FloorDiv(filters[0], groups)};
  grouped.insert(grouped.end(), filters.begin() + 1, filters.end());
  std::string in = "bgi", taps, out = "bgo";
  for (size_t i = 0; i < windows.axes; ++i) {
    in += {static_cast<char>('p' + i), static_cast<char>('u' + i)};
    taps += static_cast<char>('u' + i);
    out += static_cast<char>('p' + i);
  }
  std::string equation = absl::StrCat(in, ",", transposes ? "gio" : "goi", taps, "->", out);
  Operand y = c.Op("einsum", {c.emit().Tuple({c.Reshape(places, split), c.Reshape(weight, grouped)})},
                   {{"equation", equation}});
  Dims joined = c.DimsOf(y);
  if (c.failed()) return y;
  joined.erase(joined.begin() + 1);
  joined[1] = transposes ? filters[1] * groups : filters[0];
  return c.Reshape(y, joined);
}

Operand MatrixProduct(Steps& c, Operand a, Operand b, std::string_view out_dtype) {
  int64_t rank_a = c.RankOf(a), rank_b = c.RankOf(b);
  if (rank_a == 0 || rank_b == 0) return c.Fail("an input is a scalar");
  if (rank_a == 1) a = c.Unsqueeze(a, {0});
  if (rank_b == 1) b = c.Unsqueeze(b, {1});
  ir::Attrs attrs;
  if (!out_dtype.empty()) attrs.Set("out_dtype", std::string(out_dtype));
  Operand product = c.Op("nn.matmul", {a, b}, std::move(attrs));
  std::vector<int64_t> dropped;
  int64_t rank = c.RankOf(product);
  if (rank_a == 1) dropped.push_back(rank - 2);
  if (rank_b == 1) dropped.push_back(rank - 1);
  return c.Squeeze(product, dropped);
}

ir::Attrs PoolAttrs(const Windows& windows, bool ceil_mode) {
  return {{"pool_size", ir::IntList(windows.kernel)},         {"strides", ir::IntList(windows.strides)},
          {"dilation", ir::IntList(windows.dilations)},       {"padding", ir::IntList(windows.pads)},
          {"layout", std::string(ImageLayout(windows.axes))}, {"ceil_mode", ceil_mode}};
}

std::string PoolName(std::string_view kind, const Windows& windows) {
  return absl::StrCat("nn.", std::string(kind), "_pool", windows.axes, "d");
}

double LeastOf(DataType dtype) {
  if (dtype.is_float()) return -std::numeric_limits<double>::infinity();
  return dtype.is_int() ? -std::ldexp(1.0, dtype.bits - 1) : 0;
}

Operand WindowElements(Steps& c, Operand x, const Windows& windows) {
  int64_t n = static_cast<int64_t>(windows.axes);
  std::vector<int64_t> reach;
  for (size_t i = 0; i < windows.axes; ++i) reach.push_back((windows.kernel[i] - 1) * windows.dilations[i] + 1);
  x = c.Op("sliding_window", {x},
           {{"axis", 2}, {"window_shape", ir::IntList(reach)}, {"strides", ir::IntList(windows.strides)}});
  std::vector<int64_t> axes, zeros(windows.axes, 0), ends(windows.axes, std::numeric_limits<int64_t>::max());
  for (int64_t i = 0; i < n; ++i) axes.push_back(2 + n + i);
  x = c.Op("strided_slice", {x},
           {{"begin", ir::IntList(zeros)},
            {"end", ir::IntList(ends)},
            {"strides", ir::IntList(windows.dilations)},
            {"axes", ir::IntList(axes)}});
  Dims dims = c.DimsOf(x);
  if (static_cast<int64_t>(dims.size()) < 2 + 2 * n) return x;
  Dim taps = 1;
  for (int64_t extent : windows.kernel) taps = taps * extent;
  dims.resize(static_cast<size_t>(2 + n));
  dims.push_back(taps);
  return c.Reshape(x, dims);
}

Operand PadSpace(Steps& c, Operand x, double value, const Windows& windows) {
  Dims widths = {0, 0, 0, 0};
  bool changes = false;
  for (size_t i = 0; i < windows.axes; ++i) {
    int64_t before = windows.pads[i], after = windows.pads[i + windows.axes];
    widths.insert(widths.end(), {Dim(before), Dim(after)});
    changes = changes || before != 0 || after != 0;
  }
  return changes ? PadBy(c, x, value, widths) : x;
}

Operand MaxIndices(Steps& c, Operand x, const Windows& windows, bool column_major) {
  const Dims dims = c.DimsOf(x);
  Operand numbers =
      c.Reshape(c.Op("arange", {c.Integer(0), c.Op("ndarray_size", {x}, {{"dtype", "int64"}}), c.Integer(1)}), dims);
  if (column_major) {
    // Column-major within an image: the last two axes count the other way round.
    std::vector<int64_t> axes;
    Dims swapped = dims;
    for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    std::reverse(axes.begin() + 2, axes.end());
    std::reverse(swapped.begin() + 2, swapped.end());
    numbers = c.Transpose(c.Reshape(numbers, swapped), axes);
  }
  Operand values = WindowElements(c, PadSpace(c, x, LeastOf(c.DTypeOf(x)), windows), windows);
  Operand places = WindowElements(c, PadSpace(c, numbers, 0, windows), windows);
  int64_t last = c.RankOf(values) - 1;
  Operand best = c.Op("argmax", {values}, {{"axis", ir::AttrValue::List{last}}, {"keepdims", true}});
  return c.Squeeze(c.Op("gather", {places, best}, {{"axis", last}}), {last});
}

}  // namespace rvm::importing
