// Elements picked by index, and written there.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Term;

// Negative indices counted from the end of an axis.
Operand AlongAxis(NodeContext& c, Operand x, Operand indices, int64_t axis) {
  if (indices->constant && indices->constant->num_elements() <= 4096) {
    bool is_natural = true;
    for (int64_t i = 0; i < indices->constant->num_elements(); ++i) {
      is_natural = is_natural && indices->constant->IntAt(i) >= 0;
    }
    if (is_natural) return indices;
  }
  Operand zero = c.Number(0, indices);
  Operand extent = c.Cast(c.emit().FromDim(c.ExtentOf(x, axis)), c.DTypeOf(indices));
  return c.Where(c.Op("less", {indices, zero}), c.Add(indices, extent), indices);
}

// Operands of x[i, :, j]: x with the indexed axes in front, and one tensor for each of these; masks are the indices
// where they are true.
struct Picked {
  Operand x = nullptr;
  std::vector<int64_t> axes;  // of x as it was, in front now
  std::vector<int64_t> order;
  Operands indices;
  bool is_contiguous = true;
};

std::optional<Picked> ReadIndices(NodeContext& c) {
  Picked picked;
  Operand x = c.In("self");
  int64_t rank = c.RankOf(x), axis = 0;
  for (Operand index : c.List("indices")) {
    if (c.failed()) return std::nullopt;
    if (index == nullptr) {
      ++axis;
      continue;
    }
    bool is_mask = c.DTypeOf(index).is_bool() || c.DTypeOf(index) == kUInt8;
    int64_t covered = is_mask ? c.RankOf(index) : 1;
    if (axis + covered > rank || covered == 0) {
      c.Fail("it has more indices than its input has axes");
      return std::nullopt;
    }
    Operand places = is_mask ? c.Cast(c.Op("argwhere", {index}), kInt64) : nullptr;
    for (int64_t i = 0; i < covered; ++i, ++axis) {
      if (!picked.axes.empty() && picked.axes.back() != axis - 1) picked.is_contiguous = false;
      picked.axes.push_back(axis);
      Operand own = is_mask ? c.Squeeze(c.SliceAxis(places, 1, i, i + 1), {1}) : c.Cast(index, kInt64);
      picked.indices.push_back(is_mask ? own : AlongAxis(c, x, own, axis));
    }
  }
  if (picked.axes.empty() || c.failed()) {
    if (!c.failed()) c.Fail("it has no indices");
    return std::nullopt;
  }
  picked.order = picked.axes;
  for (int64_t i = 0; i < rank; ++i) {
    if (std::find(picked.axes.begin(), picked.axes.end(), i) == picked.axes.end()) picked.order.push_back(i);
  }
  picked.x = c.Transpose(x, picked.order);
  return picked;
}

int64_t IndexRank(NodeContext& c, const Picked& picked) {
  int64_t rank = 0;
  for (Operand index : picked.indices) rank = std::max(rank, c.RankOf(index));
  return rank;
}

