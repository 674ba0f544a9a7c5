// Operators that write at computed places.
//
// Updates are sorted by the row of data that they are for: then each row finds its own ones side by side.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/ordering.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kScattered[] = {
    {"data", "a tensor"}, {"indices", "an integer tensor"}, {"updates", "what is written at the indices"}};
constexpr Input kScatteredElements[] = {
    kScattered[0],
    kScattered[1],
    {"updates", "what is written at the indices; those beyond the extents of the indices are not read"}};
constexpr Input kSparse[] = {{"sparse_indices", "an integer scalar, vector, or matrix of a row per place"},
                             {"sparse_values", "what is written: one for all, or one each"},
                             {"default_value", "a scalar, or a vector of one element, what stands elsewhere"}};
constexpr Input kDynamicSparse[] = {
    kSparse[0],
    kSparse[1],
    kSparse[2],
    {.name = "output_shape", .doc = "an integer vector, the shape of the result", .decides_shape = true}};
constexpr AttrSpec kScatterAttrs[] = {
    {"axis", AttrType::kInt, "0", "the axis indexed"},
    {"reduction", AttrType::kString, "\"update\"",
     "\"update\", \"add\", \"mul\", \"mean\" (of integers rounded down), \"min\" or \"max\""}};
constexpr AttrSpec kScatterNdAttrs[] = {
    {"mode", AttrType::kString, "\"update\"", "\"update\", \"add\", \"mul\", \"min\" or \"max\""}};
constexpr AttrSpec kSparseAttrs[] = {{"output_shape", AttrType::kInts, "", "the shape of the result"}};
constexpr AttrSpec kDynamicSparseAttrs[] = {
    {"output_shape", AttrType::kAny, "None", "unused, for compatibility", true}};

bool IsReduction(std::string_view name, bool with_mean) {
  return name == "update" || name == "add" || name == "mul" || name == "min" || name == "max" ||
         (with_mean && name == "mean");
}

// Updates and their destinations. Data is rows of elements, in independent lanes.
struct Updates {
  Dims lanes;                                                 // as many as the updates have
  Dim rows;                                                   // in a lane
  Dim count;                                                  // updates in a lane
  Dims rest;                                                  // elements in a row
  std::function<Expr(Indices lane, const Expr& update)> row;  // not in [0, rows): none
  std::function<Expr(Indices lane, const Expr& update, Indices rest)> value;
};

// Updates in the order of their rows; those of one row keep their order.
class SortedUpdates {
 public:
  explicit SortedUpdates(const Updates& updates);

  // Begin and end of the updates of a row.
  Expr Begin(Indices lane, const Expr& row) const {
    return te::Select(Equal(row, te::Index(0)), te::Index(0), end_(Join(lane, row - te::Index(1))));
  }
  Expr End(Indices lane, const Expr& row) const { return end_(Join(lane, row)); }
  Expr Value(Indices lane, const Expr& at, Indices rest) const {
    return updates_.value(lane, order_.PlaceAt(Join(lane, at)), rest);
  }
  // At each update the fold of those of its row up to it; (lanes..., count, rest...).
  Tensor Folded(BinaryOp op, DataType dtype) const;

 private:
  static std::vector<Expr> Join(Indices lane, const Expr& last) {
    std::vector<Expr> at(lane.begin(), lane.end());
    at.push_back(last);
    return at;
  }
  static Dims Join(const Dims& lanes, const Dim& last) {
    Dims dims = lanes;
    dims.push_back(last);
    return dims;
  }
  Expr RowOf(Indices lane, const Expr& at) const { return order_.KeyAt(Join(lane, at)); }

  const Updates& updates_;
  Order order_;
  Tensor end_;  // of each row
};

SortedUpdates::SortedUpdates(const Updates& updates)
    : updates_(updates), order_(Join(updates.lanes, updates.count), updates.lanes.size(), [&](Indices i) {
        Expr row = updates.row(i.first(i.size() - 1), i.back());
        return te::Select(InRange(row, updates.rows), row, te::Index(std::numeric_limits<int64_t>::max()));
      }) {
  size_t axis = updates.lanes.size();
  Expr count = te::DimValue(updates.count), one = te::Index(1);
  // Ends of the rows of updates, from the last update to the first.
  Tensor ends = Running(Join(updates.lanes, updates.count), axis, count, [&](Indices i, const Expr& before) {
    Indices lane = i.first(axis);
    Expr at = count - one - i[axis];
    Expr same = te::Select(Equal(RowOf(lane, at), RowOf(lane, at + one)), before, at + one);
    return te::Select(Equal(i[axis], te::Index(0)), before, same);
  });
  end_ = Running(Join(updates.lanes, updates.rows), axis, te::Index(0), [&](Indices i, const Expr& before) {
    Indices lane = i.first(axis);
    Expr end = ends(Join(lane, count - one - before));
    return te::Select(Less(before, count), te::Select(Equal(RowOf(lane, before), i[axis]), end, before), before);
  });
}

