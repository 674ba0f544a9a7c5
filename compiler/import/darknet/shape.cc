// Layers without filters: pooling, those that join and move values, and those that score boxes and classes.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/darknet/importer.h"
#include "compiler/import/term.h"

namespace rvm::darknet {
namespace {

using importing::KnownExtent;
using importing::Term;
using importing::Windows;

Operand Same(LayerContext& c) { return c.Input(); }
Operand Activation(LayerContext& c) { return c.Activated(c.Input(), c.Text("activation", "linear")); }

// ---- pooling

Windows PoolWindows(LayerContext& c) {
  const int64_t stride = c.Int("stride", 1, 1, kMaxWindow), size = c.Int("size", stride, 1, kMaxWindow);
  const int64_t padding = c.Int("padding", size - 1, 0, kMaxWindow), before = padding / 2, after = padding - before;
  return {.axes = 2,
          .kernel = {size, size},
          .strides = {c.Int("stride_y", stride, 1, kMaxWindow), c.Int("stride_x", stride, 1, kMaxWindow)},
          .dilations = {1, 1},
          .pads = {before, before, after, after}};
}

Operand MaxPool(LayerContext& c) {
  c.Refuse({"antialiasing", "maxpool_depth"});
  return c.Op("nn.max_pool2d", {c.Image()}, PoolAttrs(PoolWindows(c), false));
}

Operand LocalAveragePool(LayerContext& c) {
  ir::Attrs attrs = PoolAttrs(PoolWindows(c), false);
  attrs.Set("count_include_pad", false);
  return c.Op("nn.avg_pool2d", {c.Image()}, std::move(attrs));
}

Operand AveragePool(LayerContext& c) { return c.Op("nn.global_avg_pool2d", {c.Image()}); }

// ---- values of other layers

Operand Route(LayerContext& c) {
  Operands parts = c.Layers("layers");
  const int64_t groups = c.Int("groups", 1, 1), group = c.Int("group_id", 0, 0, groups - 1);
  bool is_image = groups > 1;
  for (Operand part : parts) {
    if (c.failed() || part->is_placeholder) return c.emit().Placeholder();
    is_image = is_image || c.RankOf(part) == 4;
  }
  for (Operand& part : parts) {
    if (is_image) part = c.AsImage(part);
    if (groups == 1) continue;
    const std::optional<int64_t> channels = KnownExtent(c, part, 1, "input");
    if (!channels) return part;
    if (*channels % groups != 0) {
      return c.Fail(absl::StrCat(*channels, " channels of a layer that it reads are not ", groups, " groups"));
    }
    const int64_t size = *channels / groups;
    part = c.SliceAxis(part, 1, group * size, (group + 1) * size);
  }
  return c.Concatenate(parts, 1);
}

// `x` cut, or filled with zeros, to as many channels as `like` has.
Operand FitChannels(LayerContext& c, Operand x, Operand like) {
  if (c.failed() || c.RankOf(x) != c.RankOf(like) || c.ExtentOf(x, 1) == c.ExtentOf(like, 1)) return x;
  const std::optional<int64_t> from = KnownExtent(c, x, 1, "input"), to = KnownExtent(c, like, 1, "input");
  if (!from || !to) return x;
  if (*from > *to) return c.SliceAxis(x, 1, 0, *to);
  Dims widths(static_cast<size_t>(2 * c.RankOf(x)), Dim(0));
  widths[3] = *to - *from;
  return PadBy(c, x, 0, widths);
}

// Weights of the summands of a shortcut, (summands, 1) or (summands, channels), scaled as the section says.
Operand SummandWeights(LayerContext& c, Operand x, size_t count) {
  const std::string_view type = c.Text("weights_type", "none"), by = c.Text("weights_normalization", "none");
  if (type == "none") return nullptr;
  if (type != "per_feature" && type != "per_layer" && type != "per_channel") {
    return c.Unsupported(absl::StrCat("`weights_type=", ReadableText(type.substr(0, 40)), "`"));
  }
  std::optional<int64_t> channels = 1;
  if (type == "per_channel") channels = KnownExtent(c, x, 1, "input");
  if (!channels) return nullptr;
  const Term weights(c, c.TakeWeights({static_cast<int64_t>(count), *channels}));
  if (by == "none" || c.failed()) return weights;
  auto over_summands = [&](std::string_view op, const Term& values) {
    return Term(c, c.Op(op, {values}, {{"axis", ir::IntList({{int64_t{0}}})}, {"keepdims", true}}));
  };
  // Added to sums by DarkNet, and its lower bound of weights.
  constexpr double kSumEpsilon = 1e-4, kMinWeight = 1e-3;
  if (by == "relu" || by == "avg_relu") {
    const Term positive = Max(weights, weights.Like(kMinWeight));
    return positive / (over_summands("sum", positive) + kSumEpsilon);
  }
  if (by != "softmax") {
    return c.Unsupported(absl::StrCat("`weights_normalization=", ReadableText(by.substr(0, 40)), "`"));
  }
  const Term powers = Exp(weights - over_summands("max", weights));
  return powers / (over_summands("sum", powers) + kSumEpsilon);
}

Operand Shortcut(LayerContext& c) {
  Operand x = c.Input();
  const Operands others = c.Layers("from");
  for (Operand other : others) {
    if (c.failed() || other->is_placeholder) return c.emit().Placeholder();
  }
  const double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  Operand weights = SummandWeights(c, x, others.size() + 1);
  auto scaled = [&](Operand summand, size_t number, double factor) {
    if (c.failed()) return summand;
    if (weights != nullptr) {
      const auto row = static_cast<int64_t>(number);
      Dims around(static_cast<size_t>(c.RankOf(x)), Dim(1));
      around[1] = c.ExtentOf(weights, 1);
      summand = c.Mul(summand, c.Reshape(c.SliceAxis(weights, 0, row, row + 1), around));
    }
    return factor == 1 ? summand : c.Mul(summand, c.Number(factor, summand));
  };
  Operand sum = scaled(x, 0, alpha);
  for (size_t i = 0; i < others.size(); ++i) {
    Operand other = c.RankOf(x) == 4 ? c.AsImage(others[i]) : c.AsRows(others[i]);
    for (int64_t axis = 2; !c.failed() && axis < c.RankOf(x); ++axis) {
      if (CompareDims(c.ExtentOf(other, axis), c.ExtentOf(x, axis)) == DimEquality::kDifferent) {
        return c.Unsupported("a shortcut between images of different extents");
      }
    }
    sum = c.Add(sum, scaled(FitChannels(c, other, x), i + 1, beta));
  }
  return c.Activated(sum, c.Text("activation", "linear"));
}

// Returns the product with the layer `from`: of a channel or a pixel with all its elements, or of each element.
Operand Scaled(LayerContext& c) {
  Operand x = c.Image();
  const Operands from = c.Layers("from");
  if (c.failed() || from[0]->is_placeholder) return c.emit().Placeholder();
  return c.Activated(c.Mul(c.AsImage(from[0]), x), c.Text("activation", "linear"));
}

// ---- moves

Operand Upsample(LayerContext& c) {
  const int64_t stride = c.Int("stride", 2, 1, kMaxWindow);
  const double scale = c.Float("scale", 1);
  Operand y = c.Op("nn.upsampling", {c.Image()},
                   {{"scale_h", static_cast<double>(stride)}, {"scale_w", static_cast<double>(stride)}});
  return scale == 1 ? y : c.Mul(y, c.Number(scale, y));
}

// Moves squares of pixels into channels. DarkNet's indices read the input as an image of stride^2 times fewer channels
// and stride times the height and width, whatever its own extents; with `reverse` they move channels into squares.
Operand Reorg(LayerContext& c) {
  Operand x = c.Image();
  const int64_t s = c.Int("stride", 1, 1, kMaxWindow);
  const bool is_reversed = c.Bool("reverse");
  c.Refuse({"flatten", "extra"});
  const auto extents = c.ImageExtents(x);
  if (!extents) return x;
  const auto [channels, height, width] = *extents;
  if (channels % (s * s) != 0 || (!is_reversed && (height % s != 0 || width % s != 0))) {
    return c.Unsupported(
        absl::StrCat("an image (", channels, ", ", height, ", ", width, ") that squares of ", s, " do not divide"));
  }
  const Dim batch = c.ExtentOf(x, 0);
  const int64_t few = channels / (s * s);
  if (is_reversed) {
    constexpr int64_t kIntoSquares[] = {0, 3, 4, 1, 5, 2};
    x = c.Transpose(c.Reshape(x, {batch, s, s, few, height, width}), kIntoSquares);
    return c.Reshape(x, {batch, few, height * s, width * s});
  }
  constexpr int64_t kIntoChannels[] = {0, 3, 5, 1, 2, 4};
  x = c.Transpose(c.Reshape(x, {batch, few, height, s, width, s}), kIntoChannels);
  return c.Reshape(x, {batch, channels * s * s, height / s, width / s});
}

// ---- scores

Operand Softmax(LayerContext& c) {
  c.Refuse({"tree"});
  const bool is_spatial = c.Float("spatial", 0) != 0;
  Operand x = is_spatial ? c.Image() : c.Rows();
  const double temperature = c.Float("temperature", 1);
  const int64_t groups = c.Int("groups", 1, 1);
  if (temperature != 1) x = c.Div(x, c.Number(temperature, x));
  if (is_spatial || groups == 1) {
    if (groups != 1) return c.Unsupported("`groups` with `spatial`");
    return c.Op("nn.softmax", {x}, {{"axis", 1}});
  }
  const std::optional<int64_t> numbers = KnownExtent(c, x, 1, "input");
  if (!numbers) return x;
  if (*numbers % groups != 0) return c.Fail(absl::StrCat(*numbers, " numbers are not ", groups, " groups"));
  const Dims dims = c.DimsOf(x);
  Operand y = c.Op("nn.softmax", {c.Reshape(x, {dims[0], groups, *numbers / groups})}, {{"axis", -1}});
  return c.Reshape(y, dims);
}

// For each of `boxes` anchors `entries` channels: what `scored` makes of (batch, boxes, entries, height, width).
template <typename Scored>
Operand Boxes(LayerContext& c, int64_t boxes, int64_t entries, Scored scored) {
  Operand x = c.Image();
  const std::optional<int64_t> channels = KnownExtent(c, x, 1, "input");
  if (!channels) return x;
  if (*channels != boxes * entries) {
    return c.Fail(absl::StrCat("its input has ", *channels, " channels; ", boxes, " anchors of ", entries,
                               " numbers are ", boxes * entries));
  }
  const Dims dims = c.DimsOf(x);
  return c.Reshape(scored(c.Reshape(x, {dims[0], boxes, entries, dims[2], dims[3]})), dims);
}

Term Sigmoid(const Term& x) { return x.Apply("sigmoid"); }

// Positions, sizes, objectness and classes of boxes, with the activations that DarkNet gives them.
Operand Yolo(LayerContext& c) {
  const int64_t classes = c.Int("classes", 20, 0), total = c.Int("num", 1, 1);
  const bool is_activated = !c.Bool("new_coords");
  const double scale = c.Float("scale_x_y", 1);
  const int64_t boxes = c.Has("mask") ? static_cast<int64_t>(c.Ints("mask").size()) : total;
  return Boxes(c, boxes, classes + 5, [&](Operand x) {
    auto part = [&](int64_t begin, int64_t end) { return Term(c, c.SliceAxis(x, 2, begin, end)); };
    Term place = part(0, 2), score = part(4, classes + 5);
    if (is_activated) {
      place = Sigmoid(place);
      score = Sigmoid(score);
    }
    if (scale != 1) place = place * scale - 0.5 * (scale - 1);
    return c.Concatenate({place, part(2, 4), score}, 2);
  });
}

Operand Region(LayerContext& c) {
  c.Refuse({"background", "tree"});
  const int64_t classes = c.Int("classes", 20, 1), boxes = c.Int("num", 1, 1), coords = c.Int("coords", 4, 2);
  const bool is_softmax = c.Bool("softmax");
  return Boxes(c, boxes, coords + classes + 1, [&](Operand x) {
    auto part = [&](int64_t begin, int64_t end) { return Term(c, c.SliceAxis(x, 2, begin, end)); };
    Term score = part(coords + 1, coords + 1 + classes);
    score = is_softmax ? Term(c, c.Op("nn.softmax", {score}, {{"axis", 2}})) : Sigmoid(score);
    Operands parts = {Sigmoid(part(0, 2))};
    if (coords > 2) parts.push_back(part(2, coords));
    parts.insert(parts.end(), {Sigmoid(part(coords, coords + 1)), score});
    return c.Concatenate(parts, 2);
  });
}

constexpr LayerRow kRows[] = {
    {"activation", Activation},
    {"avg", AveragePool},
    {"avgpool", AveragePool},
    {"cost", Same},
    {"dropout", Same},
    {"local_avg", LocalAveragePool},
    {"local_avgpool", LocalAveragePool},
    {"max", MaxPool},
    {"maxpool", MaxPool},
    {"region", Region},
    {"reorg", Reorg},
    {"route", Route},
    {"sam", Scaled},
    {"scale_channels", Scaled},
    {"shortcut", Shortcut},
    {"soft", Softmax},
    {"softmax", Softmax},
    {"upsample", Upsample},
    {"yolo", Yolo},
};

}  // namespace

std::span<const LayerRow> ShapeLayers() { return kRows; }

}  // namespace rvm::darknet
