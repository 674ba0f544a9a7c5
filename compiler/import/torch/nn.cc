// Matmul, convolution, pooling, attention, images.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/attention.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::ImageLayout;
using importing::MatrixProduct;
using importing::Windows;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A list of as many numbers as axes of space; one stands for all.
std::vector<int64_t> PerAxis(NodeContext& c, const char* name, size_t axes, int64_t otherwise) {
  std::vector<int64_t> values = c.Ints(name);
  if (values.empty()) values = {otherwise};
  if (values.size() == 1) values.resize(axes, values[0]);
  if (values.size() != axes && !c.failed()) c.Fail(absl::StrCat("`", name, "` does not fit its input"));
  values.resize(axes, otherwise);
  return values;
}

void CheckPositive(NodeContext& c, const std::vector<int64_t>& values, const char* what) {
  bool is_positive = std::all_of(values.begin(), values.end(), [](int64_t value) { return value > 0; });
  if (!is_positive && !c.failed()) c.Fail(absl::StrCat("its ", what, " is below 1"));
}

std::vector<int64_t> BothSides(const std::vector<int64_t>& padding) {
  std::vector<int64_t> pads = padding;
  pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}

// One more axis in front for x without a batch, and away again.
struct Batched {
  Operand x;
  bool is_added = false;
};
Batched WithBatch(NodeContext& c, Operand x, int64_t rank) {
  bool is_added = c.RankOf(x) == rank - 1;
  return {is_added ? c.Unsqueeze(x, {0}) : x, is_added};
}
Operand WithoutBatch(NodeContext& c, Operand y, bool is_added) { return is_added ? c.Squeeze(y, {0}) : y; }

// Returns the axes of space that the operator's name says: "conv2d", "max_pool1d_with_indices".
int64_t SpaceAxes(NodeContext& c) {
  for (char digit : {'1', '2', '3'}) {
    if (c.row().name.find(std::string(1, digit) + "d") != std::string_view::npos) return digit - '0';
  }
  return std::max<int64_t>(c.RankOf(c.In("input")) - 2, 0);
}

Operand WithBias(NodeContext& c, Operand y) {
  return c.Has("bias") ? c.Op("nn.bias_add", {y, c.Cast(c.In("bias"), c.DTypeOf(y))}, {{"axis", 1}}) : y;
}

Operand Transposed(NodeContext& c, Operand x, const Windows& windows, std::vector<int64_t> more, int64_t groups) {
  more.resize(windows.axes, 0);
  return c.Op(absl::StrCat("nn.conv", windows.axes, "d_transpose"), {x, c.In("weight")},
              {{"strides", ir::IntList(windows.strides)},
               {"padding", ir::IntList(windows.pads)},
               {"dilation", ir::IntList(windows.dilations)},
               {"groups", groups},
               {"output_padding", ir::IntList(more)}});
}

Operand Convolved(NodeContext& c, bool is_transposed) {
  int64_t axes = SpaceAxes(c);
  Operand weight = c.In("weight");
  if (axes < 1 || axes > 3 || c.RankOf(weight) != axes + 2) return c.Unsupported("a kernel of that rank");
  auto [x, is_added] = WithBatch(c, c.In("input"), axes + 2);
  Windows windows = {.axes = static_cast<size_t>(axes)};
  windows.strides = PerAxis(c, "stride", windows.axes, 1);
  windows.dilations = PerAxis(c, "dilation", windows.axes, 1);
  CheckPositive(c, windows.strides, "stride");
  CheckPositive(c, windows.dilations, "dilation");
  const Argument* padding = c.Find("padding");
  bool is_same = padding != nullptr && padding->kind == ArgumentKind::kString && padding->text == "same";
  if (is_same) {
    windows.pads.assign(2 * windows.axes, 0);
    for (size_t i = 0; i < windows.axes; ++i) {
      int64_t taps = c.ExtentOf(weight, static_cast<int64_t>(i) + 2).AsConst().value_or(1);
      int64_t total = (taps - 1) * windows.dilations[i];
      windows.pads[i] = total / 2;
      windows.pads[i + windows.axes] = total - total / 2;
    }
  } else if (padding != nullptr && padding->kind == ArgumentKind::kString) {
    windows.pads.assign(2 * windows.axes, 0);
  } else {
    windows.pads = BothSides(PerAxis(c, "padding", windows.axes, 0));
  }
  int64_t groups = c.Int("groups", 1);
  if (c.failed()) return nullptr;
  Operand y = is_transposed ? Transposed(c, x, windows, c.Ints("output_padding"), groups)
                            : Convolve(c, x, weight, windows, groups);
  return WithoutBatch(c, WithBias(c, y), is_added);
}

