// Resized images, whose channels are the last axis.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

Operands Resize(NodeContext& c) {
  Operand x = c.In(0), size = c.In(1);
  if (c.failed()) return {};
  const bool aligns = c.BoolAttr("align_corners"), is_half = c.BoolAttr("half_pixel_centers");
  const bool is_nearest = c.row().variant == "nearest_neighbor";
  const std::string_view mode = aligns    ? "align_corners"
                                : is_half ? (is_nearest ? "tf_half_pixel_for_nn" : "half_pixel")
                                          : "asymmetric";
  ir::Attrs attrs = {{"layout", "NHWC"}, {"method", std::string(c.row().variant)}};
  attrs.Set("coordinate_transformation_mode", std::string(mode));
  if (is_nearest) attrs.Set("rounding_method", aligns ? "round" : "floor");
  // The result is float, whatever the images are.
  if (!is_nearest && !c.DTypeOf(x).is_float()) x = c.Cast(x, kFloat32);
  if (size->constant) {
    attrs.Set("size", ir::IntList(c.Ints(1, "size")));
    return {c.Op("image.resize2d", {x}, std::move(attrs))};
  }
  Operand no_region = c.emit().Constant(Literal::Full(kFloat32, {0}, 0));
  const std::optional<Dims> extents = c.Symbols(size);
  if (!extents) return {c.Op("dyn.image.resize2d", {x, c.Cast(size, kInt64), no_region}, std::move(attrs))};
  Dims dims = c.DimsOf(x);
  if (dims.size() != 4 || extents->size() != 2) return {c.Fail("its size does not fit its input")};
  std::ranges::copy(*extents, dims.begin() + 1);
  return {c.emit().OpAs(dims, "dyn.image.resize2d", {x, c.emit().FromDims(*extents), no_region}, std::move(attrs))};
}

// ---- bicubic

// Maximum extent of an image that is resized by products with matrices.
constexpr int64_t kMaxExtent = 4096;

// Returns the weights of the elements -1, 0, 1 and 2 behind the place that lies `fraction` behind element 0.
std::array<double, 4> CubicWeights(double fraction, double alpha) {
  auto near = [&](double x) { return ((alpha + 2) * x - (alpha + 3)) * x * x + 1; };
  auto far = [&](double x) { return ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha; };
  return {far(fraction + 1), near(fraction), near(1 - fraction), far(2 - fraction)};
}

// Returns the matrix that resizes an axis: a row for each place of the result. TensorFlow rounds places to 1/1024 of an
// element. With half pixels it leaves out what lies outside of the image; else that is the element at the border.
Literal CubicMatrix(int64_t from, int64_t to, bool aligns, bool is_half) {
  constexpr double kSteps = 1024;
  const float scale = aligns && to > 1 ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                       : static_cast<float>(from) / static_cast<float>(to);
  std::vector<float> matrix(static_cast<size_t>(from * to), 0);
  for (int64_t row = 0; row < to; ++row) {
    const float index = static_cast<float>(row);
    const float place = is_half ? (index + 0.5F) * scale - 0.5F : index * scale;
    const auto first = static_cast<int64_t>(std::floor(place));
    const double fraction = std::nearbyint(static_cast<double>(place - static_cast<float>(first)) * kSteps) / kSteps;
    const std::array<double, 4> weights = CubicWeights(fraction, is_half ? -0.5 : -0.75);
    const std::span columns = std::span(matrix).subspan(static_cast<size_t>(row * from), static_cast<size_t>(from));
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t column = first - 1 + static_cast<int64_t>(i), inside = std::clamp<int64_t>(column, 0, from - 1);
      if (is_half && column != inside) continue;
      columns[static_cast<size_t>(inside)] += static_cast<float>(weights[i]);
      sum += weights[i];
    }
    for (float& weight : columns) weight /= is_half ? static_cast<float>(sum) : 1;
  }
  return Literal::FromValues<float>(kFloat32, {to, from}, matrix);
}

Operands ResizeCubic(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> size = c.Ints(1, "size");
  if (c.failed()) return {};
  if (c.RankOf(x) != 4 || size.size() != 2) return {c.Fail("its size does not fit its input")};
  x = c.Cast(x, kFloat32);
  for (size_t i = 0; i < 2; ++i) {
    const std::optional<int64_t> from = importing::KnownExtent(c, x, static_cast<int64_t>(i) + 1, "images");
    if (!from) return {};
    for (int64_t extent : {*from, size[i]}) {
      if (extent < 1 || extent > kMaxExtent) return {c.Unsupported(absl::StrCat("images of extent ", extent))};
    }
    Operand matrix =
        c.emit().Constant(CubicMatrix(*from, size[i], c.BoolAttr("align_corners"), c.BoolAttr("half_pixel_centers")));
    const std::string equation = i == 0 ? "nhwc,oh->nowc" : "nhwc,ow->nhoc";
    x = c.Op("einsum", {c.emit().Tuple({x, matrix})}, {{"equation", equation}});
  }
  return {x};
}

// ---- boxes

Operands CropAndResize(NodeContext& c) {
  Operand x = c.In(0), boxes = c.In(1), batches = c.In(2);
  const std::vector<int64_t> size = c.Ints(3, "size");
  if (c.failed()) return {};
  const std::string_view method = c.TextAttr("method", "bilinear");
  return {c.Op("image.crop_and_resize", {c.Cast(x, kFloat32), boxes, batches},
               {{"crop_size", ir::IntList(size)},
                {"layout", "NHWC"},
                {"method", method == "nearest" ? "nearest_neighbor" : std::string(method)},
                {"extrapolation_value", c.FloatAttr("extrapolation_value", 0)}})};
}

constexpr OperatorRow kRows[] = {
    {"CropAndResize", CropAndResize},
    {"ResizeBicubic", ResizeCubic},
    {"ResizeBilinear", Resize, "linear"},
    {"ResizeNearestNeighbor", Resize, "nearest_neighbor"},
};

}  // namespace

std::span<const OperatorRow> ResizeOperators() { return kRows; }

}  // namespace rvm::tensorflow
