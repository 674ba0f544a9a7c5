// Shapes: measured, changed, joined, split, padded; and tensors made from a shape.
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
#include "compiler/import/checks.h"
#include "compiler/import/onnx/importer.h"
#include "compiler/import/shapes.h"

namespace rvm::onnx::convert {
namespace {

using importing::AllAxes;
using importing::CheckSizes;
using importing::KnownExtent;
using importing::PartsOf;
using importing::Product;
using importing::SlicedExtent;
using importing::TargetShape;

bool Same(const Dim& a, const Dim& b) { return CompareDims(a, b) == DimEquality::kEqual; }

Operand ReshapeBy(NodeContext& c, Operand x, Operand shape, bool allow_zero) {
  if (std::optional<Dims> to = c.Symbols(shape)) {
    std::optional<Dims> dims = TargetShape(c, c.DimsOf(x), *to, !allow_zero);
    return dims ? c.Reshape(x, *dims) : nullptr;
  }
  if (!KnownExtent(c, shape, 0, "shape")) return c.emit().Placeholder();
  return c.Op("dyn.reshape", {x, shape}, {{"allowzero", allow_zero ? 1 : 0}});
}

// ---- measured

Operands Shape(NodeContext& c) {
  const Dims& dims = c.DimsOf(c.In(0));
  int64_t rank = static_cast<int64_t>(dims.size());
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t begin = clamp(c.Int("start", 0)), end = std::max(begin, clamp(c.Int("end", rank)));
  return {c.emit().FromDims(std::span(dims).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)))};
}

Operands Size(NodeContext& c) { return {c.NumElements(c.In(0))}; }

// ---- changed

Operands Reshape(NodeContext& c) {
  if (c.HasAttr("shape")) return {ReshapeBy(c, c.In(0), c.emit().Vector(c.Ints("shape")), false)};
  return {ReshapeBy(c, c.In(0), c.In(1), c.Int("allowzero", 0) != 0)};
}

Operands Flatten(NodeContext& c) {
  const Dims dims = c.DimsOf(c.In(0));
  int64_t rank = static_cast<int64_t>(dims.size()), axis = c.Int("axis", 1);
  size_t split = static_cast<size_t>(axis == rank ? rank : c.Axis(axis, rank));
  if (c.failed()) return {};
  return {c.Reshape(c.In(0), {Product(std::span(dims).first(split)), Product(std::span(dims).subspan(split))})};
}

Operands Squeeze(NodeContext& c) {
  Operand x = c.In(0);
  std::vector<int64_t> axes = c.Ints("axes");
  if (c.Has(1)) axes = c.Constants(c.In(1), "list of axes").value_or(axes);
  if (axes.empty() && !c.Has(1)) {
    for (int64_t i = 0; i < c.RankOf(x); ++i) {
      if (c.ExtentOf(x, i) == Dim(1)) axes.push_back(i);
    }
  }
  return {c.Squeeze(x, c.Axes(axes, c.RankOf(x)))};
}

Operands Unsqueeze(NodeContext& c) {
  std::vector<int64_t> axes = c.Ints("axes");
  if (c.Has(1)) axes = c.Constants(c.In(1), "list of axes").value_or(axes);
  return {c.Unsqueeze(c.In(0), c.Axes(axes, c.RankOf(c.In(0)) + static_cast<int64_t>(axes.size())))};
}

Operands Transpose(NodeContext& c) {
  std::vector<int64_t> axes = c.Ints("perm");
  if (!c.HasAttr("perm")) {
    for (int64_t i = c.RankOf(c.In(0)); i-- > 0;) axes.push_back(i);
  }
  return {c.Transpose(c.In(0), axes)};
}

