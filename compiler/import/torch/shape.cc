// Shapes: changed, joined, split, sliced, padded.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/blocks/windows.h"
#include "compiler/import/checks.h"
#include "compiler/import/shapes.h"
#include "compiler/import/torch/importer.h"

namespace rvm::torch::convert {
namespace {

using importing::InferExtent;
using importing::kBeyond;
using importing::kMaxParts;
using importing::PartsOf;
using importing::Product;
using importing::SlicedExtent;
using importing::SwapAxes;
using importing::TargetShape;

bool Same(const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; }

// [begin, end) of an axis, every `step`-th; both clamped, negative ones counted from the end.
Operand Sliced(NodeContext& c, Operand x, int64_t axis, Operand begin, Operand end, int64_t step) {
  Dims dims = c.DimsOf(x);
  Dim& extent = dims[static_cast<size_t>(axis)];
  std::optional<Dims> first = c.Symbols(begin), last = c.Symbols(end);
  bool is_known = first && last;
  bool is_all = is_known && (*first)[0] == Dim(0) && step == 1 &&
                (Same((*last)[0], extent) || ((*last)[0].is_const() && (*last)[0].constant() >= kBeyond));
  if (is_all) return x;
  extent = is_known ? SlicedExtent(extent, (*first)[0], (*last)[0], step).value_or(Dim::Any()) : Dim::Any();
  if (is_known && (*first)[0].is_const() && (*last)[0].is_const()) {
    return c.emit().OpAs(dims, "strided_slice", {x},
                         {{"begin", ir::IntList({{(*first)[0].constant()}})},
                          {"end", ir::IntList({{(*last)[0].constant()}})},
                          {"strides", ir::IntList({{step}})},
                          {"axes", ir::IntList({{axis}})}});
  }
  auto vector = [&](Operand scalar) { return c.Reshape(c.Cast(scalar, kInt64), {1}); };
  return c.emit().OpAs(dims, "dyn.strided_slice", {x, vector(begin), vector(end), c.emit().Vector({{step}})},
                       {{"axes", ir::IntList({{axis}})}});
}

// Returns the elements [index, index + 1) of an axis, without it.
Operand Selected(NodeContext& c, Operand x, int64_t axis, Operand index) {
  if (index->constant) {
    int64_t at = index->constant->IntAt(0);
    Dim extent = c.ExtentOf(x, axis);
    if (at >= 0) return c.Squeeze(c.SliceAxis(x, axis, at, at + 1), {axis});
    return c.Squeeze(c.SliceAxis(x, axis, extent + at, extent + (at + 1)), {axis});
  }
  Operand extent = c.emit().FromDim(c.ExtentOf(x, axis));
  Operand place = c.Where(c.Op("less", {index, c.Integer(0)}), c.Add(index, extent), index);
  return c.Op("take", {x, place}, {{"axis", axis}});
}

// view and reshape, with at most one -1.
Operands View(NodeContext& c) {
  Operand x = c.In("self");
  const char* argument = c.Has("shape") ? "shape" : "size";
  if (!c.Has(argument)) return {c.Unsupported("a view as another dtype")};
  std::optional<Dims> to = c.Extents(argument);
  if (!to) return {c.Op("dyn.reshape", {x, c.Vector(argument)}, {{"allowzero", 1}})};
  to = TargetShape(c, c.DimsOf(x), *std::move(to));
  return {to ? c.Reshape(x, *to) : nullptr};
}

Operands ViewAs(NodeContext& c) { return {c.Reshape(c.In("self"), c.DimsOf(c.In("other")))}; }

Operands Flatten(NodeContext& c) {
  Operand x = c.In("self");
  const Dims dims = c.DimsOf(x);
  int64_t rank = c.RankOf(x);
  if (rank == 0) return {c.Reshape(x, {1})};
  size_t first = static_cast<size_t>(c.Axis(c.Int("start_dim", 0), rank));
  size_t last = static_cast<size_t>(c.Axis(c.Int("end_dim", -1), rank));
  if (first > last) return {c.Fail("`start_dim` is behind `end_dim`")};
  Dims to(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(first));
  to.push_back(Product(std::span(dims).subspan(first, last - first + 1)));
  to.insert(to.end(), dims.begin() + static_cast<ptrdiff_t>(last) + 1, dims.end());
  return {c.Reshape(x, to)};
}

Operands Unflatten(NodeContext& c) {
  Operand x = c.In("self");
  Dims dims = c.DimsOf(x);
  size_t axis = static_cast<size_t>(c.Axis(c.Int("dim", 0), c.RankOf(x)));
  std::optional<Dims> sizes = c.Extents("sizes");
  if (!sizes || c.failed()) return {c.failed() ? nullptr : c.Unsupported("sizes that only the running model knows")};
  for (size_t i = 0; i < sizes->size(); ++i) {
    if ((*sizes)[i] == Dim(-1)) (*sizes)[i] = InferExtent({dims[axis]}, *sizes, i);
  }
  dims.erase(dims.begin() + static_cast<ptrdiff_t>(axis));
  dims.insert(dims.begin() + static_cast<ptrdiff_t>(axis), sizes->begin(), sizes->end());
  return {c.Reshape(x, dims)};
}

// Axes of another extent than 1 stay.
Operands Squeeze(NodeContext& c) {
  Operand x = c.In("self");
  int64_t rank = c.RankOf(x);
  if (rank == 0) return {x};
  std::vector<int64_t> axes = c.Has("dim") ? c.Axes(c.Ints("dim"), rank) : importing::AllAxes(rank), dropped;
  for (int64_t axis : axes) {
    if (c.ExtentOf(x, axis) == Dim(1)) dropped.push_back(axis);
  }
  return {c.Squeeze(x, dropped)};
}

Operands Unsqueeze(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Unsqueeze(x, {c.Axis(c.Int("dim", 0), c.RankOf(x) + 1)})};
}

Operands Permute(NodeContext& c) {
  Operand x = c.In("self");
  return {c.Transpose(x, c.Axes(c.Ints("dims"), c.RankOf(x)))};
}

// transpose, t and mT.
Operands TransposeTwo(NodeContext& c) {
  Operand x = c.In("self");
  if (c.Has("dim0")) return {SwapAxes(c, x, c.Int("dim0", 0), c.Int("dim1", 1))};
  if (c.Has("axis0")) return {SwapAxes(c, x, c.Int("axis0", 0), c.Int("axis1", 1))};
  return {c.RankOf(x) < 2 ? x : SwapAxes(c, x, -2, -1)};
}

// -1 keeps an extent. New axes stand in front.
Operands Expand(NodeContext& c) {
  Operand x = c.In("self");
  if (c.Has("other")) return {c.BroadcastTo(x, c.DimsOf(c.In("other")))};
  const Dims from = c.DimsOf(x);
  std::optional<Dims> to = c.Extents("size");
  if (!to) return {c.Op("dyn.broadcast_to", {x, c.Vector("size")})};
  if (to->size() < from.size()) return {c.Fail("its shape has fewer axes than its input")};
  size_t more = to->size() - from.size();
  for (size_t i = more; i < to->size(); ++i) {
    if ((*to)[i] == Dim(-1)) (*to)[i] = from[i - more];
  }
  return {c.BroadcastTo(x, *to)};
}

// repeat and tile.
Operands Repeat(NodeContext& c) {
  Operand x = c.In("self");
  const char* argument = c.Has("repeats") ? "repeats" : "dims";
  std::optional<Dims> repeats = c.Extents(argument);
  std::optional<Shape> numbers = repeats ? StaticShape(*repeats) : std::nullopt;
  if (!numbers) return {c.Op("dyn.tile", {x, c.Vector(argument)})};
  return {c.Op("tile", {x}, {{"reps", ir::IntList(*numbers)}})};
}

// For each element of the result the place of the element that it repeats. `extent`: how many repeats there are.
Operand RepeatedPlaces(NodeContext& c, Operand repeats, const Dim& extent) {
  repeats = c.Cast(repeats, kInt64);
  bool is_one = c.RankOf(repeats) == 0 || c.ExtentOf(repeats, 0) == Dim(1);
  if (is_one) repeats = c.BroadcastTo(c.Reshape(repeats, {1}), {extent});
  if (c.failed() || c.RankOf(repeats) != 1) return c.failed() ? repeats : c.Fail("its repeats are no vector");
  if (CompareDims(c.ExtentOf(repeats, 0), extent) != DimEquality::kEqual) {
    repeats = c.Op("check_extent", {repeats, c.emit().FromDim(extent)},
                   {{"axis", 0}, {"what", "the repeats, and the elements that they are of"}});
  }
  repeats = importing::CheckAtLeast(c, repeats, c.Op("min", {repeats}), c.Integer(0), "the least of the repeats");
  Operand ends = c.Op("cumsum", {repeats}, {{"axis", 0}}), count = c.Op("sum", {repeats});
  Operand places = c.Op("arange", {c.Integer(0), count, c.Integer(1)});
  return c.Op("searchsorted", {ends, places}, {{"right", true}, {"dtype", "int64"}});
}

// Repeats the elements of a tensor by a number or by a vector of numbers. The vector of numbers alone repeats its
// positions.
Operands RepeatInterleave(NodeContext& c) {
  const Argument* repeats = c.Find("repeats");
  if (repeats == nullptr) return {c.Fail("its argument `repeats` is missing")};
  if (c.overload() == "Tensor") {
    Operand counts = c.In(*repeats);
    if (c.failed() || c.RankOf(counts) != 1) return {c.failed() ? nullptr : c.Fail("its repeats are no vector")};
    return {c.Cast(RepeatedPlaces(c, counts, c.ExtentOf(counts, 0)), c.DTypeOf(counts))};
  }
  Operand x = c.In("self");
  bool has_axis = c.Has("dim");
  int64_t axis = has_axis ? c.Axis(c.Int("dim", 0), c.RankOf(x)) : 0;
  if (repeats->kind == ArgumentKind::kInt) {
    ir::Attrs attrs = {{"repeats", repeats->integer}};
    if (has_axis) attrs.Set("axis", axis);
    return {c.Op("repeat", {x}, attrs)};
  }
  if (!has_axis) x = c.Reshape(x, {Product(c.DimsOf(x))});
  if (c.failed()) return {};
  Operand places = RepeatedPlaces(c, c.In(*repeats), c.ExtentOf(x, axis));
  return {c.Op("take", {x, places}, {{"axis", axis}})};
}

// ---- joined and split

Operands Concat(NodeContext& c) {
  Operands parts = c.List("tensors");
  // Empty vectors join with tensors of any rank.
  std::erase_if(parts, [&](Operand part) { return c.RankOf(part) == 1 && c.ExtentOf(part, 0) == Dim(0); });
  if (c.failed() || parts.empty()) return {c.failed() ? nullptr : c.Unsupported("nothing but empty tensors")};
  std::vector<Operand*> all;
  for (Operand& part : parts) all.push_back(&part);
  c.Promote(all);
  return {c.Concatenate(parts, c.Axis(c.Int("dim", 0), c.RankOf(parts[0])))};
}

Operands Stack(NodeContext& c) {
  Operands parts = c.List("tensors");
  if (c.failed() || parts.empty()) return {c.failed() ? nullptr : c.Fail("it has no tensors")};
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(parts[0]) + 1);
  std::vector<Operand*> all;
  for (Operand& part : parts) all.push_back(&part);
  c.Promote(all);
  for (Operand& part : parts) part = c.Unsqueeze(part, {axis});
  return {c.Concatenate(parts, axis)};
}

