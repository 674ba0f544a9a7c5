#include "compiler/import/blocks/tensorflow_family.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"

namespace rvm::tensorflow_family {
namespace {

using importing::Term;

// Parts of `sizes` extents along an axis; one of -1 is what the others leave.
Operands Parts(NodeInputs& c, Operand x, int64_t axis, const std::vector<int64_t>& sizes) {
  axis = c.Axis(axis, c.RankOf(x));
  if (c.failed()) return {};
  Dim rest = c.ExtentOf(x, axis);
  for (int64_t size : sizes) rest = rest - std::max<int64_t>(size, 0);
  Dims extents;
  for (int64_t size : sizes) extents.push_back(size < 0 ? rest : Dim(size));
  return importing::PartsOf(c, x, axis, extents);
}

double NeutralOf(std::string_view mode, DataType dtype) {
  if (mode == "add") return 0;
  if (mode == "mul") return 1;
  if (dtype == kFloat32) {
    const double most = std::numeric_limits<float>::max();
    return mode == "max" ? -most : most;
  }
  const double least = importing::LeastOf(dtype);
  return mode == "max" ? least : -least - 1;
}

Operand Segments(NodeInputs& c, Operand x, Operand ids, Operand count, std::string_view mode) {
  if (c.failed()) return x;
  const auto kept = static_cast<size_t>(c.RankOf(ids));
  const Dims shape = c.DimsOf(x);
  if (kept > shape.size()) return c.Fail("its segments have more axes than its input");
  const Dims inner(shape.begin() + static_cast<ptrdiff_t>(kept), shape.end());
  Dims rows = inner;
  rows.insert(rows.begin(), importing::Product(std::span(shape).first(kept)));
  x = c.Reshape(x, rows);
  ids = c.Cast(importing::Flat(c, ids), kInt64);
  // One segment more, for what is left out.
  count = c.Cast(c.Scalar(count), kInt64);
  ids = c.Where(c.Op("less", {ids, c.Integer(0)}), count, ids);
  Operand first = c.Reshape(c.Add(count, c.Integer(1)), {1});
  Operand all = inner.empty() ? first : c.Concatenate({first, c.emit().FromDims(inner)}, 0);
  Operand start = c.Filled(c.Number(NeutralOf(mode, c.DTypeOf(x)), x), all);
  Operand folded = c.Op("scatter_nd", {start, c.Unsqueeze(ids, {0}), x}, {{"mode", std::string(mode)}});
  return c.Op("dyn.strided_slice", {folded, c.emit().Vector({{0}}), c.Reshape(count, {1}), c.emit().Vector({{1}})},
              {{"axes", ir::IntList({{0}})}});
}

}  // namespace

// ---- inputs

Operand NodeInputs::In(size_t i) { return Has(i) ? inputs_[i] : Fail(absl::StrCat("input ", i, " is missing")); }

std::vector<int64_t> NodeInputs::Ints(size_t i, std::string_view what) {
  Operand x = In(i);
  if (failed()) return {};
  return Constants(x, what).value_or(std::vector<int64_t>());
}

int64_t NodeInputs::Int(size_t i, std::string_view what) {
  const std::vector<int64_t> values = Ints(i, what);
  if (values.size() == 1) return values[0];
  if (!failed()) Fail(absl::StrCat("its ", Abseil(what), " is not one number"));
  return 0;
}

Operand NodeInputs::Filled(Operand value, Operand extents) {
  if (failed()) return value;
  if (std::optional<Dims> dims = Symbols(extents)) return BroadcastTo(value, *dims);
  return Op("dyn.broadcast_to", {value, Cast(extents, kInt64)});
}

// ---- elements by themselves

Operands AddN(NodeInputs& c) {
  Operand sum = c.In(0);
  for (size_t i = 1; i < c.num_inputs(); ++i) sum = c.Add(sum, c.In(i));
  return {sum};
}

Operands Square(NodeInputs& c) { return {c.Mul(c.In(0), c.In(0))}; }

Operands SquaredDifference(NodeInputs& c) {
  Operand difference = c.Sub(c.In(0), c.In(1));
  return {c.Mul(difference, difference)};
}

Operands Elu(NodeInputs& c) {
  const Term x(c, c.In(0));
  if (c.failed()) return {};
  return {importing::Select(x > 0.0, x, x.Apply("expm1"))};
}

Operands Select(NodeInputs& c) {
  Operand condition = c.In(0), a = c.In(1);
  if (c.failed()) return {};
  if (c.RankOf(condition) == 1 && c.RankOf(a) > 1) {
    std::vector<int64_t> axes;
    for (int64_t i = 1; i < c.RankOf(a); ++i) axes.push_back(i);
    condition = c.Unsqueeze(condition, axes);
  }
  return {c.Where(condition, a, c.In(2))};
}

Operands Bitcast(NodeInputs& c, DataType dtype) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {importing::BitsAs(c, x, dtype)};
}

