// Elements picked by index, and written there.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"
#include "compiler/import/term.h"

namespace rvm::stablehlo {
namespace {

using importing::Term;
using Axes = std::vector<int64_t>;

bool Contains(const Axes& axes, int64_t axis) { return std::ranges::find(axes, axis) != axes.end(); }
size_t PlaceOf(const Axes& axes, int64_t axis) {
  return static_cast<size_t>(std::ranges::find(axes, axis) - axes.begin());
}

// How a gather or a scatter refers to the axes of its operand, under one name for both.
struct Indexing {
  Axes windows;              // axes of the result, or of the updates, that run through windows of the operand
  Axes dropped;              // axes of the operand in which windows have extent 1, which are no axes of the result
  Axes batch;                // axes of the operand that run with those of the indices
  Axes batch_indices;        // the latter
  Axes mapped;               // the axis of the operand that each number of an index tuple is for
  int64_t vector = 0;        // the axis of the indices along which tuples lie
  Dims sizes;                // extents of windows, for each axis of the operand
  bool moves_inside = true;  // windows that leave the operand are moved inside; else they are left out
};

// Everything about one gather or scatter, for an operand whose axes are all named.
class Indexed {
 public:
  Indexed(NodeContext& c, Operand x, Operand indices, Indexing indexing)
      : c_(c), x_(x), indexing_(std::move(indexing)), rank_(c.RankOf(x)) {
    indices_ = c.Cast(indices, kInt64);
    if (!Check()) return;
    Order();
    FindAxes();
  }

  // Returns the operand with its axes that have an index first.
  Operand OrderedOperand() { return c_.Transpose(x_, Joined(with_index_, whole_)); }
  // Undoes that.
  Operand Restored(Operand ordered) {
    const Axes order = Joined(with_index_, whole_);
    Axes inverse(order.size());
    for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
    return c_.Transpose(ordered, inverse);
  }
  bool has_index() const { return !with_index_.empty(); }

  // Returns an index for each axis that has one, with the axes of the indices and then those of windows. Windows that
  // are left out have the index -1.
  Operands Places() {
    Operands places;
    for (int64_t axis : with_index_) places.push_back(PlaceAlong(axis));
    if (inside_ == nullptr || places.empty()) return places;
    places[0] = c_.Where(inside_, places[0], c_.Integer(-1));
    return places;
  }

  // Returns the extents that places broadcast to.
  Dims PlaceDims() {
    Dims dims;
    for (int64_t i = 0; i + 1 < c_.RankOf(indices_); ++i) dims.push_back(c_.ExtentOf(indices_, i));
    for (int64_t axis : sliding_) dims.push_back(SizeOf(axis));
    return dims;
  }

  // Returns the axes of the result, or of the updates, in the order of places and then of the axes without an index.
  Axes OuterOrder(int64_t outer_rank) {
    Axes order;
    for (int64_t i = 0; i < outer_rank; ++i) {
      if (!Contains(indexing_.windows, i)) order.push_back(i);
    }
    for (const Axes& axes : {sliding_, whole_}) {
      for (int64_t axis : axes) order.push_back(indexing_.windows[PlaceOf(window_axes_, axis)]);
    }
    return order;
  }
  // Returns the one axis with an index, where index tuples have one number and windows are whole otherwise; nullopt
  // else.
  std::optional<int64_t> OnlyAxis() const {
    const bool is_one = with_index_.size() == 1 && sliding_.empty() && Contains(indexing_.mapped, with_index_[0]);
    return is_one ? std::optional(with_index_[0]) : std::nullopt;
  }

 private:
  static Axes Joined(Axes a, const Axes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }
  Dim SizeOf(int64_t axis) const { return indexing_.sizes[static_cast<size_t>(axis)]; }

