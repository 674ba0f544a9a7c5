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
  return {c.failed() ? nullptr : c.Op("gather_nd", {c.In(0), tensorflow_family::IndexTuples(c, indices)})};
}

Operands TensorScatter(NodeContext& c) {
  Operand x = c.In(0), indices = c.In(1), updates = c.In(2);
  if (c.failed()) return {};
  const bool subtracts = c.row().variant == "subtract";
  if (subtracts) updates = c.Op("negative", {updates});
  return {c.Op("scatter_nd", {x, tensorflow_family::IndexTuples(c, indices), updates},
               {{"mode", std::string(subtracts ? "add" : c.row().variant)}})};
}

Operands OneHot(NodeContext& c) { return tensorflow_family::OneHot(c, c.IntAttr("axis", -1)); }

Operands TopK(NodeContext& c) {
  return tensorflow_family::TopK(c, c.Has(1) ? c.Int(1, "number of elements") : c.IntAttr("k", 1));
}

Operands Places(NodeContext& c) { return {c.Cast(c.Op("argwhere", {c.In(0)}), kInt64)}; }

Operands Unique(NodeContext& c) {
  const DataType dtype = c.node().Has("out_idx") ? c.TypeAttr("out_idx") : kInt32;
  Operand found = c.Op("unique", {c.In(0)}, {{"sorted", false}});
  return {c.emit().Field(found, 0), c.Cast(c.emit().Field(found, 2), dtype)};
}

Operands Bucketize(NodeContext& c) { return tensorflow_family::Bucketize(c, c.node().attr("boundaries").Floats()); }

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
  return {tensorflow_family::DiagonalMatrices(c, x)};
}

Operands UnsortedSegments(NodeContext& c) { return tensorflow_family::UnsortedSegments(c, c.row().variant); }

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
    {"ScatterNd", Shared<tensorflow_family::ScatterNd>},
    {"SegmentSum", Shared<tensorflow_family::SegmentSum>},
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
