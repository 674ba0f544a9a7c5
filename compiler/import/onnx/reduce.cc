// Reductions, running sums, the greatest elements.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

struct Reduction {
  Operand x;
  bool is_identity;  // no axes at all
  ir::Attrs attrs;
};

// Returns the axes of an attribute or, in newer opsets, of an input.
Reduction ReadReduction(NodeContext& c) {
  Operand x = c.In(0);
  std::vector<int64_t> axes = c.Ints("axes");
  if (c.Has(1)) axes = c.Constants(c.In(1), "list of axes").value_or(axes);
  Reduction result = {x, false, {}};
  if (axes.empty()) {
    result.is_identity = c.Int("noop_with_empty_axes", 0) != 0;
    for (int64_t i = 0; i < c.RankOf(x); ++i) axes.push_back(i);
  }
  axes = c.Axes(std::move(axes), c.RankOf(x));
  result.attrs.Set("axis", ir::IntList(axes));
  result.attrs.Set("keepdims", c.Int("keepdims", 1) != 0);
  return result;
}

Operand Reduce(NodeContext& c, std::string_view op, const Reduction& reduction, Operand x) {
  if (reduction.is_identity || c.RankOf(x) == 0) return x;
  return c.Op(op, {x}, reduction.attrs);
}

Operands Reduce(NodeContext& c) {
  Reduction reduction = ReadReduction(c);
  std::string_view op = c.row().variant;
  if (c.DTypeOf(reduction.x).is_bool()) op = op == "max" ? "any" : op == "min" ? "all" : op;
  return {Reduce(c, op, reduction, reduction.x)};
}

Operands ReduceL1(NodeContext& c) {
  Reduction reduction = ReadReduction(c);
  return {Reduce(c, "sum", reduction, c.Op("abs", {reduction.x}))};
}

Operands ReduceSumSquare(NodeContext& c) {
  Reduction reduction = ReadReduction(c);
  return {Reduce(c, "sum", reduction, c.Mul(reduction.x, reduction.x))};
}

Operands ReduceL2(NodeContext& c) {
  Operand sum = ReduceSumSquare(c)[0];
  if (c.DTypeOf(sum).is_float()) return {c.Op("sqrt", {sum})};
  return {c.Cast(c.Op("sqrt", {c.Cast(sum, kFloat64)}), c.DTypeOf(sum))};
}

Operands ReduceLogSum(NodeContext& c) {
  Reduction reduction = ReadReduction(c);
  return {c.Op("log", {Reduce(c, "sum", reduction, reduction.x)})};
}

Operands ReduceLogSumExp(NodeContext& c) {
  Reduction reduction = ReadReduction(c);
  if (reduction.is_identity) return {reduction.x};
  if (c.RankOf(reduction.x) == 0) return {reduction.x};
  return {c.Op("logsumexp", {reduction.x}, reduction.attrs)};
}

Operands ArgExtreme(NodeContext& c) {
  Operand x = c.In(0);
  Operand index = c.Op(c.row().variant, {x},
                       {{"axis", ir::AttrValue::List{c.Axis(c.Int("axis", 0), c.RankOf(x))}},
                        {"keepdims", c.Int("keepdims", 1) != 0},
                        {"select_last_index", c.Int("select_last_index", 0) != 0}});
  return {c.Cast(index, kInt64)};
}

Operands Scan(NodeContext& c) {
  Operand x = c.In(0);
  std::optional<std::vector<int64_t>> given = c.Constants(c.In(1), "axis");
  if (!given || given->size() != 1) return {};
  int64_t axis = c.Axis((*given)[0], c.RankOf(x));
  bool reversed = c.Int("reverse", 0) != 0;
  if (reversed) x = c.Op("reverse", {x}, {{"axis", axis}});
  x = c.Op(c.row().variant, {x}, {{"axis", axis}, {"exclusive", c.Int("exclusive", 0) != 0}});
  return {reversed ? c.Op("reverse", {x}, {{"axis", axis}}) : x};
}

