// Operators that move elements or make tensors.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/mxnet/importer.h"
#include "compiler/import/shapes.h"

namespace rvm::mxnet {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;

// ---- other axes

// Codes of a new shape: 0 copies an extent, -1 is what the others leave, -2 copies all that remain, -3 joins two, and
// -4 splits one into the two extents behind it.
std::optional<Dims> CodedShape(NodeContext& c, const Dims& from, std::span<const int64_t> codes) {
  Dims to;
  size_t place = 0;
  auto next = [&]() -> Dim {
    if (place < from.size()) return from[place++];
    c.Fail(absl::StrCat("its shape takes more extents than its input has, ", from.size()));
    return 1;
  };
  for (size_t i = 0; i < codes.size() && !c.failed(); ++i) {
    const int64_t code = codes[i];
    if (code > 0 || code == -1) {
      to.emplace_back(code);
      if (place < from.size()) ++place;
    } else if (code == 0) {
      to.push_back(next());
    } else if (code == -2) {
      while (place < from.size()) to.push_back(next());
    } else if (code == -3) {
      const Dim first = next();
      to.push_back(first * next());
    } else if (code == -4 && i + 2 < codes.size()) {
      const Dims whole = {next()};
      std::optional<Dims> parts = TargetShape(c, whole, {Dim(codes[i + 1]), Dim(codes[i + 2])});
      if (!parts) return std::nullopt;
      to.insert(to.end(), parts->begin(), parts->end());
      i += 2;
    } else {
      c.Fail(absl::StrCat("its shape has ", code, "; expected an extent, or a code from 0 to -4"));
    }
  }
  return c.failed() ? std::nullopt : TargetShape(c, from, std::move(to));
}

Operands Reshape(NodeContext& c) {
  Operand x = c.In(0);
  Dims from = c.DimsOf(x);
  std::vector<int64_t> codes = c.Ints("shape");
  if (codes.empty()) codes = c.Ints("target_shape");
  const bool is_reversed = c.Bool("reverse", false);
  if (c.failed()) return {};
  if (codes.empty()) return {c.Fail("its shape is missing")};
  if (is_reversed) {
    if (std::ranges::find(codes, -4) != codes.end()) return {c.Unsupported("`reverse` with a split of an extent")};
    std::ranges::reverse(from);
    std::ranges::reverse(codes);
  }
  std::optional<Dims> to = CodedShape(c, from, codes);
  if (!to) return {};
  if (is_reversed) std::ranges::reverse(*to);
  return {c.Reshape(x, *to)};
}
Operands ReshapeLike(NodeContext& c) {
  for (const char* name : {"lhs_begin", "lhs_end", "rhs_begin", "rhs_end"}) {
    if (c.HasAttr(name)) return {c.Unsupported(absl::StrCat("`", name, "`"))};
  }
  return {c.Reshape(c.In(0), Dims(c.DimsOf(c.In(1))))};
}

Operands Transpose(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t rank = c.RankOf(x);
  std::vector<int64_t> axes = c.Axes(c.Ints("axes"), rank);
  if (axes.empty()) {
    axes = importing::AllAxes(rank);
    std::ranges::reverse(axes);
  }
  return {c.failed() ? x : c.Transpose(x, axes)};
}
Operands SwapTwoAxes(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t a = c.Int("dim1", 0), b = c.Int("dim2", 0);
  return {c.failed() ? x : SwapAxes(c, x, a, b)};
}
Operands ExpandDims(NodeContext& c) {
  const int64_t count = c.IntWithin("num_newaxis", 1, 0, 16);
  return {c.Op("expand_dims", {c.In(0)}, {{"axis", c.Int("axis", 0)}, {"num_newaxis", count}})};
}
Operands Squeeze(NodeContext& c) {
  Operand x = c.In(0);
  std::vector<int64_t> axes = c.Axes(c.Ints("axis"), c.RankOf(x));
  if (c.failed()) return {};
  if (axes.empty()) {
    for (int64_t axis = 0; axis < c.RankOf(x); ++axis) {
      if (c.ExtentOf(x, axis) == Dim(1)) axes.push_back(axis);
    }
  }
  return {c.Squeeze(x, axes)};
}

// ---- parts joined and split

Operands Concat(NodeContext& c) {
  const int64_t axis = c.Int(c.row().variant == "axis" ? "axis" : "dim", 1);
  const Operands& parts = c.All();
  return c.failed() ? Operands{} : Operands{c.Concatenate(parts, axis)};
}
Operands Stack(NodeContext& c) {
  const int64_t axis = c.Int("axis", 0);
  Operands parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) parts.push_back(c.Op("expand_dims", {c.In(i)}, {{"axis", axis}}));
  if (parts.empty()) return {c.Fail("it has no inputs")};
  return {c.failed() ? parts[0] : c.Concatenate(parts, axis)};
}