// split: into parts of one extent, of which the last may be smaller, or of given ones.
Operands Split(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  Dim extent = c.ExtentOf(x, axis);
  const char* argument = c.Has("split_sizes") ? "split_sizes" : "split_size";
  const Argument* given = c.Find(argument);
  if (c.failed() || given == nullptr) return {c.failed() ? nullptr : c.Fail("its sizes are missing")};
  if (given->kind == ArgumentKind::kList) {
    std::optional<Dims> sizes = c.Extents(argument);
    if (!sizes) {
      Operand values = c.Vector(argument);
      if (c.failed()) return {};
      x = importing::CheckSizes(c, x, axis, values);
      return PartsOf(c, x, axis, values, static_cast<int64_t>(given->list.size()));
    }
    x = importing::CheckSizes(c, x, axis, *sizes);
    return c.failed() ? Operands() : PartsOf(c, x, axis, *sizes);
  }
  std::optional<Dim> size = c.Extent(*given);
  size_t count = c.node().outputs.size() == 1 ? c.node().outputs[0].list.size() : 0;
  if (!size || count == 0) return {c.Unsupported("sizes that only the running model knows")};
  Dims sizes(count, *size);
  if (extent.is_const() && size->is_const() && size->constant() > 0) {
    sizes.back() = extent - *size * Dim(static_cast<int64_t>(count) - 1);
  }
  return PartsOf(c, x, axis, sizes);
}

