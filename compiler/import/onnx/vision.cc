// Images: read at places of a grid, cut into regions, boxes suppressed.
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

Operands GridSample(NodeContext& c) {
  Operand x = c.In(0), grid = c.In(1);
  int64_t rank = c.RankOf(x);
  if (rank != 4 && rank != 5) return {c.Unsupported(absl::StrCat("an input of rank ", rank))};
  std::string mode = c.Text("mode", "linear");
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  std::vector<int64_t> axes = {0, rank - 1};
  for (int64_t i = 1; i + 1 < rank; ++i) axes.push_back(i);
  return {c.Op("image.grid_sample", {x, c.Transpose(grid, axes)},
               {{"method", mode},
                {"layout", rank == 4 ? "NCHW" : "NCDHW"},
                {"padding_mode", c.Text("padding_mode", "zeros")},
                {"align_corners", c.Int("align_corners", 0) != 0}})};
}

Operands AffineGrid(NodeContext& c) {
  Operand theta = c.In(0);
  std::optional<Dims> size = c.Symbols(c.In(1));
  if (!size) {
    c.Constants(c.In(1), "size");
    return {};
  }
  size_t n = size->size() < 2 ? 0 : size->size() - 2;
  if (n != 2 && n != 3) return {c.Fail("its size has neither 4 nor 5 extents")};
  DataType dtype = c.DTypeOf(theta);
  bool corners = c.Int("align_corners", 0) != 0;
  // The places along each axis, from -1 to 1, last axis first.
  Dims space(size->begin() + 2, size->end());
  Operands columns;
  Dim count = 1;
  for (const Dim& dim : space) count = count * dim;
  for (size_t i = n; i-- > 0;) {
    Operand extent = c.Cast(c.emit().FromDim(space[i]), dtype), one = c.emit().Number(1, dtype);
    Operand at = c.Cast(c.Iota(space[i]), dtype), two = c.emit().Number(2, dtype);
    Operand place = corners ? c.Sub(c.Div(c.Mul(two, at), c.Sub(extent, one)), one)
                            : c.Sub(c.Div(c.Add(c.Mul(two, at), one), extent), one);
    std::vector<int64_t> axes;
    for (size_t k = 1; k < n - i; ++k) axes.push_back(static_cast<int64_t>(k));
    columns.push_back(c.Reshape(c.BroadcastTo(c.Unsqueeze(place, axes), space), {count, 1}));
  }
  Operand ones = c.Add(c.Mul(columns[0], c.emit().Number(0, dtype)), c.emit().Number(1, dtype));
  columns.push_back(ones);
  Operand base = c.Op("concatenate", {c.emit().Tuple(columns)}, {{"axis", 1}});
  Operand grid = c.Op("nn.matmul", {c.Unsqueeze(base, {0}), theta}, {{"transpose_b", true}});
  Dims out = {(*size)[0]};
  out.insert(out.end(), space.begin(), space.end());
  out.push_back(static_cast<int64_t>(n));
  return {c.Reshape(grid, out)};
}

// Returns `x`; the program fails unless each of `batches` is the number of an image.
Operand CheckBatches(NodeContext& c, Operand x, Operand batches) {
  Operand last = c.Sub(c.emit().FromDim(c.ExtentOf(x, 0)), c.Integer(1));
  return importing::CheckRange(c, x, batches, c.Integer(0), last, "the number of an image");
}

Operands RoiAlign(NodeContext& c) {
  Operand x = CheckBatches(c, c.In(0), c.In(2)), rois = c.In(1), batches = c.In(2);
  double scale = c.Float("spatial_scale", 1);
  bool half_pixel =
      c.Text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  if (half_pixel) rois = c.Sub(rois, c.Number(0.5 / scale, rois));
  Operand regions =
      c.Op("concatenate", {c.emit().Tuple({c.Cast(c.Unsqueeze(batches, {1}), c.DTypeOf(rois)), rois})}, {{"axis", 1}});
  return {c.Op("vision.roi_align", {x, regions},
               {{"pooled_size", ir::IntList({{c.Int("output_height", 1), c.Int("output_width", 1)}})},
                {"spatial_scale", scale},
                {"sample_ratio", c.Int("sampling_ratio", 0)},
                {"mode", c.Text("mode", "avg")},
                {"least_length", half_pixel ? -std::numeric_limits<double>::infinity() : 1.0}})};
}

Operands MaxRoiPool(NodeContext& c) {
  Operand x = CheckBatches(c, c.In(0), c.SliceAxis(c.In(1), 1, 0, 1));
  return {c.Op("vision.roi_pool", {x, c.In(1)},
               {{"pooled_size", ir::IntList(c.Ints("pooled_shape"))}, {"spatial_scale", c.Float("spatial_scale", 1)}})};
}

