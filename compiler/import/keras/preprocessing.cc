// Layers that prepare data: scales, categories and images.
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
#include "base/abseil.h"
#include "compiler/import/keras/images.h"
#include "compiler/import/term.h"

namespace rvm::keras {

using importing::Term;

Operand Resized(LayerContext& c, Operand x, const std::vector<int64_t>& size, std::string_view method) {
  ir::Attrs attrs = {{"size", ir::IntList(size)}, {"layout", c.has_channels_last() ? "NHWC" : "NCHW"}};
  if (method == "nearest") {
    attrs.Set("method", "nearest_neighbor");
    attrs.Set("coordinate_transformation_mode", "tf_half_pixel_for_nn");
    attrs.Set("rounding_method", "floor");
  } else if (method == "bilinear" || method == "bicubic") {
    attrs.Set("method", method == "bilinear" ? "linear" : "cubic");
    attrs.Set("coordinate_transformation_mode", "half_pixel");
    if (method == "bicubic") attrs.Set("cubic_exclude", 1);
  } else {
    return c.Unsupported(absl::StrCat("the interpolation `", Abseil(method), "`"));
  }
  return c.Op("image.resize2d", {x}, std::move(attrs));
}

namespace {

// Returns the input of a layer that is random only in training.
Values Unchanged(LayerContext& c) { return {{c.Real()}}; }

Values Resizing(LayerContext& c) {
  for (std::string_view option : {"crop_to_aspect_ratio", "pad_to_aspect_ratio", "antialias"}) {
    if (c.Bool(option, false)) return {{c.Unsupported(absl::StrCat("`", Abseil(option), "`"))}};
  }
  const std::vector<int64_t> size = {c.Extents("height", 1)[0], c.Extents("width", 1)[0]};
  return {{Resized(c, c.Real(), size, c.Text("interpolation", "bilinear"))}};
}

Values CenterCrop(LayerContext& c) {
  Operand x = c.Real();
  const std::array<int64_t, 2> size = {c.Extents("height", 1)[0], c.Extents("width", 1)[0]};
  const int64_t first = c.first_space_axis();
  for (int64_t i = 0; i < 2 && !c.failed(); ++i) {
    const Dim extent = c.ExtentOf(x, first + i), wanted = size[static_cast<size_t>(i)];
    if (extent.is_const() && extent.constant() < wanted.constant()) {
      return {{c.Unsupported("images smaller than what is cut out, which Keras enlarges first")}};
    }
    const Dim begin = FloorDiv(extent - wanted, 2);
    x = c.SliceAxis(x, first + i, begin, begin + wanted);
  }
  return {{x}};
}

Values Rescaling(LayerContext& c) {
  Operand x = c.Real();
  auto of_channels = [&](std::string_view name, double otherwise) -> Operand {
    Operand numbers = c.Numbers(name);
    if (numbers == nullptr) return c.Number(otherwise, x);
    if (!c.failed() && c.RankOf(numbers) == 1 && !c.has_channels_last()) numbers = c.Unsqueeze(numbers, {1, 2});
    return c.Cast(numbers, c.dtype());
  };
  if (c.failed()) return {};
  Operand scale = of_channels("scale", 1), offset = of_channels("offset", 0);
  return {{c.Add(c.Mul(x, scale), offset)}};
}

Values Normalization(LayerContext& c) {
  Operand x = c.Real(), mean = c.Numbers("mean"), variance = c.Numbers("variance");
  if (mean == nullptr) {
    mean = c.Weight("mean");
    variance = c.Weight("variance");
  }
  if (c.failed()) return {};
  if (mean == nullptr || variance == nullptr) return {{c.Fail("it has no mean or no variance")}};
  const std::vector<int64_t> axes = c.Axes(c.Ints("axis"), c.RankOf(x));
  if (c.failed()) return {};
  // One number for each position along the axes, or one for all.
  Dims dims(c.DimsOf(x).size(), Dim(1));
  for (int64_t axis : axes) dims[static_cast<size_t>(axis)] = c.ExtentOf(x, axis);
  auto along = [&](Operand statistic) -> Term {
    Operand cast = c.Cast(statistic, c.dtype());
    if (c.failed() || c.RankOf(cast) == 0) return {c, cast};
    // Statistics of one number stand for all.
    if (c.RankOf(cast) == 1 && c.ExtentOf(cast, 0) == Dim(1)) return {c, cast};
    return {c, c.Reshape(cast, dims)};
  };
  const Term deviation = Max(Sqrt(along(variance)), Term(c, c.Number(1e-7, x)));
  const Term centre = along(mean);
  if (c.Bool("invert", false)) return {{Term(c, x) * deviation + centre}};
  return {{(Term(c, x) - centre) / deviation}};
}

// Encodes numbers of categories in the mode that the config names.
Values Encoded(LayerContext& c, Operand x, int64_t depth, Operand weights) {
  std::string mode = c.Text("output_mode", "multi_hot");
  if (mode == "binary") mode = "multi_hot";
  if (c.Bool("sparse", false)) return {{c.Unsupported("sparse results")}};
  if (mode == "int") return {{c.Cast(x, kInt32)}};
  if (c.failed()) return {};
  const DataType dtype = c.dtype().is_float() ? c.dtype() : kFloat32;
  if (c.RankOf(x) == 0) x = c.Unsqueeze(x, {0});
  const int64_t rank = c.RankOf(x);
  if (mode == "one_hot" && rank > 1 && c.ExtentOf(x, rank - 1) == Dim(1)) x = c.Squeeze(x, {rank - 1});
  Operand hot = c.Op("one_hot", {x, c.emit().Number(1, dtype), c.emit().Number(0, dtype)},
                     {{"depth", depth}, {"axis", -1}, {"dtype", dtype.ToString()}});
  if (mode == "one_hot") return {{hot}};
  const ir::Attrs over = {{"axis", ir::AttrValue::List{rank > 1 ? 1 : 0}}};
  if (mode == "multi_hot") return {{c.Op("max", {hot}, over)}};
  if (mode != "count") return {{c.Unsupported(absl::StrCat("the output mode `", mode, "`"))}};
  if (weights != nullptr) hot = c.Mul(hot, c.Unsqueeze(c.Cast(weights, dtype), {c.RankOf(weights)}));
  return {{c.Op("sum", {hot}, over)}};
}

Values CategoryEncoding(LayerContext& c) {
  Operand x = c.In();
  if (c.failed()) return {};
  const GivenArgument* weights = c.Find("count_weights", 1);
  const int64_t depth = c.Extents("num_tokens", 1)[0];
  if (c.DTypeOf(x).is_float()) x = c.Cast(x, kInt32);
  return Encoded(c, x, depth, weights == nullptr ? nullptr : weights->tensor());
}

Values Discretization(LayerContext& c) {
  Operand x = c.In(), bounds = c.Numbers("bin_boundaries");
  if (c.failed()) return {};
  if (bounds == nullptr || c.RankOf(bounds) != 1) return {{c.Fail("it has no `bin_boundaries`; adapt it first")}};
  const int64_t count = *c.ExtentOf(bounds, 0).AsConst();
  Operand bins = c.Op("searchsorted", {bounds, c.Cast(x, kFloat32)}, {{"right", true}, {"dtype", "int64"}});
  return Encoded(c, bins, count + 1, nullptr);
}

constexpr LayerRow kRows[] = {
    {"CategoryEncoding", CategoryEncoding},
    {"CenterCrop", CenterCrop},
    {"Discretization", Discretization},
    {"Normalization", Normalization, "", true},
    {"RandomBrightness", Unchanged},
    {"RandomContrast", Unchanged},
    {"RandomFlip", Unchanged},
    {"RandomRotation", Unchanged},
    {"RandomTranslation", Unchanged},
    {"RandomZoom", Unchanged},
    {"Rescaling", Rescaling, "", true},
    {"Resizing", Resizing},
};

}  // namespace

std::span<const LayerRow> PreprocessingLayers() { return kRows; }

}  // namespace rvm::keras