Operands Chunk(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  int64_t count = c.Int("chunks", 1);
  Dim extent = c.ExtentOf(x, axis);
  if (c.failed() || count < 1 || count > kMaxParts) return {c.failed() ? nullptr : c.Fail("`chunks` is not in range")};
  Dim size = FloorDiv(extent + (count - 1), count);
  size_t made = c.node().outputs.size() == 1 ? c.node().outputs[0].list.size() : 0;
  Dims sizes;
  for (size_t i = 0; i < made; ++i) {
    Dim rest = extent - size * Dim(static_cast<int64_t>(i));
    sizes.push_back(i + 1 < made ? size : rest);
  }
  return PartsOf(c, x, axis, sizes);
}

Operands Unbind(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  std::optional<int64_t> count = c.ExtentOf(x, axis).AsConst();
  if (c.failed() || !count)
    return {c.failed() ? nullptr : c.Unsupported("an extent that only the running model knows")};
  Operands parts;
  for (int64_t i = 0; i < *count && i < kMaxParts; ++i) parts.push_back(Selected(c, x, axis, c.Integer(i)));
  return parts;
}

// ---- sliced

Operands Slice(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x)), step = c.Int("step", 1);
  if (c.failed() || step < 1) return {c.failed() ? nullptr : c.Fail("its step is below 1")};
  Operand begin = c.Has("start") ? c.In("start") : c.Integer(0);
  Operand end = c.Has("end") ? c.In("end") : c.Integer(std::numeric_limits<int64_t>::max());
  return {Sliced(c, x, axis, begin, end, step)};
}