  bool Check() {
    const Indexing& v = indexing_;
    const int64_t rank = c_.RankOf(indices_);
    const auto are_axes = [](const Axes& axes, int64_t count) {
      return std::ranges::all_of(axes, [&](int64_t axis) { return axis >= 0 && axis < count; });
    };
    const bool fits = are_axes(v.dropped, rank_) && are_axes(v.batch, rank_) && are_axes(v.mapped, rank_) &&
                      are_axes(v.batch_indices, rank) && v.vector >= 0 && v.vector <= rank &&
                      v.batch.size() == v.batch_indices.size() && !Contains(v.batch_indices, v.vector) &&
                      static_cast<int64_t>(v.sizes.size()) == rank_;
    for (int64_t axis = 0; axis < rank_; ++axis) {
      if (!Contains(v.dropped, axis) && !Contains(v.batch, axis)) window_axes_.push_back(axis);
    }
    if (fits && window_axes_.size() == v.windows.size()) return true;
    c_.Fail("its numbers of axes do not fit its operands");
    return false;
  }

  // Lets index tuples lie along the last axis.
  void Order() {
    const int64_t rank = c_.RankOf(indices_);
    if (indexing_.vector == rank) {
      indices_ = c_.Unsqueeze(indices_, {rank});
    } else {
      Axes order;
      for (int64_t i = 0; i < rank; ++i) {
        if (i != indexing_.vector) order.push_back(i);
      }
      order.push_back(indexing_.vector);
      indices_ = c_.Transpose(indices_, order);
    }
    for (int64_t& axis : indexing_.batch_indices) axis -= axis > indexing_.vector ? 1 : 0;
    const Dim length = c_.ExtentOf(indices_, -1);
    if (length != Dim(static_cast<int64_t>(indexing_.mapped.size())) && !c_.failed()) {
      c_.Fail(
          absl::StrCat("its index tuples have the length ", length.ToString(), "; expected ", indexing_.mapped.size()));
    }
  }

  void FindAxes() {
    for (int64_t axis = 0; axis < rank_; ++axis) {
      const bool is_window = Contains(window_axes_, axis);
      const bool is_whole = is_window && CompareDims(SizeOf(axis), c_.ExtentOf(x_, axis)) == DimEquality::kEqual;
      // A window as wide as its axis lies at its beginning, if it is moved inside.
      if (is_whole && (indexing_.moves_inside || !Contains(indexing_.mapped, axis))) {
        whole_.push_back(axis);
        continue;
      }
      with_index_.push_back(axis);
      if (is_window) sliding_.push_back(axis);
    }
  }

  // `x`, whose axes are given, among those of places.
  Operand Around(Operand x, const Axes& axes) {
    Dims dims(static_cast<size_t>(c_.RankOf(indices_) - 1) + sliding_.size(), Dim(1));
    for (size_t i = 0; i < axes.size(); ++i)
      dims[static_cast<size_t>(axes[i])] = c_.ExtentOf(x, static_cast<int64_t>(i));
    return c_.Reshape(x, dims);
  }

  // Returns the index of the first elements of windows.
  Operand Begin(int64_t axis) {
    const int64_t outer = c_.RankOf(indices_) - 1, number = static_cast<int64_t>(PlaceOf(indexing_.mapped, axis));
    Axes axes;
    for (int64_t i = 0; i < outer; ++i) axes.push_back(i);
    const Term begin(c_, Around(c_.Squeeze(c_.SliceAxis(indices_, outer, number, number + 1), {outer}), axes));
    const Term last(c_, c_.emit().FromDim(c_.ExtentOf(x_, axis) - SizeOf(axis)));
    if (indexing_.moves_inside) return Min(Max(begin, begin.Like(0)), last);
    // Tuples that lie outside need no test: nothing is written there.
    if (sliding_.empty()) return begin;
    const Term fits = And(begin >= 0.0, begin <= last);
    inside_ = inside_ == nullptr ? fits.operand() : c_.Op("logical_and", {inside_, fits});
    return begin;
  }

  Operand PlaceAlong(int64_t axis) {
    const int64_t outer = c_.RankOf(indices_) - 1;
    Operand place = Contains(indexing_.mapped, axis) ? Begin(axis) : nullptr;
    if (Contains(indexing_.batch, axis)) {
      const int64_t of_indices = indexing_.batch_indices[PlaceOf(indexing_.batch, axis)];
      place = Around(c_.Iota(c_.ExtentOf(indices_, of_indices)), {of_indices});
    }
    if (Contains(sliding_, axis)) {
      const int64_t here = outer + static_cast<int64_t>(PlaceOf(sliding_, axis));
      Operand steps = Around(c_.Iota(SizeOf(axis)), {here});
      place = place == nullptr ? steps : c_.Add(place, steps);
    }
    return place == nullptr ? Around(c_.Reshape(c_.Integer(0), {}), {}) : place;
  }

