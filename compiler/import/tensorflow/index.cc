// Operators that read or write elements at places, sort or count them.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/shapes.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

// Index tuples along the last axis, as Relay has them: along the first one.
Operand IndexTuples(NodeContext& c, Operand indices) {
  const int64_t rank = c.RankOf(indices);
  if (rank < 1) return c.Fail("its index tuples are a scalar");
  std::vector<int64_t> axes = {rank - 1};
  for (int64_t i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return c.Transpose(c.Cast(indices, kInt64), axes);
}

Operands Gather(NodeContext& c) {
  const int64_t axis = c.Has(2) ? c.Int(2, "axis") : 0, batch = c.IntAttr("batch_dims", 0);
  if (c.failed()) return {};
  ir::Attrs attrs = {{"axis", axis}};
  if (batch != 0) attrs.Set("batch_dims", batch);
  return {c.Op("take", {c.In(0), c.In(1)}, std::move(attrs))};
}

Operands GatherNd(NodeContext& c) {
  Operand indices = c.In(1);
  if (c.IntAttr("batch_dims", 0) != 0) return {c.Unsupported("axes of a batch")};
  return {c.failed() ? nullptr : c.Op("gather_nd", {c.In(0), IndexTuples(c, indices)})};
}

// Adds what stands at one place several times.
Operands ScatterNd(NodeContext& c) {
  Operand indices = c.In(0), updates = c.In(1);
  if (c.failed()) return {};
  Operand zeros = c.Filled(c.Number(0, updates), c.In(2));
  return {c.Op("scatter_nd", {zeros, IndexTuples(c, indices), updates}, {{"mode", "add"}})};
}

Operands TensorScatter(NodeContext& c) {
  Operand x = c.In(0), indices = c.In(1), updates = c.In(2);
  if (c.failed()) return {};
  const bool subtracts = c.row().variant == "subtract";
  if (subtracts) updates = c.Op("negative", {updates});
  return {c.Op("scatter_nd", {x, IndexTuples(c, indices), updates},
               {{"mode", std::string(subtracts ? "add" : c.row().variant)}})};
}

Operands OneHot(NodeContext& c) {
  const int64_t depth = c.Int(1, "depth"), axis = c.IntAttr("axis", -1);
  if (c.failed()) return {};
  if (depth < 1) return {c.Unsupported(absl::StrCat("a depth of ", depth))};
  Operand on = c.Scalar(c.In(2)), off = c.Scalar(c.In(3));
  return {c.Op("one_hot", {c.In(0), on, off}, {{"depth", depth}, {"axis", axis}, {"dtype", c.DTypeOf(on).ToString()}})};
}

Operands TopK(NodeContext& c) {
  const int64_t k = c.Has(1) ? c.Int(1, "number of elements") : c.IntAttr("k", 1);
  if (c.failed()) return {};
  Operand found = c.Op("topk", {c.In(0)}, {{"k", k}, {"axis", -1}, {"dtype", "int32"}, {"exact", true}});
  return {c.emit().Field(found, 0), c.emit().Field(found, 1)};
}

Operands Places(NodeContext& c) { return {c.Cast(c.Op("argwhere", {c.In(0)}), kInt64)}; }

Operands Unique(NodeContext& c) {
  const DataType dtype = c.node().Has("out_idx") ? c.TypeAttr("out_idx") : kInt32;
  Operand found = c.Op("unique", {c.In(0)}, {{"sorted", false}});
  return {c.emit().Field(found, 0), c.Cast(c.emit().Field(found, 2), dtype)};
}

Operands Bucketize(NodeContext& c) {
  const std::vector<float> bounds = c.node().attr("boundaries").Floats();
  Operand x = c.In(0);
  if (c.failed()) return {};
  Operand sorted =
      c.emit().Constant(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(bounds.size())}, bounds));
  return {c.Op("searchsorted", {sorted, c.Cast(x, kFloat32)}, {{"right", true}})};
}

Operands Search(NodeContext& c) {
  const DataType dtype = c.node().Has("out_type") ? c.TypeAttr("out_type") : kInt32;
  return {c.Cast(c.Op("searchsorted", {c.In(0), c.In(1)}, {{"right", c.row().variant == "right"}}), dtype)};
}

Operands ReverseSequence(NodeContext& c) {
  return {c.Op("reverse_sequence", {c.In(0), c.In(1)},
               {{"seq_axis", c.IntAttr("seq_dim", 0)}, {"batch_axis", c.IntAttr("batch_dim", 0)}})};
}