// ---- shapes

Operands Squeeze(NodeInputs& c, std::vector<int64_t> axes) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  if (axes.empty()) {
    for (int64_t axis = 0; axis < c.RankOf(x); ++axis) {
      if (c.ExtentOf(x, axis) == Dim(1)) axes.push_back(axis);
    }
  }
  return {c.Squeeze(x, c.Axes(axes, c.RankOf(x)))};
}

Operands ExpandDims(NodeInputs& c) {
  const int64_t axis = c.Int(1, "axis");
  if (c.failed()) return {};
  return {c.Unsqueeze(c.In(0), {c.Axis(axis, c.RankOf(c.In(0)) + 1)})};
}

Operands Transpose(NodeInputs& c) {
  const std::vector<int64_t> axes = c.Ints(1, "axes");
  return {c.failed() ? nullptr : c.Transpose(c.In(0), axes)};
}

Operands Split(NodeInputs& c, int64_t count) {
  const int64_t axis = c.Int(0, "axis");
  Operand x = c.In(1);
  if (c.failed()) return {};
  const std::optional<int64_t> extent = c.ExtentOf(x, axis).AsConst();
  if (count < 1 || count > importing::kMaxParts || !extent || *extent % count != 0) {
    return {
        c.Unsupported(absl::StrCat("a split of ", c.ExtentOf(x, axis).ToString(), " into ", count, " equal parts"))};
  }
  return Parts(c, x, axis, std::vector<int64_t>(static_cast<size_t>(count), *extent / count));
}

Operands Slice(NodeInputs& c) {
  Operand x = c.In(0), begin = c.In(1), size = c.In(2);
  if (c.failed()) return {};
  if (begin->constant && size->constant) {
    const std::vector<int64_t> begins = c.Ints(1, "begin"), sizes = c.Ints(2, "size");
    if (begins.size() != sizes.size()) return {c.Fail("its begin and size have different lengths")};
    // Axes that stay whole keep their extents, also unknown ones.
    std::vector<int64_t> axes, from, to;
    for (size_t i = 0; i < begins.size(); ++i) {
      if (begins[i] == 0 && sizes[i] == -1) continue;
      axes.push_back(static_cast<int64_t>(i));
      from.push_back(begins[i]);
      to.push_back(sizes[i]);
    }
    if (axes.empty()) return {x};
    return {c.Op(
        "strided_slice", {x},
        {{"begin", ir::IntList(from)}, {"end", ir::IntList(to)}, {"axes", ir::IntList(axes)}, {"slice_mode", "size"}})};
  }
  const std::vector<int64_t> ones(static_cast<size_t>(c.RankOf(x)), 1);
  Operand y = c.Op("dyn.strided_slice", {x, c.Cast(begin, kInt64), c.Cast(size, kInt64), c.emit().Vector(ones)},
                   {{"slice_mode", "size"}});
  const std::optional<Dims> sizes = c.Symbols(size);
  if (c.failed() || !sizes) return {y};
  Dims dims = c.DimsOf(y);
  for (size_t i = 0; i < dims.size() && i < sizes->size(); ++i) {
    if (!(*sizes)[i].is_const() || (*sizes)[i].constant() >= 0) dims[i] = (*sizes)[i];
  }
  return {c.emit().Retyped(y, c.emit().TensorType(dims, c.DTypeOf(y)))};
}

Operands SplitV(NodeInputs& c) {
  const std::vector<int64_t> sizes = c.Ints(1, "sizes");
  const int64_t axis = c.Int(2, "axis");
  return c.failed() ? Operands() : Parts(c, c.In(0), axis, sizes);
}

Operands Tile(NodeInputs& c) {
  Operand x = c.In(0), counts = c.In(1);
  if (c.failed()) return {};
  if (!counts->constant) return {c.Op("dyn.tile", {x, c.Cast(counts, kInt64)})};
  return {c.Op("tile", {x}, {{"reps", ir::IntList(c.Ints(1, "counts"))}})};
}

Operands Rank(NodeInputs& c) {
  Operand x = c.In(0);
  return {c.failed() ? nullptr : c.emit().Integer(c.RankOf(x), kInt32)};
}

