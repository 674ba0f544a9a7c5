// Reductions, scans and products over axes.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

Operand Reduced(NodeContext& c, Operand x, std::string_view op) {
  if (c.failed()) return x;
  std::vector<int64_t> axes = c.AxesAt(1, c.RankOf(x));
  if (c.failed() || axes.empty()) return x;
  std::sort(axes.begin(), axes.end());
  return c.Op(op, {x}, {{"axis", ir::IntList(axes)}, {"keepdims", c.BoolAttr("keep_dims")}});
}
Operands Reduce(NodeContext& c) { return {Reduced(c, c.In(0), c.row().variant)}; }
Operands EuclideanNorm(NodeContext& c) { return {c.Op("sqrt", {Reduced(c, c.Mul(c.In(0), c.In(0)), "sum")})}; }
Operands L2Loss(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {c.Mul(c.Op("sum", {c.Mul(x, x)}), c.Number(0.5, x))};
}

Operands ArgReduce(NodeContext& c) {
  const int64_t axis = c.Has(1) ? c.Int(1, "axis") : 0;
  const DataType dtype = c.node().Has("output_type") ? c.TypeAttr("output_type") : kInt64;
  if (c.failed()) return {};
  return {c.Cast(c.Op(c.row().variant, {c.In(0)}, {{"axis", ir::IntList({{axis}})}}), dtype)};
}

Operands Scan(NodeContext& c) {
  const int64_t axis = c.Int(1, "axis");
  Operand x = c.In(0);
  if (c.failed()) return {};
  const bool is_reverse = c.BoolAttr("reverse");
  auto turned = [&](Operand value) { return is_reverse ? c.Op("reverse", {value}, {{"axis", axis}}) : value; };
  return {turned(c.Op(c.row().variant, {turned(x)}, {{"axis", axis}, {"exclusive", c.BoolAttr("exclusive")}}))};
}

Operands MatMul(NodeContext& c) {
  const bool is_batch = c.row().variant == "batch";
  const bool turns_a = c.BoolAttr(is_batch ? "adj_x" : "transpose_a"),
             turns_b = c.BoolAttr(is_batch ? "adj_y" : "transpose_b");
  return {c.Op("nn.matmul", {c.In(0), c.In(1)}, {{"transpose_a", turns_a}, {"transpose_b", turns_b}})};
}

Operands Einsum(NodeContext& c) {
  const std::string_view equation = c.TextAttr("equation", "");
  if (equation.empty()) return {c.Fail("its attribute `equation` is missing")};
  return {c.Op("einsum", {c.emit().Tuple(c.InputsFrom(0))}, {{"equation", std::string(equation)}})};
}

// Returns whether the score of the class `targets` is among the k greatest of a row. Classes of equal scores all are.
Operands InTopK(NodeContext& c) {
  Operand scores = c.In(0), targets = c.In(1);
  const int64_t k = c.Int(2, "k");
  if (!c.failed() && c.RankOf(scores) != 2) c.Fail("its scores are no matrix");
  if (c.failed()) return {};
  const Dim classes = c.ExtentOf(scores, 1);
  Operand place = c.Unsqueeze(c.Cast(targets, kInt64), {1});
  Operand is_class = c.Op("logical_and", {c.Op("greater_equal", {place, c.Integer(0)}),
                                          c.Op("less", {place, c.Scalar(c.emit().FromDims({{classes}}))})});
  Operand inside = c.Where(is_class, place, c.Integer(0));
  Operand own = c.Op("gather", {scores, inside}, {{"axis", 1}});
  Operand greater = c.Cast(c.Op("greater", {scores, own}), kInt64);
  Operand rank = c.Op("sum", {greater}, {{"axis", ir::AttrValue::List{int64_t{1}}}});
  Operand is_in = c.Op("less", {rank, c.Integer(k)});
  return {c.Op("logical_and",
               {c.Op("logical_and", {is_in, c.Op("isfinite", {c.Squeeze(own, {1})})}), c.Squeeze(is_class, {1})})};
}

constexpr OperatorRow kRows[] = {
    {"All", Reduce, "all"},
    {"Any", Reduce, "any"},
    {"ArgMax", ArgReduce, "argmax"},
    {"ArgMin", ArgReduce, "argmin"},
    {"BatchMatMul", MatMul, "batch"},
    {"BatchMatMulV2", MatMul, "batch"},
    {"BatchMatMulV3", MatMul, "batch"},
    {"Cumprod", Scan, "cumprod"},
    {"Cumsum", Scan, "cumsum"},
    {"Einsum", Einsum},
    {"EuclideanNorm", EuclideanNorm},
    {"InTopKV2", InTopK},
    {"L2Loss", L2Loss},
    {"MatMul", MatMul},
    {"Max", Reduce, "max"},
    {"Mean", Reduce, "mean"},
    {"Min", Reduce, "min"},
    {"Prod", Reduce, "prod"},
    {"Sum", Reduce, "sum"},
};

}  // namespace

std::span<const OperatorRow> ReductionOperators() { return kRows; }

}  // namespace rvm::tensorflow