Tensor SortedUpdates::Folded(BinaryOp op, DataType dtype) const {
  size_t axis = updates_.lanes.size();
  Dims dims = Join(updates_.lanes, updates_.count);
  dims.insert(dims.end(), updates_.rest.begin(), updates_.rest.end());
  return Running(dims, axis, te::Const(dtype, 0), [&](Indices i, const Expr& before) {
    Indices lane = i.first(axis);
    Expr value = te::Cast(dtype, Value(lane, i[axis], i.subspan(axis + 1)));
    Expr same = Equal(RowOf(lane, i[axis]), RowOf(lane, i[axis] - te::Index(1)));
    Expr folded = te::Select(same, te::Binary(op, before, value), value);
    return te::Select(Equal(i[axis], te::Index(0)), value, folded);
  });
}

// Position of an element of data among `Updates`.
struct Place {
  std::vector<Expr> lane;
  Expr row;
  std::vector<Expr> rest;
  Expr has_lane;  // whether updates have that lane; null: always
};

Tensor Scatter(const std::string& mode, const Tensor& data, const Updates& updates,
               const std::function<Place(Indices out)>& place_of) {
  SortedUpdates sorted(updates);
  bool is_sum = mode == "add" || mode == "mean";
  BinaryOp op = is_sum ? BinaryOp::kAdd : mode == "mul" ? BinaryOp::kMultiply : BinaryOp::kMinimum;
  if (mode == "max") op = BinaryOp::kMaximum;
  DataType wide = Accumulator(data.dtype());
  Tensor folded = mode == "update" ? Tensor() : sorted.Folded(op, wide);
  return te::ComputeTensor("scatter", data.dtype(), data.dims(), [&](Indices o) {
    Place place = place_of(o);
    Expr begin = sorted.Begin(place.lane, place.row), end = sorted.End(place.lane, place.row);
    Expr last = end - te::Index(1), value;
    if (mode == "update") {  // of several the last one stays
      value = sorted.Value(place.lane, last, place.rest);
    } else {
      std::vector<Expr> at = place.lane;
      at.push_back(last);
      at.insert(at.end(), place.rest.begin(), place.rest.end());
      value = te::Binary(op, te::Cast(wide, data(o)), folded(at));
      if (mode == "mean") {
        // That of integers is rounded down. Their number may be beyond a small dtype.
        DataType divided = wide.is_integral() && wide.bits < 64 ? kInt64 : wide;
        value = te::Binary(wide.is_integral() ? BinaryOp::kFloorDivide : BinaryOp::kDivide, te::Cast(divided, value),
                           te::Cast(divided, end - begin + te::Index(1)));
      }
      value = te::Cast(data.dtype(), value);
    }
    value = te::Select(Less(begin, end), value, data(o));
    return place.has_lane ? te::Select(place.has_lane, value, data(o)) : value;
  });
}

// Returns whether the updates can be folded in one after the other: not those of a mean, and not sums that are rounded
// once.
bool FoldsInPlace(std::string_view mode, DataType dtype) {
  if (mode == "mean" || dtype.is_bool()) return mode == "update";
  return mode == "update" || mode == "min" || mode == "max" || !dtype.is_small_float();
}

// `scattered`, as data in which each update has its place. Of several for one place the last one stays.
Tensor ScatterInPlace(const Tensor& scattered, const Tensor& data, std::string_view mode, const Dims& extents,
                      const std::function<te::TensorUpdate::Position(Indices)>& position) {
  if (data.rank() == 0 || !FoldsInPlace(mode, data.dtype())) return scattered;
  te::TensorUpdate update{.base = data, .has_distinct_places = false, .estimate = Volume(extents)};
  if (mode != "update") {
    update.fold = mode == "add"   ? BinaryOp::kAdd
                  : mode == "mul" ? BinaryOp::kMultiply
                  : mode == "min" ? BinaryOp::kMinimum
                                  : BinaryOp::kMaximum;
  }
  return te::WithUpdate(scattered, update, extents, position);
}