Operands Range(NodeInputs& c) {
  Operand start = c.In(0), limit = c.In(1), step = c.In(2);
  if (c.failed()) return {};
  return {c.Op("arange", {c.Scalar(start), c.Scalar(limit), c.Scalar(step)})};
}

Operands Fill(NodeInputs& c) { return {c.Filled(c.In(1), c.In(0))}; }

Operands BroadcastTo(NodeInputs& c) { return {c.Filled(c.In(0), c.In(1))}; }

Operands BroadcastArgs(NodeInputs& c) {
  Operand shapes[2] = {c.In(0), c.In(1)};
  if (c.failed()) return {};
  std::optional<int64_t> ranks[2];
  for (size_t i = 0; i < 2; ++i) ranks[i] = importing::KnownExtent(c, shapes[i], 0, "shape");
  if (c.failed()) return {};
  const int64_t rank = std::max(*ranks[0], *ranks[1]);
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<int64_t> ones(static_cast<size_t>(std::min<int64_t>(rank - *ranks[i], 64)), 1);
    if (!ones.empty()) shapes[i] = c.Concatenate({c.Cast(c.emit().Vector(ones), c.DTypeOf(shapes[i])), shapes[i]}, 0);
  }
  Operand is_one = c.Op("equal", {shapes[0], c.Number(1, shapes[0])});
  return {c.Where(is_one, shapes[1], shapes[0])};
}

// ---- places

Operand IndexTuples(Steps& c, Operand indices) {
  const int64_t rank = c.RankOf(indices);
  if (rank < 1) return c.Fail("its index tuples are a scalar");
  std::vector<int64_t> axes = {rank - 1};
  for (int64_t i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return c.Transpose(c.Cast(indices, kInt64), axes);
}

// Adds what stands at one place several times.
Operands ScatterNd(NodeInputs& c) {
  Operand indices = c.In(0), updates = c.In(1);
  if (c.failed()) return {};
  Operand zeros = c.Filled(c.Number(0, updates), c.In(2));
  return {c.Op("scatter_nd", {zeros, IndexTuples(c, indices), updates}, {{"mode", "add"}})};
}

Operands OneHot(NodeInputs& c, int64_t axis) {
  const int64_t depth = c.Int(1, "depth");
  if (c.failed()) return {};
  if (depth < 1) return {c.Unsupported(absl::StrCat("a depth of ", depth))};
  Operand on = c.Scalar(c.In(2)), off = c.Scalar(c.In(3));
  return {c.Op("one_hot", {c.In(0), on, off}, {{"depth", depth}, {"axis", axis}, {"dtype", c.DTypeOf(on).ToString()}})};
}

Operands TopK(NodeInputs& c, int64_t k) {
  if (c.failed()) return {};
  Operand found = c.Op("topk", {c.In(0)}, {{"k", k}, {"axis", -1}, {"dtype", "int32"}, {"exact", true}});
  return {c.emit().Field(found, 0), c.emit().Field(found, 1)};
}

Operands Bucketize(NodeInputs& c, const std::vector<float>& bounds) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  Operand sorted =
      c.emit().Constant(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(bounds.size())}, bounds));
  return {c.Op("searchsorted", {sorted, c.Cast(x, kFloat32)}, {{"right", true}})};
}

Dim SameBorders(const Dim& extent, int64_t span, int64_t stride) {
  if (stride == 1) return span;
  const Dim count = FloorDiv(extent + (stride - 1), stride);
  return Max(Dim(0), (count - 1) * Dim(stride) + span + 1 - extent);
}

Operand DiagonalMatrices(Steps& c, Operand x) {
  const int64_t rank = c.RankOf(x);
  if (rank < 1) return c.Fail("its input is a scalar");
  Operand places = c.Iota(c.ExtentOf(x, rank - 1));
  Operand is_diagonal = c.Op("equal", {c.Unsqueeze(places, {1}), places});
  return c.Where(is_diagonal, c.Unsqueeze(x, {rank}), c.Number(0, x));
}

Operands UnsortedSegments(NodeInputs& c, std::string_view mode) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {Segments(c, x, c.In(1), c.In(2), mode)};
}

// The last number is the greatest one.
Operands SegmentSum(NodeInputs& c) {
  Operand x = c.In(0), ids = c.In(1);
  if (c.failed()) return {};
  Operand last = c.Op("max", {c.Cast(ids, kInt64)});
  return {Segments(c, x, ids, c.Add(last, c.Integer(1)), "add")};
}

}  // namespace rvm::tensorflow_family