Operands Narrow(NodeContext& c) {
  Operand x = c.In("self"), begin = c.Cast(c.In("start"), kInt64);
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  if (c.failed()) return {};
  if (begin->constant && begin->constant->IntAt(0) < 0) begin = c.Add(begin, c.emit().FromDim(c.ExtentOf(x, axis)));
  return {Sliced(c, x, axis, begin, c.Add(begin, c.Cast(c.In("length"), kInt64)), 1)};
}

Operands Select(NodeContext& c) {
  Operand x = c.In("self");
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  return {c.failed() ? nullptr : Selected(c, x, axis, c.Cast(c.Scalar(c.In("index")), kInt64))};
}

Operands Flip(NodeContext& c) {
  Operand x = c.In("self");
  for (int64_t axis : c.Axes(c.Ints("dims"), c.RankOf(x))) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

Operands Roll(NodeContext& c) {
  Operand x = c.In("self");
  const Dims dims = c.DimsOf(x);
  std::vector<int64_t> shifts = c.Ints("shifts"), axes = c.Axes(c.Ints("dims"), c.RankOf(x));
  bool is_flat = axes.empty();
  if (is_flat) {
    x = c.Reshape(x, {Product(dims)});
    axes = {0};
  }
  if (c.failed() || shifts.size() != axes.size()) return {c.failed() ? nullptr : c.Fail("`shifts` does not fit")};
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim extent = c.ExtentOf(x, axes[i]);
    if (shifts[i] == 0 || extent == Dim(0)) continue;
    const Dim at = FloorMod(shifts[i] < 0 ? Dim(-shifts[i]) : extent - shifts[i], extent);
    if (at == Dim(0)) continue;
    const Operands parts = {c.SliceAxis(x, axes[i], at, extent), c.SliceAxis(x, axes[i], Dim(0), at)};
    x = c.emit().OpAs(c.DimsOf(x), "concatenate", {c.emit().Tuple(parts)}, {{"axis", axes[i]}});
  }
  return {is_flat ? c.Reshape(x, dims) : x};
}

// tril and triu.
Operands Triangle(NodeContext& c) {
  return {c.Op("trilu", {c.In("self"), c.Integer(c.Int("diagonal", 0))}, {{"upper", c.row().name == "triu"}})};
}

Operands Diagonal(NodeContext& c) {
  const bool is_last = c.row().variant == "last";  // of matrices in the last two axes
  Operand x = c.In(is_last ? "A" : "self");
  const int64_t rank = c.RankOf(x);
  int64_t first = c.Axis(c.Int("dim1", is_last ? -2 : 0), rank), second = c.Axis(c.Int("dim2", is_last ? -1 : 1), rank);
  if (c.failed() || rank < 2) return {c.failed() ? nullptr : c.Fail("its input is no matrix")};
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) {
    if (i != first && i != second) axes.push_back(i);
  }
  axes.push_back(first);
  axes.push_back(second);
  return {c.Op("diag", {c.Transpose(x, axes)}, {{"k", c.Int("offset", 0)}})};
}