Operands Expand(NodeContext& c) {
  Operand x = c.In(0), shape = c.In(1);
  Dims from = c.DimsOf(x);
  std::optional<Dims> to = c.Symbols(shape);
  std::optional<int64_t> length =
      to ? std::optional(static_cast<int64_t>(to->size())) : KnownExtent(c, shape, 0, "shape");
  if (!length) return {};
  size_t rank = static_cast<size_t>(*length);
  // Both are lists of extents that are broadcast against each other.
  while (from.size() < rank) from.insert(from.begin(), Dim(1));
  if (to) {
    while (to->size() < from.size()) to->insert(to->begin(), Dim(1));
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] = Broadcast(from[i], (*to)[i]);
    return {c.BroadcastTo(x, *to)};
  }
  if (from.size() > rank) {
    std::vector<int64_t> ones(from.size() - rank, 1);
    shape = c.Op("concatenate", {c.emit().Tuple({c.emit().Vector(ones), c.Cast(shape, kInt64)})});
  }
  Operand own = c.emit().FromDims(from), one = c.Integer(1);
  shape = c.Where(c.Op("equal", {c.Cast(shape, kInt64), one}), own, c.Cast(shape, kInt64));
  return {c.Op("dyn.broadcast_to", {x, shape})};
}

Operands Tile(NodeContext& c) {
  Operand x = c.In(0), reps = c.In(1);
  std::optional<Dims> known = c.Symbols(reps);
  if (!known && !KnownExtent(c, reps, 0, "repeats")) return {};
  if (!known) return {c.Op("dyn.tile", {x, reps})};
  if (std::optional<rvm::Shape> numbers = StaticShape(*known))
    return {c.Op("tile", {x}, {{"reps", ir::IntList(*numbers)}})};
  return {c.Op("dyn.tile", {x, reps})};
}

// ---- joined and split

Operands Concat(NodeContext& c) {
  Operands parts = c.All();
  if (c.failed() || parts.size() == 1) return parts;
  int64_t axis = c.Axis(c.Int("axis", c.opset() < 4 ? 1 : 0), c.RankOf(parts[0]));
  return {c.Concatenate(parts, axis)};
}

// Parts whose sizes only the running program knows.
Operands SplitBySizes(NodeContext& c, Operand x, int64_t axis, Operand sizes, int64_t count) {
  Dim length = c.ExtentOf(sizes, 0);
  if (length.is_const() && length.constant() != count) {
    return {c.Fail(absl::StrCat("it has ", length.constant(), " sizes and ", count, " outputs"))};
  }
  sizes = c.Cast(sizes, kInt64);
  if (!length.is_const()) {
    sizes = c.Op("check_extent", {sizes, c.Integer(count)},
                 {{"axis", 0}, {"what", "the sizes of a split, and its outputs"}});
  }
  return PartsOf(c, CheckSizes(c, x, axis, sizes), axis, sizes, count);
}

Operands Split(NodeContext& c) {
  Operand x = c.In(0);
  int64_t axis = c.Axis(c.Int("axis", 0), c.RankOf(x));
  Dim extent = c.ExtentOf(x, axis);
  int64_t count = static_cast<int64_t>(c.num_outputs());
  if (c.failed()) return {};
  Dims sizes;
  if (c.HasAttr("split") || c.Has(1)) {
    std::optional<Dims> known;
    if (c.HasAttr("split")) {
      const std::vector<int64_t> given = c.Ints("split");
      known = Dims(given.begin(), given.end());
    } else {
      known = c.Symbols(c.In(1));
    }
    if (!known) return SplitBySizes(c, x, axis, c.In(1), count);
    sizes = *known;
    x = CheckSizes(c, x, axis, sizes);
    if (c.failed()) return {};
  } else {
    int64_t parts = c.Int("num_outputs", count);
    if (parts <= 0 || parts > importing::kMaxParts) return {c.Fail("it has no outputs, or too many")};
    // Equal parts, of which the last may be smaller.
    Dim part = FloorDiv(extent + (parts - 1), parts);
    for (int64_t i = 0; i < parts; ++i) {
      Dim rest = Max(extent - part * i, 0);
      sizes.push_back(i + 1 < parts && !extent.is_const() ? part : Min(part, rest));
    }
  }
  if (static_cast<int64_t>(sizes.size()) < count) return {c.Fail("it has more outputs than parts")};
  return PartsOf(c, x, axis, sizes);
}

