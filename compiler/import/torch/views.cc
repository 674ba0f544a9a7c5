// Axes moved, strides and windows, tensors split and joined along axes that the operator's name says.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/shapes.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::Product;

Operand Concatenated(NodeContext& c, Operands parts, int64_t axis) {
  if (c.failed() || parts.empty()) return c.failed() ? nullptr : c.Fail("it has no tensors");
  std::vector<Operand*> all;
  for (Operand& part : parts) all.push_back(&part);
  c.Promote(all);
  return parts.size() == 1 ? parts[0] : c.Op("concatenate", {c.emit().Tuple(parts)}, {{"axis", axis}});
}

// x with at least `rank` axes, as numpy's atleast_1d and its kin have it.
Operand AtLeast(NodeContext& c, Operand x, int64_t rank) {
  while (c.RankOf(x) < rank && !c.failed()) x = c.Unsqueeze(x, {c.RankOf(x) < 2 ? 0 : 2});
  return x;
}

// The axis that the first letter of hsplit, vsplit and dsplit stands for.
int64_t AxisOfName(NodeContext& c, Operand x) {
  char letter = c.row().name[0];
  if (letter == 'h') return c.RankOf(x) == 1 ? 0 : 1;
  return letter == 'v' ? 0 : 2;
}

Dims BroadcastOf(NodeContext& c, const Operands& operands) {
  Dims all;
  for (Operand operand : operands) {
    const Dims& dims = c.DimsOf(operand);
    if (dims.size() > all.size()) all.insert(all.begin(), dims.size() - all.size(), Dim(1));
    for (size_t i = 0; i < dims.size(); ++i) {
      Dim& extent = all[all.size() - dims.size() + i];
      if (extent == Dim(1)) extent = dims[i];
    }
  }
  return all;
}

