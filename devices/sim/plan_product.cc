#include "devices/sim/plan_product.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rvm::target {
namespace {

// A product whose factors have these extents.
struct Given {
  const ir::Attrs& attrs;
  Dims data, weight, result;
};

// Returns the place of an axis that is one of the result, along `loop`.
Place Along(size_t loop) { return {{{loop}}, 0, /*may_broadcast=*/true}; }
Place AtZero() { return {}; }

// The places of both factors and of the result, by axis.
struct Places {
  std::vector<Place> data, weight, result;
};

using Describe = std::optional<Places> (*)(const Given&, TileFunction&);

// (..., m, k) by (n, k)
std::optional<Places> DescribeDense(const Given& given, TileFunction& function) {
  if (given.data.size() < 2) return std::nullopt;
  Places places;
  for (size_t axis = 0; axis + 1 < given.data.size(); ++axis) {
    function.rows = function.Loop(given.result[axis]);
    places.data.push_back(Along(function.rows));
    places.result.push_back(Along(function.rows));
  }
  function.columns = function.Loop(given.result.back());
  function.num_outer = function.loops.size();
  function.depth = function.Loop(given.weight[1]);
  places.data.push_back({{{function.depth}}});
  places.weight = {Along(function.columns), {{{function.depth}}}};
  places.result.push_back(Along(function.columns));
  return places;
}

std::optional<Places> DescribeBatchMatmul(const Given& given, TileFunction& function) {
  bool transposes_a = given.attrs.GetBool("transpose_a"), transposes_b = given.attrs.GetBool("transpose_b");
  size_t batch = function.Loop(given.result[0]);
  function.rows = function.Loop(given.result[1]);
  function.columns = function.Loop(given.result[2]);
  function.num_outer = 3;
  function.depth = function.Loop(given.weight[transposes_b ? 2 : 1]);
  Places places;
  places.data = {Along(batch), Along(function.rows), {{{function.depth}}}};
  if (transposes_a) std::swap(places.data[1], places.data[2]);
  places.weight = {Along(batch), {{{function.depth}}}, Along(function.columns)};
  if (transposes_b) std::swap(places.weight[1], places.weight[2]);
  places.result = {Along(batch), Along(function.rows), Along(function.columns)};
  return places;
}

// The axes of a layout: "NCHW", "OHWI".
struct Layout {
  explicit Layout(std::string text) : letters(std::move(text)) {
    for (char letter : {'D', 'H', 'W'}) {
      if (axis(letter) != std::string::npos) spatial.push_back(axis(letter));
    }
  }
  size_t axis(char letter) const { return letters.find(letter); }
  std::string letters;
  std::vector<size_t> spatial;
};

std::vector<int64_t> PerAxis(const ir::Attrs& attrs, std::string_view name, size_t axes) {
  std::vector<int64_t> values = attrs.GetInts(name);
  if (values.size() == 1) values.resize(axes, values[0]);
  return values;
}

std::optional<Places> DescribeConvolution(const Given& given, TileFunction& function) {
  const std::string &data_layout = given.attrs.GetString("data_layout"),
                    &out_layout = given.attrs.GetString("out_layout");
  Layout data(data_layout), kernel(given.attrs.GetString("kernel_layout"));
  Layout out(out_layout.empty() ? data_layout : out_layout);
  size_t axes = data.spatial.size();
  std::vector<int64_t> strides = PerAxis(given.attrs, "strides", axes), padding = PerAxis(given.attrs, "padding", axes),
                       dilation = PerAxis(given.attrs, "dilation", axes);
  bool is_plain = strides.size() == axes && dilation.size() == axes && padding.size() >= axes;
  for (size_t axis : data.spatial) is_plain = is_plain && given.data[axis].is_const();
  for (size_t axis : kernel.spatial) is_plain = is_plain && given.weight[axis].is_const();
  const Dim &outputs = given.weight[kernel.axis('O')], &inputs = given.weight[kernel.axis('I')];
  int64_t groups = given.attrs.GetInt("groups");
  // With groups, filters of the form (C, M, ...) are read differently.
  is_plain = is_plain && (groups == 1 || (outputs.is_const() && given.data[data.axis('C')] == inputs * groups));
  if (!is_plain) return std::nullopt;

  size_t batch = function.Loop(given.result[out.axis('N')]), group = function.Loop(groups);
  std::vector<size_t> steps;
  for (size_t axis : out.spatial) steps.push_back(function.Loop(given.result[axis]));
  function.rows = steps.back();
  function.columns = function.Loop(FloorDiv(given.result[out.axis('C')], groups));
  function.num_outer = function.loops.size();
  function.depth = function.Loop(inputs);
  int64_t in_step = inputs.AsConst().value_or(0), out_step = FloorDiv(outputs, groups).AsConst().value_or(0);

  Places places;
  for (std::vector<Place>* of : {&places.data, &places.weight, &places.result}) of->resize(given.data.size());
  places.data[data.axis('N')] = places.result[out.axis('N')] = Along(batch);
  places.data[data.axis('C')] = {{{group, in_step}, {function.depth}}};
  places.weight[kernel.axis('I')] = {{{function.depth}}};
  Place channel = {{{function.columns}, {group, out_step}}, 0, /*may_broadcast=*/groups == 1};
  places.weight[kernel.axis('O')] = places.result[out.axis('C')] = channel;
  for (size_t s = 0; s < axes; ++s) {
    size_t tap = function.Loop(given.weight[kernel.spatial[s]]);
    places.data[data.spatial[s]] = {{{steps[s], strides[s]}, {tap, dilation[s]}}, -padding[s]};
    places.weight[kernel.spatial[s]] = {{{tap}}};
    places.result[out.spatial[s]] = Along(steps[s]);
  }
  return places;
}

// Operators that are products. Those of quantised tensors have zero points.
struct ProductOp {
  std::string_view name;
  Describe describe;
  bool has_zeros = false;
};
constexpr ProductOp kProducts[] = {
    {"nn.dense", DescribeDense},
    {"nn.batch_matmul", DescribeBatchMatmul},
    {"nn.conv1d", DescribeConvolution},
    {"nn.conv2d", DescribeConvolution},
    {"nn.conv3d", DescribeConvolution},
    {"qnn.dense", DescribeDense, true},
    {"qnn.batch_matmul", DescribeBatchMatmul, true},
    {"qnn.conv2d", DescribeConvolution, true},
};

bool IsByte(DataType dtype) { return dtype == kInt8 || dtype == kUInt8; }

// Returns the constant zero point that is operand `number`.
std::optional<int64_t> ZeroAt(const CompositeCall& call, size_t number) {
  const Operand& operand = call.operands[number];
  if (operand.kind != Operand::Kind::kConstant || operand.constant.rank() != 0) return std::nullopt;
  int64_t zero = operand.constant.IntAt(0);
  return zero < -128 || zero > 255 ? std::nullopt : std::optional(zero);
}

std::optional<TileFunction> PlanFactors(const CompositeCall& call, const Dims& dims) {
  const auto* op = std::find_if(std::begin(kProducts), std::end(kProducts),
                                [&](const ProductOp& product) { return product.name == call.op; });
  if (op == std::end(kProducts) || call.dtype != kInt32) return std::nullopt;
  TileFunction function;
  for (size_t i = 0; i < 2; ++i) {
    const Operand& factor = call.operands[i];
    std::optional<int64_t> zero = op->has_zeros ? ZeroAt(call, i + 2) : 0;
    if (factor.kind != Operand::Kind::kArgument || !IsByte(factor.dtype) || !zero) return std::nullopt;
    function.factors.push_back({factor.number, factor.dtype, *zero, factor.dims, {}});
  }
  std::optional<Places> places =
      op->describe({*call.attrs, call.operands[0].dims, call.operands[1].dims, dims}, function);
  if (!places) return std::nullopt;
  function.factors[0].places = std::move(places->data);
  function.factors[1].places = std::move(places->weight);
  function.result.places = std::move(places->result);
  return function;
}

// Plans the mean of each channel of bytes that were cast to int32: sums that the first step of the vector unit divides
// by their number.
std::optional<TileFunction> PlanMean(const CompositeCall& cast, const CompositeCall& mean, const Dims& dims) {
  const Operand& data = cast.operands[0];
  if (mean.op != "nn.global_avg_pool2d" || cast.dtype != kInt32 || data.kind != Operand::Kind::kArgument ||
      !IsByte(data.dtype)) {
    return std::nullopt;
  }
  Layout layout(mean.attrs->GetString("layout"));
  int64_t count = 1;
  for (size_t axis : layout.spatial) {
    // Sums of more elements would overflow, and wrap as those of the host do; a mean of none is not computed.
    int64_t extent = data.dims[axis].AsConst().value_or(0);
    if (extent < 1 || extent > 0x8000) return std::nullopt;
    count *= extent;
  }
  if (count > 0x7fffffff) return std::nullopt;
  TileFunction function;
  size_t n = layout.axis('N'), c = layout.axis('C');
  size_t batch = function.Loop(dims[n]);
  function.rows = function.Loop(dims[c]);
  function.columns = function.Loop(1);
  function.num_outer = function.loops.size();
  TileTensor factor{data.number, data.dtype, 0, data.dims, std::vector<Place>(data.dims.size())};
  factor.places[n] = Along(batch);
  factor.places[c] = Along(function.rows);
  for (size_t axis : layout.spatial) {
    function.depth = function.Loop(data.dims[axis]);
    factor.places[axis] = {{{function.depth}}};
  }
  function.result.places.assign(dims.size(), AtZero());
  function.result.places[n] = Along(batch);
  function.result.places[c] = Along(function.rows);
  function.factors.push_back(std::move(factor));
  function.steps.push_back({absl::StrCat("divide ", count), std::nullopt});
  return function;
}

bool IsMean(const Composite& composite) { return composite.calls[0].op == "cast"; }

}  // namespace

size_t NumCallsOfProduct(const Composite& composite) { return IsMean(composite) ? 2 : 1; }

std::optional<TileFunction> PlanProduct(const Composite& composite, const Dims& dims) {
  if (!IsMean(composite)) return PlanFactors(composite.calls[0], dims);
  return composite.calls.size() < 2 ? std::nullopt : PlanMean(composite.calls[0], composite.calls[1], dims);
}

}  // namespace rvm::target
