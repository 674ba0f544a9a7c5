// Quantised tensors: integers with a scale and a zero point.
#include "compiler/import/onnx/quantize.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/integer_product.h"
#include "compiler/import/onnx/saturated_cast.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

struct Range {
  double least, greatest;
};
Range RangeOf(DataType dtype) {
  double half = static_cast<double>(uint64_t{1} << (dtype.bits - 1));
  return dtype.is_uint() ? Range{0, 2 * half - 1} : Range{-half, half - 1};
}

}  // namespace

// The axis of a factor that is a vector is not in the product, nor is the axis of the other factor that takes its place
// in a matrix.
Operand ScaleOfProduct(NodeContext& c, Operand scale, Operand x, int64_t axis, Operand other) {
  Operand spread = c.Cast(Spread(c, scale, x, axis, 0), kFloat32);
  if (c.RankOf(other) > 1 || c.RankOf(spread) < 1) return spread;
  // The axis that is summed over has extent 1 in the scale of a, and is the last but one of b.
  int64_t dropped = axis == c.RankOf(x) - 2 ? c.RankOf(spread) - 1 : c.RankOf(spread) - 2;
  return dropped < 0 ? spread : c.Squeeze(spread, {dropped});
}

Operand Saturate(NodeContext& c, Operand x, Operand zero_point, DataType dtype) {
  Range range = RangeOf(dtype);
  Operand rounded = c.Op("round_half_even", {x});
  if (zero_point != nullptr) rounded = c.Add(rounded, c.Cast(zero_point, c.DTypeOf(x)));
  return c.Cast(c.Op("clip", {rounded}, {{"a_min", range.least}, {"a_max", range.greatest}}), dtype);
}

Operand ZeroPoint(NodeContext& c, Operand x, size_t zero_point, int64_t axis) {
  return c.Has(zero_point) ? Spread(c, c.In(zero_point), x, axis, 0) : nullptr;
}

Operand Dequantised(NodeContext& c, size_t i) {
  Operand x = c.Cast(c.In(i), kInt32);
  if (c.Has(i + 2)) x = c.Sub(x, c.Cast(c.Scalar(c.In(i + 2)), kInt32));
  return c.Mul(c.Cast(x, kFloat32), c.Scalar(c.In(i + 1)));
}

Operand Requantised(NodeContext& c, Operand x, size_t scale, DataType dtype) {
  Operand zero_point = c.Has(scale + 1) ? c.Scalar(c.In(scale + 1)) : nullptr;
  return Saturate(c, c.Div(x, c.Scalar(c.In(scale))), zero_point, dtype);
}

DynamicForm QuantisedDynamically(NodeContext& c, Operand x) {
  Operand zero = c.Number(0, x);
  Operand greatest = c.Op("maximum", {c.Op("max", {x}), zero}), least = c.Op("minimum", {c.Op("min", {x}), zero});
  Operand scale = c.Div(c.Sub(greatest, least), c.Number(255, x));
  Operand zero_point = Saturate(c, c.Div(c.Op("negative", {least}), scale), nullptr, kUInt8);
  return {Saturate(c, c.Div(x, scale), zero_point, kUInt8), scale, zero_point};
}