Operands Grid(NodeContext& c, Operands tensors) {
  int64_t rank = static_cast<int64_t>(tensors.size());
  Dims dims;
  for (Operand tensor : tensors) dims.push_back(Product(c.DimsOf(tensor)));
  for (int64_t i = 0; i < rank; ++i) {
    Dims own(dims.size(), Dim(1));
    own[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
    Operand& tensor = tensors[static_cast<size_t>(i)];
    tensor = c.BroadcastTo(c.Reshape(tensor, own), dims);
  }
  return tensors;
}

// movedim and moveaxis.
Operands MoveAxes(NodeContext& c) {
  Operand x = c.In("self");
  int64_t rank = c.RankOf(x);
  if (rank == 0) return {x};
  std::vector<int64_t> from = c.Axes(c.Ints("source"), rank), to = c.Axes(c.Ints("destination"), rank);
  if (c.failed() || from.size() != to.size())
    return {c.failed() ? nullptr : c.Fail("`source` does not fit `destination`")};
  std::vector<int64_t> axes(static_cast<size_t>(rank), -1), rest;
  for (size_t i = 0; i < from.size(); ++i) axes[static_cast<size_t>(to[i])] = from[i];
  for (int64_t i = rank; i-- > 0;) {
    if (std::find(from.begin(), from.end(), i) == from.end()) rest.push_back(i);
  }
  for (int64_t& axis : axes) {
    if (axis >= 0) continue;
    if (rest.empty()) return {c.Fail("an axis is named twice")};
    axis = rest.back();
    rest.pop_back();
  }
  return {c.Transpose(x, axes)};
}

Operands Rotate(NodeContext& c) {
  Operand x = c.In("self");
  std::vector<int64_t> dims = c.Has("dims") ? c.Ints("dims") : std::vector<int64_t>{0, 1};
  std::vector<int64_t> plane = c.Axes(dims, c.RankOf(x)), axes = importing::AllAxes(c.RankOf(x));
  int64_t turns = ((c.Int("k", 1) % 4) + 4) % 4;
  if (c.failed() || plane.size() != 2) return {c.failed() ? nullptr : c.Fail("`dims` are not 2 axes")};
  auto reversed = [&](Operand y, size_t i) { return c.Op("reverse", {y}, {{"axis", plane[i]}}); };
  if (turns % 2 == 0) return {turns == 0 ? x : reversed(reversed(x, 0), 1)};
  std::swap(axes[static_cast<size_t>(plane[0])], axes[static_cast<size_t>(plane[1])]);
  return {reversed(c.Transpose(x, axes), turns == 1 ? 0 : 1)};
}

// fliplr and flipud.
Operands FlipOne(NodeContext& c) {
  return {c.Op("reverse", {c.In("self")}, {{"axis", c.row().name == "fliplr" ? 1 : 0}})};
}

// unfold: windows of `size` elements along a new last axis, `step` apart.
Operands Unfold(NodeContext& c) {
  Operand x = c.In("self");
  bool is_scalar = c.RankOf(x) == 0;
  if (is_scalar) x = c.Reshape(x, {1});
  int64_t rank = c.RankOf(x), axis = c.Axis(c.Int("dimension", 0), rank);
  int64_t size = c.Int("size", 0), step = c.Int("step", 1);
  if (c.failed() || size < 0 || step < 1)
    return {c.failed() ? nullptr : c.Fail("its `size` or `step` is not in range")};
  if (is_scalar) return {c.SliceAxis(x, 0, 0, size)};
  Dim count = FloorDiv(c.ExtentOf(x, axis) - size, step) + 1;
  Operand begins = c.Unsqueeze(c.Mul(c.Iota(count), c.Integer(step)), {1});
  Operand windows = c.Op("take", {x, c.Add(begins, c.Iota(size))}, {{"axis", axis}});
  std::vector<int64_t> axes = importing::AllAxes(rank + 1);
  axes.erase(axes.begin() + static_cast<ptrdiff_t>(axis) + 1);
  axes.push_back(axis + 1);
  return {c.Transpose(windows, axes)};
}

struct Strided {
  Operand places = nullptr;  // in the flattened input
  Shape sizes;
};

// Returns the places that `size`, `stride` and `storage_offset` select of memory that is exactly the input's elements.
std::optional<Strided> StridedPlaces(NodeContext& c, Operand x) {
  std::optional<Dims> sizes = c.Extents("size"), strides = c.Extents("stride");
  std::optional<Shape> own = StaticShape(c.DimsOf(x)), size, stride;
  if (sizes && strides) size = StaticShape(*sizes), stride = StaticShape(*strides);
  int64_t offset = c.Int("storage_offset", 0);
  if (c.failed()) return std::nullopt;
  if (!own || !size || !stride || size->size() != stride->size()) {
    c.Unsupported("strides that only the running model knows");
    return std::nullopt;
  }
  // In floating point, where nothing overflows.
  double count = 1, last = static_cast<double>(offset);
  bool is_empty = false, is_positive = offset >= 0;
  for (int64_t extent : *own) count *= static_cast<double>(extent);
  for (size_t i = 0; i < size->size(); ++i) {
    is_empty = is_empty || (*size)[i] == 0;
    is_positive = is_positive && (*size)[i] >= 0 && (*stride)[i] >= 0;
    last += static_cast<double>(std::max<int64_t>((*size)[i] - 1, 0)) * static_cast<double>((*stride)[i]);
  }
  if (!is_positive) {
    c.Fail("its `size`, `stride` or `storage_offset` is below 0");
    return std::nullopt;
  }
  if (!c.IsDense("self") || (!is_empty && last >= count)) {
    c.Unsupported("strides through memory that is not exactly its input; call `contiguous()` before it");
    return std::nullopt;
  }
  Strided view = {c.Integer(offset), *size};
  for (size_t i = 0; i < size->size(); ++i) {
    Operand along = c.Mul(c.Iota((*size)[i]), c.Integer((*stride)[i]));
    view.places = c.Add(c.Unsqueeze(view.places, {c.RankOf(view.places)}), along);
  }
  return view;
}

Operands AsStrided(NodeContext& c) {
  Operand x = c.In("self");
  std::optional<Strided> view = StridedPlaces(c, x);
  if (!view) return {};
  return {c.Op("take", {c.Reshape(x, {Product(c.DimsOf(x))}), view->places}, {{"axis", 0}})};
}

Operands AsStridedScatter(NodeContext& c) {
  Operand x = c.In("self"), source = c.Cast(c.In("src"), c.DTypeOf(x));
  const Dims dims = c.DimsOf(x);
  std::optional<Strided> view = StridedPlaces(c, x);
  if (!view) return {};
  Dim count = Product(c.DimsOf(view->places));
  Operand flat = c.Op("scatter_elements",
                      {c.Reshape(x, {Product(dims)}), c.Reshape(view->places, {count}), c.Reshape(source, {count})},
                      {{"axis", 0}});
  return {c.Reshape(flat, dims)};
}

Operands BroadcastAll(NodeContext& c) {
  Operands tensors = c.List("tensors");
  Dims dims = BroadcastOf(c, tensors);
  for (Operand& tensor : tensors) tensor = c.BroadcastTo(tensor, dims);
  return tensors;
}

// Sums over the axes that broadcasting `size` to the input's shape would repeat.
Operands SumToSize(NodeContext& c) {
  Operand x = c.In("self");
  std::optional<Dims> to = c.Extents("size");
  if (c.failed() || !to || to->size() > c.DimsOf(x).size()) {
    return {c.failed() ? nullptr : c.Unsupported("a size that only the running model knows")};
  }
  int64_t more = c.RankOf(x) - static_cast<int64_t>(to->size());
  ir::AttrValue::List in_front, kept;
  for (int64_t i = 0; i < c.RankOf(x); ++i) {
    if (i < more) {
      in_front.emplace_back(i);
    } else if ((*to)[static_cast<size_t>(i - more)] == Dim(1) && c.ExtentOf(x, i) != Dim(1)) {
      kept.emplace_back(i);
    }
  }
  if (!kept.empty()) x = c.Op("sum", {x}, {{"axis", kept}, {"keepdims", true}});
  return {in_front.empty() ? x : c.Op("sum", {x}, {{"axis", in_front}})};
}

Operands Meshgrid(NodeContext& c) {
  Operands tensors = c.List("tensors");
  bool swaps = c.Text("indexing", "ij") == "xy" && tensors.size() > 1;  // the first two axes
  if (swaps) std::swap(tensors[0], tensors[1]);
  Operands grid = Grid(c, tensors);
  if (swaps) std::swap(grid[0], grid[1]);
  return grid;
}

// Returns the rows of the product of vectors as sets.
Operands CartesianProduct(NodeContext& c) {
  Operands tensors = c.List("tensors");
  if (tensors.size() == 1) return tensors;
  Operands columns = Grid(c, tensors);
  for (Operand& column : columns) column = c.Unsqueeze(c.Reshape(column, {Product(c.DimsOf(column))}), {1});
  return {Concatenated(c, columns, 1)};
}

Operands BlockDiagonal(NodeContext& c) {
  Operands parts = c.List("tensors"), rows;
  Dim columns = 0, before = 0;
  for (Operand& part : parts) {
    part = AtLeast(c, part, 2);
    columns = columns + c.ExtentOf(part, 1);
  }
  for (Operand part : parts) {
    if (c.failed()) return {};
    Dim own = c.ExtentOf(part, 1);
    rows.push_back(importing::PadBy(c, part, 0, {0, 0, before, columns - before - own}));
    before = before + own;
  }
  return {Concatenated(c, rows, 0)};
}

// ---- split and stacked

// tensor_split, hsplit, vsplit and dsplit: into so many parts, of which the first may be larger, or at indices.
Operands SplitAt(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.row().name == "tensor_split" ? c.Axis(c.Int("dim", 0), c.RankOf(x)) : AxisOfName(c, x);
  Dim extent = c.ExtentOf(x, axis);
  const char* given = c.Has("tensor_indices_or_sections") ? "tensor_indices_or_sections" : "indices";
  std::optional<Dims> ends;
  if (c.Has("sections")) {
    int64_t sections = c.Int("sections", 1);
    std::optional<int64_t> known = extent.AsConst();
    if (c.failed() || !known || sections < 1 || sections > importing::kMaxParts) {
      return {c.failed() ? nullptr : c.Unsupported("an extent that only the running model knows")};
    }
    ends.emplace();
    for (int64_t i = 1, at = 0; i <= sections; ++i) {
      at += *known / sections + (i <= *known % sections ? 1 : 0);
      ends->push_back(at);
    }
  } else if (c.Has(given)) {
    ends = c.Find(given)->kind == ArgumentKind::kList ? c.Extents(given) : c.Symbols(c.In(given));
    if (ends) ends->push_back(extent);
  }
  if (c.failed() || !ends) return {c.failed() ? nullptr : c.Unsupported("indices that only the running model knows")};
  Operands parts;
  Dim begin = 0;
  for (Dim end : *ends) {
    if (end.is_const() && extent.is_const()) {
      int64_t at = end.constant() < 0 ? end.constant() + extent.constant() : end.constant();
      end = std::clamp<int64_t>(at, 0, extent.constant());
    }
    bool is_empty = begin.is_const() && end.is_const() && end.constant() < begin.constant();
    parts.push_back(c.SliceAxis(x, axis, begin, is_empty ? begin : end));
    begin = end;
  }
  return parts;
}

// hstack, vstack, dstack and column_stack, and their kin under other names.
Operands StackAlong(NodeContext& c) {
  Operands parts = c.List("tensors");
  char letter = c.row().variant[0];
  int64_t axis = letter == 'h' ? 1 : letter == 'v' ? 0 : letter == 'd' ? 2 : 1;
  for (Operand& part : parts) {
    if (letter == 'c') {  // vectors are columns
      part = c.RankOf(part) < 2 ? c.Reshape(part, {Product(c.DimsOf(part)), 1}) : part;
    } else {
      part = AtLeast(c, part, letter == 'h' ? 1 : letter == 'v' ? 2 : 3);
    }
  }
  bool is_flat = letter == 'h' && !parts.empty() && c.RankOf(parts[0]) == 1;
  return {Concatenated(c, parts, is_flat ? 0 : axis)};
}

// atleast_1d, atleast_2d and atleast_3d, of a tensor or of several.
Operands AtLeastRank(NodeContext& c) {
  int64_t rank = c.row().name[8] - '0';
  Operands tensors = c.Has("tensors") ? c.List("tensors") : Operands{c.In("self")};
  for (Operand& tensor : tensors) tensor = AtLeast(c, tensor, rank);
  return tensors;
}

// ---- windows and diagonals

// Returns the windows of images as columns: (batch, channels * elements of a window, windows).
Operands ImageToColumns(NodeContext& c) {
  Operand x = c.In("self");
  bool is_added = c.RankOf(x) == 3;
  if (is_added) x = c.Unsqueeze(x, {0});
  importing::Windows windows = {.axes = 2,
                                .kernel = c.Ints("kernel_size"),
                                .strides = c.Ints("stride"),
                                .dilations = c.Ints("dilation"),
                                .pads = c.Ints("padding")};
  bool fits = c.RankOf(x) == 4;
  for (const auto* list : {&windows.kernel, &windows.strides, &windows.dilations, &windows.pads}) {
    fits = fits && list->size() == 2 && (list == &windows.pads || std::min((*list)[0], (*list)[1]) > 0);
  }
  if (c.failed() || !fits) return {c.failed() ? nullptr : c.Fail("its windows do not fit its input")};
  windows.pads.insert(windows.pads.end(), {windows.pads[0], windows.pads[1]});
  Operand y = importing::GatherWindows(c, PadSpace(c, x, 0, windows), {windows.kernel[0], windows.kernel[1]}, windows);
  y = c.Transpose(y, std::vector<int64_t>{0, 1, 3, 5, 2, 4});
  const Dims dims = c.DimsOf(y);
  if (c.failed()) return {};
  y = c.Reshape(y, {dims[0], dims[1] * dims[2] * dims[3], dims[4] * dims[5]});
  return {is_added ? c.Squeeze(y, {0}) : y};
}

// Adds columns up where windows of an image overlap: the other way round than im2col. The filters of the transposed
// convolution have a one at the place of each element of a window.
Operands ColumnsToImage(NodeContext& c) {
  Operand x = c.In("self");
  const bool is_added = c.RankOf(x) == 2;
  if (is_added) x = c.Unsqueeze(x, {0});
  const std::vector<int64_t> kernel = c.Ints("kernel_size"), strides = c.Ints("stride"), dilations = c.Ints("dilation"),
                             pads = c.Ints("padding"), extents = c.Ints("output_size");
  bool fits = c.RankOf(x) == 3;
  for (const auto* list : {&kernel, &strides, &dilations, &pads, &extents}) {
    fits = fits && list->size() == 2 && (list == &pads || std::min((*list)[0], (*list)[1]) > 0);
  }
  if (c.failed() || !fits) return {c.failed() ? nullptr : c.Fail("its windows do not fit its output")};
  const int64_t elements = kernel[0] * kernel[1];
  std::vector<int64_t> windows, more;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = extents[i] + 2 * pads[i] - dilations[i] * (kernel[i] - 1) - 1;
    if (room < 0) return {c.Fail("its windows do not fit its output")};
    windows.push_back(room / strides[i] + 1);
    more.push_back(room % strides[i]);
  }
  const Dim batch = c.ExtentOf(x, 0), channels = FloorDiv(c.ExtentOf(x, 1), elements);
  Operand columns = c.Reshape(x, {batch * channels, elements, windows[0], windows[1]});
  Operand ones = c.Op("one_hot", {c.Iota(elements), c.Number(1, x), c.Number(0, x)},
                      {{"depth", elements}, {"dtype", c.DTypeOf(x).ToString()}});
  Operand filters = c.Reshape(ones, {elements, 1, kernel[0], kernel[1]});
  Operand y = c.Op("nn.conv2d_transpose", {columns, filters},
                   {{"strides", ir::IntList(strides)},
                    {"padding", ir::IntList({{pads[0], pads[1], pads[0], pads[1]}})},
                    {"dilation", ir::IntList(dilations)},
                    {"output_padding", ir::IntList(more)}});
  y = c.Reshape(y, {batch, channels, extents[0], extents[1]});
  return {is_added ? c.Squeeze(y, {0}) : y};
}

