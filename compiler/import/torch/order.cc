// Order: sorted elements, ranks, distinct elements, searches.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

// x with `axis` exchanged with the last one.
Operand WithLast(NodeContext& c, Operand x, int64_t axis) {
  std::vector<int64_t> axes = importing::AllAxes(c.RankOf(x));
  if (axes.empty()) return x;
  std::swap(axes[static_cast<size_t>(axis)], axes.back());
  return c.Transpose(x, axes);
}

Operand Flat(NodeContext& c, Operand x) { return c.Reshape(x, {importing::Product(c.DimsOf(x))}); }

Operand CountTrue(NodeContext& c, Operand mask, bool keepdims) {
  ir::AttrValue::List last = {c.RankOf(mask) - 1};
  return c.Op("sum", {c.Cast(mask, kInt64)}, {{"axis", last}, {"keepdims", keepdims}});
}

// Values and indices of one element of each lane along `dim`, both with an extent of 1 there.
Operands OfLanes(NodeContext& c, Operand values, Operand indices, int64_t axis) {
  values = WithLast(c, values, axis);
  indices = WithLast(c, indices, axis);
  if (c.Bool("keepdim", false)) return {values, indices};
  return {c.Squeeze(values, {axis}), c.Squeeze(indices, {axis})};
}

Operand SortOrder(NodeContext& c, Operand x, bool is_ascending) {
  return c.Op("argsort", {x}, {{"axis", c.RankOf(x) - 1}, {"is_ascend", is_ascending}, {"dtype", "int64"}});
}

Operand GatherLast(NodeContext& c, Operand x, Operand indices) {
  return c.Op("gather", {x, indices}, {{"axis", c.RankOf(x) - 1}});
}

// The middle element of each lane along the last axis of x, and its index; NaN where a lane has one, unless they are
// skipped.
std::pair<Operand, Operand> MiddleOfLanes(NodeContext& c, Operand x, bool skips_nan) {
  Operand order = SortOrder(c, x, true), one = c.Integer(1), two = c.Integer(2);
  Operand total = c.emit().FromDim(c.ExtentOf(x, -1));
  Dims lane = c.DimsOf(x);
  if (c.failed()) return {nullptr, nullptr};
  lane.back() = 1;
  Operand middle = c.BroadcastTo(c.Op("floor_divide", {c.Sub(total, one), two}), lane);
  if (c.DTypeOf(x).is_float()) {
    Operand numbers = CountTrue(c, c.Op("logical_not", {c.Op("isnan", {x})}), true);
    Operand own = c.Op("maximum", {c.Op("floor_divide", {c.Sub(numbers, one), two}), c.Integer(0)});
    // NaNs are sorted to the end.
    middle = skips_nan ? own
                       : c.Where(c.Op("less", {numbers, total}), c.Op("minimum", {numbers, c.Sub(total, one)}), middle);
  }
  Operand index = GatherLast(c, order, middle);
  return {GatherLast(c, x, index), index};
}

Operands Topk(NodeContext& c) {
  Operand x = c.In("self");
  bool is_scalar = c.RankOf(x) == 0;
  if (is_scalar) x = c.Reshape(x, {1});
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(x));
  ir::Attrs attrs = {{"axis", axis}, {"is_ascend", !c.Bool("largest", true)}, {"dtype", "int64"}, {"exact", true}};
  std::optional<Dim> k = c.Has("k") ? c.Extent(*c.Find("k")) : std::nullopt;
  if (is_scalar && k == Dim(1)) return {c.Scalar(x), c.Integer(0)};
  if (k == Dim(0)) {  // `topk` takes 0 for all
    Operand none = c.SliceAxis(x, axis, 0, 0);
    return {none, c.Cast(none, kInt64)};
  }
  Operand pair;
  if (k && k->is_const()) {
    attrs.Set("k", k->constant());
    pair = c.Op("topk", {x}, attrs);
  } else {
    pair = c.Op("dyn.topk", {x, c.Cast(c.In("k"), kInt64)}, attrs);
  }
  return {c.emit().Field(pair, 0), c.emit().Field(pair, 1)};
}

// sort and argsort.
Operands Sort(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return c.row().variant == "argsort" ? Operands{c.Integer(0)} : Operands{x, c.Integer(0)};
  const bool has_values_only = c.row().variant == "values";
  int64_t axis = has_values_only ? 0 : c.Axis(c.Int("dim", -1), c.RankOf(x));
  Operand order =
      c.Op("argsort", {x}, {{"axis", axis}, {"is_ascend", !c.Bool("descending", false)}, {"dtype", "int64"}});
  if (c.row().variant == "argsort") return {order};
  Operand values = c.Op("gather", {x, order}, {{"axis", axis}});
  return has_values_only ? Operands{values} : Operands{values, order};
}