  NodeContext& c_;
  Operand x_, indices_;
  Indexing indexing_;
  int64_t rank_;
  Axes window_axes_;          // of the operand, in order: those of `indexing_.windows`
  Axes with_index_, whole_;   // axes of the operand: those that have an index, and those that are taken whole
  Axes sliding_;              // those of with_index_ in which windows have an extent
  Operand inside_ = nullptr;  // whether windows lie inside of the operand; null: all that matter do
};

Axes Inverse(const Axes& order) {
  Axes inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

bool IsPermutation(Axes order) {
  std::ranges::sort(order);
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// ---- gather

// Refuses a size that the axis cannot have.
void CheckSize(NodeContext& c, const Dim& size, const Dim& extent) {
  if (!size.is_const()) return;
  bool is_larger = extent.is_const() && size.constant() > extent.constant();
  if (size.constant() < 0 || is_larger) c.Fail("a slice is larger than its operand");
}

Operands GatherOf(NodeContext& c, const Dims& sizes) {
  Indexing indexing{.windows = c.Ints("offset_dims"),
                    .dropped = c.Ints("collapsed_slice_dims"),
                    .batch = c.Ints("operand_batching_dims"),
                    .batch_indices = c.Ints("start_indices_batching_dims"),
                    .mapped = c.Ints("start_index_map"),
                    .vector = c.Int("index_vector_dim", 0),
                    .sizes = sizes};
  Operand x = c.In(0);
  if (c.failed() || sizes.size() != c.DimsOf(x).size()) return {c.Fail("its sizes do not fit its operand")};
  // Windows that are narrower than an axis without an index lie at its beginning.
  for (int64_t axis = 0; axis < c.RankOf(x); ++axis) {
    CheckSize(c, sizes[static_cast<size_t>(axis)], c.ExtentOf(x, axis));
    const bool has_index = Contains(indexing.mapped, axis) || Contains(indexing.batch, axis);
    if (!has_index) x = c.SliceAxis(x, axis, 0, sizes[static_cast<size_t>(axis)]);
  }
  Indexed indexed(c, x, c.In(1), indexing);
  if (c.failed()) return {};
  const auto rank = static_cast<int64_t>(c.ResultDims().size());
  const Axes order = indexed.OuterOrder(rank);
  if (!IsPermutation(order) || static_cast<int64_t>(order.size()) != rank)
    return {c.Fail("its axes do not fit its result")};
  Operand ordered = indexed.OrderedOperand();
  const Dims places = indexed.PlaceDims();
  Operand y = nullptr;
  if (!indexed.has_index()) {
    Dims dims = places;
    const Dims& rest = c.DimsOf(ordered);
    dims.insert(dims.end(), rest.begin(), rest.end());
    y = c.BroadcastTo(ordered, dims);
  } else if (indexed.OnlyAxis()) {
    y = c.Op("take", {ordered, indexed.Places()[0]}, {{"axis", 0}});
  } else {
    Operands fields = indexed.Places();
    if (c.failed()) return {};
    fields[0] = c.BroadcastTo(fields[0], places);
    fields.insert(fields.begin(), ordered);
    y = c.Op("adv_index", {c.emit().Tuple(fields)});
  }
  return {c.failed() ? nullptr : c.Transpose(y, Inverse(order))};
}

Operands Gather(NodeContext& c) {
  Dims sizes;
  for (int64_t size : c.Ints("slice_sizes")) sizes.emplace_back(size);
  return c.failed() ? Operands() : GatherOf(c, sizes);
}

Operands DynamicGather(NodeContext& c) {
  Operand given = c.In(2);
  const std::optional<Dims> sizes = c.failed() ? std::nullopt : c.Symbols(given);
  if (!sizes) return {c.Unsupported("its sizes are computed from values")};
  return GatherOf(c, *sizes);
}

// ---- scatter

// Returns the mode of `scatter_nd` for a body on elements of this type; "" if it has none.
std::string_view ScatterMode(std::string_view operation, DataType dtype) {
  if (operation == "update" || operation == "add") return operation;
  if (operation == "multiply") return "mul";
  if (operation == "minimum" || (operation == "and" && dtype.is_bool())) return "min";
  if (operation == "maximum" || (operation == "or" && dtype.is_bool())) return "max";
  return "";
}

// Returns x, whose axes are ordered, with the updates combined into it at the indices.
Operand Write(NodeContext& c, Indexed& indexed, Operand x, Operand updates, std::string_view operation) {
  const DataType dtype = c.DTypeOf(x);
  const Dims dims = indexed.PlaceDims();
  Operands places = indexed.Places();
  if (c.failed()) return c.emit().Placeholder();
  for (Operand& place : places) place = c.BroadcastTo(place, dims);
  Operand tuples = c.Op("stack", {c.emit().Tuple(places)}, {{"axis", 0}});
  const std::string_view mode = ScatterMode(operation, dtype);
  if (!mode.empty()) {
    // Sums of bools are disjunctions.
    const bool folds_bools = dtype.is_bool() && mode != "update";
    const std::string_view of_bools = operation == "add" ? "max" : operation == "multiply" ? "min" : mode;
    Operand data = folds_bools ? c.Cast(x, kUInt8) : x, given = folds_bools ? c.Cast(updates, kUInt8) : updates;
    Operand y = c.Op("scatter_nd", {data, tuples, given}, {{"mode", std::string(folds_bools ? of_bools : mode)}});
    return folds_bools ? c.Op("not_equal", {y, c.Number(0, y)}) : y;
  }
  if (c.Int("unique_indices", 0) == 0) {
    return c.Unsupported(
        "a body that neither replaces, adds, multiplies nor takes the lesser or greater, at indices that "
        "may be equal");
  }
  // No element is written twice: it can be read, changed and written.
  Operand old = c.Op("gather_nd", {x, tuples});
  const Operands changed = c.OnTensors(0, {old, updates});
  if (c.failed() || changed.size() != 1) return c.emit().Placeholder();
  return c.Op("scatter_nd", {x, tuples, c.BroadcastTo(changed[0], c.DimsOf(updates))}, {{"mode", "update"}});
}

Operands Scatter(NodeContext& c) {
  if (c.num_inputs() != 3) return {c.Unsupported("a scatter into several tensors")};
  Indexing indexing{.windows = c.Ints("update_window_dims"),
                    .dropped = c.Ints("inserted_window_dims"),
                    .batch = c.Ints("input_batching_dims"),
                    .batch_indices = c.Ints("scatter_indices_batching_dims"),
                    .mapped = c.Ints("scatter_dims_to_operand_dims"),
                    .vector = c.Int("index_vector_dim", 0),
                    .moves_inside = false};
  Operand x = c.In(0), updates = c.In(2);
  if (c.failed() || c.num_regions() != 1) return {c.Fail("it has no body")};
  size_t next = 0;
  for (int64_t axis = 0; axis < c.RankOf(x); ++axis) {
    const bool is_window = !Contains(indexing.dropped, axis) && !Contains(indexing.batch, axis);
    if (is_window && next >= indexing.windows.size()) return {c.Fail("its numbers of axes do not fit its operands")};
    indexing.sizes.push_back(is_window ? c.ExtentOf(updates, indexing.windows[next++]) : Dim(1));
  }
  const std::string_view operation = SingleOperation(c.op().regions[0]);
  Indexed indexed(c, x, c.In(1), indexing);
  if (c.failed()) return {};
  const Axes order = indexed.OuterOrder(c.RankOf(updates));
  if (!IsPermutation(order) || static_cast<int64_t>(order.size()) != c.RankOf(updates)) {
    return {c.Fail("its axes do not fit its updates")};
  }
  updates = c.Transpose(updates, order);
  if (indexed.has_index()) return {indexed.Restored(Write(c, indexed, indexed.OrderedOperand(), updates, operation))};
  // The updates have the shape of the operand: those of all index tuples in turn.
  for (const Dim& dim : indexed.PlaceDims()) {
    if (dim != Dim(1)) return {c.Unsupported("several updates of the whole operand")};
  }
  updates = indexed.Restored(c.Reshape(updates, c.DimsOf(indexed.OrderedOperand())));
  return operation == "update" ? Operands{updates} : c.OnTensors(0, {x, updates});
}

// ---- slices at computed places

// Returns the first index along each axis, moved so that the slice lies inside; nullptr where the slice has the whole
// axis.
Operands Begins(NodeContext& c, Operand x, const Dims& sizes, size_t first) {
  Operands begins;
  for (int64_t axis = 0; axis < c.RankOf(x); ++axis) {
    const Dim extent = c.ExtentOf(x, axis), size = sizes[static_cast<size_t>(axis)];
    const bool is_whole = CompareDims(extent, size) == DimEquality::kEqual;
    const Term begin(c, c.Cast(c.In(first + static_cast<size_t>(axis)), kInt64));
    begins.push_back(is_whole || c.failed()
                         ? nullptr
                         : Min(Max(begin, begin.Like(0)), Term(c, c.emit().FromDim(extent - size))).operand());
  }
  return begins;
}

Operands DynamicSlice(NodeContext& c) {
  Operand x = c.In(0);
  Dims sizes;
  for (int64_t size : c.Ints("slice_sizes")) sizes.emplace_back(size);
  if (c.failed()) return {};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (sizes.size() != rank || c.num_inputs() != rank + 1) return {c.Fail("it does not fit its operand")};
  const Operands begins = Begins(c, x, sizes, 1);
  if (c.failed()) return {};
  Axes moving;
  Operands from;
  for (size_t i = 0; i < rank; ++i) {
    if (begins[i] == nullptr) continue;
    if (begins[i]->constant) {
      const int64_t begin = begins[i]->constant->IntAt(0);
      x = c.SliceAxis(x, static_cast<int64_t>(i), begin, sizes[i] + begin);
      continue;
    }
    moving.push_back(static_cast<int64_t>(i));
    from.push_back(begins[i]);
  }
  if (moving.empty()) return {x};
  Dims dims = c.DimsOf(x);
  Dims extents;
  for (int64_t axis : moving) {
    extents.push_back(sizes[static_cast<size_t>(axis)]);
    dims[static_cast<size_t>(axis)] = extents.back();
  }
  if (moving.size() == 1 && extents[0] == Dim(1)) {
    return {c.Unsqueeze(c.Op("take", {x, from[0]}, {{"axis", moving[0]}}), {moving[0]})};
  }
  Operand begin = c.Op("stack", {c.emit().Tuple(from)}, {{"axis", 0}});
  Operand end = c.Add(begin, c.emit().FromDims(extents));
  Operand ones = c.emit().Vector(Axes(moving.size(), 1));
  if (c.failed()) return {};
  return {c.emit().OpAs(dims, "dyn.strided_slice", {x, begin, end, ones}, {{"axes", ir::IntList(moving)}})};
}

Operands DynamicUpdateSlice(NodeContext& c) {
  Operand x = c.In(0), update = c.In(1);
  if (c.failed()) return {};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (c.DimsOf(update).size() != rank || c.num_inputs() != rank + 2) return {c.Fail("it does not fit its operand")};
  const Dims sizes = c.DimsOf(update);
  Operands begins = Begins(c, x, sizes, 2);
  const bool is_whole = std::ranges::all_of(begins, [](Operand begin) { return begin == nullptr; });
  if (is_whole || c.failed()) return {update};
  for (Operand& begin : begins) begin = begin == nullptr ? c.Integer(0) : begin;
  Operand begin = c.Op("stack", {c.emit().Tuple(begins)}, {{"axis", 0}});
  Operand ones = c.emit().Vector(Axes(rank, 1));
  return {c.Op("strided_set", {x, update, begin, c.Add(begin, c.emit().FromDims(sizes)), ones})};
}

constexpr OperatorRow kRows[] = {
    {"dynamic_gather", DynamicGather},
    {"dynamic_slice", DynamicSlice},
    {"dynamic_update_slice", DynamicUpdateSlice},
    {"gather", Gather},
    {"scatter", Scatter},
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::stablehlo