// constant_pad_nd, pad, and those of reflections and edges: pairs of widths, the last axis first.
Operands Pad(NodeContext& c) {
  Operand x = c.In("self");
  const char* argument = c.Has("padding") ? "padding" : "pad";
  const Argument* pads = c.Find(argument);
  std::string mode = c.row().variant.empty() ? c.Text("mode", "constant") : std::string(c.row().variant);
  if (mode == "replicate") mode = "edge";
  if (mode == "circular") mode = "wrap";
  const auto rank = static_cast<size_t>(c.RankOf(x));
  const size_t count = pads == nullptr || pads->kind != ArgumentKind::kList ? 1 : pads->list.size();
  if (c.failed() || count % 2 != 0 || count > 2 * rank) {
    return {c.failed() ? nullptr : c.Fail("its widths do not fit its input")};
  }
  auto place = [&](size_t i) { return 2 * (rank - 1 - i / 2) + i % 2; };
  const Operand value = c.Has("value") ? c.Cast(c.In("value"), c.DTypeOf(x)) : c.Number(0, x);
  if (const std::optional<Dims> extents = c.Extents(argument)) {
    Dims widths(2 * rank, Dim(0));
    for (size_t i = 0; i < count; ++i) widths[place(i)] = (*extents)[i];
    return {importing::PadWith(c, x, value, widths, mode)};
  }
  Operands widths(2 * rank, c.Integer(0));
  const Operands values = c.List(argument);
  if (c.failed()) return {};
  for (size_t i = 0; i < count; ++i) widths[place(i)] = c.Cast(values[i], kInt64);
  const Operand matrix = c.Reshape(c.Op("stack", {c.emit().Tuple(widths)}, {{"axis", 0}}), {c.RankOf(x), 2});
  return {c.Op("dyn.nn.pad", {x, matrix, value}, {{"pad_mode", mode}})};
}

Operands PixelShuffle(NodeContext& c) {
  Operand x = c.In("self");
  bool is_down = c.row().name == "pixel_unshuffle";
  int64_t factor = c.Int(is_down ? "downscale_factor" : "upscale_factor", 1);
  if (c.failed() || c.RankOf(x) != 4) return {c.failed() ? nullptr : c.Unsupported("an input that has not 4 axes")};
  return {c.Op(is_down ? "nn.space_to_depth" : "nn.depth_to_space", {x}, {{"block_size", factor}, {"mode", "CRD"}})};
}

// ---- written into

Operands SelectScatter(NodeContext& c) {
  Operand x = c.In("self"), source = c.In("src"), index = c.Cast(c.Scalar(c.In("index")), kInt64);
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x));
  if (c.failed()) return {};
  Operand extent = c.emit().FromDim(c.ExtentOf(x, axis));
  index = c.Where(c.Op("less", {index, c.Integer(0)}), c.Add(index, extent), index);
  std::vector<int64_t> behind;
  for (int64_t i = 1; i < c.RankOf(x) - axis; ++i) behind.push_back(i);
  Operand hit = c.Unsqueeze(c.Op("equal", {c.Iota(c.ExtentOf(x, axis)), index}), behind);
  return {c.Where(hit, c.Unsqueeze(c.Cast(source, c.DTypeOf(x)), {axis}), x)};
}

Operands SliceScatter(NodeContext& c) {
  Operand x = c.In("self"), source = c.Cast(c.In("src"), c.DTypeOf(x));
  int64_t axis = c.Axis(c.Int("dim", 0), c.RankOf(x)), step = c.Int("step", 1);
  if (c.failed()) return {};
  Dim extent = c.ExtentOf(x, axis);
  Operand size = c.emit().FromDim(extent), zero = c.Integer(0);
  auto clamped = [&](const char* name, Operand otherwise) {
    if (!c.Has(name)) return otherwise;
    Operand at = c.Cast(c.In(name), kInt64);
    at = c.Where(c.Op("less", {at, zero}), c.Add(at, size), at);
    return c.Op("minimum", {c.Op("maximum", {at, zero}), size});
  };
  Operand begin = clamped("start", zero), end = clamped("end", size);
  auto vector = [&](Operand scalar) { return c.Reshape(scalar, {1}); };
  if (axis == 0) {
    return {c.Op("strided_set", {x, source, vector(begin), vector(end), c.emit().Vector({{step}})})};
  }
  // Behind the first axis: the slice of its transpose.
  Operand written = c.Op("strided_set", {SwapAxes(c, x, 0, axis), SwapAxes(c, source, 0, axis), vector(begin),
                                         vector(end), c.emit().Vector({{step}})});
  return {SwapAxes(c, written, 0, axis)};
}