Operands KthValue(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return {x, c.Integer(0)};
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(x));
  std::optional<Dim> k = c.Has("k") ? c.Extent(*c.Find("k")) : std::nullopt;
  if (c.failed() || !k) return {c.failed() ? nullptr : c.Unsupported("a `k` that is known only when the model runs")};
  Operand lanes = WithLast(c, x, axis);
  Operand index = c.SliceAxis(SortOrder(c, lanes, true), c.RankOf(x) - 1, *k - 1, *k);
  return OfLanes(c, GatherLast(c, lanes, index), index, axis);
}

// median and nanmedian: of two in the middle the lesser.
Operands Median(NodeContext& c) {
  Operand x = c.In("self");
  bool skips_nan = c.row().name == "nanmedian";
  if (!c.Has("dim")) return {c.failed() ? nullptr : c.Scalar(MiddleOfLanes(c, Flat(c, x), skips_nan).first)};
  if (c.RankOf(x) == 0) return {x, c.Integer(0)};
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(x));
  auto [value, index] = MiddleOfLanes(c, WithLast(c, x, axis), skips_nan);
  return c.failed() ? Operands{} : OfLanes(c, value, index, axis);
}

// The most frequent element of each lane, the least of several, and its last index.
Operands Mode(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return {x, c.Integer(0)};
  int64_t axis = c.Axis(c.Int("dim", -1), c.RankOf(x));
  Operand lanes = WithLast(c, x, axis), order = SortOrder(c, lanes, true), sorted = GatherLast(c, lanes, order);
  auto places = [&](bool right) {
    return c.Op("searchsorted", {sorted, sorted}, {{"right", right}, {"dtype", "int64"}});
  };
  Operand end = places(true), counts = c.Sub(end, places(false));
  Operand best =
      c.Cast(c.Op("argmax", {counts}, {{"axis", ir::AttrValue::List{c.RankOf(x) - 1}}, {"keepdims", true}}), kInt64);
  Operand index = GatherLast(c, order, c.Sub(GatherLast(c, end, best), c.Integer(1)));
  return OfLanes(c, GatherLast(c, lanes, index), index, axis);
}

// cummax and cummin with the last index of each extreme: of 1, 2, 4, ... elements, by doubling.
Operands RunningExtreme(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return {x, c.Integer(0)};
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("dim", 0), rank);
  std::optional<int64_t> extent = c.ExtentOf(x, axis).AsConst();
  if (c.failed() || !extent) {
    return {c.failed() ? nullptr : c.Unsupported("an extent that only the running model knows")};
  }
  Operand places = c.Iota(*extent), values = x;
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < rank - axis; ++i) behind.push_back(i);
  Operand indices = c.BroadcastTo(c.Unsqueeze(places, behind), c.DimsOf(x));
  bool has_nan = c.DTypeOf(x).is_float();
  for (int64_t step = 1; step < *extent; step *= 2) {
    // Elements near the beginning are compared with the first one, which is among what they have seen.
    Operand before = c.Op("maximum", {c.Sub(places, c.Integer(step)), c.Integer(0)});
    Operand other = c.Op("take", {values, before}, {{"axis", axis}});
    Operand other_index = c.Op("take", {indices, before}, {{"axis", axis}});
    Operand stays = c.Op(std::string(c.row().variant), {values, other});
    if (has_nan) stays = c.Op("logical_or", {stays, c.Op("isnan", {values})});
    values = c.Where(stays, values, other);
    indices = c.Where(stays, indices, other_index);
  }
  return {values, indices};
}

// fmax and fmin: of a number and NaN the number.
Operands ExtremeOfNumbers(NodeContext& c) {
  Operand a = c.In("self"), b = c.In("other");
  c.Promote({&a, &b});
  Operand extreme = c.Op(std::string(c.row().variant), {a, b});
  if (!c.DTypeOf(a).is_float()) return {extreme};
  return {c.Where(c.Op("isnan", {a}), b, c.Where(c.Op("isnan", {b}), a, extreme))};
}

// searchsorted and bucketize.
Operands SearchSorted(NodeContext& c) {
  Operand values = c.In("self"), sequence = c.In(c.Has("boundaries") ? "boundaries" : "sorted_sequence");
  c.Promote({&values, &sequence});
  if (c.Has("sorter")) sequence = GatherLast(c, sequence, c.In("sorter"));
  bool right = c.Bool("right", false) || c.Text("side", "left") == "right";
  bool is_scalar = c.RankOf(values) == 0;
  if (is_scalar) values = c.Reshape(values, {1});
  Operand places = c.Op("searchsorted", {sequence, values},
                        {{"right", right}, {"dtype", c.Bool("out_int32", false) ? "int32" : "int64"}});
  return {is_scalar ? c.Scalar(places) : places};
}

