// Operators that read or write elements at places, sort or count them, and random numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/abseil.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/random_numbers.h"
#include "compiler/import/shapes.h"
#include "compiler/import/term.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

// Index tuples along the last axis, as Relay has them: along the first one.
Operand IndexTuples(NodeContext& c, Operand indices) {
  const int64_t rank = c.RankOf(indices);
  if (rank < 1) return c.Fail("its index tuples are a scalar");
  std::vector<int64_t> axes = {rank - 1};
  for (int64_t i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return c.Transpose(c.Cast(indices, kInt64), axes);
}

// Returns a value in a shape, which may be known only when the model runs.
Operand Spread(NodeContext& c, Operand value, Operand shape) {
  if (c.failed()) return value;
  if (std::optional<Dims> dims = c.Symbols(shape)) return c.BroadcastTo(value, *dims);
  return c.Op("dyn.broadcast_to", {value, c.Cast(shape, kInt64)});
}

Operands GatherNd(NodeContext& c) {
  Operand indices = c.In(1);
  return {c.failed() ? nullptr : c.Op("gather_nd", {c.In(0), IndexTuples(c, indices)})};
}

// Adds what stands at one place several times.
Operands ScatterNd(NodeContext& c) {
  Operand indices = c.In(0), updates = c.In(1);
  if (c.failed()) return {};
  Operand zeros = Spread(c, c.Number(0, updates), c.In(2));
  return {c.Op("scatter_nd", {zeros, IndexTuples(c, indices), updates}, {{"mode", "add"}})};
}

Operands SparseToDense(NodeContext& c) {
  Operand indices = c.In(0), shape = c.In(1), values = c.In(2), otherwise = c.In(3);
  if (c.failed()) return {};
  if (c.RankOf(indices) == 0) indices = c.Reshape(indices, {1});
  if (c.RankOf(indices) == 1) indices = c.Unsqueeze(indices, {1});
  const Dims places = c.DimsOf(indices);
  values = c.BroadcastTo(values, {places[0]});
  return {c.Op("scatter_nd", {Spread(c, c.Scalar(otherwise), shape), IndexTuples(c, indices), values})};
}

Operands OneHot(NodeContext& c) {
  const int64_t depth = c.Int(1, "depth"), axis = c.options().Number<int32_t>(0, 0);
  if (c.failed()) return {};
  if (depth < 1) return {c.Unsupported(absl::StrCat("a depth of ", depth))};
  Operand on = c.Scalar(c.In(2)), off = c.Scalar(c.In(3));
  return {c.Op("one_hot", {c.In(0), on, off}, {{"depth", depth}, {"axis", axis}, {"dtype", c.DTypeOf(on).ToString()}})};
}

Operands TopK(NodeContext& c) {
  const int64_t k = c.Int(1, "number of elements");
  if (c.failed()) return {};
  Operand found = c.Op("topk", {c.In(0)}, {{"k", k}, {"axis", -1}, {"dtype", "int32"}, {"exact", true}});
  return {c.emit().Field(found, 0), c.emit().Field(found, 1)};
}

Operands Where(NodeContext& c) { return {c.Cast(c.Op("argwhere", {c.In(0)}), kInt64)}; }

Operands Unique(NodeContext& c) {
  Operand found = c.Op("unique", {c.In(0)}, {{"sorted", false}});
  return {c.emit().Field(found, 0), c.Cast(c.emit().Field(found, 2), c.OutputDType(1))};
}

Operands CumSum(NodeContext& c) {
  const int64_t axis = c.Int(1, "axis");
  Operand x = c.In(0);
  if (c.failed()) return {};
  const bool is_exclusive = c.options().Number<uint8_t>(0, 0) != 0, is_reverse = c.options().Number<uint8_t>(1, 0) != 0;
  auto turned = [&](Operand value) { return is_reverse ? c.Op("reverse", {value}, {{"axis", axis}}) : value; };
  return {turned(c.Op("cumsum", {turned(x)}, {{"axis", axis}, {"exclusive", is_exclusive}}))};
}

Operands EmbeddingLookup(NodeContext& c) { return {c.Op("take", {c.In(1), c.In(0)}, {{"axis", 0}})}; }

Operands Bucketize(NodeContext& c) {
  const std::vector<float> bounds = c.options().Numbers<float>(0);
  Operand x = c.In(0);
  if (c.failed()) return {};
  Operand sorted =
      c.emit().Constant(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(bounds.size())}, bounds));
  return {c.Op("searchsorted", {sorted, c.Cast(x, kFloat32)}, {{"right", true}})};
}

Operands DynamicUpdateSlice(NodeContext& c) {
  Operand x = c.In(0), update = c.In(1), begin = c.In(2);
  if (c.failed()) return {};
  Operand sizes = c.emit().FromDims(c.DimsOf(update));
  Operand room = c.Sub(c.emit().FromDims(c.DimsOf(x)), sizes);
  begin = c.Op("maximum", {c.Op("minimum", {c.Cast(begin, kInt64), room}), c.Integer(0)});
  const std::vector<int64_t> ones(static_cast<size_t>(c.RankOf(x)), 1);
  return {c.Op("strided_set", {x, update, begin, c.Add(begin, sizes), c.emit().Vector(ones)})};
}