// Returns the axes of the indices moved from the front to where the first indexed axis was.
std::vector<int64_t> Placed(const Picked& picked, int64_t index_rank, int64_t rank) {
  std::vector<int64_t> order;
  int64_t first = picked.is_contiguous ? picked.axes[0] : 0;
  for (int64_t i = 0; i < first; ++i) order.push_back(index_rank + i);
  for (int64_t i = 0; i < index_rank; ++i) order.push_back(i);
  for (int64_t i = index_rank + first; i < rank; ++i) order.push_back(i);
  return order;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

Operands Gather(NodeContext& c) {
  Operand x = c.In("self"), index = c.Has("index") ? c.In("index") : c.In("indices");
  if (c.RankOf(x) == 0) return {c.Reshape(x, c.DimsOf(index))};
  if (!c.Has("dim")) x = c.Reshape(x, {importing::Product(c.DimsOf(x))});  // take_along_dim of all elements
  bool is_scalar = c.RankOf(index) == 0;
  if (is_scalar) index = c.Reshape(index, {1});
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  if (is_scalar) return {c.Scalar(c.Op("gather", {x, AlongAxis(c, x, index, axis)}, {{"axis", axis}}))};
  return {c.Op("gather", {x, AlongAxis(c, x, index, axis)}, {{"axis", axis}})};
}

Operands IndexSelect(NodeContext& c) {
  Operand x = c.In("self");
  if (c.RankOf(x) == 0) return {x};
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  return {c.Op("take", {x, c.In("index")}, {{"axis", axis}})};
}

Operands Embedding(NodeContext& c) { return {c.Op("take", {c.In("weight"), c.In("indices")}, {{"axis", 0}})}; }

Operands Index(NodeContext& c) {
  std::optional<Picked> picked = ReadIndices(c);
  if (!picked) return {};
  Operand result;
  if (picked->indices.size() == 1) {
    result = c.Op("take", {picked->x, picked->indices[0]}, {{"axis", 0}});
  } else {
    Operands inputs = {picked->x};
    inputs.insert(inputs.end(), picked->indices.begin(), picked->indices.end());
    result = c.Op("adv_index", {c.emit().Tuple(inputs)});
  }
  if (c.failed()) return {};
  return {c.Transpose(result, Placed(*picked, IndexRank(c, *picked), c.RankOf(result)))};
}

Operands IndexPut(NodeContext& c) {
  std::optional<Picked> picked = ReadIndices(c);
  if (!picked) return {};
  Operand values = c.Cast(c.In("values"), c.DTypeOf(picked->x));
  // One tuple of indices along the first axis for each place.
  Operand shape = picked->indices[0];
  for (size_t i = 1; i < picked->indices.size(); ++i) shape = c.Add(shape, picked->indices[i]);
  if (c.failed()) return {};
  const Dims places = c.DimsOf(shape);
  Operands tuples;
  for (Operand index : picked->indices) tuples.push_back(c.Unsqueeze(c.BroadcastTo(index, places), {0}));
  Operand indices = tuples.size() == 1 ? tuples[0] : c.Op("concatenate", {c.emit().Tuple(tuples)}, {{"axis", 0}});
  // The values stand as the picked elements do; scatter_nd wants the places in front.
  int64_t index_rank = static_cast<int64_t>(places.size());
  Dims moved = places;
  const Dims& dims = c.DimsOf(picked->x);
  moved.insert(moved.end(), dims.begin() + static_cast<ptrdiff_t>(picked->indices.size()), dims.end());
  std::vector<int64_t> order = Placed(*picked, index_rank, static_cast<int64_t>(moved.size()));
  Dims wanted;
  for (int64_t axis : order) wanted.push_back(moved[static_cast<size_t>(axis)]);
  Operand updates = c.Transpose(c.BroadcastTo(values, wanted), Inverse(order));
  bool adds = c.Bool("accumulate", false);
  Operand written = c.Op("scatter_nd", {picked->x, indices, updates}, {{"mode", adds ? "add" : "update"}});
  return {c.failed() ? nullptr : c.Transpose(written, Inverse(picked->order))};
}

std::string Reduction(std::string name) {
  if (name == "sum") return "add";
  if (name == "prod" || name == "multiply") return "mul";
  if (name == "amax") return "max";
  if (name == "amin") return "min";
  return name;
}

// Returns the element that a reduction leaves as it is.
Operand Neutral(NodeContext& c, const std::string& reduction, DataType dtype) {
  if (reduction == "add" || reduction == "mean") return c.emit().Number(0, dtype);
  if (reduction == "mul") return c.emit().Number(1, dtype);
  bool is_max = reduction == "max";
  double infinity = std::numeric_limits<double>::infinity();
  if (dtype.is_float()) return c.emit().Number(is_max ? -infinity : infinity, dtype);
  if (!dtype.is_int()) return c.emit().Integer(is_max ? 0 : -1, dtype);
  int64_t most = dtype.bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (dtype.bits - 1)) - 1;
  return c.emit().Integer(is_max ? -most - 1 : most, dtype);
}

