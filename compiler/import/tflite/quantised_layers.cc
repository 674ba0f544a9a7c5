// Convolutions, pooling, products and resizing of quantised tensors: sums of products of bytes in int32. Zero points of
// inputs are taken out of the sums where the weights are constants: an image is padded with its zero point, and the
// sums of the weights times that are part of the bias.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/checks.h"
#include "compiler/import/tflite/layers.h"
#include "compiler/import/tflite/quantised.h"

namespace rvm::tflite {
namespace {

double Wide(float value) { return static_cast<double>(value); }

// Returns the factors that make sums of products results. `by_channel`: in float64 for each channel, else from the
// float32 product of the scales.
std::vector<Factor> FactorsOf(NodeContext& c, const Form& in, const Tensor& weights, const Form& out, bool by_channel) {
  std::vector<Factor> factors;
  if (weights.scales.empty()) {
    c.Unsupported("weights without a scale");
    return {Factor()};
  }
  for (float scale : weights.scales) {
    const double product = by_channel ? Wide(in.scale) * Wide(scale) : Wide(in.scale * scale);
    factors.push_back(FactorOf(product / Wide(out.scale)));
  }
  return factors;
}

bool IsCentred(const Tensor& tensor) {
  return std::ranges::all_of(tensor.zero_points, [](int64_t zero) { return zero == 0; });
}

// Sums over all axes but `axis` of a constant of bytes; nullopt if int32 does not hold them times `by`.
std::optional<std::vector<int32_t>> SumsAlong(const Literal& weights, int64_t axis, int64_t by) {
  const auto count = static_cast<size_t>(weights.shape()[static_cast<size_t>(axis)]);
  int64_t inner = 1;
  for (int64_t i = axis + 1; i < weights.rank(); ++i) inner *= weights.shape()[static_cast<size_t>(i)];
  std::vector<int64_t> sums(count, 0);
  for (int64_t i = 0; i < weights.num_elements(); ++i) {
    sums[static_cast<size_t>(i / inner) % count] += weights.IntAt(i);
  }
  std::vector<int32_t> narrow;
  for (int64_t sum : sums) {
    if (sum * by != static_cast<int32_t>(sum * by)) return std::nullopt;
    narrow.push_back(static_cast<int32_t>(sum * by));
  }
  return narrow;
}

// x less its zero point, in as few bits as hold it.
Operand Offset(Steps& c, Operand x, int64_t zero_point) {
  if (zero_point == 0) return x;
  const DataType wide = c.DTypeOf(x).bits == 8 ? kInt16 : kInt32;
  return c.Sub(c.Cast(x, wide), c.emit().Integer(zero_point, wide));
}

Operand CentredWeights(NodeContext& c, Operand weights, const Tensor& tensor) {
  if (IsCentred(tensor)) return weights;
  if (tensor.zero_points.size() > 1) return c.Unsupported("zero points for channels of weights");
  return Offset(c, weights, tensor.zero_points[0]);
}

// Depth from which sums of products of 16 and 8 bits need int64.
constexpr int64_t kWideDepth = 512;

// The factors x and weights of a node as they are multiplied, and what their sums lack: the bias, and what the zero
// point of x adds to them.
struct Factors {
  Operand x, weights;
  int64_t border = 0;      // what x is padded with
  Operand bias = nullptr;  // of int32, or int64; null: none
  bool is_wide = false;    // sums need int64
};
Factors FactorsOfSums(NodeContext& c, Operand x, const Form& form, size_t weights, size_t bias, int64_t axis,
                      int64_t depth) {
  Factors factors{.x = x, .weights = c.In(weights)};
  const Tensor* tensor = c.Input(weights);
  if (c.failed()) return factors;
  factors.is_wide = form.dtype.bits == 16 && depth >= kWideDepth;
  if (c.Has(bias)) factors.bias = c.In(bias);
  const Literal* constant = factors.weights->constant ? &*factors.weights->constant : nullptr;
  const bool is_stored = constant != nullptr && constant->dtype() == kInt8 && IsCentred(*tensor);
  const auto sums = is_stored && form.zero_point != 0 ? SumsAlong(*constant, axis, -form.zero_point) : std::nullopt;
  if (sums) {
    Operand shift =
        c.emit().Constant(Literal::FromValues<int32_t>(kInt32, {static_cast<int64_t>(sums->size())}, *sums));
    factors.border = form.zero_point;
    factors.bias = factors.bias == nullptr ? shift : c.Add(c.Cast(factors.bias, kInt32), shift);
    return factors;
  }
  factors.x = Offset(c, x, form.zero_point);
  factors.weights = CentredWeights(c, factors.weights, *tensor);
  // Products have one dtype for both.
  if (c.DTypeOf(factors.x).bits == 16 || factors.is_wide) {
    const DataType wide = factors.is_wide ? kInt64 : c.DTypeOf(factors.x);
    factors.x = c.Cast(factors.x, wide);
    factors.weights = c.Cast(factors.weights, wide);
  }
  return factors;
}

std::string SumDType(const Factors& factors) { return factors.is_wide ? "int64" : "int32"; }

// Returns the sums with their bias, as results.
Operand Finished(NodeContext& c, Operand sums, const Factors& factors, std::span<const Factor> scale, int field,
                 Rounding rounding) {
  const Form out = OutputForm(c);
  const Range range = ActivatedRange(c, field, out);
  if (c.failed()) return sums;
  if (factors.bias != nullptr) {
    const DataType wide = factors.is_wide || c.DTypeOf(factors.bias) == kInt64 ? kInt64 : kInt32;
    sums = c.Add(c.Cast(sums, wide), c.Cast(factors.bias, wide));
  }
  return Narrow(c, Rescale(c, sums, scale, rounding), out, range);
}

Operands Conv(NodeContext& c) {
  const bool is_depthwise = c.row().variant == "depthwise";
  const Form in = InputForm(c, 0), out = OutputForm(c);
  const std::optional<Convolution> convolution = ReadConvolution(c, is_depthwise);
  if (!convolution) return {};
  const Factors factors = FactorsOfSums(c, c.In(0), in, 1, 2, is_depthwise ? 3 : 0, convolution->depth);
  if (c.failed()) return {};
  Operand sums =
      Convolve(c, *convolution, factors.x, factors.weights, static_cast<double>(factors.border), SumDType(factors));
  // Sums of int64, which depthwise convolutions of 16 bits have, and others with a bias of int64, have other factors.
  const bool is_long =
      is_depthwise ? in.dtype.bits == 16 : factors.bias != nullptr && c.DTypeOf(factors.bias) == kInt64;
  const Rounding rounding = is_long ? Rounding::kReduced : Rounding::kTwice;
  return {Finished(c, sums, factors, FactorsOf(c, in, *c.Input(1), out, in.dtype != kUInt8), is_depthwise ? 4 : 3,
                   rounding)};
}

Operands TransposeConv(NodeContext& c) {
  const Form in = InputForm(c, 2), out = OutputForm(c);
  Operand x = c.In(2);
  if (c.failed()) return {};
  // The border of a transposed convolution has no elements: x is centred first.
  Factors factors{.x = Offset(c, x, in.zero_point), .weights = c.In(1)};
  const Tensor* weights = c.Input(1);
  const auto kernel = FilterShape(c, factors.weights);
  if (!kernel || c.failed()) return {};
  factors.weights = CentredWeights(c, factors.weights, *weights);
  if (c.failed()) return {};
  double depth = 1;
  for (size_t i = 1; i < 4; ++i) depth *= static_cast<double>((*kernel)[i]);
  factors.is_wide = in.dtype.bits == 16 && depth >= kWideDepth;
  if (factors.is_wide || c.DTypeOf(factors.x).bits != c.DTypeOf(factors.weights).bits) {
    const DataType wide = factors.is_wide ? kInt64 : kInt16;
    factors.x = c.Cast(factors.x, wide);
    factors.weights = c.Cast(factors.weights, wide);
  }
  if (c.Has(3)) factors.bias = c.In(3);
  Operand sums = ConvolveTransposed(c, factors.x, factors.weights, SumDType(factors));
  const Rounding rounding = in.dtype.bits == 16 ? Rounding::kReduced : Rounding::kTwice;
  return {Finished(c, sums, factors, FactorsOf(c, in, *weights, out, in.dtype != kUInt8), 3, rounding)};
}

Operands FullyConnected(NodeContext& c) {
  const Form in = InputForm(c, 0), out = OutputForm(c);
  Operand x = c.In(0), weights = c.In(1);
  if (c.failed()) return {};
  const std::optional<int64_t> depth = importing::KnownExtent(c, weights, 1, "weights");
  if (!depth) return {};
  const Factors factors = FactorsOfSums(c, RowsOf(c, x, *depth), in, 1, 2, 0, *depth);
  if (c.failed()) return {};
  Operand sums = c.Op("nn.dense", {factors.x, factors.weights}, {{"out_dtype", SumDType(factors)}});
  const Tensor& tensor = *c.Input(1);
  return {Finished(c, sums, factors, FactorsOf(c, in, tensor, out, tensor.scales.size() > 1), 0, Rounding::kOnce)};
}

Operands BatchMatMul(NodeContext& c) {
  const Form a = InputForm(c, 0), b = InputForm(c, 1), out = OutputForm(c);
  Operand x = c.In(0), y = c.In(1);
  if (c.failed()) return {};
  const bool is_wide = a.dtype.bits != 8 || b.dtype.bits != 8;  // sums need int64
  const DataType wide = is_wide ? kInt64 : kInt16;
  auto centred = [&](Operand value, int64_t zero) {
    value = c.Cast(value, wide);
    return zero == 0 ? value : c.Sub(value, c.emit().Integer(zero, wide));
  };
  const bool turns_a = c.options().Number<uint8_t>(0, 0) != 0, turns_b = c.options().Number<uint8_t>(1, 0) != 0;
  Operand sums = c.Op("nn.matmul", {centred(x, a.zero_point), centred(y, b.zero_point)},
                      {{"transpose_a", turns_a}, {"transpose_b", turns_b}, {"out_dtype", is_wide ? "int64" : "int32"}});
  const Factor factor[] = {FactorOf(Wide(a.scale * b.scale) / Wide(out.scale))};
  return {Narrow(c, Rescale(c, sums, factor, is_wide ? Rounding::kReduced : Rounding::kTwice), out)};
}

// ---- pooling

Operands MaxPool(NodeContext& c) {
  const std::optional<Window> window = ReadPool(c);
  const Form out = OutputForm(c);
  if (!window || c.failed()) return {};
  Operand y = c.Op("nn.max_pool2d", {c.In(0)}, PoolAttrs(c, *window));
  const Range range = ActivatedRange(c, 5, out), all = RangeOf(out.dtype);
  if (range.least == all.least && range.greatest == all.greatest) return {y};
  return {
      c.Op("clip", {y}, {{"a_min", static_cast<double>(range.least)}, {"a_max", static_cast<double>(range.greatest)}})};
}

// How many elements of the image each window along an axis has.
std::vector<int64_t> Counts(int64_t extent, int64_t kernel, int64_t stride, int64_t before, int64_t behind) {
  std::vector<int64_t> counts;
  for (int64_t at = -before; at + kernel <= extent + behind; at += stride) {
    counts.push_back(std::min(at + kernel, extent) - std::max<int64_t>(at, 0));
  }
  return counts;
}

// Returns the number of elements of each window, as it broadcasts with the result; a mistake if extents are not known.
Operand WindowSizes(NodeContext& c, const Window& window) {
  const int64_t full = window.kernel[0] * window.kernel[1];
  if (!window.HasBorder()) return c.emit().Integer(full, kInt32);
  Operand sizes[2];
  for (size_t i = 0; i < 2; ++i) {
    const auto extent = importing::KnownExtent(c, c.In(0), static_cast<int64_t>(i) + 1, "input");
    const auto before = window.borders[i].AsConst(), behind = window.borders[i + 2].AsConst();
    if (!extent || !before || !behind || *extent > (1 << 20)) return c.Unsupported("pooling of unknown extents");
    const std::vector<int64_t> counts = Counts(*extent, window.kernel[i], window.strides[i], *before, *behind);
    sizes[i] = c.Cast(c.emit().Vector(counts), kInt32);
  }
  return c.Mul(c.Unsqueeze(sizes[0], {1, 2}), c.Unsqueeze(sizes[1], {1}));
}

// Returns the mean of integers, halves away from 0. The sums are those of floats, which are exact: a mean times its
// number of elements is next to an integer.
Operands AveragePool(NodeContext& c) {
  const std::optional<Window> window = ReadPool(c);
  const Form out = OutputForm(c);
  if (!window || c.failed()) return {};
  const int64_t size = window->kernel[0] * window->kernel[1];
  const bool is_exact = size < (int64_t{1} << (out.dtype.bits == 8 ? 14 : 7));
  const DataType wide = is_exact ? kFloat32 : kFloat64;
  ir::Attrs attrs = PoolAttrs(c, *window);
  attrs.Set("count_include_pad", true);
  Operand mean = c.Op("nn.avg_pool2d", {c.Cast(c.In(0), wide)}, std::move(attrs));
  Operand sum = c.Op("round_half_even", {c.Mul(mean, c.emit().Number(static_cast<double>(size), wide))});
  sum = c.Cast(sum, kInt32);
  Operand count = WindowSizes(c, *window);
  Operand half = c.Op("right_shift", {count, c.emit().Integer(1, kInt32)});
  Operand is_above = c.Op("greater", {sum, c.emit().Integer(0, kInt32)});
  Operand rounded = c.Op("trunc_divide", {c.Where(is_above, c.Add(sum, half), c.Sub(sum, half)), count});
  return {Narrow(c, rounded, {out.dtype, out.scale, 0}, ActivatedRange(c, 5, out))};
}

// ---- resizing

// Returns the mean of two neighbours by weights of 1024ths along both axes, halves away from 0.
Operands ResizeBilinear(NodeContext& c) {
  const std::vector<int64_t> size = c.Ints(1, "size");
  Operand x = c.In(0);
  const Form out = OutputForm(c);
  if (c.failed()) return {};
  if (size.size() != 2 || c.RankOf(x) != 4) return {c.Fail("its size is not that of an image")};
  const bool aligns = c.options().Number<uint8_t>(2, 0) != 0, is_half = c.options().Number<uint8_t>(3, 0) != 0;
  const DataType wide = out.dtype.bits == 8 ? kInt32 : kInt64;
  x = c.Cast(x, wide);
  constexpr int64_t kMaxExtent = 1 << 16;
  for (size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<int64_t>(i) + 1;
    const std::optional<int64_t> extent = importing::KnownExtent(c, x, axis, "input");
    if (!extent) return {};
    if (*extent < 1 || size[i] < 1 || *extent > kMaxExtent || size[i] > kMaxExtent) {
      return {c.Fail("an extent is not above 0, or too large")};
    }
    const Taps taps = LinearTaps(*extent, size[i], aligns, is_half);
    auto read = [&](const std::vector<int64_t>& places) {
      return c.Op("take", {x, c.emit().Vector(places)}, {{"axis", axis}, {"mode", "fast"}});
    };
    Operand second = c.Cast(c.emit().Vector(taps.weights), wide);
    second = c.Unsqueeze(second, i == 0 ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1});
    Operand first = c.Sub(c.emit().Integer(1024, wide), second);
    x = c.Add(c.Mul(read(taps.first), first), c.Mul(read(taps.second), second));
  }
  constexpr int64_t kHalf = 1 << 19;
  Operand half = c.Where(c.Op("greater", {x, c.emit().Integer(0, wide)}), c.emit().Integer(kHalf, wide),
                         c.emit().Integer(-kHalf, wide));
  return {c.Cast(c.Op("trunc_divide", {c.Add(x, half), c.emit().Integer(2 * kHalf, wide)}), out.dtype)};
}

constexpr OperatorRow kRows[] = {
    {"AVERAGE_POOL_2D", AveragePool},         {"BATCH_MATMUL", BatchMatMul},       {"CONV_2D", Conv},
    {"DEPTHWISE_CONV_2D", Conv, "depthwise"}, {"FULLY_CONNECTED", FullyConnected}, {"MAX_POOL_2D", MaxPool},
    {"RESIZE_BILINEAR", ResizeBilinear},      {"TRANSPOSE_CONV", TransposeConv},
};

}  // namespace

std::span<const OperatorRow> QuantisedLayerOperators() { return kRows; }

}  // namespace rvm::tflite