Solve ScatterElementsRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims, &updates = args[2]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `data`");
  if (indices.size() != data.size()) return FailRank(context, 1, indices.size(), "that of `data`");
  if (updates.size() != data.size()) return FailRank(context, 2, updates.size(), "that of `data`");
  if (!NormalAxis(context, context.attrs().GetInt("axis"), static_cast<int64_t>(data.size()))) return Solve::kFailed;
  if (!IsReduction(context.attrs().GetString("reduction"), true)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`reduction` is \"", context.attrs().GetString("reduction"),
                                     "\"; expected update, add, mul, mean, min or max"));
  }
  for (size_t i = 0; i < data.size(); ++i) {
    if (!context.RequireAtLeast(updates[i], indices[i], "`scatter_elements`: extents of updates and indices"))
      return Solve::kFailed;
  }
  return ResultTensor(context, data, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeScatterElements(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  size_t axis = Normal(context.attrs().GetInt("axis"), data.rank());
  auto with_axis = [&](Indices lane, const Expr& update) {
    std::vector<Expr> at(lane.begin(), lane.end());
    at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), update);
    return at;
  };
  Updates all{.lanes = indices.dims(), .rows = data.dims()[axis], .count = indices.dims()[axis]};
  all.lanes.erase(all.lanes.begin() + static_cast<std::ptrdiff_t>(axis));
  all.row = [&](Indices lane, const Expr& update) { return FromEnd(indices, with_axis(lane, update), all.rows); };
  all.value = [&](Indices lane, const Expr& update, Indices) { return updates(with_axis(lane, update)); };
  // Beside the axis indices may be shorter than data.
  const std::string mode = context.attrs().GetString("reduction");
  Tensor scattered = Scatter(mode, data, all, [&](Indices o) {
    Place place{.row = o[axis]};
    for (size_t k = 0; k < o.size(); ++k) {
      if (k == axis) continue;
      place.lane.push_back(o[k]);
      Expr here = Less(o[k], te::DimValue(indices.dims()[k]));
      place.has_lane = place.has_lane ? And(place.has_lane, here) : here;
    }
    return place;
  });
  return {ScatterInPlace(scattered, data, mode, indices.dims(), [&](Indices u) {
    Expr row = FromEnd(indices, u, all.rows);
    te::TensorUpdate::Position position{
        .place = With(u, axis, row), .condition = InRange(row, all.rows), .value = updates(u)};
    for (size_t k = 0; k < u.size(); ++k) {
      const Dim &own = indices.dims()[k], &there = data.dims()[k];
      bool fits = k == axis || CompareDims(own, there) == DimEquality::kEqual ||
                  (own.is_const() && there.is_const() && own.constant() <= there.constant());
      if (!fits) position.condition = And(position.condition, Less(u[k], te::DimValue(there)));
    }
    return position;
  })};
}

// Returns the row of data of an index for each of its first axes; -1 if one is out of range.
Expr RowOf(const Dims& extents, const std::function<Expr(size_t axis)>& index) {
  Expr row = te::Index(0), inside;
  for (size_t k = 0; k < extents.size(); ++k) {
    Expr here = index(k);
    row = row * te::DimValue(extents[k]) + here;
    inside = inside ? And(inside, InRange(here, extents[k])) : InRange(here, extents[k]);
  }
  return inside ? te::Select(inside, row, te::Index(-1)) : row;
}

// Data whose first axes, of `extents`, are one.
Place PlaceOf(const Dims& extents, Indices o) {
  return {.row = FlatIndex(o.first(extents.size()), extents),
          .rest = std::vector<Expr>(o.begin() + static_cast<std::ptrdiff_t>(extents.size()), o.end())};
}