Operands Slice(NodeContext& c) {
  Operand x = c.In(0);
  const Dims dims = c.DimsOf(x);
  int64_t rank = static_cast<int64_t>(dims.size());
  bool by_inputs = c.Has(1);
  Operand starts = by_inputs ? c.In(1) : c.emit().Vector(c.Ints("starts"));
  Operand ends = by_inputs ? c.In(2) : c.emit().Vector(c.Ints("ends"));
  std::optional<int64_t> count = KnownExtent(c, starts, 0, "starts");
  if (!count || *count > rank) return {c.failed() ? nullptr : c.Fail("it slices more axes than its input has")};
  std::vector<int64_t> axes = AllAxes(*count), steps(static_cast<size_t>(*count), 1);
  if (c.HasAttr("axes")) axes = c.Ints("axes");
  if (c.Has(3)) axes = c.Constants(c.In(3), "list of axes").value_or(axes);
  axes = c.Axes(axes, rank);
  Operand step_input = c.Has(4) ? c.In(4) : c.emit().Vector(steps);
  std::optional<Dims> begin = c.Symbols(starts), end = c.Symbols(ends), step = c.Symbols(step_input);
  size_t n = axes.size();
  if (c.failed()) return {};
  Dims out = dims;
  bool is_static = begin && end && step && begin->size() == n && end->size() == n && step->size() == n;
  if (!is_static) {
    auto wide = [&](Operand operand) { return c.Cast(operand, kInt64); };
    return {c.Op("dyn.strided_slice", {x, wide(starts), wide(ends), wide(step_input)}, {{"axes", ir::IntList(axes)}})};
  }
  bool has_numbers = true;
  for (size_t i = 0; i < n; ++i) {
    Dim& extent = out[static_cast<size_t>(axes[i])];
    std::optional<Dim> sliced;
    if ((*step)[i].is_const()) sliced = SlicedExtent(extent, (*begin)[i], (*end)[i], (*step)[i].constant());
    extent = sliced.value_or(Dim::Any());
    has_numbers = has_numbers && (*begin)[i].is_const() && (*end)[i].is_const() && (*step)[i].is_const();
  }
  if (std::equal(out.begin(), out.end(), dims.begin(), Same) &&
      std::all_of(step->begin(), step->end(), [](const Dim& s) { return s == Dim(1); })) {
    return {x};
  }
  if (!has_numbers) {
    return {c.emit().OpAs(out, "dyn.strided_slice",
                          {x, c.Cast(starts, kInt64), c.Cast(ends, kInt64), c.Cast(step_input, kInt64)},
                          {{"axes", ir::IntList(axes)}})};
  }
  auto numbers = [](const Dims& values) { return ir::IntList(*StaticShape(values)); };
  return {c.emit().OpAs(
      out, "strided_slice", {x},
      {{"begin", numbers(*begin)}, {"end", numbers(*end)}, {"strides", numbers(*step)}, {"axes", ir::IntList(axes)}})};
}

// ---- padded

