// Reductions and sorting. Results that would be scalars have one axis.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/mxnet/importer.h"
#include "compiler/import/term.h"

namespace rvm::mxnet {
namespace {

using importing::Term;

Operand Reduced(NodeContext& c, std::string_view op, Operand x) {
  const std::vector<int64_t> axes = c.AxesOf("axis", c.RankOf(x), c.Bool("exclude", false));
  const bool keeps = c.Bool("keepdims", false);
  if (c.failed() || axes.empty()) return x;
  Operand y = c.Op(op, {x}, {{"axis", ir::IntList(axes)}, {"keepdims", keeps}});
  return c.failed() || c.RankOf(y) > 0 ? y : c.Reshape(y, {1});
}
Operands Reduce(NodeContext& c) { return {Reduced(c, c.row().variant, c.In(0))}; }
// Sums and products of what is a number.
Operands ReduceNumbers(NodeContext& c) {
  const Term x(c, c.In(0));
  const double neutral = c.row().variant == "prod" ? 1 : 0;
  return {Reduced(c, c.row().variant, Select(IsNan(x), neutral, x))};
}

Operands Norm(NodeContext& c) {
  const Term x(c, c.In(0));
  const int64_t order = c.Int("ord", 2);
  if (order != 1 && order != 2) return {c.Unsupported(absl::StrCat("`ord=", order, "`"))};
  const Term sum(c, Reduced(c, "sum", order == 1 ? Abs(x) : x * x));
  Operand y = order == 1 ? sum : Sqrt(sum);
  return {c.HasAttr("out_dtype") ? c.Cast(y, c.DType("out_dtype", kFloat32)) : y};
}

// Returns the axis that is sorted: the last one if it is missing.
int64_t SortedAxis(NodeContext& c) { return c.Axis(c.Int("axis", -1), c.RankOf(c.In(0))); }

// Indices have the dtype of the input, or the one that an attribute names.
Operands ArgReduce(NodeContext& c) {
  Operand x = c.In(0);
  const bool has_axis = c.HasAttr("axis"), keeps = c.Bool("keepdims", false);
  const DataType dtype = c.DTypeOf(x);
  if (!has_axis) x = Flat(c, x);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  Operand y = c.Op(c.row().variant, {x}, {{"axis", ir::IntList({{axis}})}, {"keepdims", keeps || !has_axis}});
  if (!c.failed() && c.RankOf(y) == 0) y = c.Reshape(y, {1});
  return {c.Cast(y, dtype)};
}
Operands ArgMaxChannel(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Cast(c.Op("argmax", {x}, {{"axis", ir::IntList({{int64_t{1}}})}}), c.DTypeOf(x))};
}

Operands Sort(NodeContext& c) {
  const int64_t axis = SortedAxis(c);
  return {c.Op("sort", {c.In(0)}, {{"axis", axis}, {"is_ascend", c.Bool("is_ascend", true)}})};
}
Operands ArgSort(NodeContext& c) {
  const int64_t axis = SortedAxis(c);
  Operand y =
      c.Op("argsort", {c.In(0)}, {{"axis", axis}, {"is_ascend", c.Bool("is_ascend", true)}, {"dtype", "int64"}});
  return {c.Cast(y, c.DType("dtype", kFloat32))};
}
Operands TopK(NodeContext& c) {
  const int64_t axis = SortedAxis(c);
  const std::string kind = c.Text("ret_typ", "indices");
  const int64_t k = c.IntWithin("k", 1, 0, int64_t{1} << 31);
  if (kind != "value" && kind != "indices" && kind != "both") {
    return {c.Unsupported(absl::StrCat("`ret_typ=", ReadableText(kind.substr(0, 40)), "`"))};
  }
  Operand both = c.Op("topk", {c.In(0)},
                      {{"k", k}, {"axis", axis}, {"is_ascend", c.Bool("is_ascend", false)}, {"dtype", "int64"}});
  if (c.failed()) return {};
  Operand values = c.emit().Field(both, 0), indices = c.Cast(c.emit().Field(both, 1), c.DType("dtype", kFloat32));
  if (kind == "value") return {values};
  if (kind == "indices") return {indices};
  return {values, indices};
}

constexpr OperatorRow kRows[] = {
    {"argmax", ArgReduce, "argmax"},
    {"argmax_channel", ArgMaxChannel},
    {"argmin", ArgReduce, "argmin"},
    {"argsort", ArgSort},
    {"max", Reduce, "max"},
    {"max_axis", Reduce, "max"},
    {"mean", Reduce, "mean"},
    {"min", Reduce, "min"},
    {"min_axis", Reduce, "min"},
    {"nanprod", ReduceNumbers, "prod"},
    {"nansum", ReduceNumbers, "sum"},
    {"norm", Norm},
    {"prod", Reduce, "prod"},
    {"sort", Sort},
    {"sum", Reduce, "sum"},
    {"sum_axis", Reduce, "sum"},
    {"topk", TopK},
};

}  // namespace

std::span<const OperatorRow> ReduceOperators() { return kRows; }

}  // namespace rvm::mxnet