// ---- as it is

Operands Identity(NodeContext& c) {
  const Argument* first = c.Positional(0);
  return {first == nullptr ? c.Fail("it has no argument") : c.In(*first)};
}

// to, _to_copy, type_as and others that change the dtype at most.
Operands ToCopy(NodeContext& c) {
  Operand x = c.In("self");
  if (c.Has("other") && c.Find("other")->kind == ArgumentKind::kTensor) return {c.Cast(x, c.DTypeOf(c.In("other")))};
  return {c.Cast(x, c.DType("dtype", c.DTypeOf(x)))};
}

constexpr OperatorRow kRows[] = {
    {"ravel", Flatten, "", kView},
    {"_unsafe_view", View},
    {"reshape", View, "", kView},
    {"view", View, "", kView},
    {"view_as", ViewAs, "", kView},
    {"reshape_as", ViewAs, "", kView},
    {"flatten", Flatten, "", kView},
    {"unflatten", Unflatten, "", kView},
    {"squeeze", Squeeze, "", kView},
    {"unsqueeze", Unsqueeze, "", kView},
    {"permute", Permute, "", kView},
    {"mT", TransposeTwo, "", kView},
    {"numpy_T", TransposeTwo, "", kView},
    {"adjoint", TransposeTwo, "", kView},
    {"matrix_H", TransposeTwo, "", kView},
    {"mH", TransposeTwo, "", kView},
    {"swapaxes", TransposeTwo, "", kView},
    {"swapdims", TransposeTwo, "", kView},
    {"t", TransposeTwo, "", kView},
    {"transpose", TransposeTwo, "", kView},
    {"expand", Expand, "", kView},
    {"expand_as", Expand, "", kView},
    {"broadcast_to", Expand, "", kView},
    {"repeat", Repeat},
    {"tile", Repeat},
    {"repeat_interleave", RepeatInterleave},
    {"cat", Concat},
    {"concat", Concat},
    {"concatenate", Concat},
    {"stack", Stack},
    {"split", Split, "", kView},
    {"split_with_sizes", Split, "", kView},
    {"chunk", Chunk, "", kView},
    {"unbind", Unbind, "", kView},
    {"slice", Slice, "", kView},
    {"narrow", Narrow, "", kView},
    {"select", Select, "", kView},
    {"flip", Flip},
    {"roll", Roll},
    {"tril", Triangle},
    {"triu", Triangle},
    {"diagonal", Diagonal, "", kView},
    {"linalg_diagonal", Diagonal, "last", kView},
    {"constant_pad_nd", Pad, "constant"},
    {"pad", Pad},
    {"reflection_pad1d", Pad, "reflect"},
    {"reflection_pad2d", Pad, "reflect"},
    {"reflection_pad3d", Pad, "reflect"},
    {"replication_pad1d", Pad, "edge"},
    {"replication_pad2d", Pad, "edge"},
    {"replication_pad3d", Pad, "edge"},
    {"pixel_shuffle", PixelShuffle},
    {"pixel_unshuffle", PixelShuffle},
    {"select_scatter", SelectScatter},
    {"slice_scatter", SliceScatter},
    {"alias", Identity, "", kView},
    {"clone", Identity},
    {"contiguous", Identity, "", kView},
    {"detach", Identity, "", kView},
    {"lift_fresh_copy", Identity},
    {"positive", Identity, "", kView},
    {"conj", Identity, "", kView},
    {"conj_physical", Identity},
    {"real", Identity, "", kView},
    {"resolve_conj", Identity, "", kView},
    {"resolve_neg", Identity, "", kView},
    {"_to_copy", ToCopy},
    {"to", ToCopy, "", kView},
    {"type_as", ToCopy, "", kView},
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::torch::convert