// x with elements of `source` folded in at `index` along an axis; where there are any, without x's own element unless
// `include_self`. The mean of integers is rounded down.
Operand Scattered(NodeContext& c, Operand x, int64_t axis, Operand index, Operand source, const std::string& reduction,
                  bool include_self) {
  auto scattered = [&](Operand into, Operand what, const std::string& how) {
    return c.Op("scatter_elements", {into, index, what}, {{"axis", axis}, {"reduction", how}});
  };
  if (include_self && reduction != "mean") return scattered(x, source, reduction);
  DataType dtype = c.DTypeOf(x);
  Operand one = c.BroadcastTo(c.Integer(1), c.DimsOf(index));
  Operand counts = scattered(c.BroadcastTo(c.Integer(include_self ? 1 : 0), c.DimsOf(x)), one, "add");
  Operand is_hit = c.Op("greater", {counts, c.Integer(0)});
  Operand into = include_self ? x : c.Where(is_hit, Neutral(c, reduction, dtype), x);
  if (reduction != "mean") return scattered(into, source, reduction);
  counts = c.Cast(c.Op("maximum", {counts, c.Integer(1)}), dtype);
  return c.Op(dtype.is_float() ? "divide" : "floor_divide", {scattered(into, source, "add"), counts});
}

// scatter, scatter_add and scatter_reduce.
Operands Scatter(NodeContext& c) {
  Operand x = c.In("self"), index = c.In("index");
  bool is_scalar = c.RankOf(x) == 0;
  if (is_scalar) x = c.Reshape(x, {1});
  if (c.RankOf(index) == 0) index = c.Reshape(index, {1});
  for (const Dim& extent : c.DimsOf(index)) {
    if (extent == Dim(0)) return {c.In("self")};
  }
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  Operand source = c.Has("src") ? c.In("src") : c.In("value");
  source = c.Cast(source, c.DTypeOf(x));
  if (c.RankOf(source) == 0) source = c.BroadcastTo(source, c.DimsOf(index));
  // The part of `src` behind the indices is not used.
  const Dims wanted = c.DimsOf(index);
  for (size_t i = 0; i < wanted.size() && c.RankOf(source) == c.RankOf(index); ++i) {
    if (CompareDims(wanted[i], c.DimsOf(source)[i]) != DimEquality::kEqual) {
      source = c.SliceAxis(source, static_cast<int64_t>(i), 0, wanted[i]);
    }
  }
  if (c.failed()) return {};
  std::string reduction = c.row().variant.empty() ? c.Text("reduce", "update") : std::string(c.row().variant);
  Operand y =
      Scattered(c, x, axis, AlongAxis(c, x, index, axis), source, Reduction(reduction), c.Bool("include_self", true));
  return {is_scalar ? c.Scalar(y) : y};
}

// index_reduce: slices along an axis.
Operands IndexReduce(NodeContext& c) {
  Operand x = c.In("self"), index = c.Cast(c.In("index"), kInt64);
  bool is_scalar = c.RankOf(x) == 0;
  if (is_scalar) x = c.Reshape(x, {1});
  Operand source = c.Cast(c.In("source"), c.DTypeOf(x));
  if (c.RankOf(source) == 0) source = c.Reshape(source, {1});
  if (c.RankOf(index) == 0) index = c.Reshape(index, {1});
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("dim", 0), rank);
  if (c.failed() || c.RankOf(source) != rank) return {c.failed() ? nullptr : c.Unsupported("a source of another rank")};
  index = AlongAxis(c, x, index, axis);
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < rank - axis; ++i) behind.push_back(i);
  index = c.BroadcastTo(c.Unsqueeze(index, behind), c.DimsOf(source));
  Operand y = Scattered(c, x, axis, index, source, Reduction(c.Text("reduce", "mean")), c.Bool("include_self", true));
  return {is_scalar ? c.Scalar(y) : y};
}

// take and put: elements of the flattened tensor.
Operands TakeFlat(NodeContext& c) {
  Operand x = c.Reshape(c.In("self"), {importing::Product(c.DimsOf(c.In("self")))});
  return {c.Op("take", {x, AlongAxis(c, x, c.Cast(c.In("index"), kInt64), 0)}, {{"axis", 0}})};
}