Operands NonMaxSuppression(NodeContext& c) {
  Operand boxes = c.In(0), scores = c.In(1);
  if (c.Int("center_point_box", 0) != 0) {
    Operand centre = c.SliceAxis(boxes, 2, 0, 2), half = c.Mul(c.SliceAxis(boxes, 2, 2, 4), c.Number(0.5, boxes));
    boxes = c.Op("concatenate", {c.emit().Tuple({c.Sub(centre, half), c.Add(centre, half)})}, {{"axis", 2}});
  }
  Operand limit = c.Has(2) ? c.Cast(c.Scalar(c.In(2)), kInt64) : c.Integer(0);
  Operand overlap = c.Has(3) ? c.Scalar(c.In(3)) : c.Number(0, boxes);
  if (c.DTypeOf(overlap) == kFloat32) {
    // Here only boxes that overlap more than that go: the next greater number.
    Operand bits = c.Op("reinterpret", {c.Op("maximum", {overlap, c.Number(0, overlap)})}, {{"dtype", "int32"}});
    overlap = c.Op("reinterpret", {c.Add(bits, c.emit().Integer(1, kInt32))}, {{"dtype", "float32"}});
  }
  Operand least = c.Has(4) ? c.Scalar(c.In(4)) : c.Number(std::numeric_limits<float>::lowest(), boxes);
  // Here a limit of 0 means none at all.
  Operand found = c.Op("vision.all_class_non_max_suppression", {boxes, scores, limit, overlap, least});
  Operand rows = c.emit().Field(found, 0), count = c.emit().Field(found, 1);
  if (c.failed()) return {};
  count = c.Where(c.Op("greater", {limit, c.Integer(0)}), count, c.Integer(0));
  return {c.Op("dyn.strided_slice", {rows, c.emit().Vector({{0}}), c.Reshape(count, {1}), c.emit().Vector({{1}})},
               {{"axes", ir::IntList({{0}})}})};
}

// A deformed convolution of taps that are multiplied with a mask, or whose number is unknown: an image of all taps,
// (batch, channels, kh * kw * height, width), by which the filters are multiplied.
Operand ConvolveDeformed(NodeContext& c, Operand x, Operand weight, Operand offset, Operand mask, const Dims& kernel,
                         const Windows& windows) {
  int64_t groups = c.Int("group", 1), deformable = c.Int("offset_group", 1);
  if (groups < 1 || deformable < 1) return c.Fail("a number of groups is below 1");
  Dim batch = c.ExtentOf(x, 0), channels = c.ExtentOf(x, 1), outputs = c.ExtentOf(weight, 0);
  DataType dtype = c.DTypeOf(offset);
  Dims space(2);
  for (size_t s = 0; s < 2; ++s) {
    Dim padded = c.ExtentOf(x, static_cast<int64_t>(s) + 2) + windows.pads[s] + windows.pads[s + 2];
    space[s] = FloorDiv(padded - (kernel[s] - 1) * windows.dilations[s] - 1, windows.strides[s]) + 1;
  }
  Dims taps = {batch * deformable, 1, kernel[0] * kernel[1] * space[0], space[1]};
  offset = c.Reshape(offset, {taps[0], kernel[0], kernel[1], 2, space[0], space[1]});
  // Places along an axis as grid_sample counts them: from -1 to 1, from edge to edge.
  auto places = [&](int64_t axis, std::vector<int64_t> behind_taps, std::vector<int64_t> behind_windows) {
    size_t s = static_cast<size_t>(axis);
    Operand tap = c.Mul(c.Iota(kernel[s]), c.Integer(windows.dilations[s]));
    Operand window = c.Sub(c.Mul(c.Iota(space[s]), c.Integer(windows.strides[s])), c.Integer(windows.pads[s]));
    Operand place = c.Add(c.Unsqueeze(tap, behind_taps), c.Unsqueeze(window, behind_windows));
    place = c.Add(c.Squeeze(c.SliceAxis(offset, 3, axis, axis + 1), {3}), c.Cast(place, dtype));
    place = c.Add(c.Mul(place, c.Number(2, offset)), c.Number(1, offset));
    Operand extent = c.Cast(c.emit().FromDim(c.ExtentOf(x, axis + 2)), dtype);
    return c.Reshape(c.Sub(c.Div(place, extent), c.Number(1, offset)), taps);
  };
  Operand grid =
      c.Op("concatenate", {c.emit().Tuple({places(1, {1, 2}, {}), places(0, {1, 2, 3}, {1})})}, {{"axis", 1}});
  Operand images = c.Reshape(x, {taps[0], FloorDiv(channels, deformable), c.ExtentOf(x, 2), c.ExtentOf(x, 3)});
  Operand sampled = c.Op("image.grid_sample", {images, grid}, {{"padding_mode", "zeros"}, {"align_corners", false}});
  if (mask != nullptr) sampled = c.Mul(sampled, c.Reshape(mask, taps));
  Dim inputs = FloorDiv(channels, groups);
  sampled = c.Reshape(sampled, {batch, groups, inputs, kernel[0], kernel[1], space[0], space[1]});
  weight = c.Reshape(weight, {groups, FloorDiv(outputs, groups), inputs, kernel[0], kernel[1]});
  Operand y = c.Op("einsum", {c.emit().Tuple({sampled, weight})}, {{"equation", "bgiuvpq,goiuv->bgopq"}});
  return c.Reshape(y, {batch, outputs, space[0], space[1]});
}