// mm, bmm, matmul, mv and dot.
Operands MatMul(NodeContext& c) {
  const char* names[] = {"mat2", "other", "vec2", "vec", "tensor"};
  for (const char* name : names) {
    if (!c.Has(name)) continue;
    return {MatrixProduct(c, c.In("self"), c.In(name))};
  }
  return {c.Fail("its second argument is missing")};
}

Operands Linear(NodeContext& c) {
  Operand x = c.In("input"), weight = c.In("weight");
  if (c.RankOf(weight) != 2) return {c.Unsupported("weights that are no matrix")};
  Operand y = c.RankOf(x) == 1 ? c.Squeeze(c.Op("nn.dense", {c.Unsqueeze(x, {0}), weight}), {0})
                               : c.Op("nn.dense", {x, weight});
  return {c.Has("bias") ? c.Add(y, c.In("bias")) : y};
}

// addmm, addmv and baddbmm: beta * self + alpha * product.
Operands Addmm(NodeContext& c) {
  const char* first = c.Has("mat1") ? "mat1" : c.Has("batch1") ? "batch1" : "mat";
  const char* second = c.Has("mat2") ? "mat2" : c.Has("batch2") ? "batch2" : "vec";
  Operand y = MatrixProduct(c, c.In(first), c.In(second)), self = c.In("self");
  double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (alpha != 1) y = c.Mul(y, c.Number(alpha, y));
  if (beta == 0) return {y};
  return {c.Add(y, beta == 1 ? self : c.Mul(self, c.Number(beta, self)))};
}

Operands Einsum(NodeContext& c) {
  std::string equation = c.Text("equation", "");
  std::erase(equation, ' ');
  if (equation.find("->") == std::string::npos) return {c.Unsupported("an equation without `->`")};
  return {c.Op("einsum", {c.emit().Tuple(c.List("tensors"))}, {{"equation", equation}})};
}

Operands Convolution(NodeContext& c) { return {Convolved(c, c.Bool("transposed", false))}; }
Operands TransposedConvolution(NodeContext& c) { return {Convolved(c, true)}; }

// ---- pooling

Windows PoolWindows(NodeContext& c, size_t axes) {
  Windows windows = {.axes = axes};
  windows.kernel = PerAxis(c, "kernel_size", axes, 1);
  windows.strides = c.Ints("stride").empty() ? windows.kernel : PerAxis(c, "stride", axes, 1);
  windows.dilations = PerAxis(c, "dilation", axes, 1);
  windows.pads = BothSides(PerAxis(c, "padding", axes, 0));
  CheckPositive(c, windows.kernel, "kernel");
  CheckPositive(c, windows.strides, "stride");
  CheckPositive(c, windows.dilations, "dilation");
  return windows;
}

// Makes the padding large enough for all windows of `ceil_mode`.
void PadOverhang(NodeContext& c, Operand x, Windows& windows) {
  for (size_t i = 0; i < windows.axes; ++i) {
    std::optional<int64_t> extent = c.ExtentOf(x, static_cast<int64_t>(i) + 2).AsConst();
    if (c.failed()) return;
    if (!extent) {
      c.Unsupported("windows that hang over an extent that only the running model knows");
      return;
    }
    int64_t stride = windows.strides[i], reach = (windows.kernel[i] - 1) * windows.dilations[i] + 1;
    int64_t before = windows.pads[i], &after = windows.pads[i + windows.axes];
    int64_t steps = (*extent + before + after - reach + stride - 1) / stride;
    if (steps * stride >= *extent + before) --steps;  // a window of nothing but padding
    after += std::max<int64_t>(steps * stride + reach - (*extent + before + after), 0);
  }
}