Operands PutFlat(NodeContext& c) {
  Operand self = c.In("self"), index = c.Cast(c.In("index"), kInt64), source = c.Cast(c.In("source"), c.DTypeOf(self));
  auto flat = [&](Operand x) { return c.Reshape(x, {importing::Product(c.DimsOf(x))}); };
  Operand x = flat(self);
  Operand y = c.Op("scatter_elements", {x, AlongAxis(c, x, flat(index), 0), flat(source)},
                   {{"axis", 0}, {"reduction", c.Bool("accumulate", false) ? "add" : "update"}});
  return {c.failed() ? nullptr : c.Reshape(y, c.DimsOf(self))};
}

// Fills an axis at the positions of a vector of indices.
Operands IndexFill(NodeContext& c) {
  Operand x = c.In("self"), value = c.Cast(c.Scalar(c.In("value")), c.DTypeOf(x));
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  if (c.failed()) return {};
  Operand index = AlongAxis(c, x, c.Cast(c.In("index"), kInt64), axis);
  Operand none = c.BroadcastTo(c.emit().Integer(0, kInt32), {c.ExtentOf(x, axis)});
  Operand one = c.BroadcastTo(c.emit().Integer(1, kInt32), c.DimsOf(index));
  Operand hit = c.Cast(c.Op("scatter_elements", {none, index, one}, {{"axis", 0}}), kBool);
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < c.RankOf(x) - axis; ++i) behind.push_back(i);
  return {c.Where(c.Unsqueeze(hit, behind), value, x)};
}

// index_add and index_copy: slices along an axis.
Operands IndexUpdate(NodeContext& c) {
  Operand x = c.In("self"), source = c.Cast(c.In("source"), c.DTypeOf(x));
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("dim", 0), rank);
  if (c.failed() || c.RankOf(source) != rank) return {c.failed() ? nullptr : c.Unsupported("a source of another rank")};
  Operand index = c.Unsqueeze(AlongAxis(c, x, c.Cast(c.In("index"), kInt64), axis), {0});
  double alpha = c.Float("alpha", 1);
  if (alpha != 1) source = c.Mul(source, c.Number(alpha, source));
  std::vector<int64_t> order = {axis};
  for (int64_t i = 0; i < rank; ++i) {
    if (i != axis) order.push_back(i);
  }
  Operand written = c.Op("scatter_nd", {c.Transpose(x, order), index, c.Transpose(source, order)},
                         {{"mode", std::string(c.row().variant)}});
  return {c.failed() ? nullptr : c.Transpose(written, Inverse(order))};
}

Operands Nonzero(NodeContext& c) { return {c.Cast(c.Op("argwhere", {c.In("self")}), kInt64)}; }

// Returns the elements where the mask is true, as a vector.
Operands MaskedSelect(NodeContext& c) {
  Term x(c, c.In("self")), mask(c, c.Cast(c.In("mask"), kBool));
  if (c.failed()) return {};
  Operand values = Select(mask, x, x), is_set = c.BroadcastTo(mask, c.DimsOf(values));
  auto flat = [&](Operand y) { return c.Reshape(y, {importing::Product(c.DimsOf(y))}); };
  Operand places = c.Squeeze(c.Cast(c.Op("argwhere", {flat(is_set)}), kInt64), {1});
  return {c.Op("take", {flat(values), places}, {{"axis", 0}})};
}

// `source` written or added to zeros of the shape `space` at `places`, which count within the last axes of each image.
Operand Unpooled(NodeContext& c, Operand source, Operand places, const Dims& space, const char* how) {
  const Dims dims = c.DimsOf(source);
  if (c.failed() || dims.size() < space.size()) return c.failed() ? nullptr : c.Fail("its input has too few axes");
  Dims whole(dims.begin(), dims.end() - static_cast<ptrdiff_t>(space.size())), flat = whole, from = whole;
  flat.push_back(importing::Product(space));
  from.push_back(importing::Product(std::span(dims).subspan(whole.size())));
  whole.insert(whole.end(), space.begin(), space.end());
  Operand zeros = c.BroadcastTo(c.Number(0, source), flat);
  Operand y = c.Op("scatter_elements", {zeros, c.Reshape(c.Cast(places, kInt64), from), c.Reshape(source, from)},
                   {{"axis", static_cast<int64_t>(flat.size()) - 1}, {"reduction", how}});
  return c.failed() ? nullptr : c.Reshape(y, whole);
}

