// Operators that move elements, constants, and those on extents.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/shapes.h"
#include "compiler/import/stablehlo/bodies.h"
#include "compiler/import/stablehlo/importer.h"

namespace rvm::stablehlo {
namespace {

constexpr int64_t kMaxGap = int64_t{1} << 31;  // elements of padding between two

Operands Constant(NodeContext& c) {
  const Attribute* value = c.op().Find("value");
  if (value == nullptr || value->kind != Attribute::Kind::kTensor || value->type->kind != Type::Kind::kTensor) {
    return {c.Fail("it has no value")};
  }
  const bool is_splat = IsSplat(*value);
  std::optional<Literal> literal = LiteralOf(*value, is_splat);
  if (!literal) {
    return {c.Fail(absl::StrCat("its value has ", value->data.size(), " bytes, which its type does not have"))};
  }
  Operand x = c.emit().Constant(*std::move(literal));
  if (!is_splat || c.is_on_tensors()) return {x};
  Operand y = c.BroadcastTo(x, c.ResultDims());
  c.NoteSplat(y, x);
  return {y};
}

Operand IotaOf(NodeContext& c, const Dims& dims) {
  const int64_t axis = c.Axis(c.Int("iota_dimension", 0), static_cast<int64_t>(dims.size()));
  if (c.failed()) return c.emit().Placeholder();
  Operand numbers = c.Cast(c.Iota(dims[static_cast<size_t>(axis)]), c.ResultDType());
  Dims around(dims.size(), Dim(1));
  around[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
  Operand result = c.BroadcastTo(c.Reshape(numbers, around), dims);
  c.NoteIota(result, axis);
  return result;
}
Operands Iota(NodeContext& c) { return {IotaOf(c, c.ResultDims())}; }

// Returns the elements of an integer vector as extents, where they are known when the model is imported.
std::optional<Dims> Extents(NodeContext& c, Operand x) { return c.failed() ? std::nullopt : c.Symbols(x); }

Operands DynamicIota(NodeContext& c) {
  const std::optional<Dims> dims = Extents(c, c.In(0));
  return {dims ? IotaOf(c, *dims) : c.Unsupported("its extents are computed from values")};
}

// Returns the axes of x in a tensor of `rank` axes, the others with extent 1.
Operand Spread(NodeContext& c, Operand x, std::vector<int64_t> axes, int64_t rank) {
  if (static_cast<int64_t>(axes.size()) != c.RankOf(x)) return c.Fail("it has not one axis for each of its operand");
  std::vector<int64_t> order(axes.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::sort(order, {}, [&](int64_t i) { return axes[static_cast<size_t>(i)]; });
  std::ranges::sort(axes);
  x = c.Transpose(x, order);
  Dims dims(static_cast<size_t>(std::max<int64_t>(rank, 0)), Dim(1));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= rank || (i > 0 && axes[i] == axes[i - 1]))
      return c.Fail("its axes are not its result's");
    dims[static_cast<size_t>(axes[i])] = c.ExtentOf(x, static_cast<int64_t>(i));
  }
  return c.Reshape(x, dims);
}

Operands Broadcast(NodeContext& c, const Dims& dims) {
  Operand scalar = c.ScalarOrIn(0);
  if (c.failed()) return {};
  if (c.is_on_tensors()) return {c.In(0)};  // from a scalar to a scalar
  if (c.RankOf(scalar) == 0) {
    Operand y = c.BroadcastTo(scalar, dims);
    c.NoteSplat(y, scalar);
    return {y};
  }
  Operand x = Spread(c, c.In(0), c.Ints("broadcast_dimensions"), static_cast<int64_t>(dims.size()));
  return {c.failed() ? nullptr : c.BroadcastTo(x, dims)};
}
Operands BroadcastInDim(NodeContext& c) { return Broadcast(c, c.ResultDims()); }

Operands DynamicBroadcastInDim(NodeContext& c) {
  Operand extents = c.In(1);
  if (const std::optional<Dims> dims = Extents(c, extents)) return Broadcast(c, *dims);
  if (c.failed()) return {};
  Operand x = Spread(c, c.In(0), c.Ints("broadcast_dimensions"), static_cast<int64_t>(c.ResultDims().size()));
  return {c.failed() ? nullptr : c.Op("dyn.broadcast_to", {x, c.Cast(extents, kInt64)})};
}

Operands Reshape(NodeContext& c) {
  Operand x = c.In(0), scalar = c.ScalarOrIn(0);
  const Dims dims = c.ResultDims();
  if (c.failed()) return {};
  if (c.is_on_tensors()) return {x};
  Operand y = c.Reshape(x, dims);
  if (scalar != x) c.NoteSplat(y, scalar);
  return {y};
}

Operands DynamicReshape(NodeContext& c) {
  Operand x = c.In(0), extents = c.In(1);
  const std::optional<Dims> dims = Extents(c, extents);
  if (c.failed()) return {};
  if (dims) return {c.Reshape(x, *dims)};
  return {c.Op("dyn.reshape", {x, c.Cast(extents, kInt64)}, {{"allowzero", 1}})};
}

Operands GetDimensionSize(NodeContext& c) {
  Operand x = c.In(0);
  const int64_t axis = c.Int("dimension", 0);
  if (c.failed()) return {};
  return {c.Cast(c.emit().FromDim(c.ExtentOf(x, c.Axis(axis, c.RankOf(x)))), kInt32)};
}

Operands Transpose(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> axes = c.Ints("permutation");
  if (c.failed()) return {};
  return {static_cast<int64_t>(axes.size()) == c.RankOf(x) ? c.Transpose(x, axes)
                                                           : c.Fail("its permutation does not fit its operand")};
}

Operands Reverse(NodeContext& c) {
  Operand x = c.In(0);
  for (int64_t axis : c.Ints("dimensions")) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

Operands Concatenate(NodeContext& c) {
  if (c.num_inputs() == 0) return {c.Fail("it has no operands")};
  return {c.Concatenate(c.Inputs(0, c.num_inputs()), c.Int("dimension", 0))};
}

Operands Slice(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> begin = c.Ints("start_indices"), end = c.Ints("limit_indices"), steps = c.Ints("strides");
  if (c.failed()) return {};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (begin.size() != rank || end.size() != rank || steps.size() != rank)
    return {c.Fail("it does not fit its operand")};
  bool changes = false;
  for (size_t i = 0; i < rank; ++i) {
    if (begin[i] < 0 || end[i] < begin[i] || steps[i] < 1) return {c.Fail("its indices are not in order")};
    changes = changes || begin[i] != 0 || steps[i] != 1 || Dim(end[i]) != c.ExtentOf(x, static_cast<int64_t>(i));
  }
  if (!changes) return {x};
  return {c.Op("strided_slice", {x},
               {{"begin", ir::IntList(begin)}, {"end", ir::IntList(end)}, {"strides", ir::IntList(steps)}})};
}

// Returns a slice between extents, as shapes that are symbolic have.
Operands RealDynamicSlice(NodeContext& c) {
  Operand x = c.In(0), begin = c.In(1), end = c.In(2), steps = c.In(3);
  const std::optional<Dims> from = Extents(c, begin), to = Extents(c, end), by = Extents(c, steps);
  if (c.failed()) return {};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (!from || !to || !by || from->size() != rank || to->size() != rank || by->size() != rank) {
    return {c.Op("dyn.strided_slice", {x, c.Cast(begin, kInt64), c.Cast(end, kInt64), c.Cast(steps, kInt64)})};
  }
  for (size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<int64_t>(i);
    if ((*by)[i] == Dim(1)) {
      x = c.SliceAxis(x, axis, (*from)[i], (*to)[i]);
      continue;
    }
    Dims dims = c.DimsOf(x);
    dims[i] = FloorDiv((*to)[i] - (*from)[i] + (*by)[i] - 1, (*by)[i]);
    const auto vector = [&](const Dim& dim) { return c.emit().FromDims({{dim}}); };
    x = c.emit().OpAs(dims, "dyn.strided_slice", {x, vector((*from)[i]), vector((*to)[i]), vector((*by)[i])},
                      {{"axes", ir::IntList({{axis}})}});
  }
  return {x};
}

Operands Pad(NodeContext& c) {
  Operand x = c.In(0), value = c.In(1);
  const std::vector<int64_t> low = c.Ints("edge_padding_low"), high = c.Ints("edge_padding_high"),
                             inside = c.Ints("interior_padding");
  if (c.failed()) return {};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (low.size() != rank || high.size() != rank || inside.size() != rank)
    return {c.Fail("it does not fit its operand")};
  std::vector<int64_t> widths;
  for (size_t i = 0; i < rank; ++i) {
    if (inside[i] < 0 || inside[i] > kMaxGap) return {c.Fail("its interior padding is negative or too wide")};
    const bool is_empty = c.ExtentOf(x, static_cast<int64_t>(i)) == Dim(0);
    if (inside[i] > 0 && !is_empty) x = WithGaps(c, x, value, static_cast<int64_t>(i), inside[i]);
    widths.push_back(low[i]);
    widths.push_back(high[i]);
  }
  if (std::ranges::all_of(widths, [](int64_t width) { return width == 0; })) return {x};
  return {c.Op("nn.pad", {x, value}, {{"pad_width", importing::PadWidths(widths)}})};
}

Operands DynamicPad(NodeContext& c) {
  Operand x = c.In(0), value = c.In(1);
  const std::optional<Dims> low = Extents(c, c.In(2)), high = Extents(c, c.In(3)), inside = Extents(c, c.In(4));
  if (c.failed()) return {};
  if (!low || !high || !inside) return {c.Unsupported("its widths are computed from values")};
  const auto rank = static_cast<size_t>(c.RankOf(x));
  if (low->size() != rank || high->size() != rank || inside->size() != rank) {
    return {c.Fail("it does not fit its operand")};
  }
  Dims widths, dims = c.DimsOf(x);
  for (size_t i = 0; i < rank; ++i) {
    if ((*inside)[i] != Dim(0)) return {c.Unsupported("interior padding of symbolic shapes")};
    dims[i] = dims[i] + (*low)[i] + (*high)[i];
    widths.push_back((*low)[i]);
    widths.push_back((*high)[i]);
  }
  if (rank == 0) return {x};
  Operand matrix = c.Reshape(c.emit().FromDims(widths), {static_cast<int64_t>(rank), 2});
  return {c.emit().OpAs(dims, "dyn.nn.pad", {x, matrix, value}, {{"pad_mode", "constant"}})};
}

constexpr Lanes kEach = Lanes::kElementwise;
constexpr OperatorRow kRows[] = {
    {"broadcast_in_dim", BroadcastInDim, "", kEach},
    {"concatenate", Concatenate},
    {"constant", Constant, "", kEach},
    {"dynamic_broadcast_in_dim", DynamicBroadcastInDim},
    {"dynamic_iota", DynamicIota},
    {"dynamic_pad", DynamicPad},
    {"dynamic_reshape", DynamicReshape},
    {"get_dimension_size", GetDimensionSize},
    {"iota", Iota},
    {"pad", Pad},
    {"real_dynamic_slice", RealDynamicSlice},
    {"reshape", Reshape, "", kEach},
    {"reverse", Reverse},
    {"slice", Slice},
    {"transpose", Transpose},
};

}  // namespace

Operand WithGaps(NodeContext& c, Operand x, Operand value, int64_t axis, int64_t count) {
  const Dim extent = c.ExtentOf(x, axis);
  Operand wide = c.Unsqueeze(x, {axis + 1});
  Dims gaps = c.DimsOf(wide);
  gaps[static_cast<size_t>(axis) + 1] = count;
  wide = c.Concatenate({wide, c.BroadcastTo(value, gaps)}, axis + 1);
  Dims flat = c.DimsOf(x);
  flat[static_cast<size_t>(axis)] = extent * (count + 1);
  return c.SliceAxis(c.Reshape(wide, flat), axis, 0, extent * (count + 1) - count);
}

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::stablehlo