// Sums of windows, divided by the same number everywhere.
Operand PoolWithDivisor(NodeContext& c, Operand x, Windows windows, int64_t divisor) {
  if (c.Bool("ceil_mode", false)) PadOverhang(c, x, windows);
  if (c.failed() || divisor == 0) return c.failed() ? nullptr : c.Fail("`divisor_override` is 0");
  x = PadSpace(c, x, 0, windows);
  if (!c.DTypeOf(x).is_float()) {
    Operand elements = WindowElements(c, x, windows);
    Operand sum = c.Op("sum", {elements}, {{"axis", ir::AttrValue::List{c.RankOf(elements) - 1}}});
    return c.Op("trunc_divide", {sum, c.emit().Integer(divisor, c.DTypeOf(x))});
  }
  std::fill(windows.pads.begin(), windows.pads.end(), 0);
  int64_t taps = 1;
  for (int64_t extent : windows.kernel) taps *= extent;
  Operand mean = c.Op(PoolName("avg", windows), {x}, PoolAttrs(windows, false));
  return c.Mul(mean, c.Number(static_cast<double>(taps) / static_cast<double>(divisor), mean));
}

// Returns the indices of the greatest elements of adaptive pooling's bins, counted in an image.
Operand AdaptivePlaces(NodeContext& c, Operand x, const std::vector<int64_t>& sizes) {
  int64_t axes = static_cast<int64_t>(sizes.size());
  Dims space;
  Dim count = 1;
  for (int64_t i = 0; i < axes; ++i) {
    space.push_back(c.ExtentOf(x, i + 2));
    count = count * space.back();
  }
  Operand values = x, places = c.Reshape(c.Iota(count), space);
  for (int64_t i = 0; i < axes; ++i) {
    std::optional<int64_t> extent = space[static_cast<size_t>(i)].AsConst();
    int64_t bins = sizes[static_cast<size_t>(i)];
    constexpr int64_t kMaxBins = 65536;
    if (c.failed() || !extent || bins < 1 || bins > kMaxBins || *extent > (int64_t{1} << 31)) {
      return c.failed() ? nullptr : c.Unsupported("indices of bins that are not known, or of more than 65536");
    }
    int64_t taps = 0;
    for (int64_t bin = 0; bin < bins; ++bin) {
      taps = std::max(taps, ((bin + 1) * *extent + bins - 1) / bins - bin * *extent / bins);
    }
    // The last element of a shorter bin stands for what it lacks: the first of equal ones is found.
    std::vector<int64_t> elements;
    for (int64_t bin = 0; bin < bins; ++bin) {
      int64_t begin = bin * *extent / bins, end = ((bin + 1) * *extent + bins - 1) / bins;
      for (int64_t tap = 0; tap < taps; ++tap) elements.push_back(std::min(begin + tap, end - 1));
    }
    Operand at = c.Reshape(c.emit().Vector(elements), {bins, taps});
    values = c.Op("take", {values, at}, {{"axis", 2 + 2 * i}});
    places = c.Op("take", {places, at}, {{"axis", 2 * i}});
  }
  // Bins, then their elements as one axis.
  auto gathered = [&](Operand y, int64_t front) {
    std::vector<int64_t> order;
    for (int64_t i = 0; i < front; ++i) order.push_back(i);
    for (int64_t i = 0; i < axes; ++i) order.push_back(front + 2 * i);
    for (int64_t i = 0; i < axes; ++i) order.push_back(front + 2 * i + 1);
    y = c.Transpose(y, order);
    Dims dims = c.DimsOf(y);
    Dim taps = 1;
    for (int64_t i = 0; i < axes && !c.failed(); ++i) {
      taps = taps * dims.back();
      dims.pop_back();
    }
    dims.push_back(taps);
    return c.Reshape(y, dims);
  };
  values = gathered(values, 2);
  places = c.BroadcastTo(gathered(places, 0), c.DimsOf(values));
  int64_t last = c.RankOf(values) - 1;
  Operand best = c.Op("argmax", {values}, {{"axis", ir::AttrValue::List{last}}, {"keepdims", true}});
  return c.Squeeze(c.Op("gather", {places, best}, {{"axis", last}}), {last});
}

Operands MaxPool(NodeContext& c) {
  int64_t axes = SpaceAxes(c);
  auto [x, is_added] = WithBatch(c, c.In("self"), axes + 2);
  Windows windows = PoolWindows(c, static_cast<size_t>(axes));
  bool ceil_mode = c.Bool("ceil_mode", false);
  if (c.failed()) return {};
  Operand y = WithoutBatch(c, c.Op(PoolName("max", windows), {x}, PoolAttrs(windows, ceil_mode)), is_added);
  if (!c.WantsOutput(1)) return {y};
  if (ceil_mode) PadOverhang(c, x, windows);
  // Counted in each image; MaxIndices counts in all.
  Operand places = MaxIndices(c, x, windows, /*column_major=*/false);
  if (c.failed()) return {};
  Dim image = 1;
  for (int64_t i = 2; i < axes + 2; ++i) image = image * c.ExtentOf(x, i);
  places = c.Op("floor_mod", {places, c.emit().FromDim(image)});
  return {y, WithoutBatch(c, places, is_added)};
}