// indices (m, y...), updates (y..., rest of data).
Solve ScatterNdRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  const Dims &data = args[0]->shape.dims, &indices = args[1]->shape.dims, &updates = args[2]->shape.dims;
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (args[2]->dtype.dtype != args[0]->dtype.dtype)
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `data`");
  bool fits = !indices.empty() && indices[0].is_const() && indices[0].constant() >= 1 &&
              indices[0].constant() <= static_cast<int64_t>(data.size());
  if (!fits) {
    return context.Fail(DiagnosticKind::kShapeMismatch,
                        absl::StrCat("`indices` has shape ", DimsToString(indices),
                                     "; expected (m, ...) with m from 1 to ", data.size()),
                        1);
  }
  size_t m = static_cast<size_t>(indices[0].constant());
  Dims expected(indices.begin() + 1, indices.end());
  expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(m), data.end());
  if (updates.size() != expected.size()) return FailRank(context, 2, updates.size(), absl::StrCat(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!context.RequireEqual(expected[i], updates[i], "`scatter_nd`: extents of updates")) return Solve::kFailed;
  }
  if (!IsReduction(context.attrs().GetString("mode"), false)) {
    return context.Fail(DiagnosticKind::kBadAttribute, absl::StrCat("`mode` is \"", context.attrs().GetString("mode"),
                                                                    "\"; expected update, add, mul, min or max"));
  }
  return ResultTensor(context, data, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeScatterNd(const ComputeContext& context) {
  const Tensor &data = context.input(0), &indices = context.input(1), &updates = context.input(2);
  auto m = static_cast<std::ptrdiff_t>(indices.dims()[0].constant());
  Dims extents(data.dims().begin(), data.dims().begin() + m);
  Dims places(indices.dims().begin() + 1, indices.dims().end());
  Updates all{.rows = Volume(extents), .count = Volume(places)};
  all.rest = Dims(data.dims().begin() + m, data.dims().end());
  all.row = [&](Indices, const Expr& update) {
    std::vector<Expr> at = Unflatten(update, places);
    at.insert(at.begin(), Expr());
    return RowOf(extents, [&](size_t k) {
      at[0] = te::Index(static_cast<int64_t>(k));
      return FromEnd(indices, at, extents[k]);
    });
  };
  all.value = [&](Indices, const Expr& update, Indices rest) {
    std::vector<Expr> at = Unflatten(update, places);
    at.insert(at.end(), rest.begin(), rest.end());
    return updates(at);
  };
  const std::string mode = context.attrs().GetString("mode");
  Tensor scattered = Scatter(mode, data, all, [&](Indices o) { return PlaceOf(extents, o); });
  Dims written = places;
  written.insert(written.end(), all.rest.begin(), all.rest.end());
  return {ScatterInPlace(scattered, data, mode, written, [&](Indices u) {
    te::TensorUpdate::Position position{.value = updates(u)};
    std::vector<Expr> at(u.begin(), u.begin() + static_cast<std::ptrdiff_t>(places.size()));
    at.insert(at.begin(), Expr());
    for (size_t k = 0; k < extents.size(); ++k) {
      at[0] = te::Index(static_cast<int64_t>(k));
      Expr index = FromEnd(indices, at, extents[k]), inside = InRange(index, extents[k]);
      position.place.push_back(index);
      position.condition = position.condition ? And(position.condition, inside) : inside;
    }
    position.place.insert(position.place.end(), u.begin() + static_cast<std::ptrdiff_t>(places.size()), u.end());
    return position;
  })};
}

// ---- sparse ----------------------------------------------------------------------

// indices: one number, a vector of places, or a matrix (places, axes of the result); a value each, or one for all.
Solve Sparse(TypeContext& context, const Types& args, const Dims& out) {
  const Dims &indices = args[0]->shape.dims, &values = args[1]->shape.dims;
  if (!IsIndexType(args[0]->dtype.dtype)) return FailDType(context, 0, args[0]->dtype.dtype, "an integer dtype");
  if (!FitsAsDefault(args[2]->dtype.dtype, args[1]->dtype.dtype))
    return FailOtherDType(context, 2, args[2]->dtype.dtype, "that of `sparse_values`");
  if (indices.size() > 2) return FailRank(context, 0, indices.size(), "at most 2");
  if (values.size() > 1) return FailRank(context, 1, values.size(), "at most 1");
  if (args[2]->shape.dims.size() > 1) return FailRank(context, 2, args[2]->shape.dims.size(), "a scalar");
  if (!args[2]->shape.dims.empty() && !context.RequireEqual(args[2]->shape.dims[0], 1, "elements of `default_value`"))
    return Solve::kFailed;
  Dim places = indices.empty() ? Dim(1) : indices[0], axes = indices.size() == 2 ? indices[1] : Dim(1);
  if (!context.RequireEqual(axes, static_cast<int64_t>(out.size()), "columns of `sparse_indices` and rank") ||
      (!values.empty() && !context.RequireEqual(values[0], places, "number of `sparse_indices` and `sparse_values`")))
    return Solve::kFailed;
  return ResultTensor(context, out, args[1]->dtype.dtype);
}

Solve SparseRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  for (int64_t extent : context.attrs().GetInts("output_shape")) {
    if (extent < 0) {
      return context.Fail(DiagnosticKind::kNegativeExtent,
                          absl::StrCat("`output_shape` has ", extent, "; expected extents >= 0"));
    }
    out.push_back(extent);
  }
  return Sparse(context, args, out);
}