Operands Pad(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x);
  std::vector<int64_t> axes = AllAxes(rank);
  if (c.Has(3)) axes = c.Axes(c.Constants(c.In(3), "list of axes").value_or(axes), rank);
  if (c.failed()) return {};
  std::string mode = c.Text("mode", "constant");
  Operand value = c.Has(2) ? c.Cast(c.Scalar(c.In(2)), c.DTypeOf(x)) : c.Number(c.Float("value", 0), x);
  ir::Attrs attrs = {{"pad_mode", mode}};
  if (c.Has(1) && !c.In(1)->constant) {
    // The same order as that of `widths` below, taken from a vector with a 0 at its end.
    Operand pads = c.Cast(c.In(1), kInt64);
    int64_t count = static_cast<int64_t>(axes.size());
    Dim length = c.ExtentOf(pads, 0);
    if (length.is_const() && length.constant() != 2 * count) {
      return {c.Fail(absl::StrCat("it has ", length.constant(), " pads for ", count, " axes"))};
    }
    if (!length.is_const()) {
      pads = c.Op("check_extent", {pads, c.Integer(2 * count)}, {{"axis", 0}, {"what", "the pads, two for each axis"}});
    }
    std::vector<int64_t> places(static_cast<size_t>(2 * rank), 2 * count);
    for (size_t i = 0; i < axes.size(); ++i) {
      places[static_cast<size_t>(2 * axes[i])] = static_cast<int64_t>(i);
      places[static_cast<size_t>(2 * axes[i] + 1)] = static_cast<int64_t>(i) + count;
    }
    Operand padded = c.Op("concatenate", {c.emit().Tuple({pads, c.emit().Vector({{0}})})});
    Operand widths = c.Op("take", {padded, c.emit().Vector(places)}, {{"axis", 0}});
    return {c.Op("dyn.nn.pad", {x, c.Reshape(widths, {rank, 2}), value}, attrs)};
  }
  std::vector<int64_t> pads = c.Has(1) ? c.Constants(c.In(1), "pads").value_or(std::vector<int64_t>())
                                       : c.Ints(c.HasAttr("paddings") ? "paddings" : "pads");
  if (c.failed()) return {};
  if (pads.size() != 2 * axes.size()) {
    return {c.Fail(absl::StrCat("it has ", pads.size(), " pads for ", axes.size(), " axes"))};
  }
  std::vector<int64_t> widths(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    widths[static_cast<size_t>(2 * axes[i])] = pads[i];
    widths[static_cast<size_t>(2 * axes[i] + 1)] = pads[i + axes.size()];
  }
  if (std::ranges::all_of(widths, [](int64_t width) { return width == 0; })) return {x};
  attrs.Set("pad_width", importing::PadWidths(widths));
  return {c.Op("nn.pad", {x, value}, attrs)};
}