Operands IsIn(NodeContext& c) {
  Operand elements = c.In(c.Has("elements") ? "elements" : "element");
  Operand tests = c.In(c.Has("test_elements") ? "test_elements" : "test_element");
  c.Promote({&elements, &tests});
  Operand equal = c.Op("equal", {c.Unsqueeze(elements, {c.RankOf(elements)}), Flat(c, tests)});
  Operand found = c.Op("any", {equal}, {{"axis", ir::AttrValue::List{c.RankOf(elements)}}});
  return {c.Bool("invert", false) ? c.Op("logical_not", {found}) : found};
}

// ---- distinct elements

// _unique2, of all elements, and unique_dim, of the slices along an axis: these, for each its place, their counts.
Operands Unique(NodeContext& c) {
  Operand x = c.In("self");
  const Dims dims = c.DimsOf(x);
  ir::Attrs attrs = {{"return_counts", true}};
  if (c.Has("dim")) {
    attrs.Set("axis", c.Axis(c.Int("dim", 0), c.RankOf(x)));
  } else {
    x = Flat(c, x);
  }
  Operand tuple = c.Op("unique", {x}, attrs);
  if (c.failed()) return {};
  Operand places = c.Cast(c.emit().Field(tuple, 2), kInt64), counts = c.Cast(c.emit().Field(tuple, 4), kInt64);
  Operand none = c.emit().Constant(Literal::Full(kInt64, {0}, 0));
  if (!c.Has("dim")) places = c.Reshape(places, dims);
  bool has_places = c.Bool("return_inverse", false) || c.Has("dim"),
       has_counts = c.Bool("return_counts", false) || c.Has("dim");
  return {c.emit().Field(tuple, 0), has_places ? places : none, has_counts ? counts : none};
}

// The first of each run of equal elements, or slices along an axis; for each element the number of its run; their
// lengths.
Operands UniqueConsecutive(NodeContext& c) {
  Operand x = c.In("self");
  const Dims dims = c.DimsOf(x);
  bool is_flat = !c.Has("dim");
  if (is_flat) x = Flat(c, x);
  int64_t rank = c.RankOf(x), axis = is_flat ? 0 : c.Axis(c.Int("dim", 0), rank);
  if (c.failed()) return {};
  Dim extent = c.ExtentOf(x, axis);
  Operand places = c.Iota(extent), one = c.Integer(1), zero = c.Integer(0);
  Operand before = c.Op("take", {x, c.Op("maximum", {c.Sub(places, one), zero})}, {{"axis", axis}});
  Operand differs = c.Op("not_equal", {x, before});
  ir::AttrValue::List others;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) others.emplace_back(i);
  }
  if (!others.empty()) differs = c.Op("any", {differs}, {{"axis", others}});
  Operand begins = c.Op("logical_or", {differs, c.Op("equal", {places, zero})});
  Operand rows = c.Squeeze(c.Cast(c.Op("argwhere", {begins}), kInt64), {1});
  Operand numbers = c.Sub(c.Op("cumsum", {c.Cast(begins, kInt64)}, {{"axis", 0}}), one);
  if (c.failed()) return {};
  Operand last = c.Reshape(c.emit().FromDim(extent), {1});
  Operand ends =
      c.SliceAxis(c.Op("concatenate", {c.emit().Tuple({rows, last})}, {{"axis", 0}}), 0, 1, c.ExtentOf(rows, 0) + 1);
  Operand none = c.emit().Constant(Literal::Full(kInt64, {0}, 0));
  Operand inverse = is_flat ? c.Reshape(numbers, dims) : numbers;
  return {c.Op("take", {x, rows}, {{"axis", axis}}), c.Bool("return_inverse", false) ? inverse : none,
          c.Bool("return_counts", false) ? c.Sub(ends, rows) : none};
}

// Returns the places of the first `size` elements that are not 0, and `fill_value` where there are fewer.
Operands NonzeroStatic(NodeContext& c) {
  Operand x = c.In("self");
  std::optional<Shape> shape = StaticShape(c.DimsOf(x));
  int64_t size = c.Int("size", 0), rank = c.RankOf(x);
  if (c.failed() || size < 0) return {c.failed() ? nullptr : c.Fail("its `size` is below 0")};
  if (!shape) return {c.Unsupported("an extent that only the running model knows")};
  int64_t count = 1;
  for (int64_t extent : *shape) count *= extent;
  Dims dims = {size, rank};
  Operand fill = c.BroadcastTo(c.Integer(c.Int("fill_value", -1)), dims);
  if (count == 0 || rank == 0 || size == 0) return {rank == 0 && size > 0 ? c.Reshape(fill, dims) : fill};
  Operand is_set = Flat(c, c.Cast(x, kBool));
  // Sorts elements that are set first, in their order.
  Operand order = SortOrder(c, c.Cast(c.Op("logical_not", {is_set}), kInt32), true);
  Operand at = c.Op("take", {order, c.Iota(size)}, {{"axis", 0}});
  Operand is_there = c.Op("less", {c.Iota(size), CountTrue(c, is_set, false)});
  Operands columns;
  for (int64_t i = 0, stride = count; i < rank; ++i) {
    stride /= (*shape)[static_cast<size_t>(i)];
    Operand place =
        c.Op("floor_mod", {c.Op("floor_divide", {at, c.Integer(stride)}), c.Integer((*shape)[static_cast<size_t>(i)])});
    columns.push_back(c.Unsqueeze(place, {1}));
  }
  Operand places = columns.size() == 1 ? columns[0] : c.Op("concatenate", {c.emit().Tuple(columns)}, {{"axis", 1}});
  return {c.Where(c.Unsqueeze(is_there, {1}), places, fill)};
}