Solve DynamicSparseRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out;
  if (!ValueDims(context, 3, 1, out)) return Solve::kFailed;
  for (const Dim& dim : out) {
    if (!context.RequireAtLeast(dim, 0, "an extent of the result")) return Solve::kFailed;
  }
  return Sparse(context, args, out);
}

std::vector<Tensor> ComputeSparse(const ComputeContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(1);
  const te::TensorSpec& out = context.output();
  const Tensor& fill = context.input(2);
  Tensor data = te::ComputeTensor("default", out.dtype, out.dims, [&](std::span<const Expr>) {
    return te::Cast(out.dtype, fill(std::vector<Expr>(fill.rank(), te::Index(0))));
  });
  Updates all{.rows = Volume(out.dims), .count = indices.rank() == 0 ? Dim(1) : indices.dims()[0]};
  all.row = [&](Indices, const Expr& update) {
    return RowOf(out.dims, [&](size_t k) {
      std::vector<Expr> at(indices.rank() > 0 ? 1 : 0, update);
      if (indices.rank() == 2) at.push_back(te::Index(static_cast<int64_t>(k)));
      return te::Cast(kInt64, indices(at));
    });
  };
  all.value = [&](Indices, const Expr& update, Indices) { return values(std::vector<Expr>(values.rank(), update)); };
  return {Scatter("update", data, all, [&](Indices o) { return PlaceOf(out.dims, o); })};
}

// ---- segments --------------------------------------------------------------------

constexpr Input kSegmentInputs[] = {
    {"data", "a tensor (count, ...)"},
    {"segment_ids", "for each row of data the segment that it is of; others are left out"}};
constexpr AttrSpec kSegmentAttrs[] = {{"num_segments", AttrType::kInt, "", "how many segments there are"}};
constexpr Example kSegmentExamples[] = {
    {"segment_sum([1f, 2f, 3f, 4f], [0, 2, 0, -1], num_segments=3)", "[4f, 0f, 2f]"},
    {"segment_sum([[1, 2], [3, 4], [5, 6]], [1, 1, 0], num_segments=2)", "[[5, 6], [4, 6]]"}};
constexpr Input kBincountInputs[] = {{"data", "integers, a vector"}};
constexpr Input kBincountCounted[] = {
    {"data", "integers, a vector"},
    {.name = "count", .doc = "an int64 scalar, how many numbers are counted", .decides_shape = true}};
constexpr AttrSpec kBincountAttrs[] = {{"minlength", AttrType::kInt, "0", "count at least so many numbers"}};
constexpr Example kBincountExamples[] = {{"bincount([1, 3, 1, 0])", "[1i64, 2i64, 0i64, 1i64]"},
                                         {"bincount([1], minlength=3)", "[0i64, 1i64, 0i64]"}};

Solve SegmentRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims out = args[0]->shape.dims;
  const Dims& ids = args[1]->shape.dims;
  int64_t segments = context.attrs().GetInt("num_segments");
  if (out.empty()) return FailRank(context, 0, 0, "1 or more");
  if (ids.size() != 1) return FailRank(context, 1, ids.size(), "1");
  if (!IsIndexType(args[1]->dtype.dtype)) return FailDType(context, 1, args[1]->dtype.dtype, "an integer dtype");
  if (segments < 0) {
    return context.Fail(DiagnosticKind::kNegativeExtent,
                        absl::StrCat("`num_segments` is ", segments, "; expected 0 or more"));
  }
  if (!context.RequireEqual(out[0], ids[0], "`segment_sum`: rows of data and of `segment_ids`")) return Solve::kFailed;
  out[0] = segments;
  return ResultTensor(context, out, args[0]->dtype.dtype);
}

// `ids` says in which row of the result, of zeros, the rows of `value` are added.
Tensor SumRows(const te::TensorSpec& out, const Tensor& ids,
               const std::function<Expr(const Expr& row, Indices rest)>& value) {
  Tensor zeros =
      te::ComputeTensor("zeros", out.dtype, out.dims, [&](std::span<const Expr>) { return te::Const(out.dtype, 0); });
  Updates all{.rows = out.dims[0], .count = ids.dims()[0]};
  all.rest = Dims(out.dims.begin() + 1, out.dims.end());
  all.row = [&](Indices, const Expr& update) { return te::Cast(kInt64, ids({update})); };
  all.value = [&](Indices, const Expr& update, Indices rest) { return value(update, rest); };
  return Scatter("add", zeros, all, [&](Indices o) { return PlaceOf({out.dims[0]}, o); });
}

