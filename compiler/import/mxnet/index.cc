// Operators that read or choose elements by indices, and sequences by their lengths. MXNet keeps indices in floats.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/checks.h"
#include "compiler/import/mxnet/importer.h"

namespace rvm::mxnet {
namespace {

// The mode of Relay's take.
std::string TakeMode(NodeContext& c) {
  const std::string mode = c.Text("mode", "clip");
  if (mode != "clip" && mode != "wrap" && mode != "raise") {
    c.Fail(absl::StrCat("`mode`: saw `", ReadableText(mode.substr(0, 40)), "`; expected clip, wrap or raise"));
  }
  return mode;
}

Operands Take(NodeContext& c) {
  Operand x = c.In(0), indices = c.Indices(c.In(1));
  const int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  const std::string mode = TakeMode(c);
  if (c.failed()) return {};
  if (mode == "raise") {
    Operand last = c.emit().FromDim(c.ExtentOf(x, axis) - 1);
    x = importing::CheckRange(c, x, indices, c.Integer(0), last, "an index");
  }
  return {c.Op("take", {x, indices}, {{"axis", axis}, {"mode", mode == "wrap" ? "wrap" : "clip"}})};
}
Operands Embedding(NodeContext& c) {
  return {c.Op("take", {c.In(1), c.Indices(c.In(0))}, {{"axis", 0}, {"mode", "clip"}})};
}

// One element for each place of the other axes.
Operand Picked(NodeContext& c, Operand x, Operand indices, int64_t axis, bool keeps, bool wraps) {
  axis = c.Axis(axis, c.RankOf(x));
  indices = c.Cast(indices, kInt64);  // holds the extent, too
  if (c.failed()) return x;
  if (c.RankOf(indices) == c.RankOf(x) - 1) indices = c.Unsqueeze(indices, {axis});
  const Dim extent = c.ExtentOf(x, axis);
  Operand count = c.emit().FromDim(extent);
  if (wraps) {
    indices = c.Op("floor_mod", {indices, count});
  } else {
    Operand last = c.Sub(count, c.Number(1, indices));
    indices = c.Op("minimum", {c.Op("maximum", {indices, c.Number(0, indices)}), last});
  }
  Operand y = c.Op("gather", {x, indices}, {{"axis", axis}});
  return keeps ? y : c.Squeeze(y, {axis});
}
Operands Pick(NodeContext& c) {
  const bool keeps = c.Bool("keepdims", false), wraps = TakeMode(c) == "wrap";
  return {Picked(c, c.In(0), c.In(1), c.Int("axis", -1), keeps, wraps)};
}
Operands BatchTake(NodeContext& c) { return {Picked(c, c.In(0), c.In(1), 1, false, false)}; }

Operands GatherNd(NodeContext& c) { return {c.Op("gather_nd", {c.In(0), c.Indices(c.In(1))})}; }

Operands OneHot(NodeContext& c) {
  const DataType dtype = c.DType("dtype", kFloat32);
  const int64_t depth = c.IntWithin("depth", 1, 1, int64_t{1} << 31);
  Operand on = c.emit().Number(c.Float("on_value", 1), dtype), off = c.emit().Number(c.Float("off_value", 0), dtype);
  return {c.Op("one_hot", {c.Indices(c.In(0)), on, off}, {{"depth", depth}, {"dtype", dtype.ToString()}})};
}

// ---- sequences: time is axis 0 or 1, the batch the other one

// Returns the axis of time; nullopt, and a mistake, for another one.
std::optional<int64_t> TimeAxis(NodeContext& c) {
  const int64_t axis = c.IntWithin("axis", 0, 0, 1);
  return c.failed() ? std::nullopt : std::optional(axis);
}
bool HasLengths(NodeContext& c) { return c.Bool("use_sequence_length", false); }

Operands SequenceMask(NodeContext& c) {
  Operand x = c.In(0);
  const std::optional<int64_t> axis = TimeAxis(c);
  if (!axis || !HasLengths(c)) return {x};
  return {c.Op("sequence_mask", {x, c.Indices(c.In(1))}, {{"mask_value", c.Float("value", 0)}, {"axis", *axis}})};
}
Operands SequenceReverse(NodeContext& c) {
  Operand x = c.In(0);
  if (!HasLengths(c)) return {c.Op("reverse", {x}, {{"axis", 0}})};
  return {c.Op("reverse_sequence", {x, c.Indices(c.In(1))}, {{"seq_axis", 0}, {"batch_axis", 1}})};
}
Operands SequenceLast(NodeContext& c) {
  Operand x = c.In(0);
  const std::optional<int64_t> axis = TimeAxis(c);
  if (!axis) return {};
  if (!HasLengths(c)) {
    const Dim extent = c.ExtentOf(x, *axis);
    return {c.failed() ? x : c.Squeeze(c.SliceAxis(x, *axis, extent - 1, extent), {*axis})};
  }
  Operand last = c.Indices(c.In(1));
  last = c.Sub(last, c.Number(1, last));
  if (*axis == 0) x = SwapAxes(c, x, 0, 1);
  return {c.Op("take", {x, last}, {{"axis", 1}, {"batch_dims", 1}, {"mode", "clip"}})};
}

constexpr OperatorRow kRows[] = {
    {"Embedding", Embedding},
    {"SequenceLast", SequenceLast},
    {"SequenceMask", SequenceMask},
    {"SequenceReverse", SequenceReverse},
    {"batch_take", BatchTake},
    {"gather_nd", GatherNd},
    {"one_hot", OneHot},
    {"pick", Pick},
    {"take", Take},
};

}  // namespace

std::span<const OperatorRow> IndexOperators() { return kRows; }

}  // namespace rvm::mxnet