namespace {

Operands QuantizeLinear(NodeContext& c) {
  Operand x = c.In(0);
  int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  DataType dtype = c.Has(2) ? c.DTypeOf(c.In(2)) : kUInt8;
  if (c.Int("output_dtype", 0) != 0) dtype = c.DTypeAttr("output_dtype", dtype);
  Operand scale = Spread(c, c.In(1), x, axis, block);
  Operand zero_point = c.Has(2) ? Spread(c, c.In(2), x, axis, block) : nullptr;
  DataType wide = c.DTypeOf(x) == kFloat64 ? kFloat64 : kFloat32;
  Operand y = c.Div(c.Cast(x, wide), c.Cast(scale, wide));
  if (!dtype.is_float()) return {Saturate(c, y, zero_point, dtype)};
  return {CastSaturated(c, zero_point == nullptr ? y : c.Add(y, c.Cast(zero_point, wide)), dtype)};
}

Operands DequantizeLinear(NodeContext& c) {
  const int64_t axis = c.Int("axis", 1), block = c.Int("block_size", 0);
  const bool is_packed = c.IsPacked(0);
  Operand wide = is_packed ? c.Wide(0, block > 0 && axis == 0) : nullptr, x = is_packed ? wide : c.In(0);
  DataType dtype = c.Int("output_dtype", 0) != 0 ? c.DTypeAttr("output_dtype", kFloat32) : c.DTypeOf(c.In(1));
  DataType difference = c.DTypeOf(x).is_float() ? kFloat32 : kInt32;
  Operand scale = Spread(c, c.In(1), x, axis, block);
  if (!is_packed) wide = c.Cast(x, difference);
  if (c.Has(2)) wide = c.Sub(wide, c.Cast(Spread(c, c.InBytes(2), x, axis, block), difference));
  DataType precise = c.DTypeOf(scale) == kFloat64 ? kFloat64 : kFloat32;
  Operand y = c.Cast(c.Mul(c.Cast(wide, precise), c.Cast(scale, precise)), dtype);
  if (!is_packed && block == 0 && c.RankOf(c.In(1)) <= 1 && !c.failed()) {
    bool is_vector = c.RankOf(c.In(1)) == 1 && c.ExtentOf(c.In(1), 0) != Dim(1);
    y->quantised = {x, c.In(1), c.Has(2) ? c.In(2) : nullptr, is_vector ? c.Axis(axis, c.RankOf(x)) : 0};
  }
  return {y};
}

Operands DynamicQuantizeLinear(NodeContext& c) {
  DynamicForm form = QuantisedDynamically(c, c.In(0));
  return {form.values, form.scale, form.zero_point};
}

Operands MatMulInteger(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  // One zero point for each row of a, and for each column of b.
  return {IntegerProduct(c, a, ZeroPoint(c, a, 2, c.RankOf(a) - 2), b, ZeroPoint(c, b, 3, c.RankOf(b) - 1))};
}

Operands ConvInteger(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1);
  return {IntegerConv(c, x, ZeroPoint(c, x, 2, 1), weight, ZeroPoint(c, weight, 3, 0))};
}

Operands QLinearMatMul(NodeContext& c) {
  Operand a = c.In(0), b = c.In(3), scale_y = c.In(6), zero_y = c.In(7);
  Operand y = IntegerProduct(c, a, ZeroPoint(c, a, 2, c.RankOf(a) - 2), b, ZeroPoint(c, b, 5, c.RankOf(b) - 1));
  Operand scale_a = ScaleOfProduct(c, c.In(1), a, c.RankOf(a) - 2, b);
  Operand scale_b = ScaleOfProduct(c, c.In(4), b, c.RankOf(b) - 1, a);
  Operand scale = c.Div(c.Mul(scale_a, scale_b), c.Cast(Spread(c, scale_y, y, c.RankOf(y) - 1, 0), kFloat32));
  return {Saturate(c, c.Mul(c.Cast(y, kFloat32), scale), Spread(c, zero_y, y, c.RankOf(y) - 1, 0), c.DTypeOf(zero_y))};
}

Operands QLinearConv(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(3), zero_y = c.In(7);
  Operand y = IntegerConv(c, x, ZeroPoint(c, x, 2, 1), weight, ZeroPoint(c, weight, 5, 0));
  if (c.failed()) return {};
  if (c.Has(8)) y = c.Op("nn.bias_add", {y, c.In(8)}, {{"axis", 1}});
  Operand scale = c.Div(c.Mul(c.Scalar(c.In(1)), Spread(c, c.In(4), y, 1, 0)), c.Scalar(c.In(6)));
  return {Saturate(c, c.Mul(c.Cast(y, kFloat32), scale), c.Scalar(zero_y), c.DTypeOf(zero_y))};
}

constexpr OperatorRow kRows[] = {
    {"ConvInteger", ConvInteger},
    {"DequantizeLinear", DequantizeLinear},
    {"DynamicQuantizeLinear", DynamicQuantizeLinear},
    {"MatMulInteger", MatMulInteger},
    {"QLinearConv", QLinearConv},
    {"QLinearMatMul", QLinearMatMul},
    {"QuantizeLinear", QuantizeLinear},
};

}  // namespace

std::span<const OperatorRow> QuantizeOperators() { return kRows; }

Operand CastSaturated(NodeContext& c, Operand x, DataType dtype) {
  // A cast gives the greatest value for what is beyond it.
  if (dtype != kFloat8E4M3FN || c.Int("saturate", 1) != 0) return c.Cast(x, dtype);
  if (!c.DTypeOf(x).is_float() || c.DTypeOf(x) == kFloat8E4M3FN) x = c.Cast(x, kFloat32);
  constexpr double kLimit = 464;  // halfway between the greatest value, 448, and the next, 480; it rounds to 448
  Operand is_beyond = c.Op("greater", {c.Op("abs", {x}), c.Number(kLimit, x)});
  return c.Cast(c.Where(is_beyond, c.Number(std::numeric_limits<double>::quiet_NaN(), x), x), dtype);
}

}  // namespace rvm::onnx::convert