std::vector<Tensor> ComputeSegmentSum(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  return {SumRows(context.output(), context.input(1), [&](const Expr& row, Indices rest) {
    std::vector<Expr> at = {row};
    at.insert(at.end(), rest.begin(), rest.end());
    return data(at);
  })};
}

Solve BincountArgs(TypeContext& context, Types& args) {
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  if (args[0]->shape.dims.size() != 1) return FailRank(context, 0, args[0]->shape.dims.size(), "1");
  if (!IsIndexType(args[0]->dtype.dtype)) return FailDType(context, 0, args[0]->dtype.dtype, "an integer dtype");
  return Solve::kDone;
}

template <bool is_given>
Solve BincountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = BincountArgs(context, args); solve != Solve::kDone) return solve;
  Dims count = {context.DataDependentDim()};
  if (is_given) {
    count.clear();
    if (!ValueDims(context, 1, 0, count)) return Solve::kFailed;
    if (!context.RequireAtLeast(count[0], 0, "how many numbers are counted")) return Solve::kFailed;
  }
  return ResultTensor(context, count, kInt64);
}

Solve BincountCountRelation(TypeContext& context) {
  Types args;
  if (Solve solve = BincountArgs(context, args); solve != Solve::kDone) return solve;
  return ResultTensor(context, {}, kInt64);
}

// One more than the greatest number.
std::vector<Tensor> ComputeBincountCount(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  Tensor greatest = ReduceOver(te::ReduceOp::kMaximum, kInt64, {}, data.dims(),
                               [&](Indices, Indices k) { return te::Cast(kInt64, data(k)); });
  return {te::ComputeTensor("count", kInt64, {}, [&](Indices) {
    Expr least = te::Index(std::max<int64_t>(context.attrs().GetInt("minlength"), 0) - 1);
    return te::Binary(BinaryOp::kMaximum, greatest({}), least) + te::Index(1);
  })};
}

std::vector<Tensor> ComputeBincount(const ComputeContext& context) {
  return {SumRows(context.output(), context.input(0), [](const Expr&, Indices) { return te::Index(1); })};
}

constexpr OpDef Bincount() {
  OpDef op =
      Op("bincount", "how often each number from 0 to the greatest occurs; negative ones are left out", kBincountInputs,
         kBincountAttrs, BincountRelation<false>, FusionClass::kOpaque, nullptr, kBincountExamples);
  op.count_op = "bincount_count";
  op.fill_op = "bincount_fill";
  return op;
}

constexpr OpDef kOps[] = {
    WithGradient(Op("segment_sum", "sums of the rows of each segment", kSegmentInputs, kSegmentAttrs, SegmentRelation,
                    FusionClass::kOpaque, ComputeSegmentSum, kSegmentExamples),
                 SegmentSumGradient),
    Bincount(),
    Op("bincount_count", "how many numbers `bincount` counts", kBincountInputs, kBincountAttrs, BincountCountRelation,
       FusionClass::kOpaque, ComputeBincountCount),
    Op("bincount_fill", "`bincount`, of so many numbers", kBincountCounted, kBincountAttrs, BincountRelation<true>,
       FusionClass::kOpaque, ComputeBincount),
    WithGradient(Op("scatter_elements", "data with updates written or folded in along an axis", kScatteredElements,
                    kScatterAttrs, ScatterElementsRelation, FusionClass::kOpaque, ComputeScatterElements),
                 ScatterElementsGradient),
    WithGradient(Op("scatter_nd", "data with updates written or folded in at index tuples", kScattered, kScatterNdAttrs,
                    ScatterNdRelation, FusionClass::kOpaque, ComputeScatterNd),
                 ScatterNdGradient),
    WithGradient(Op("sparse_to_dense", "default_value with values written at places", kSparse, kSparseAttrs,
                    SparseRelation, FusionClass::kOpaque, ComputeSparse),
                 SparseToDenseGradient),
    WithGradient(Op("dyn.sparse_to_dense", "default_value with values written at places", kDynamicSparse,
                    kDynamicSparseAttrs, DynamicSparseRelation, FusionClass::kOpaque, ComputeSparse),
                 SparseToDenseGradient),
};

}  // namespace

std::span<const OpDef> ScatterOps() { return kOps; }

}  // namespace rvm::ops