// quantile and nanquantile, which skips NaNs: between two neighbours of the sorted lane.
Operands Quantile(NodeContext& c) {
  Operand x = c.Floating(c.In("self")), q = c.Cast(c.In("q"), c.DTypeOf(x));
  bool is_flat = !c.Has("dim"), skips_nan = c.row().name == "nanquantile", is_scalar = c.RankOf(q) == 0;
  int64_t rank = c.RankOf(x), axis = is_flat || rank == 0 ? 0 : c.Axis(c.Int("dim", -1), rank);
  if (c.failed() || c.RankOf(q) > 1) return {c.failed() ? nullptr : c.Fail("its `q` is neither a number nor a vector")};
  is_flat = is_flat || rank == 0;
  Operand lanes = is_flat ? Flat(c, x) : WithLast(c, x, axis);
  Term sorted(c, GatherLast(c, lanes, SortOrder(c, lanes, true)));  // NaNs last
  Term count(c, CountTrue(c, Not(IsNan(sorted)), /*keepdims=*/true));
  Term total(c, c.emit().FromDim(c.ExtentOf(lanes, -1)));
  Term top = Cast(Max(skips_nan ? count : total, total.Like(1)) - 1, c.DTypeOf(x));
  Term place = top * Term(c, is_scalar ? c.Reshape(q, {1}) : q);
  if (!skips_nan) place = Select(count.Apply("less", total), top, place);
  std::string mode = c.Text("interpolation", "linear");
  if (mode == "lower") place = Floor(place);
  if (mode == "higher") place = place.Apply("ceil");
  if (mode == "nearest") place = RoundHalfEven(place);
  Term below = Floor(place), above = place.Apply("ceil");
  auto at = [&](const Term& index) { return Term(c, GatherLast(c, sorted, c.Cast(index, kInt64))); };
  Term low = at(below), high = at(above), part = mode == "midpoint" ? place.Like(0.5) : place - below;
  bool is_between = mode == "linear" || mode == "midpoint";
  Term value = is_between ? low + part * (high - low) : low;
  // The quantiles in front, then the axes of x.
  Operand shown = is_flat ? value.operand() : WithLast(c, value, axis);
  std::vector<int64_t> order = {axis};
  for (int64_t i = 0; i < c.RankOf(shown); ++i) {
    if (i != axis) order.push_back(i);
  }
  Dims dims = is_scalar ? Dims() : Dims{c.ExtentOf(q, 0)};
  for (int64_t i = 0; i < rank; ++i) {
    bool is_reduced = is_flat || i == axis;
    if (!is_reduced || c.Bool("keepdim", false)) dims.push_back(is_reduced ? Dim(1) : c.ExtentOf(x, i));
  }
  return {c.failed() ? nullptr : c.Reshape(c.Transpose(shown, order), dims)};
}

constexpr OperatorRow kRows[] = {
    {"topk", Topk},
    {"argsort", Sort, "argsort"},
    {"sort", Sort},
    {"msort", Sort, "values"},
    {"bucketize", SearchSorted},
    {"searchsorted", SearchSorted},
    {"cummax", RunningExtreme, "greater_equal"},
    {"cummin", RunningExtreme, "less_equal"},
    {"fmax", ExtremeOfNumbers, "maximum"},
    {"fmin", ExtremeOfNumbers, "minimum"},
    {"isin", IsIn},
    {"kthvalue", KthValue},
    {"median", Median},
    {"nanmedian", Median},
    {"mode", Mode},
    {"nonzero_static", NonzeroStatic},
    {"nanquantile", Quantile},
    {"quantile", Quantile},
    {"_unique2", Unique},
    {"unique_dim", Unique},
    {"unique_consecutive", UniqueConsecutive},
};

}  // namespace

std::span<const OperatorRow> OrderOperators() { return kRows; }

}  // namespace rvm::torch::convert