// Returns the parts of those sizes along an axis; the program fails where they do not add up to its extent.
Operands Split(NodeContext& c, Operand x, int64_t axis, const Dims& sizes, bool squeezes) {
  x = importing::CheckSizes(c, x, axis, sizes);
  if (c.failed()) return {};
  Operands parts = importing::PartsOf(c, x, axis, sizes);
  if (squeezes) {
    for (Operand& part : parts) part = c.Squeeze(part, {axis});
  }
  return parts;
}

// Returns `count` equal parts along an axis.
Operands SplitEqually(NodeContext& c, Operand x, int64_t axis, int64_t count, bool squeezes) {
  const Dim extent = c.ExtentOf(x, axis);
  if (c.failed()) return {};
  if (extent.is_const() && extent.constant() % count != 0) {
    return {c.Fail(absl::StrCat("an extent of ", extent.constant(), " is not ", count, " equal parts"))};
  }
  return Split(c, x, axis, Dims(static_cast<size_t>(count), FloorDiv(extent, count)), squeezes);
}

Operands SliceChannel(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t count = c.IntWithin("num_outputs", 1, 1, 4096), axis = c.Axis(c.Int("axis", 1), c.RankOf(x));
  return SplitEqually(c, x, axis, count, c.Bool("squeeze_axis", false));
}

// Returns the parts that begin at `indices`, of which the first is 0, or a number of equal ones.
Operands SplitAt(NodeContext& c) {
  Operand x = c.In(0);
  const bool is_nnvm = c.row().variant == "nnvm";
  const int64_t axis = c.Axis(c.Int("axis", is_nnvm ? 0 : 1), c.RankOf(x));
  std::vector<int64_t> indices = c.Ints(is_nnvm ? "indices_or_sections" : "indices");
  const std::string text = c.Text("indices_or_sections", "");
  int64_t sections = is_nnvm ? 0 : c.IntWithin("sections", 0, 0, 4096);
  if (is_nnvm && indices.size() == 1 && !text.starts_with('(') && !text.starts_with('[')) {
    sections = c.IntWithin("indices_or_sections", 1, 1, 4096);
  }
  const bool squeezes = c.Bool("squeeze_axis", false);
  if (c.failed()) return {};
  if (sections > 0) return SplitEqually(c, x, axis, sections, squeezes);
  if (!is_nnvm && !indices.empty() && indices[0] == 0) indices.erase(indices.begin());
  Dims sizes;
  int64_t last = 0;
  for (int64_t index : indices) {
    if (index < last) return {c.Fail("its indices do not increase")};
    sizes.push_back(Dim(index - last));
    last = index;
  }
  const Dim extent = c.ExtentOf(x, axis);
  if (extent.is_const() && last > extent.constant()) return {c.Fail("an index is beyond the extent of its axis")};
  sizes.push_back(extent - Dim(last));
  return Split(c, x, axis, sizes, squeezes);
}

// ---- slices

Operand Sliced(NodeContext& c, Operand x, std::span<const std::optional<int64_t>> begins,
               std::span<const std::optional<int64_t>> ends, std::span<const std::optional<int64_t>> steps,
               const std::vector<int64_t>& axes) {
  constexpr int64_t kEnd = std::numeric_limits<int32_t>::max();
  std::vector<int64_t> from, to, by;
  for (size_t i = 0; i < begins.size(); ++i) {
    const int64_t step = i < steps.size() ? steps[i].value_or(1) : 1;
    if (step == 0) return c.Fail("its step is 0");
    by.push_back(step);
    from.push_back(begins[i].value_or(step > 0 ? 0 : kEnd));
    to.push_back(ends[i].value_or(step > 0 ? kEnd : -kEnd));
  }
  return c.Op("strided_slice", {x},
              {{"begin", ir::IntList(from)},
               {"end", ir::IntList(to)},
               {"strides", ir::IntList(by)},
               {"axes", ir::IntList(axes)}});
}

