// Reductions and running sums.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/import/blocks/moves.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"
#include "compiler/import/torch/norms.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

// Returns the axes that are reduced: all, where there is no `dim` or an empty one.
ir::AttrValue::List ReducedAxes(NodeContext& c, Operand x) {
  int64_t rank = c.RankOf(x);
  std::vector<int64_t> axes = c.Axes(c.Ints("dim"), std::max<int64_t>(rank, 1));
  if (axes.empty()) axes = importing::AllAxes(rank);
  return {axes.begin(), axes.end()};
}

Operand Reduced(NodeContext& c, std::string_view op, Operand x) {
  if (c.RankOf(x) == 0) return x;
  return c.Op(op, {x}, {{"axis", ReducedAxes(c, x)}, {"keepdims", c.Bool("keepdim", false)}});
}

// Casts to the type in which integers and bools are summed.
Operand Widened(NodeContext& c, Operand x) {
  DataType dtype = c.DTypeOf(x);
  return c.Cast(x, c.DType("dtype", dtype.is_float() ? dtype : kInt64));
}

Operands Reduce(NodeContext& c) {
  Operand x = c.In("self");
  std::string_view op = c.row().variant;
  bool is_sum = op == "sum" || op == "prod", is_logical = op == "any" || op == "all";
  if (is_sum) x = Widened(c, x);
  if (is_logical) x = c.Cast(x, kBool);
  return {Reduced(c, op, x)};
}

Operands Mean(NodeContext& c) {
  Operand x = c.In("self");
  return {Reduced(c, "mean", c.Cast(x, c.DType("dtype", c.DTypeOf(x))))};
}

// max and min: of all elements, of two tensors, or along an axis with the indices.
Operands Extreme(NodeContext& c) {
  Operand x = c.In("self");
  std::string op(c.row().variant);
  if (c.Has("other")) {
    Operand other = c.In("other");
    c.Promote({&x, &other});
    return {c.Op(op == "max" ? "maximum" : "minimum", {x, other})};
  }
  bool is_truth = c.DTypeOf(x).is_bool();
  Operand values = Reduced(c, is_truth ? (op == "max" ? "any" : "all") : op, x);
  if (!c.Has("dim")) return {values};
  if (c.RankOf(x) == 0) return {values, c.Integer(0)};
  Operand index = c.Op(op == "max" ? "argmax" : "argmin", {is_truth ? c.Cast(x, kInt32) : x},
                       {{"axis", ReducedAxes(c, x)}, {"keepdims", c.Bool("keepdim", false)}});
  return {values, c.Cast(index, kInt64)};
}

Operands ArgExtreme(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return {c.Integer(0)};
  if (c.Has("dim")) return {c.Cast(Reduced(c, c.row().variant, x), kInt64)};
  // Counted in the flattened tensor.
  Operand flat = importing::Flat(c, x);
  Operand index = c.Op(c.row().variant, {flat}, {{"axis", ir::AttrValue::List{0}}});
  if (c.Bool("keepdim", false)) {
    index = c.Reshape(index, Dims(static_cast<size_t>(c.RankOf(x)), Dim(1)));
  }
  return {c.Cast(index, kInt64)};
}

// var, std, var_mean and std_mean. `correction` is taken off the number of elements that is divided by.
Operands Variance(NodeContext& c) {
  Operand x = c.In("self");
  double correction = c.Has("unbiased") ? c.Float("unbiased", 1) : c.Float("correction", 1);
  ir::AttrValue::List axes = ReducedAxes(c, x);
  ir::Attrs attrs = {{"axis", axes}, {"keepdims", c.Bool("keepdim", false)}};
  if (correction == 1) attrs.Set("unbiased", true);
  Operand result = c.Op("variance", {x}, attrs);
  if (correction != 0 && correction != 1) {
    Dim count = 1;
    for (const ir::AttrValue& axis : axes) count = count * c.ExtentOf(x, *axis.AsInt());
    Operand n = c.Cast(c.emit().FromDim(count), c.DTypeOf(x));
    Operand less = c.Op("maximum", {c.Sub(n, c.Number(correction, x)), c.Number(0, x)});
    result = c.Mul(result, c.Div(n, less));
  }
  if (c.row().variant == "std") result = c.Op("sqrt", {result});
  return {result, Reduced(c, "mean", x)};
}

