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

Operands GatherNd(NodeContext& c) {
  Operand indices = c.In(1);
  return {c.failed() ? nullptr : c.Op("gather_nd", {c.In(0), tensorflow_family::IndexTuples(c, indices)})};
}

Operands SparseToDense(NodeContext& c) {
  Operand indices = c.In(0), shape = c.In(1), values = c.In(2), otherwise = c.In(3);
  if (c.failed()) return {};
  if (c.RankOf(indices) == 0) indices = c.Reshape(indices, {1});
  if (c.RankOf(indices) == 1) indices = c.Unsqueeze(indices, {1});
  const Dims places = c.DimsOf(indices);
  values = c.BroadcastTo(values, {places[0]});
  return {
      c.Op("scatter_nd", {c.Filled(c.Scalar(otherwise), shape), tensorflow_family::IndexTuples(c, indices), values})};
}

Operands OneHot(NodeContext& c) { return tensorflow_family::OneHot(c, c.options().Number<int32_t>(0, 0)); }

Operands TopK(NodeContext& c) { return tensorflow_family::TopK(c, c.Int(1, "number of elements")); }

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

Operands Bucketize(NodeContext& c) { return tensorflow_family::Bucketize(c, c.options().Numbers<float>(0)); }

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
  return {tensorflow_family::DiagonalMatrices(c, x)};
}
Operands MatrixSetDiag(NodeContext& c) { return {c.Op("matrix_set_diag", {c.In(0), c.In(1)})}; }

Operands UnsortedSegments(NodeContext& c) { return tensorflow_family::UnsortedSegments(c, c.row().variant); }

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
    {"SCATTER_ND", Shared<tensorflow_family::ScatterNd>},
    {"SEGMENT_SUM", Shared<tensorflow_family::SegmentSum>},
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