Operands AveragePool(NodeContext& c) {
  int64_t axes = SpaceAxes(c);
  auto [x, is_added] = WithBatch(c, c.In("self"), axes + 2);
  Windows windows = PoolWindows(c, static_cast<size_t>(axes));
  if (c.failed()) return {};
  if (c.Has("divisor_override")) {
    return {WithoutBatch(c, PoolWithDivisor(c, x, windows, c.Int("divisor_override", 1)), is_added)};
  }
  ir::Attrs attrs = PoolAttrs(windows, c.Bool("ceil_mode", false));
  attrs.Set("count_include_pad", c.Bool("count_include_pad", true));
  return {WithoutBatch(c, c.Op(PoolName("avg", windows), {x}, attrs), is_added)};
}

Operands AdaptivePool(NodeContext& c) {
  int64_t axes = SpaceAxes(c);
  auto [x, is_added] = WithBatch(c, c.In("self"), axes + 2);
  std::vector<int64_t> sizes = PerAxis(c, "output_size", static_cast<size_t>(axes), 1);
  if (c.failed()) return {};
  bool is_max = c.row().variant == "max";
  bool is_global = std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
  Operand y;
  if (is_global) {
    ir::AttrValue::List space;
    for (int64_t i = 2; i < axes + 2; ++i) space.emplace_back(i);
    y = c.Op(is_max ? "max" : "mean", {x}, {{"axis", space}, {"keepdims", true}});
  } else {
    y = c.Op(absl::StrCat("nn.adaptive_", is_max ? "max" : "avg", "_pool", axes, "d"), {x},
             {{"output_size", ir::IntList(sizes)}, {"layout", std::string(ImageLayout(static_cast<size_t>(axes)))}});
  }
  y = WithoutBatch(c, y, is_added);
  if (!is_max || !c.WantsOutput(1)) return {y};
  Operand places = AdaptivePlaces(c, x, sizes);
  return {y, c.failed() ? nullptr : WithoutBatch(c, places, is_added)};
}

// ---- attention

Operands Attention(NodeContext& c) {
  Operand query = c.In("query"), key = c.In("key"), value = c.In("value");
  if (c.Float("dropout_p", 0) != 0) return {c.Unsupported("dropout; call `eval()` of the module before the export")};
  int64_t rank = c.RankOf(query);
  if (c.failed() || rank < 2) return {c.failed() ? nullptr : c.Fail("its query has fewer than 2 axes")};
  if (c.Bool("enable_gqa", false)) {
    std::optional<int64_t> queries = c.ExtentOf(query, -3).AsConst(), keys = c.ExtentOf(key, -3).AsConst();
    if (!queries || !keys)
      return {c.Unsupported("a number of heads that is not known; give it: --shape INPUT=EXTENT,...")};
    if (*keys == 0 || *queries % *keys != 0) return {c.Fail("its numbers of heads do not fit")};
    ir::Attrs attrs = {{"repeats", *queries / *keys}, {"axis", rank - 3}};
    key = c.Op("repeat", {key}, attrs);
    value = c.Op("repeat", {value}, attrs);
  }
  Operand scale = c.Has("scale") ? c.Number(c.Float("scale", 1), query) : importing::ScaleOfSize(c, query);
  Operand scores = c.Op("nn.matmul", {c.Mul(query, scale), importing::SwapAxes(c, key, -2, -1)});
  Operand none = c.Number(-kInfinity, scores);
  bool masked = c.Has("attn_mask");  // a causal mask alone leaves each query a key
  if (masked) {
    Operand mask = c.In("attn_mask");
    scores = c.DTypeOf(mask).is_bool() ? c.Where(mask, scores, none) : c.Add(scores, c.Cast(mask, c.DTypeOf(scores)));
  }
  if (c.Bool("is_causal", false)) {
    Operand last = c.Unsqueeze(c.Iota(c.ExtentOf(query, -2)), {1});
    scores = c.Where(c.Op("less_equal", {c.Iota(c.ExtentOf(key, -2)), last}), scores, none);
  }
  Operand weights = c.Op("nn.softmax", {scores}, {{"axis", rank - 1}, {"masked", masked}});
  Operands results = {c.Op("nn.matmul", {weights, value})};
  if (c.WantsOutput(1)) results.push_back(c.Op("logsumexp", {scores}, {{"axis", ir::AttrValue::List{rank - 1}}}));
  return results;
}