Operands MaxUnpool(NodeContext& c) {
  std::optional<Dims> space = c.Extents("output_size");
  if (!space) return {c.Unsupported("extents that only the running model knows")};
  return {Unpooled(c, c.In("self"), c.In("indices"), *space, "update")};
}

// Returns the gradient of a max_pool with indices: of overlapping windows the sum.
Operands MaxPoolGradient(NodeContext& c) {
  const Dims dims = c.DimsOf(c.In("self"));
  size_t axes = c.row().name.find("3d") == std::string_view::npos ? 2 : 3;
  if (c.failed() || dims.size() < axes) return {c.failed() ? nullptr : c.Fail("its input has too few axes")};
  return {Unpooled(c, c.In("grad_output"), c.In("indices"), Dims(dims.end() - static_cast<ptrdiff_t>(axes), dims.end()),
                   "add")};
}

// `src` written to a diagonal of the matrices of two axes.
Operands DiagonalScatter(NodeContext& c) {
  Operand x = c.In("self"), source = c.Cast(c.In("src"), c.DTypeOf(x));
  int64_t rank = c.RankOf(x), first = c.Axis(c.Int("dim1", 0), rank), second = c.Axis(c.Int("dim2", 1), rank);
  int64_t offset = c.Int("offset", 0);
  if (c.failed() || rank < 2) return {c.failed() ? nullptr : c.Fail("its input is no matrix")};
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != first && i != second) order.push_back(i);
  }
  order.push_back(first);
  order.push_back(second);
  Operand matrices = c.Transpose(x, order);
  Operand rows = c.Iota(c.ExtentOf(matrices, -2)), columns = c.Iota(c.ExtentOf(matrices, -1));
  Operand hit = c.Op("equal", {c.Unsqueeze(c.Add(rows, c.Integer(offset)), {1}), columns});
  // The element of the diagonal for each row, or each column where there are rows above it.
  Operand last = c.Sub(c.emit().FromDim(c.ExtentOf(source, -1)), c.Integer(1));
  Operand places = c.Op("minimum", {offset < 0 ? columns : rows, c.Op("maximum", {last, c.Integer(0)})});
  if (c.failed() || c.ExtentOf(source, -1) == Dim(0)) return {x};
  Operand lines = c.Unsqueeze(c.Op("take", {source, places}, {{"axis", rank - 2}}), {offset < 0 ? rank - 2 : rank - 1});
  return {c.failed() ? nullptr : c.Transpose(c.Where(hit, lines, matrices), Inverse(order))};
}

constexpr OperatorRow kRows[] = {
    {"embedding", Embedding},
    {"gather", Gather},
    {"index", Index},
    {"index_add", IndexUpdate, "add"},
    {"index_copy", IndexUpdate, "update"},
    {"index_fill", IndexFill},
    {"index_put", IndexPut},
    {"index_reduce", IndexReduce},
    {"put", PutFlat},
    {"take", TakeFlat},
    {"index_select", IndexSelect},
    {"nonzero", Nonzero},
    {"argwhere", Nonzero},
    {"diagonal_scatter", DiagonalScatter},
    {"masked_select", MaskedSelect},
    {"max_pool2d_with_indices_backward", MaxPoolGradient},
    {"max_pool3d_with_indices_backward", MaxPoolGradient},
    {"max_unpool2d", MaxUnpool},
    {"max_unpool3d", MaxUnpool},
    {"scatter", Scatter},
    {"scatter_add", Scatter, "add"},
    {"scatter_reduce", Scatter},
    {"take_along_dim", Gather},
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::torch::convert
