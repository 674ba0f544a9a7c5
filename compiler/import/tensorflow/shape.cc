// Operators that move elements, and those on shapes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/checks.h"
#include "compiler/import/tensorflow/importer.h"

namespace rvm::tensorflow {
namespace {

Operands Reshape(NodeContext& c) {
  Operand x = c.In(0), shape = c.In(1);
  if (c.failed()) return {};
  std::optional<Dims> dims = c.Symbols(shape);
  // An extent of 0 is one: it does not stand for that of the input.
  if (!dims) return {c.Op("dyn.reshape", {x, c.Cast(shape, kInt64)}, {{"allowzero", 1}})};
  dims = importing::TargetShape(c, c.DimsOf(x), *std::move(dims));
  return {dims ? c.Reshape(x, *dims) : nullptr};
}

Operands Squeeze(NodeContext& c) {
  return tensorflow_family::Squeeze(c, c.node().attr(c.node().Has("squeeze_dims") ? "squeeze_dims" : "axis").Ints());
}

// The axis is the last input, or the first one.
Operands Concat(NodeContext& c) {
  const bool is_first = c.row().variant == "axis first";
  if (c.num_inputs() < 2) return {c.Fail("it has no inputs")};
  const int64_t axis = c.Int(is_first ? 0 : c.num_inputs() - 1, "axis");
  Operands parts = c.InputsFrom(is_first ? 1 : 0);
  if (!is_first) parts.pop_back();
  return {c.failed() ? nullptr : c.Concatenate(std::move(parts), axis)};
}

Operands Pack(NodeContext& c) {
  Operands parts;
  if (c.num_inputs() == 0) return {c.Fail("it has no inputs")};
  const int64_t axis = c.Axis(c.IntAttr("axis", 0), c.RankOf(c.In(0)) + 1);
  for (size_t i = 0; i < c.num_inputs() && !c.failed(); ++i) parts.push_back(c.Unsqueeze(c.In(i), {axis}));
  return {c.failed() ? nullptr : c.Concatenate(std::move(parts), axis)};
}

Operands Unpack(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  const int64_t axis = c.Axis(c.IntAttr("axis", 0), c.RankOf(x)), count = c.IntAttr("num", 0);
  if (count < 0 || count > importing::kMaxParts) return {c.Fail(absl::StrCat("it has ", count, " parts"))};
  Operands parts;
  for (int64_t i = 0; i < count; ++i) parts.push_back(c.Op("take", {x, c.Integer(i)}, {{"axis", axis}}));
  return parts;
}

Operands Split(NodeContext& c) {
  const int64_t count = c.IntAttr("num_split", 0);
  if (count == 1) return {c.In(1)};
  return tensorflow_family::Split(c, count);
}

Operands Pad(NodeContext& c) {
  Operand x = c.In(0), widths = c.In(1);
  if (c.failed()) return {};
  Operand value = c.Has(2) ? c.Scalar(c.In(2)) : c.Number(0, x);
  if (!widths->constant) {
    return {c.Op("dyn.nn.pad", {x, c.Cast(widths, kInt64), value}, {{"pad_mode", "constant"}})};
  }
  const std::vector<int64_t> known = c.Ints(1, "widths");
  if (static_cast<int64_t>(known.size()) != 2 * c.RankOf(x)) return {c.Fail("its widths do not fit its input")};
  return {c.Op("nn.pad", {x, value}, {{"pad_width", importing::PadWidths(known)}})};
}

Operands MirrorPad(NodeContext& c) {
  const std::vector<int64_t> widths = c.Ints(1, "widths");
  if (c.failed()) return {};
  return {c.Op("nn.mirror_pad", {c.In(0)},
               {{"mode", std::string(c.TextAttr("mode", "REFLECT"))}, {"pad_width", importing::PadWidths(widths)}})};
}

DataType OutType(NodeContext& c) { return c.node().Has("out_type") ? c.TypeAttr("out_type") : kInt32; }

Operands ShapeOf(NodeContext& c) {
  const DataType dtype = OutType(c);
  Operands shapes;
  for (Operand x : c.inputs()) shapes.push_back(c.Cast(c.emit().FromDims(c.DimsOf(x)), dtype));
  return shapes;
}
Operands Size(NodeContext& c) {
  const DataType dtype = OutType(c);
  Operand x = c.In(0);
  return {c.failed() ? nullptr : c.Cast(c.NumElements(x), dtype)};
}

Operands Reverse(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  for (int64_t axis : c.AxesAt(1, c.RankOf(x))) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

// Elements that move by a number of places, and come in again at the other end.
Operands Roll(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> shifts = c.Ints(1, "shifts");
  if (c.failed()) return {};
  const std::vector<int64_t> axes = c.AxesAt(2, c.RankOf(x));
  if (shifts.size() != axes.size()) return {c.Fail("it has another number of shifts than of axes")};
  for (size_t i = 0; i < axes.size() && !c.failed(); ++i) {
    const std::optional<int64_t> extent = importing::KnownExtent(c, x, axes[i], "axis that moves");
    if (!extent || *extent == 0) continue;
    const int64_t first = (*extent - shifts[i] % *extent) % *extent;
    if (first == 0) continue;
    x = c.Concatenate({c.SliceAxis(x, axes[i], first, *extent), c.SliceAxis(x, axes[i], 0, first)}, axes[i]);
  }
  return {x};
}

Operands Like(NodeContext& c) { return {c.Op(c.row().variant, {c.In(0)})}; }

// Returns `count` numbers from the first to the last one.
Operands LinSpace(NodeContext& c) {
  Operand first = c.In(0), last = c.In(1);
  const int64_t count = c.Int(2, "number of elements");
  if (c.failed()) return {};
  if (count < 1) return {c.Fail(absl::StrCat("it has ", count, " elements"))};
  Operand places = c.Cast(c.Iota(count), c.DTypeOf(first));
  Operand step = c.Div(c.Sub(last, first), c.Number(static_cast<double>(std::max<int64_t>(count - 1, 1)), first));
  return {c.Add(first, c.Mul(places, step))};
}

// Blocks of space and channels.
Operands Blocks(NodeContext& c) {
  return {
      c.Op(c.row().variant, {c.In(0)},
           {{"block_size", c.IntAttr("block_size", 0)}, {"layout", std::string(c.TextAttr("data_format", "NHWC"))}})};
}

Operands SpaceAndBatch(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> block = c.Ints(1, "block shape"), widths = c.Ints(2, "widths");
  if (c.failed()) return {};
  if (widths.size() != 2 * block.size()) return {c.Fail("its widths do not fit its blocks")};
  ir::Attrs attrs = {{"block_shape", ir::IntList(block)}};
  attrs.Set(std::string(c.row().variant), importing::PadWidths(widths));
  return {c.Op(c.row().variant == "crops" ? "nn.batch_to_space_nd" : "nn.space_to_batch_nd", {x}, std::move(attrs))};
}

constexpr OperatorRow kRows[] = {
    {"BatchToSpaceND", SpaceAndBatch, "crops"},
    {"BroadcastArgs", Shared<tensorflow_family::BroadcastArgs>},
    {"BroadcastTo", Shared<tensorflow_family::BroadcastTo>},
    {"Concat", Concat, "axis first"},
    {"ConcatV2", Concat},
    {"DepthToSpace", Blocks, "nn.depth_to_space"},
    {"ExpandDims", Shared<tensorflow_family::ExpandDims>},
    {"Fill", Shared<tensorflow_family::Fill>},
    {"LinSpace", LinSpace},
    {"MirrorPad", MirrorPad},
    {"OnesLike", Like, "ones_like"},
    {"Pack", Pack},
    {"Pad", Pad},
    {"PadV2", Pad},
    {"Range", Shared<tensorflow_family::Range>},
    {"Rank", Shared<tensorflow_family::Rank>},
    {"Reshape", Reshape},
    {"ReverseV2", Reverse},
    {"Roll", Roll},
    {"Shape", ShapeOf},
    {"ShapeN", ShapeOf},
    {"Size", Size},
    {"SpaceToBatchND", SpaceAndBatch, "paddings"},
    {"SpaceToDepth", Blocks, "nn.space_to_depth"},
    {"Split", Split},
    {"SplitV", Shared<tensorflow_family::SplitV>},
    {"Squeeze", Squeeze},
    {"Tile", Shared<tensorflow_family::Tile>},
    {"Transpose", Shared<tensorflow_family::Transpose>},
    {"Unpack", Unpack},
    {"ZerosLike", Like, "zeros_like"},
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::tensorflow