// Keeps the diagonals of a band, `lower` below and `upper` above the main one; negative numbers keep all.
Operands BandPart(NodeContext& c) {
  Operand x = c.In(0), lower = c.In(1), upper = c.In(2);
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(x);
  if (rank < 2) return {c.Fail("its input is no matrix")};
  Operand rows = c.Unsqueeze(c.Iota(c.ExtentOf(x, rank - 2)), {1}), columns = c.Iota(c.ExtentOf(x, rank - 1));
  auto within = [&](Operand limit, Operand distance) {
    limit = c.Cast(c.Scalar(limit), kInt64);
    return c.Op("logical_or", {c.Op("less", {limit, c.Integer(0)}), c.Op("less_equal", {distance, limit})});
  };
  Operand below = within(lower, c.Sub(rows, columns)), above = within(upper, c.Sub(columns, rows));
  return {c.Where(c.Op("logical_and", {below, above}), x, c.Number(0, x))};
}

// The third version has the number of the diagonal, the extents of the matrices and what surrounds the diagonal.
Operands MatrixDiag(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(x);
  if (c.num_inputs() > 1) {
    const std::vector<int64_t> diagonals = c.Ints(1, "diagonals");
    const int64_t rows = c.Int(2, "number of rows"), columns = c.Int(3, "number of columns");
    Operand padding = c.In(4);
    if (c.failed()) return {};
    auto is_length = [&](int64_t extent) { return extent == -1 || c.ExtentOf(x, -1) == Dim(extent); };
    const bool is_zero = padding->constant && *padding->constant == Literal::Scalar(c.DTypeOf(padding), 0);
    if (diagonals != std::vector<int64_t>(diagonals.size(), 0) || !is_length(rows) || !is_length(columns) || !is_zero) {
      return {c.Unsupported("other diagonals than the main one of square matrices of zeros")};
    }
  }
  if (rank < 1) return {c.Fail("its input is a scalar")};
  Operand places = c.Iota(c.ExtentOf(x, rank - 1));
  Operand is_diagonal = c.Op("equal", {c.Unsqueeze(places, {1}), places});
  return {c.Where(is_diagonal, c.Unsqueeze(x, {rank}), c.Number(0, x))};
}

// Rows of a segment each, folded into `neutral`. Rows of negative segments are left out.
Operand Segments(NodeContext& c, Operand x, Operand ids, Operand count, std::string_view mode, double neutral) {
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
  Operand start = c.Filled(c.Number(neutral, x), all);
  Operand folded = c.Op("scatter_nd", {start, c.Unsqueeze(ids, {0}), x}, {{"mode", std::string(mode)}});
  return c.Op("dyn.strided_slice", {folded, c.emit().Vector({{0}}), c.Reshape(count, {1}), c.emit().Vector({{1}})},
              {{"axes", ir::IntList({{0}})}});
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

Operands UnsortedSegments(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  return {Segments(c, x, c.In(1), c.In(2), c.row().variant, NeutralOf(c.row().variant, c.DTypeOf(x)))};
}

// The last number is the greatest one.
Operands SegmentSum(NodeContext& c) {
  Operand x = c.In(0), ids = c.In(1);
  if (c.failed()) return {};
  Operand last = c.Op("max", {c.Cast(ids, kInt64)});
  return {Segments(c, x, ids, c.Add(last, c.Integer(1)), "add", 0)};
}

Operands InvertPermutation(NodeContext& c) { return {c.Op("invert_permutation", {c.In(0)})}; }

constexpr OperatorRow kRows[] = {
    {"Bucketize", Bucketize},
    {"Gather", Gather},
    {"GatherNd", GatherNd},
    {"GatherV2", Gather},
    {"InvertPermutation", InvertPermutation},
    {"LowerBound", Search, "left"},
    {"MatrixBandPart", BandPart},
    {"MatrixDiag", MatrixDiag},
    {"MatrixDiagV3", MatrixDiag},
    {"OneHot", OneHot},
    {"ReverseSequence", ReverseSequence},
    {"ScatterNd", ScatterNd},
    {"SegmentSum", SegmentSum},
    {"TensorScatterAdd", TensorScatter, "add"},
    {"TensorScatterMax", TensorScatter, "max"},
    {"TensorScatterMin", TensorScatter, "min"},
    {"TensorScatterSub", TensorScatter, "subtract"},
    {"TensorScatterUpdate", TensorScatter, "update"},
    {"TopK", TopK, "", "values indices"},
    {"TopKV2", TopK, "", "values indices"},
    {"Unique", Unique, "", "y idx"},
    {"UnsortedSegmentMax", UnsortedSegments, "max"},
    {"UnsortedSegmentMin", UnsortedSegments, "min"},
    {"UnsortedSegmentProd", UnsortedSegments, "mul"},
    {"UnsortedSegmentSum", UnsortedSegments, "add"},
    {"UpperBound", Search, "right"},
    {"Where", Places},
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::tensorflow