Operands DeformConv(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1), offset = c.In(2), mask = c.Has(4) ? c.In(4) : nullptr;
  Dims kernel = KernelExtents(c, weight);
  if (c.failed()) return {};
  std::optional<rvm::Shape> known = StaticShape(kernel);
  Windows windows = ReadWindows(
      c, x, known ? std::vector<int64_t>(known->begin(), known->end()) : std::vector<int64_t>(kernel.size(), 1));
  if (c.failed()) return {};
  if (windows.axes != 2) return {c.Unsupported(absl::StrCat("windows along ", windows.axes, " axes"))};
  Operand y = nullptr;
  if (known && mask == nullptr) {
    y = c.Op("nn.deformable_conv2d", {x, offset, weight},
             {{"strides", ir::IntList(windows.strides)},
              {"padding", ir::IntList(windows.pads)},
              {"dilation", ir::IntList(windows.dilations)},
              {"deformable_groups", c.Int("offset_group", 1)},
              {"groups", c.Int("group", 1)}});
  } else {
    y = ConvolveDeformed(c, x, weight, offset, mask, kernel, windows);
  }
  return {c.Has(3) ? c.Op("nn.bias_add", {y, c.In(3)}, {{"axis", 1}}) : y};
}

Operands Col2Im(NodeContext& c) {
  Operand x = c.In(0);
  std::optional<std::vector<int64_t>> image = c.Constants(c.In(1), "image shape"),
                                      block = c.Constants(c.In(2), "block shape");
  if (!image || !block || image->size() != block->size()) return {};
  size_t n = image->size();
  auto read = [&](std::string_view name, size_t size, int64_t otherwise) {
    std::vector<int64_t> values = c.Ints(name);
    values.resize(size, otherwise);
    return values;
  };
  std::vector<int64_t> strides = read("strides", n, 1), dilations = read("dilations", n, 1),
                       pads = read("pads", 2 * n, 0);
  // For each tap and window the place in the padded image.
  std::vector<int64_t> padded, counts;
  int64_t taps = 1, windows = 1, size = 1;
  for (size_t i = 0; i < n; ++i) {
    if (strides[i] < 1 || dilations[i] < 1 || (*block)[i] < 1 || (*image)[i] < 1)
      return {c.Fail("an extent is below 1")};
    padded.push_back((*image)[i] + pads[i] + pads[i + n]);
    counts.push_back((padded[i] - dilations[i] * ((*block)[i] - 1) - 1) / strides[i] + 1);
    bool is_huge = __builtin_mul_overflow(taps, (*block)[i], &taps) ||
                   __builtin_mul_overflow(windows, counts[i], &windows) ||
                   __builtin_mul_overflow(size, padded[i], &size);
    if (is_huge || counts[i] < 1 || padded[i] < 1) return {c.Fail("its blocks do not fit its image")};
  }
  if (taps > (int64_t{1} << 24) / windows) return {c.Unsupported("an image of so many blocks")};
  std::vector<int64_t> places;
  for (int64_t tap = 0; tap < taps; ++tap) {
    for (int64_t window = 0; window < windows; ++window) {
      int64_t place = 0, tap_rest = tap, window_rest = window, stride = 1;
      for (size_t i = n; i-- > 0;) {
        int64_t at = (window_rest % counts[i]) * strides[i] + (tap_rest % (*block)[i]) * dilations[i];
        window_rest /= counts[i];
        tap_rest /= (*block)[i];
        place += at * stride;
        stride *= padded[i];
      }
      places.push_back(place);
    }
  }
  Dim batch = c.ExtentOf(x, 0), channels = FloorDiv(c.ExtentOf(x, 1), taps);
  int64_t total = taps * windows;
  Operand updates = c.Reshape(x, {batch, channels, total});
  Operand indices = c.emit().Constant(Literal::FromValues<int64_t>(kInt64, {1, 1, total}, places));
  indices = c.BroadcastTo(indices, {batch, channels, total});
  Operand zeros =
      c.BroadcastTo(c.Op("full", {c.Number(0, x)}, {{"shape", ir::IntList({{1, 1, size}})}}), {batch, channels, size});
  Operand y = c.Op("scatter_elements", {zeros, indices, updates}, {{"axis", 2}, {"reduction", "add"}});
  Dims out = {batch, channels};
  out.insert(out.end(), padded.begin(), padded.end());
  y = c.Reshape(y, out);
  for (size_t i = 0; i < n; ++i) {
    y = c.SliceAxis(y, static_cast<int64_t>(i) + 2, pads[i], pads[i] + (*image)[i]);
  }
  return {y};
}

constexpr OperatorRow kRows[] = {
    {"AffineGrid", AffineGrid}, {"Col2Im", Col2Im},         {"DeformConv", DeformConv},
    {"GridSample", GridSample}, {"MaxRoiPool", MaxRoiPool}, {"NonMaxSuppression", NonMaxSuppression},
    {"RoiAlign", RoiAlign},
};

}  // namespace

std::span<const OperatorRow> VisionOperators() { return kRows; }

}  // namespace rvm::onnx::convert