// ---- images

double NumberOf(const Argument& argument) {
  return argument.kind == ArgumentKind::kInt ? static_cast<double>(argument.integer) : argument.number;
}

// Returns the factors of an Upsample: all, or none where an extent alone is given.
std::vector<double> UpsampleFactors(NodeContext& c, size_t axes) {
  std::vector<double> factors;
  if (c.Has("scale_factors")) {
    for (const Argument& factor : c.Find("scale_factors")->list) factors.push_back(NumberOf(factor));
  } else if (axes == 1 && c.Has("scales")) {
    factors.push_back(NumberOf(*c.Find("scales")));
  } else {
    constexpr const char* kNames[] = {"scales_d", "scales_h", "scales_w"};
    for (const char* name : kNames) {
      if (c.Has(name)) factors.push_back(NumberOf(*c.Find(name)));
    }
  }
  if (factors.size() != axes) return {};
  for (double factor : factors) {
    if (!(factor > 0) || factor > 1e6) c.Fail("a scale is not in range");
  }
  return factors;
}

// upsample_nearest, linear, bilinear, bicubic and trilinear: to an extent, or by a factor.
Operands Upsample(NodeContext& c) {
  Operand x = c.In(c.Has("input") ? "input" : "self");
  size_t axes = static_cast<size_t>(std::max<int64_t>(c.RankOf(x) - 2, 0));
  if (axes < 1 || axes > 3) return {c.Unsupported("images of that rank")};
  Dims sizes;
  std::vector<double> factors = UpsampleFactors(c, axes);
  if (c.failed()) return {};
  if (c.Has("output_size")) {
    std::optional<Dims> given = c.Extents("output_size");
    if (!given) return {c.Unsupported("extents that only the running model knows")};
    sizes = *given;
  } else {
    for (size_t i = 0; i < factors.size(); ++i) {
      double factor = factors[i];
      Dim extent = c.ExtentOf(x, static_cast<int64_t>(i) + 2);
      if (factor == std::floor(factor)) {
        sizes.push_back(extent * Dim(static_cast<int64_t>(factor)));
      } else if (extent.is_const()) {
        sizes.push_back(Dim(static_cast<int64_t>(std::floor(static_cast<double>(extent.constant()) * factor))));
      } else {
        return {c.Unsupported("a fraction of an extent that only the running model knows")};
      }
    }
  }
  if (sizes.size() != axes) return {c.Fail("its extents do not fit its input")};
  std::string method(c.row().variant);
  bool aligned = c.Bool("align_corners", false);
  bool is_exact = method == "nearest_exact", is_nearest = method == "nearest_neighbor" || is_exact;
  if (is_exact) method = "nearest_neighbor";
  ir::Attrs attrs = {{"layout", std::string(ImageLayout(axes))},
                     {"method", method},
                     {"coordinate_transformation_mode", is_exact     ? "half_pixel"
                                                        : is_nearest ? "asymmetric"
                                                        : aligned    ? "align_corners"
                                                                     : "pytorch_half_pixel"},
                     {"rounding_method", is_exact     ? "round_prefer_ceil"
                                         : is_nearest ? "floor"
                                                      : "round"},
                     {"cubic_alpha", -0.75}};
  // Coordinates are divided by the factors, not by the quotients of the extents. Those of whole factors are equal.
  bool are_whole = std::all_of(factors.begin(), factors.end(), [](double f) { return f == std::floor(f); });
  if (!are_whole && !aligned) attrs.Set("scales", ir::AttrValue::List(factors.begin(), factors.end()));
  if (std::optional<Shape> numbers = StaticShape(sizes)) {
    attrs.Set("size", ir::IntList(*numbers));
    return {c.Op(absl::StrCat("image.resize", axes, "d"), {x}, attrs)};
  }
  if (axes != 2) return {c.Unsupported("extents that only the running model knows")};
  Dims dims = c.DimsOf(x);
  std::copy(sizes.begin(), sizes.end(), dims.begin() + 2);
  Operand no_region = c.emit().Constant(Literal::Full(kFloat32, {0}, 0));
  return {c.emit().OpAs(dims, "dyn.image.resize2d", {x, c.emit().FromDims(sizes), no_region}, attrs)};
}