Operands TopK(NodeContext& c) {
  Operand x = c.In(0);
  ir::Attrs attrs = {{"axis", c.Axis(c.Int("axis", -1), c.RankOf(x))},
                     {"is_ascend", c.Int("largest", 1) == 0},
                     {"dtype", "int64"},
                     {"exact", true}};
  Operand pair;
  if (!c.Has(1)) {
    attrs.Set("k", c.Int("k", 1));
    pair = c.Op("topk", {x}, attrs);
  } else if (c.In(1)->constant) {
    std::optional<std::vector<int64_t>> k = c.Constants(c.In(1), "number of results");
    if (!k || k->size() != 1) return {};
    attrs.Set("k", (*k)[0]);
    pair = c.Op("topk", {x}, attrs);
  } else {
    pair = c.Op("dyn.topk", {x, c.Scalar(c.In(1))}, attrs);
  }
  return {c.emit().Field(pair, 0), c.emit().Field(pair, 1)};
}

Operands Hardmax(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("axis", c.opset() < 13 ? 1 : -1), rank);
  const Dims dims = c.DimsOf(x);
  if (c.opset() < 13) {
    Dim rows = 1, columns = 1;
    for (int64_t i = 0; i < rank; ++i)
      (i < axis ? rows : columns) = (i < axis ? rows : columns) * dims[static_cast<size_t>(i)];
    x = c.Reshape(x, {rows, columns});
    axis = 1;
  }
  Operand first = c.Op("argmax", {x}, {{"axis", ir::AttrValue::List{axis}}, {"keepdims", true}});
  Operand extent = c.Cast(c.emit().FromDim(c.ExtentOf(x, axis)), kInt32);
  Operand places = c.Op("arange", {c.emit().Integer(0, kInt32), extent, c.emit().Integer(1, kInt32)});
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < c.RankOf(x) - axis; ++i) behind.push_back(i);
  Operand hit = c.Op("equal", {first, c.Unsqueeze(places, behind)});
  return {c.Reshape(c.Cast(hit, c.DTypeOf(x)), dims)};
}

// Returns the distance of each row of one matrix from each row of another.
Operands Distances(NodeContext& c) {
  Operand a = c.In(0), b = c.In(1);
  if (c.RankOf(a) != 2 || c.RankOf(b) != 2) return {c.failed() ? nullptr : c.Fail("an input is no matrix")};
  const std::string metric = c.Text("metric", "sqeuclidean");
  const bool is_root = metric == "euclidean";
  if (!is_root && metric != "sqeuclidean") return {c.Unsupported(absl::StrCat("the metric ", metric))};
  Operand difference = c.Sub(c.Unsqueeze(a, {1}), c.Unsqueeze(b, {0}));
  Operand squares = c.Op("sum", {c.Mul(difference, difference)}, {{"axis", ir::AttrValue::List{2}}});
  return {is_root ? c.Op("sqrt", {squares}) : squares};
}

constexpr OperatorRow kRows[] = {
    {"ArgMax", ArgExtreme, "argmax"},
    {"ArgMin", ArgExtreme, "argmin"},
    {"CumProd", Scan, "cumprod"},
    {"CumSum", Scan, "cumsum"},
    {"Hardmax", Hardmax},
    {"ReduceL1", ReduceL1},
    {"ReduceL2", ReduceL2},
    {"ReduceLogSum", ReduceLogSum},
    {"ReduceLogSumExp", ReduceLogSumExp},
    {"ReduceMax", Reduce, "max"},
    {"ReduceMean", Reduce, "mean"},
    {"ReduceMin", Reduce, "min"},
    {"ReduceProd", Reduce, "prod"},
    {"ReduceSum", Reduce, "sum"},
    {"ReduceSumSquare", ReduceSumSquare},
    {"TopK", TopK},
    {"com.microsoft.CDist", Distances},
};

}  // namespace

std::span<const OperatorRow> ReduceOperators() { return kRows; }

}  // namespace rvm::onnx::convert