Operands CenterCropPad(NodeContext& c) {
  Operand x = c.In(0);
  int64_t rank = c.RankOf(x);
  std::vector<int64_t> axes = c.HasAttr("axes") ? c.Axes(c.Ints("axes"), rank) : AllAxes(rank);
  std::optional<std::vector<int64_t>> shape = c.Constants(c.In(1), "shape");
  if (!shape || shape->size() != axes.size()) return {c.failed() ? nullptr : c.Fail("its shape does not fit its axes")};
  if (c.failed()) return {};
  ir::AttrValue::List widths(static_cast<size_t>(rank), ir::AttrValue::List{0, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    std::optional<int64_t> extent = c.ExtentOf(x, axes[i]).AsConst();
    if (!extent) return {c.Unsupported("an extent that it crops is known only when the model runs")};
    int64_t less = *extent - (*shape)[i];
    int64_t before = less >= 0 ? -(less / 2) : (-less) / 2;
    widths[static_cast<size_t>(axes[i])] = ir::AttrValue::List{before, -less - before};
  }
  return {c.Op("nn.pad", {x, c.Number(0, x)}, {{"pad_width", widths}})};
}

// ---- made

Operands Constant(NodeContext& c) {
  if (c.HasAttr("value_float")) return {c.emit().Number(c.Float("value_float", 0), kFloat32)};
  if (c.HasAttr("value_int")) return {c.Integer(c.Int("value_int", 0))};
  if (c.HasAttr("value_ints")) return {c.emit().Vector(c.Ints("value_ints"))};
  if (c.HasAttr("value_floats")) {
    std::vector<float> values = c.Floats("value_floats");
    return {c.emit().Constant(Literal::FromValues<float>(kFloat32, {static_cast<int64_t>(values.size())}, values))};
  }
  if (c.HasAttr("value_string") || c.HasAttr("value_strings")) return {c.Unsupported(UnsupportedDataType(8))};
  if (c.HasAttr("sparse_value")) return {c.Unsupported("a sparse constant")};
  if (Operand packed = c.PackedAttr("value")) return {packed};
  std::optional<Literal> value = c.TensorAttr("value");
  if (value) return {c.emit().Constant(*value, std::string(c.node().outputs.empty() ? "" : c.node().outputs[0]))};
  return {c.failed() ? nullptr : c.Fail("its value is missing")};
}

Operands ConstantOfShape(NodeContext& c) {
  Literal value = Literal::Scalar(kFloat32, 0);
  if (c.HasAttr("value")) {
    std::optional<Literal> given = c.TensorAttr("value");
    if (!given || given->num_elements() != 1) return {c.failed() ? nullptr : c.Fail("its value is not one element")};
    value = Literal::FromBytes(given->dtype(), {}, {given->data(), static_cast<size_t>(given->bytes())});
  }
  Operand shape = c.In(0), fill = c.emit().Constant(value);
  std::optional<Dims> dims = c.Symbols(shape);
  if (!dims && !KnownExtent(c, shape, 0, "shape")) return {};
  if (!dims) return {c.Op("dyn.full", {fill, shape})};
  if (std::optional<rvm::Shape> numbers = StaticShape(*dims))
    return {c.Op("full", {fill}, {{"shape", ir::IntList(*numbers)}})};
  return {c.emit().OpAs(*dims, "dyn.full", {fill, shape})};
}

Operands Range(NodeContext& c) {
  Operand start = c.Scalar(c.In(0)), limit = c.Scalar(c.In(1)), step = c.Scalar(c.In(2));
  bool counts_up = start->constant && step->constant && c.DTypeOf(start).is_integral() &&
                   start->constant->IntAt(0) == 0 && step->constant->IntAt(0) == 1;
  if (counts_up && limit->elements) {
    return {c.emit().OpAs({(*limit->elements)[0]}, "arange", {start, limit, step})};
  }
  return {c.Op("arange", {start, limit, step})};
}

Operands EyeLike(NodeContext& c) {
  Operand x = c.In(0);
  if (c.RankOf(x) != 2) return {c.Fail("its input is no matrix")};
  DataType dtype = c.DTypeAttr("dtype", c.DTypeOf(x));
  Dim rows = c.ExtentOf(x, 0), columns = c.ExtentOf(x, 1);
  if (rows.is_const() && columns.is_const()) {
    return {c.Op("eye", {},
                 {{"rows", rows.constant()},
                  {"columns", columns.constant()},
                  {"k", c.Int("k", 0)},
                  {"dtype", dtype.ToString()}})};
  }
  Operand diagonal = c.Add(c.Unsqueeze(c.Iota(rows), {1}), c.Integer(c.Int("k", 0)));
  return {c.Cast(c.Op("equal", {diagonal, c.Iota(columns)}), dtype)};
}

Operands Trilu(NodeContext& c) {
  Operand k = c.Has(1) ? c.Scalar(c.In(1)) : c.Integer(0);
  return {c.Op("trilu", {c.In(0), k}, {{"upper", c.Int("upper", 1) != 0}})};
}

Operands DepthAndSpace(NodeContext& c) {
  return {c.Op(c.row().variant, {c.In(0)},
               {{"block_size", c.Int("blocksize", 1)}, {"mode", c.Text("mode", "DCR") == "CRD" ? "CRD" : "DCR"}})};
}

constexpr OperatorRow kRows[] = {
    {"CenterCropPad", CenterCropPad},
    {"Concat", Concat},
    {"Constant", Constant},
    {"ConstantOfShape", ConstantOfShape},
    {"DepthToSpace", DepthAndSpace, "nn.depth_to_space"},
    {"Expand", Expand},
    {"EyeLike", EyeLike},
    {"Flatten", Flatten},
    {"Pad", Pad},
    {"Range", Range},
    {"Reshape", Reshape},
    {"Shape", Shape},
    {"Size", Size},
    {"Slice", Slice},
    {"SpaceToDepth", DepthAndSpace, "nn.space_to_depth"},
    {"Split", Split},
    {"Squeeze", Squeeze},
    {"Tile", Tile},
    {"Transpose", Transpose},
    {"Trilu", Trilu},
    {"Unsqueeze", Unsqueeze},
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::onnx::convert