Operands Slice(NodeContext& c) {
  Operand x = c.In(0);
  const auto begins = c.OptionalInts("begin"), ends = c.OptionalInts("end");
  const auto steps = c.OptionalInts(c.HasAttr("stride") ? "stride" : "step");
  if (c.failed()) return {};
  if (begins.size() != ends.size() || static_cast<int64_t>(begins.size()) > c.RankOf(x)) {
    return {c.Fail(absl::StrCat("it has ", begins.size(), " begins and ", ends.size(), " ends; its input has rank ",
                                c.RankOf(x)))};
  }
  return {Sliced(c, x, begins, ends, steps, importing::AllAxes(static_cast<int64_t>(begins.size())))};
}
Operands SliceAxis(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  const auto begins = c.OptionalInts("begin"),
             ends = c.HasAttr("end") ? c.OptionalInts("end") : std::vector<std::optional<int64_t>>(1);
  if (c.failed()) return {};
  if (begins.size() != 1 || ends.size() != 1) return {c.Fail("its begin or its end is not one integer")};
  return {Sliced(c, x, begins, ends, {}, {axis})};
}
Operands SliceLike(NodeContext& c) {
  Operand x = c.In(0), like = c.In(1);
  const int64_t rank = c.RankOf(x);
  for (int64_t axis : c.AxesOf(c.HasAttr("axis") ? "axis" : "axes", rank)) {
    if (c.failed()) return {};
    x = c.SliceAxis(x, axis, 0, c.ExtentOf(like, axis));
  }
  return {x};
}
Operands Reverse(NodeContext& c) {
  Operand x = c.In(0);
  for (int64_t axis : c.Axes(c.Ints("axis"), c.RankOf(x))) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

// ---- copies

Operands BroadcastTo(NodeContext& c) {
  Operand x = c.In(0);
  Dims dims = c.DimsOf(x);
  const std::vector<int64_t> to = c.Ints("shape");
  if (c.failed()) return {};
  if (to.size() != dims.size()) return {c.Fail("its shape has another rank than its input")};
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] != 0) dims[i] = to[i];
  }
  return {c.BroadcastTo(x, dims)};
}
Operands BroadcastLike(NodeContext& c) {
  if (c.HasAttr("lhs_axes") || c.HasAttr("rhs_axes")) return {c.Unsupported("axes of its own")};
  return {c.BroadcastTo(c.In(0), Dims(c.DimsOf(c.In(1))))};
}
Operands BroadcastAxis(NodeContext& c) {
  Operand x = c.In(0);
  Dims dims = c.DimsOf(x);
  const std::vector<int64_t> axes = c.Axes(c.Ints("axis"), c.RankOf(x)), sizes = c.Ints("size");
  if (c.failed()) return {};
  if (axes.size() != sizes.size()) return {c.Fail("it has not as many sizes as axes")};
  for (size_t i = 0; i < axes.size(); ++i) dims[static_cast<size_t>(axes[i])] = sizes[i];
  return {c.BroadcastTo(x, dims)};
}
Operands Repeat(NodeContext& c) {
  const int64_t count = c.IntWithin("repeats", 1, 0, kMaxExtent);
  ir::Attrs attrs = {{"repeats", count}};
  if (c.HasAttr("axis")) attrs.Set("axis", c.Int("axis", 0));
  return {c.Op("repeat", {c.HasAttr("axis") ? c.In(0) : Flat(c, c.In(0))}, std::move(attrs))};
}
Operands Tile(NodeContext& c) { return {c.Op("tile", {c.In(0)}, {{"reps", ir::IntList(c.Ints("reps"))}})}; }

// Widths before and after each axis in turn.
Operands Pad(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> widths = c.Ints("pad_width");
  const std::string mode = c.Text("mode", "constant");
  if (c.failed()) return {};
  if (static_cast<int64_t>(widths.size()) != 2 * c.RankOf(x))
    return {c.Fail("`pad_width` has not two numbers for each axis")};
  for (int64_t width : widths) {
    if (width < 0 || width > kMaxExtent) return {c.Fail("`pad_width` is out of range")};
  }
  if (mode == "constant") {
    // NNVM names it `pad_value`.
    const double value = c.Float("constant_value", c.Float("pad_value", 0));
    return {PadBy(c, x, value, Dims(widths.begin(), widths.end()))};
  }
  if (mode != "edge" && mode != "reflect") {
    return {c.Unsupported(absl::StrCat("`mode=", ReadableText(mode.substr(0, 40)), "`"))};
  }
  return {c.Op("nn.pad", {x, c.Number(0, x)}, {{"pad_width", importing::PadWidths(widths)}, {"pad_mode", mode}})};
}

Operands Blocks(NodeContext& c) {
  return {c.Op(c.row().variant, {c.In(0)}, {{"block_size", c.IntWithin("block_size", 1, 1, 4096)}})};
}

