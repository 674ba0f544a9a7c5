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

// Returns the number that input `i` is if it is min(a, max(b, x)), with an a that is not above b.
std::optional<int64_t> BetweenEqualBounds(NodeContext& c, size_t i) {
  const std::vector<Node>& nodes = c.scope().graph->nodes;
  auto node_of = [&](const Source& source) {
    return source.node == Source::kNone ? nullptr : &nodes[static_cast<size_t>(source.node)];
  };
  auto number = [&](const Source& source) -> std::optional<int64_t> {
    auto found = c.scope().values.find(source.node);
    if (found == c.scope().values.end() || found->second.empty() || found->second[0] == nullptr) return std::nullopt;
    const std::optional<Literal>& value = found->second[0]->constant;
    const bool is_number = value && value->dtype().is_integral() && value->num_elements() == 1;
    return is_number ? std::optional(value->IntAt(0)) : std::nullopt;
  };
  const Node* least = i < c.node().inputs.size() ? node_of(c.node().inputs[i]) : nullptr;
  if (least == nullptr || least->op != "Minimum" || least->inputs.size() != 2) return std::nullopt;
  for (size_t k = 0; k < 2; ++k) {
    const std::optional<int64_t> bound = number(least->inputs[k]);
    const Node* greatest = node_of(least->inputs[1 - k]);
    if (!bound || greatest == nullptr || greatest->op != "Maximum") continue;
    for (const Source& source : greatest->inputs) {
      const std::optional<int64_t> other = number(source);
      if (other && *other >= *bound) return bound;
    }
  }
  return std::nullopt;
}

// Counts the numbers of each row, or adds the weights of equal ones. No elements are no weights.
Operands CountNumbers(NodeContext& c) {
  Operand x = c.In(0), weights = c.In(2);
  if (c.failed()) return {};
  const int64_t rank = c.RankOf(x);
  if (rank == 0) return {c.Fail("its numbers are no vector or matrix")};
  const std::optional<int64_t> known = BetweenEqualBounds(c, 1);
  const std::optional<Dims> counts = known ? Dims{Dim(*known)} : c.Symbols(c.In(1));
  if (counts && (counts->size() != 1 || (*counts)[0].AsConst().value_or(0) < 0))
    return {c.Fail("its number of counts is none")};
  Operand all =
      counts ? c.Iota((*counts)[0]) : c.Op("arange", {c.Integer(0), c.Cast(c.Scalar(c.In(1)), kInt64), c.Integer(1)});
  const bool has_weights = c.RankOf(weights) == rank && c.ExtentOf(weights, 0) != Dim(0);
  Operand found = c.Op("equal", {c.Unsqueeze(c.Cast(x, kInt64), {rank}), all});
  Operand values = c.Cast(found, c.DTypeOf(weights));
  const ir::Attrs rows = {{"axis", ir::IntList({{rank - 1}})}};
  if (c.BoolAttr("binary_output")) return {c.Op("max", {values}, rows)};
  if (has_weights) values = c.Mul(values, c.Unsqueeze(weights, {rank}));
  return {c.Op("sum", {values}, rows)};
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
    {"DenseBincount", CountNumbers},
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