Operands GridSampler(NodeContext& c) {
  constexpr std::string_view kMethods[] = {"bilinear", "nearest", "bicubic"};
  constexpr std::string_view kPadding[] = {"zeros", "border", "reflection"};
  int64_t method = c.Int("interpolation_mode", 0), padding = c.Int("padding_mode", 0);
  if (c.failed() || method < 0 || method > 2 || padding < 0 || padding > 2) return {c.Fail("its mode is not known")};
  Operand x = c.In("input"), grid = c.In("grid");
  int64_t rank = c.RankOf(x);
  // Relay has the coordinates in front of the axes of space.
  std::vector<int64_t> axes = {0, rank - 1};
  for (int64_t i = 1; i < rank - 1; ++i) axes.push_back(i);
  if (c.RankOf(grid) != rank || rank < 4) return {c.Fail("its grid does not fit its input")};
  return {c.Op("image.grid_sample", {x, c.Transpose(grid, axes)},
               {{"method", std::string(kMethods[method])},
                {"padding_mode", std::string(kPadding[padding])},
                {"layout", std::string(ImageLayout(static_cast<size_t>(rank - 2)))},
                {"align_corners", c.Bool("align_corners", false)}})};
}

constexpr OperatorRow kRows[] = {
    {"addmm", Addmm},
    {"addmv", Addmm},
    {"baddbmm", Addmm},
    {"bmm", MatMul},
    {"dot", MatMul},
    {"vdot", MatMul},
    {"einsum", Einsum},
    {"linear", Linear},
    {"matmul", MatMul},
    {"linalg_matmul", MatMul},
    {"mm", MatMul},
    {"mv", MatMul},
    {"conv1d", Convolution},
    {"conv2d", Convolution},
    {"conv3d", Convolution},
    {"_convolution", Convolution},
    {"convolution", Convolution},
    {"conv_transpose1d", TransposedConvolution},
    {"conv_transpose2d", TransposedConvolution},
    {"conv_transpose3d", TransposedConvolution},
    {"max_pool1d", MaxPool},
    {"max_pool1d_with_indices", MaxPool},
    {"max_pool2d", MaxPool},
    {"max_pool2d_with_indices", MaxPool},
    {"max_pool3d", MaxPool},
    {"max_pool3d_with_indices", MaxPool},
    {"avg_pool1d", AveragePool},
    {"avg_pool2d", AveragePool},
    {"avg_pool3d", AveragePool},
    {"_adaptive_avg_pool2d", AdaptivePool},
    {"_adaptive_avg_pool3d", AdaptivePool},
    {"adaptive_avg_pool1d", AdaptivePool},
    {"adaptive_avg_pool2d", AdaptivePool},
    {"adaptive_avg_pool3d", AdaptivePool},
    {"adaptive_max_pool1d", AdaptivePool, "max"},
    {"adaptive_max_pool2d", AdaptivePool, "max"},
    {"adaptive_max_pool3d", AdaptivePool, "max"},
    {"scaled_dot_product_attention", Attention},
    {"_scaled_dot_product_flash_attention_for_cpu", Attention},
    {"upsample_bicubic2d", Upsample, "cubic"},
    {"upsample_bilinear2d", Upsample, "linear"},
    {"upsample_linear1d", Upsample, "linear"},
    {"upsample_nearest1d", Upsample, "nearest_neighbor"},
    {"upsample_nearest2d", Upsample, "nearest_neighbor"},
    {"upsample_nearest3d", Upsample, "nearest_neighbor"},
    {"upsample_trilinear3d", Upsample, "linear"},
    {"_upsample_nearest_exact1d", Upsample, "nearest_exact"},
    {"_upsample_nearest_exact2d", Upsample, "nearest_exact"},
    {"_upsample_nearest_exact3d", Upsample, "nearest_exact"},
    {"grid_sampler", GridSampler},
    {"grid_sampler_2d", GridSampler},
    {"grid_sampler_3d", GridSampler},
};

}  // namespace

std::span<const OperatorRow> NnOperators() { return kRows; }

}  // namespace rvm::torch::convert