// Returns the p-norm; `reduced` applies an operator to the axes that it goes over.
template <typename Reduce>
Operand PNorm(NodeContext& c, Operand x, double p, Reduce reduced) {
  if (p == 2) return c.Op("sqrt", {reduced("sum", c.Mul(x, x))});
  Operand size = c.Op("abs", {x});
  if (std::isinf(p)) return reduced(p > 0 ? "max" : "min", size);
  if (p == 1) return reduced("sum", size);
  if (p == 0) return reduced("sum", c.Cast(c.Op("not_equal", {x, c.Number(0, x)}), c.DTypeOf(x)));
  return c.Op("power", {reduced("sum", c.Op("power", {size, c.Number(p, x)})), c.Number(1 / p, x)});
}

// Returns the distance of each row of x1 from each row of x2.
Operands Distances(NodeContext& c) {
  Operand a = c.In("x1"), b = c.In("x2");
  int64_t rank = c.RankOf(a);
  if (c.failed() || rank < 2 || c.RankOf(b) < 2) return {c.failed() ? nullptr : c.Fail("an input is no matrix")};
  Operand difference = c.Sub(c.Unsqueeze(a, {rank - 1}), c.Unsqueeze(b, {c.RankOf(b) - 2}));
  return {PNormAlong(c, difference, c.Float("p", 2), c.RankOf(difference) - 1, /*keepdims=*/false)};
}

Operands Logsumexp(NodeContext& c) {
  Operand x = c.Floating(c.In("self"));
  return {Reduced(c, "logsumexp", x)};
}

Operands Cumulative(NodeContext& c) {
  Operand x = Widened(c, c.In("self"));
  if (c.RankOf(x) == 0) return {x};
  return {c.Op(c.row().variant, {x}, {{"axis", c.Axis(c.Int("dim", 0), c.RankOf(x))}})};
}

// Integrals by the trapezoidal rule along an axis, over steps of `dx` or between the places `x`.
Operands Trapezoid(NodeContext& c) {
  Operand y = c.Floating(c.In("y"));
  const int64_t rank = c.RankOf(y), axis = c.Axis(c.Int("dim", -1), rank);
  if (c.failed() || rank == 0) return {c.failed() ? nullptr : c.Fail("its input is a scalar")};
  const auto neighbours = [&](Operand x, int64_t at) {
    const ir::Attrs attrs = {{"begin", ir::IntList({{int64_t{1}}})},
                             {"end", ir::IntList({{std::numeric_limits<int64_t>::max()}})},
                             {"axes", ir::IntList({{at}})}};
    const ir::Attrs first = {
        {"begin", ir::IntList({{int64_t{0}}})}, {"end", ir::IntList({{int64_t{-1}}})}, {"axes", ir::IntList({{at}})}};
    return std::pair(Term(c, c.Op("strided_slice", {x}, first)), Term(c, c.Op("strided_slice", {x}, attrs)));
  };
  const auto [left, right] = neighbours(y, axis);
  Term area = (left + right) * 0.5;
  if (c.Has("x")) {
    Operand places = c.Cast(c.In("x"), c.DTypeOf(y));
    if (c.RankOf(places) == 1) {
      Dims dims(static_cast<size_t>(rank), Dim(1));
      dims[static_cast<size_t>(axis)] = c.ExtentOf(places, 0);
      places = c.Reshape(places, dims);
    }
    const auto [before, behind] = neighbours(places, axis + c.RankOf(places) - rank);
    area = area * (behind - before);
  } else {
    area = area * c.Float("dx", 1);
  }
  if (c.row().variant == "cumsum") return {c.Op("cumsum", {area}, {{"axis", axis}})};
  return {c.Op("sum", {area}, {{"axis", ir::AttrValue::List{axis}}})};
}

