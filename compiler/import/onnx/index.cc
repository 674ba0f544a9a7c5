// Elements picked by index, and written there.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/checks.h"
#include "compiler/import/onnx/importer.h"

namespace rvm::onnx::convert {
namespace {

bool IsNatural(Operand indices) {
  if (!indices->constant) return false;
  for (int64_t i = 0; i < indices->constant->num_elements(); ++i) {
    if (indices->constant->IntAt(i) < 0) return false;
  }
  return true;
}

// Negative indices counted from the end of `extents`, which broadcasts with them.
Operand FromTheFront(NodeContext& c, Operand indices, Operand extents) {
  if (IsNatural(indices)) return indices;
  Operand zero = c.Number(0, indices);
  return c.Where(c.Op("less", {indices, zero}), c.Add(indices, c.Cast(extents, c.DTypeOf(indices))), indices);
}

Operand AlongAxis(NodeContext& c, Operand x, Operand indices, int64_t axis) {
  return FromTheFront(c, indices, c.emit().FromDim(c.ExtentOf(x, axis)));
}

// Index tuples along the last axis as Relay wants them, along the first.
Operand IndexTuples(NodeContext& c, Operand x, Operand indices, int64_t batch_dims) {
  int64_t rank = c.RankOf(indices);
  std::optional<int64_t> length = importing::KnownExtent(c, indices, -1, "index tuples");
  if (!length) return c.emit().Placeholder();
  const Dims& dims = c.DimsOf(x);
  if (*length + batch_dims > static_cast<int64_t>(dims.size()) || batch_dims < 0) {
    return c.Fail("its index tuples are longer than its input has axes");
  }
  std::span<const Dim> indexed = std::span(dims).subspan(static_cast<size_t>(batch_dims), static_cast<size_t>(*length));
  indices = FromTheFront(c, c.Cast(indices, kInt64), c.emit().FromDims(indexed));
  std::vector<int64_t> axes = {rank - 1};
  for (int64_t i = 0; i + 1 < rank; ++i) axes.push_back(i);
  return c.Transpose(indices, axes);
}

std::string Reduction(NodeContext& c) {
  std::string reduction = c.Text("reduction", "none");
  return reduction == "none" ? "update" : reduction;
}

Operands Gather(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Op("take", {x, c.In(1)}, {{"axis", c.Axis(c.Int("axis", 0), c.RankOf(x))}, {"mode", "wrap"}})};
}

Operands GatherElements(NodeContext& c) {
  Operand x = c.In(0);
  int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  return {c.Op("gather", {x, AlongAxis(c, x, c.In(1), axis)}, {{"axis", axis}})};
}

Operands GatherND(NodeContext& c) {
  int64_t batch_dims = c.Int("batch_dims", 0);
  return {c.Op("gather_nd", {c.In(0), IndexTuples(c, c.In(0), c.In(1), batch_dims)}, {{"batch_dims", batch_dims}})};
}

Operands ScatterElements(NodeContext& c) {
  Operand x = c.In(0);
  int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  return {c.Op("scatter_elements", {x, AlongAxis(c, x, c.In(1), axis), c.In(2)},
               {{"axis", axis}, {"reduction", Reduction(c)}})};
}

Operands ScatterND(NodeContext& c) {
  return {c.Op("scatter_nd", {c.In(0), IndexTuples(c, c.In(0), c.In(1), 0), c.In(2)}, {{"mode", Reduction(c)}})};
}

Operands OneHot(NodeContext& c) {
  Operand indices = c.Cast(c.In(0), kInt64), depth = c.Cast(c.Scalar(c.In(1)), kInt64), values = c.In(2);
  indices = FromTheFront(c, indices, depth);
  Operand off = c.Scalar(c.SliceAxis(values, 0, 0, 1)), on = c.Scalar(c.SliceAxis(values, 0, 1, 2));
  ir::Attrs attrs = {{"axis", c.Int("axis", -1)}, {"dtype", c.DTypeOf(values).ToString()}};
  if (!depth->constant) return {c.Op("dyn.one_hot", {indices, on, off, depth}, attrs)};
  attrs.Set("depth", depth->constant->IntAt(0));
  return {c.Op("one_hot", {indices, on, off}, attrs)};
}

Operands NonZero(NodeContext& c) {
  Operand places = c.Op("argwhere", {c.In(0)});
  return {c.Cast(c.Op("transpose", {places}, {{"axes", ir::AttrValue::List{1, 0}}}), kInt64)};
}

Operands Compress(NodeContext& c) {
  Operand x = c.In(0);
  int64_t axis = 0;
  if (c.HasAttr("axis")) {
    axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  } else {
    x = importing::Flat(c, x);
  }
  Operand places = c.Squeeze(c.Op("argwhere", {c.In(1)}), {1});
  return {c.Op("take", {x, places}, {{"axis", axis}})};
}

Operands Unique(NodeContext& c) {
  Operand x = c.In(0);
  ir::Attrs attrs = {{"sorted", c.Int("sorted", 1) != 0}, {"return_counts", true}};
  if (c.HasAttr("axis")) {
    attrs.Set("axis", c.Int("axis", 0));
  } else {
    x = importing::Flat(c, x);
  }
  Operand found = c.Op("unique", {x}, std::move(attrs));
  auto numbers = [&](uint32_t field) { return c.Cast(c.emit().Field(found, field), kInt64); };
  if (c.failed()) return {};
  return {c.emit().Field(found, 0), numbers(1), numbers(2), numbers(4)};
}

Operands ReverseSequence(NodeContext& c) {
  int64_t axis = c.Int("time_axis", 0);
  Operand steps = c.emit().FromDim(c.ExtentOf(c.In(0), axis));
  Operand x = importing::CheckRange(c, c.In(0), c.In(1), c.Integer(0), steps, "the length of a sequence");
  return {c.Op("reverse_sequence", {x, c.In(1)}, {{"seq_axis", axis}, {"batch_axis", c.Int("batch_axis", 1)}})};
}

constexpr OperatorRow kRows[] = {
    {"Compress", Compress},
    {"Gather", Gather},
    {"GatherElements", GatherElements},
    {"GatherND", GatherND},
    {"NonZero", NonZero},
    {"OneHot", OneHot},
    {"ReverseSequence", ReverseSequence},
    {"Scatter", ScatterElements},
    {"ScatterElements", ScatterElements},
    {"ScatterND", ScatterND},
    {"Unique", Unique},
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::onnx::convert