// ---- tensors of given extents

// Makes a tensor of one value. An extent that the graph leaves open, as in states of recurrent cells, is 1 and
// broadcasts.
Operands Filled(NodeContext& c) {
  std::vector<int64_t> shape = c.Ints("shape");
  for (int64_t& extent : shape) {
    if (extent < 0 || extent > kMaxExtent) return {c.Fail("`shape` is out of range")};
    if (extent == 0) extent = 1;
  }
  const double value = c.row().variant == "1"   ? 1
                       : c.row().variant == "0" ? 0
                                                : c.Float(c.HasAttr("fill_value") ? "fill_value" : "value", 0);
  const DataType dtype = c.DType("dtype", kFloat32);
  return {c.Op("full", {c.emit().Number(value, dtype)}, {{"shape", ir::IntList(shape)}, {"dtype", dtype.ToString()}})};
}
Operands FullLike(NodeContext& c) {
  Operand x = c.In(0);
  return {c.Op("full_like", {x, c.Number(c.Float("fill_value", 0), x)})};
}

Operands Arange(NodeContext& c) {
  const DataType dtype = c.DType("dtype", kFloat32);
  const bool has_stop = c.HasAttr("stop");
  const double start = has_stop ? c.Float("start", 0) : 0, stop = has_stop ? c.Float("stop", 0) : c.Float("start", 0);
  auto number = [&](double value) { return c.emit().Number(value, dtype); };
  Operand x = c.Op("arange", {number(start), number(stop), number(c.Float("step", 1))});
  const int64_t repeats = c.IntWithin("repeat", 1, 1, kMaxExtent);
  return {repeats == 1 ? x : c.Op("repeat", {x}, {{"repeats", repeats}, {"axis", 0}})};
}
// 0, 1, ... along an axis of a tensor, or in its shape.
Operands ArangeLike(NodeContext& c) {
  Operand x = c.In(0);
  const double start = c.Float("start", 0), step = c.Float("step", 1);
  const bool has_axis = c.HasAttr("axis");
  const Dims dims = c.DimsOf(x);
  const Dim count = has_axis ? c.ExtentOf(x, c.Int("axis", 0)) : importing::Product(dims);
  if (c.failed() || c.Int("repeat", 1) != 1) return {c.Unsupported("`repeat`")};
  Operand y = c.Cast(c.Iota(count), c.DTypeOf(x));
  y = c.Add(c.Mul(y, c.Number(step, y)), c.Number(start, y));
  return {has_axis ? y : c.Reshape(y, dims)};
}
Operands ShapeArray(NodeContext& c) { return {c.emit().FromDims(Dims(c.DimsOf(c.In(0))))}; }
Operands SizeArray(NodeContext& c) { return {c.Unsqueeze(c.NumElements(c.In(0)), {0})}; }

constexpr OperatorRow kRows[] = {
    {"Concat", Concat},
    {"Pad", Pad},
    {"Reshape", Reshape},
    {"SliceChannel", SliceChannel},
    {"SwapAxis", SwapTwoAxes},
    {"_arange", Arange},
    {"_contrib_arange_like", ArangeLike},
    {"_full", Filled},
    {"_ones", Filled, "1"},
    {"_split_v2", SplitAt},
    {"_zeros", Filled, "0"},
    {"broadcast_axes", BroadcastAxis},
    {"broadcast_axis", BroadcastAxis},
    {"broadcast_like", BroadcastLike},
    {"broadcast_to", BroadcastTo},
    {"concat", Concat},
    {"concatenate", Concat, "axis"},
    {"depth_to_space", Blocks, "nn.depth_to_space"},
    {"expand_dims", ExpandDims},
    {"flip", Reverse},
    {"full", Filled},
    {"full_like", FullLike},
    {"ones", Filled, "1"},
    {"pad", Pad},
    {"repeat", Repeat},
    {"reshape", Reshape},
    {"reshape_like", ReshapeLike},
    {"reverse", Reverse},
    {"shape_array", ShapeArray},
    {"size_array", SizeArray},
    {"slice", Slice},
    {"slice_axis", SliceAxis},
    {"slice_like", SliceLike},
    {"space_to_depth", Blocks, "nn.space_to_depth"},
    {"split", SplitAt, "nnvm"},
    {"squeeze", Squeeze},
    {"stack", Stack},
    {"strided_slice", Slice},
    {"swapaxes", SwapTwoAxes},
    {"tile", Tile},
    {"transpose", Transpose},
    {"zeros", Filled, "0"},
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::mxnet