// Returns the p-norm of a difference.
Operands Distance(NodeContext& c) {
  Operand x = c.In("self"), y = c.In("other");
  c.Promote({&x, &y});
  return {PNorm(c, c.Sub(x, y), c.Float("p", 2), [&](std::string_view op, Operand z) { return Reduced(c, op, z); })};
}

Operands CountNonzero(NodeContext& c) {
  Operand x = c.In("self");
  return {Reduced(c, "sum", c.Cast(c.Cast(x, kBool), kInt64))};
}

Operands Extremes(NodeContext& c) {
  Operand x = c.In("self");
  bool is_truth = c.DTypeOf(x).is_bool();
  return {Reduced(c, is_truth ? "all" : "min", x), Reduced(c, is_truth ? "any" : "max", x)};
}

// nansum and nanmean.
Operands SumOfNumbers(NodeContext& c) {
  Operand x = Widened(c, c.In("self"));
  if (c.failed() || !c.DTypeOf(x).is_float()) return {Reduced(c, "sum", x)};
  Operand is_nan = c.Op("isnan", {x}), sum = Reduced(c, "sum", c.Where(is_nan, c.Number(0, x), x));
  if (c.row().name == "nansum") return {sum};
  return {c.Div(sum, Reduced(c, "sum", c.Cast(c.Op("logical_not", {is_nan}), c.DTypeOf(x))))};
}

constexpr OperatorRow kRows[] = {
    {"_is_all_true", Reduce, "all"},
    {"_is_any_true", Reduce, "any"},
    {"all", Reduce, "all"},
    {"amax", Reduce, "max"},
    {"amin", Reduce, "min"},
    {"any", Reduce, "any"},
    {"prod", Reduce, "prod"},
    {"sum", Reduce, "sum"},
    {"mean", Mean},
    {"max", Extreme, "max"},
    {"min", Extreme, "min"},
    {"argmax", ArgExtreme, "argmax"},
    {"argmin", ArgExtreme, "argmin"},
    {"std", Variance, "std"},
    {"std_mean", Variance, "std"},
    {"var", Variance},
    {"var_mean", Variance},
    {"_cdist_forward", Distances},
    {"cdist", Distances},
    {"linalg_vector_norm", VectorNorm},
    {"norm", VectorNorm},
    {"logsumexp", Logsumexp},
    {"cumprod", Cumulative, "cumprod"},
    {"cumsum", Cumulative, "cumsum"},
    {"count_nonzero", CountNonzero},
    {"aminmax", Extremes},
    {"nanmean", SumOfNumbers},
    {"nansum", SumOfNumbers},
    {"dist", Distance},
    {"trapezoid", Trapezoid},
    {"trapz", Trapezoid},
    {"cumulative_trapezoid", Trapezoid, "cumsum"},
};

}  // namespace

std::span<const OperatorRow> ReduceOperators() { return kRows; }

Operands VectorNorm(NodeContext& c) {
  Operand x = c.In("self");
  x = c.Floating(c.Cast(x, c.DType("dtype", c.DTypeOf(x))));
  double p = c.Has("ord") ? c.Float("ord", 2) : c.Float("p", 2);
  return {PNorm(c, x, p, [&](std::string_view op, Operand y) { return Reduced(c, op, y); })};
}

Operand PNormAlong(NodeContext& c, Operand x, double p, int64_t axis, bool keepdims) {
  return PNorm(c, x, p, [&](std::string_view op, Operand y) {
    return c.Op(op, {y}, {{"axis", ir::AttrValue::List{axis}}, {"keepdims", keepdims}});
  });
}

}  // namespace rvm::torch::convert
