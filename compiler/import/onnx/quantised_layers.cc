// com.microsoft: layers whose inputs and outputs are integers with scales.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/attend.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/onnx/integer_product.h"
#include "compiler/import/onnx/quantize.h"
#include "compiler/import/onnx/windows.h"

namespace rvm::onnx::convert {
namespace {

// ---- elements

Operands QLinearBinary(NodeContext& c) {
  Operand y = c.Op(c.row().variant, {Dequantised(c, 0), Dequantised(c, 3)});
  return {Requantised(c, y, 6, c.DTypeOf(c.In(0)))};
}

Operands QLinearUnary(NodeContext& c) {
  return {Requantised(c, c.Op(c.row().variant, {Dequantised(c, 0)}), 3, c.DTypeOf(c.In(0)))};
}

Operands QLinearLeakyRelu(NodeContext& c) {
  Operand y = c.Op("nn.leaky_relu", {Dequantised(c, 0)}, {{"alpha", c.Float("alpha", 0.01)}});
  return {Requantised(c, y, 3, c.DTypeOf(c.In(0)))};
}

Operands QLinearWhere(NodeContext& c) {
  return {Requantised(c, c.Where(c.In(0), Dequantised(c, 1), Dequantised(c, 4)), 7, c.DTypeOf(c.In(1)))};
}

Operands QLinearConcat(NodeContext& c) {
  Operands parts;
  for (size_t i = 2; i + 2 < c.num_inputs(); i += 3) parts.push_back(Dequantised(c, i));
  if (parts.empty()) return {c.Fail("it joins no tensors")};
  Operand y = c.Concatenate(parts, c.Axis(c.Int("axis", 0), c.RankOf(parts[0])));
  return {Requantised(c, y, 0, c.DTypeOf(c.In(2)))};
}

// ---- averages and softmax

// `pool` of the dequantised input, whose channels may be its last axis.
template <typename Pool>
Operands QLinearPool(NodeContext& c, const Pool& pool) {
  Operand x = Dequantised(c, 0);
  std::vector<int64_t> to = {0}, back = {0};
  const int64_t rank = c.RankOf(x);
  const bool is_last = c.Int("channels_last", 0) != 0 && rank > 2;
  if (is_last) {
    to.push_back(rank - 1);
    for (int64_t i = 1; i < rank - 1; ++i) to.push_back(i), back.push_back(i + 1);
    back.push_back(1);
    x = c.Transpose(x, to);
  }
  Operand y = pool(x);
  if (c.failed()) return {};
  return {Requantised(c, is_last ? c.Transpose(y, back) : y, 3, c.DTypeOf(c.In(0)))};
}

Operands QLinearAveragePool(NodeContext& c) {
  return QLinearPool(c, [&](Operand x) { return AveragePooled(c, x); });
}

Operands QLinearGlobalAveragePool(NodeContext& c) {
  return QLinearPool(c, [&](Operand x) {
    ir::AttrValue::List axes;
    for (int64_t i = 2; i < c.RankOf(x); ++i) axes.emplace_back(i);
    return c.Op("mean", {x}, {{"axis", axes}, {"keepdims", true}});
  });
}

Operands QLinearReduceMean(NodeContext& c) {
  Operand x = Dequantised(c, 0);
  std::vector<int64_t> axes = c.Axes(c.Ints("axes"), c.RankOf(x));
  ir::Attrs attrs = {{"keepdims", c.Int("keepdims", 1) != 0}};
  if (!axes.empty()) attrs.Set("axis", ir::IntList(axes));
  return {Requantised(c, c.Op("mean", {x}, attrs), 3, c.DTypeOf(c.In(0)))};
}

Operands QLinearSoftmax(NodeContext& c) {
  Operand x = Dequantised(c, 0);
  const int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("axis", -1), rank);
  if (c.Int("opset", 13) < 13 && axis != rank - 1) {
    return {c.Unsupported("softmax over several axes (`opset` below 13)")};
  }
  return {Requantised(c, c.Op("nn.softmax", {x}, {{"axis", axis}}), 3, c.DTypeOf(c.In(0)))};
}

// ---- products

Operand Turned(NodeContext& c, Operand matrix, std::string_view attribute) {
  constexpr int64_t kTurned[] = {1, 0};
  return c.Int(attribute, 0) != 0 ? c.Transpose(matrix, kTurned) : matrix;
}

// Sums of integers times both scales, plus a bias of floats.
Operand ScaledSums(NodeContext& c, Operand sums, Operand scale_a, Operand scale_b, size_t bias) {
  Operand y = c.Mul(c.Cast(sums, kFloat32), c.Mul(scale_a, scale_b));
  return c.Has(bias) ? c.Add(y, c.In(bias)) : y;
}

Operands QGemm(NodeContext& c) {
  Operand a = Turned(c, c.In(0), "transA"), b = Turned(c, c.In(3), "transB");
  if (c.failed()) return {};
  Operand sums = IntegerProduct(c, a, ZeroPoint(c, a, 2, 0), b, ZeroPoint(c, b, 5, 1));
  if (c.Has(6)) sums = c.Add(sums, c.In(6));
  Operand scale = c.Mul(c.Scalar(c.In(1)), Spread(c, c.In(4), sums, 1, 0));
  if (double alpha = c.Float("alpha", 1); alpha != 1) scale = c.Mul(scale, c.Number(alpha, scale));
  Operand y = c.Mul(c.Cast(sums, kFloat32), scale);
  if (!c.Has(7)) return {y};
  return {Requantised(c, y, 7, c.Has(8) ? c.DTypeOf(c.In(8)) : c.DTypeOf(c.In(0)))};
}

Operands MatMulIntegerToFloat(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  if (c.failed()) return {};
  const int64_t row = c.RankOf(a) - 2, column = c.RankOf(b) - 1;
  Operand sums = IntegerProduct(c, a, ZeroPoint(c, a, 4, row), b, ZeroPoint(c, b, 5, column));
  return {ScaledSums(c, sums, ScaleOfProduct(c, c.In(2), a, row, b), ScaleOfProduct(c, c.In(3), b, column, a), 6)};
}

Operands DynamicQuantizeMatMul(NodeContext& c) {
  Operand b = c.In(1);
  if (c.failed()) return {};
  DynamicForm a = QuantisedDynamically(c, c.In(0));
  const int64_t column = c.RankOf(b) - 1;
  Operand sums = IntegerProduct(c, a.values, a.zero_point, b, ZeroPoint(c, b, 3, column));
  return {ScaledSums(c, sums, a.scale, ScaleOfProduct(c, c.In(2), b, column, a.values), 4)};
}

Operands QAttention(NodeContext& c) {
  Operand x = c.In(0), weight = c.In(1);
  if (c.failed()) return {};
  if (c.Int("do_rotary", 0) != 0) return {c.Unsupported("rotary embeddings (`do_rotary`)")};
  if (c.Int("past_present_share_buffer", 0) != 0) return {c.Unsupported("`past_present_share_buffer`")};
  Operand sums = IntegerProduct(c, x, ZeroPoint(c, x, 6, 1), weight, ZeroPoint(c, weight, 7, 1));
  Operand scale = ScaleOfProduct(c, c.In(4), weight, 1, x);
  return AttendToProjection(c, ScaledSums(c, sums, c.Scalar(c.In(3)), scale, 2), 5, 8, nullptr);
}

constexpr OperatorRow kRows[] = {
    {"com.microsoft.DynamicQuantizeMatMul", DynamicQuantizeMatMul},
    {"com.microsoft.MatMulIntegerToFloat", MatMulIntegerToFloat},
    {"com.microsoft.QAttention", QAttention},
    {"com.microsoft.QGemm", QGemm},
    {"com.microsoft.QLinearAdd", QLinearBinary, "add"},
    {"com.microsoft.QLinearAveragePool", QLinearAveragePool},
    {"com.microsoft.QLinearConcat", QLinearConcat},
    {"com.microsoft.QLinearGlobalAveragePool", QLinearGlobalAveragePool},
    {"com.microsoft.QLinearLeakyRelu", QLinearLeakyRelu},
    {"com.microsoft.QLinearMul", QLinearBinary, "multiply"},
    {"com.microsoft.QLinearReduceMean", QLinearReduceMean},
    {"com.microsoft.QLinearSigmoid", QLinearUnary, "sigmoid"},
    {"com.microsoft.QLinearSoftmax", QLinearSoftmax},
    {"com.microsoft.QLinearWhere", QLinearWhere},
};

}  // namespace

std::span<const OperatorRow> QuantisedLayerOperators() { return kRows; }

}  // namespace rvm::onnx::convert