Operands Diag(NodeContext& c) {
  Operand x = c.In("self");
  bool is_flat = c.row().name == "diagflat";
  if (is_flat) x = c.Reshape(x, {Product(c.DimsOf(x))});
  return {c.Op("diag", {x}, {{"k", c.Int(is_flat ? "offset" : "diagonal", 0)}})};
}

Operands Trace(NodeContext& c) {
  Operand x = c.Op("diag", {c.In("self")});
  return {c.Op("sum", {c.DTypeOf(x).is_float() ? x : c.Cast(x, kInt64)})};
}

Operands ChannelShuffle(NodeContext& c) {
  Operand x = c.In("self");
  const Dims dims = c.DimsOf(x);
  int64_t groups = c.Int("groups", 1);
  if (c.failed() || groups < 1 || dims.size() < 3)
    return {c.failed() ? nullptr : c.Fail("its groups do not fit its input")};
  Dims split = dims;
  split[1] = FloorDiv(dims[1], groups);
  split.insert(split.begin() + 1, Dim(groups));
  std::vector<int64_t> axes = importing::AllAxes(static_cast<int64_t>(split.size()));
  std::swap(axes[1], axes[2]);
  return {c.Reshape(c.Transpose(c.Reshape(x, split), axes), dims)};
}

// Every choice of `r` elements of a vector, in order.
Operands Combinations(NodeContext& c) {
  constexpr size_t kMaxChoices = 1 << 20;
  Operand x = c.In("self");
  int64_t chosen = c.Int("r", 2), again = c.Bool("with_replacement", false) ? 0 : 1;
  std::optional<int64_t> extent = c.ExtentOf(x, 0).AsConst();
  if (c.failed() || !extent)
    return {c.failed() ? nullptr : c.Unsupported("an extent that only the running model knows")};
  if (chosen < 0 || c.RankOf(x) != 1) return {c.Fail("its input is no vector, or its `r` is below 0")};
  if (chosen == 0) return {c.SliceAxis(x, 0, 0, 0)};
  std::vector<int64_t> choices, choice;
  for (int64_t i = 0; i < chosen; ++i) choice.push_back(i * again);
  auto last = [&](size_t i) { return *extent - 1 - again * (chosen - 1 - static_cast<int64_t>(i)); };
  while (choice[0] <= last(0)) {
    choices.insert(choices.end(), choice.begin(), choice.end());
    if (choices.size() > kMaxChoices) return {c.Unsupported("more than 1048576 indices")};
    size_t at = choice.size() - 1;
    while (at > 0 && choice[at] >= last(at)) --at;
    ++choice[at];
    for (size_t i = at + 1; i < choice.size(); ++i) choice[i] = choice[i - 1] + again;
  }
  int64_t rows = static_cast<int64_t>(choices.size()) / chosen;
  if (rows == 0) return {c.BroadcastTo(c.Number(0, x), {0, chosen})};
  return {c.Op("take", {x, c.Reshape(c.emit().Vector(choices), {rows, chosen})}, {{"axis", 0}})};
}