Operands ReverseSequence(NodeContext& c) {
  return {c.Op("reverse_sequence", {c.In(0), c.In(1)},
               {{"seq_axis", int64_t{c.options().Number<int32_t>(0, 0)}},
                {"batch_axis", int64_t{c.options().Number<int32_t>(1, 0)}}})};
}

Operands MatrixDiag(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(x);
  if (rank < 1) return {c.Fail("its input is a scalar")};
  Operand places = c.Iota(c.ExtentOf(x, rank - 1));
  Operand is_diagonal = c.Op("equal", {c.Unsqueeze(places, {1}), places});
  return {c.Where(is_diagonal, c.Unsqueeze(x, {rank}), c.Number(0, x))};
}
Operands MatrixSetDiag(NodeContext& c) { return {c.Op("matrix_set_diag", {c.In(0), c.In(1)})}; }

// Rows of a segment each, folded into `neutral`. Rows of negative segments are left out.
Operand Segments(NodeContext& c, Operand x, Operand ids, Operand count, std::string_view mode, double neutral) {
  if (c.failed()) return x;
  const int64_t kept = c.RankOf(ids);
  Dims shape = c.DimsOf(x),
       inner(shape.begin() + std::min<ptrdiff_t>(kept, static_cast<ptrdiff_t>(shape.size())), shape.end());
  Dims rows = inner;
  rows.insert(rows.begin(), importing::Product(std::span(shape).first(shape.size() - inner.size())));
  x = c.Reshape(x, rows);
  ids = c.Cast(importing::Flat(c, ids), kInt64);
  // One segment more, for what is left out.
  count = c.Cast(c.Scalar(count), kInt64);
  ids = c.Where(c.Op("less", {ids, c.Integer(0)}), count, ids);
  Operand extents = c.emit().FromDims(inner);
  Operand first = c.Reshape(c.Add(count, c.Integer(1)), {1});
  Operand all = inner.empty() ? first : c.Concatenate({first, extents}, 0);
  Operand start = Spread(c, c.Number(neutral, x), all);
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

Operands Dilate(NodeContext& c) {
  const std::vector<int64_t> strides = c.Ints(1, "distances");
  Operand value = c.In(2);
  if (c.failed()) return {};
  if (!value->constant || value->constant->num_elements() != 1) return {c.Unsupported("a value that is not known")};
  const double fill =
      c.DTypeOf(value).is_float() ? value->constant->DoubleAt(0) : static_cast<double>(value->constant->IntAt(0));
  return {c.Op("nn.dilate", {c.In(0)}, {{"strides", ir::IntList(strides)}, {"dilation_value", fill}})};
}

Operands Random(NodeContext& c) {
  Operand shape = c.In(0);
  if (c.failed()) return {};
  const std::optional<Dims> dims = c.Symbols(shape);
  if (!dims) return {c.Unsupported("random numbers whose shape only the running program knows")};
  return {importing::DrawNumbers(c, c.Key(), c.row().variant, 0, 1, *dims, c.OutputDType(0))};
}

Operands Multinomial(NodeContext& c) {
  const int64_t count = c.Int(1, "number of samples");
  Operand scores = c.In(0);
  if (c.failed()) return {};
  Operand chances = c.Op("nn.softmax", {scores}, {{"axis", -1}});
  Operand drawn = c.Op("random.multinomial", {c.Key(), chances}, {{"num_samples", count}});
  return {c.Cast(c.emit().Field(drawn, 1), c.OutputDType(0))};
}

constexpr OperatorRow kRows[] = {
    {"BUCKETIZE", Bucketize},
    {"CUMSUM", CumSum},
    Moves("DILATE", Dilate),
    Moves("DYNAMIC_UPDATE_SLICE", DynamicUpdateSlice),
    Moves("EMBEDDING_LOOKUP", EmbeddingLookup),
    Moves("GATHER_ND", GatherNd),
    Moves("MATRIX_DIAG", MatrixDiag),
    Moves("MATRIX_SET_DIAG", MatrixSetDiag),
    {"MULTINOMIAL", Multinomial},
    Moves("ONE_HOT", OneHot),
    {"RANDOM_STANDARD_NORMAL", Random, "random.normal"},
    {"RANDOM_UNIFORM", Random, "random.uniform"},
    Moves("REVERSE_SEQUENCE", ReverseSequence),
    {"SCATTER_ND", ScatterNd},
    {"SEGMENT_SUM", SegmentSum},
    {"SPARSE_TO_DENSE", SparseToDense},
    Moves("TOPK_V2", TopK),
    {"UNIQUE", Unique},
    {"UNSORTED_SEGMENT_MAX", UnsortedSegments, "max"},
    {"UNSORTED_SEGMENT_MIN", UnsortedSegments, "min"},
    {"UNSORTED_SEGMENT_PROD", UnsortedSegments, "mul"},
    {"UNSORTED_SEGMENT_SUM", UnsortedSegments, "add"},
    Moves("WHERE", Where),
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::tflite