constexpr OperatorRow kRows[] = {
    {"as_strided", AsStrided, "", kView},
    {"as_strided_scatter", AsStridedScatter},
    {"atleast_1d", AtLeastRank, "", kView},
    {"atleast_2d", AtLeastRank, "", kView},
    {"atleast_3d", AtLeastRank, "", kView},
    {"block_diag", BlockDiagonal},
    {"broadcast_tensors", BroadcastAll},
    {"cartesian_prod", CartesianProduct},
    {"combinations", Combinations},
    {"channel_shuffle", ChannelShuffle},
    {"native_channel_shuffle", ChannelShuffle},
    {"column_stack", StackAlong, "c"},
    {"dstack", StackAlong, "d"},
    {"hstack", StackAlong, "h"},
    {"vstack", StackAlong, "v"},
    {"row_stack", StackAlong, "v"},
    {"diag", Diag},
    {"diagflat", Diag},
    {"fliplr", FlipOne},
    {"flipud", FlipOne},
    {"im2col", ImageToColumns},
    {"col2im", ColumnsToImage},
    {"meshgrid", Meshgrid},
    {"moveaxis", MoveAxes, "", kView},
    {"movedim", MoveAxes, "", kView},
    {"rot90", Rotate},
    {"dsplit", SplitAt, "", kView},
    {"hsplit", SplitAt, "", kView},
    {"tensor_split", SplitAt, "", kView},
    {"vsplit", SplitAt, "", kView},
    {"sum_to_size", SumToSize},
    {"trace", Trace},
    {"unfold", Unfold, "", kView},
};

}  // namespace

std::span<const OperatorRow> ViewsOperators() { return kRows; }

}  // namespace rvm::torch::convert
