// Operators that move elements, and those on shapes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/import/blocks/moves.h"
#include "compiler/import/shapes.h"
#include "compiler/import/tflite/importer.h"

namespace rvm::tflite {
namespace {

Operands Reshape(NodeContext& c) {
  Operand x = c.In(0);
  const Tensor* output = c.Output(0);
  if (c.failed()) return {};
  std::optional<Dims> dims = c.Has(1) ? c.Symbols(c.In(1)) : std::nullopt;
  if (!dims && c.Has(1)) return {c.Op("dyn.reshape", {x, c.Cast(c.In(1), kInt64)})};
  if (!dims) {
    const std::vector<int32_t> given = c.options().Numbers<int32_t>(0);
    dims.emplace();
    for (int32_t extent : given) dims->emplace_back(extent);
    if (given.empty()) dims->assign(output->shape.begin(), output->shape.end());
  }
  dims = importing::TargetShape(c, c.DimsOf(x), *std::move(dims));
  return {dims ? c.Reshape(x, *dims) : nullptr};
}

Operands Squeeze(NodeContext& c) {
  Operand x = c.In(0);
  if (c.failed()) return {};
  std::vector<int64_t> axes;
  for (int32_t axis : c.options().Numbers<int32_t>(0)) axes.push_back(axis);
  if (axes.empty()) {
    for (int64_t i = 0; i < c.RankOf(x); ++i) {
      if (c.ExtentOf(x, i) == Dim(1)) axes.push_back(i);
    }
  }
  return {c.Squeeze(x, c.Axes(axes, c.RankOf(x)))};
}

Operands ExpandDims(NodeContext& c) {
  const int64_t axis = c.Int(1, "axis");
  if (c.failed()) return {};
  return {c.Unsqueeze(c.In(0), {c.Axis(axis, c.RankOf(c.In(0)) + 1)})};
}

Operands Transpose(NodeContext& c) {
  const std::vector<int64_t> axes = c.Ints(1, "axes");
  return {c.failed() ? nullptr : c.Transpose(c.In(0), axes)};
}

Operands Concatenation(NodeContext& c) {
  Operands parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) parts.push_back(c.In(i));
  if (parts.empty()) return {c.Fail("it has no inputs")};
  return {c.Activated(c.Concatenate(std::move(parts), c.options().Number<int32_t>(0, 0)), 1)};
}

Operands Pack(NodeContext& c) {
  Operands parts;
  if (c.num_inputs() == 0) return {c.Fail("it has no inputs")};
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    Operand x = c.In(i);
    if (c.failed()) return {};
    parts.push_back(c.Unsqueeze(x, {c.Axis(c.options().Number<int32_t>(1, 0), c.RankOf(x) + 1)}));
  }
  const int64_t axis = c.Axis(c.options().Number<int32_t>(1, 0), c.RankOf(parts[0]));
  return {c.Concatenate(std::move(parts), axis)};
}

Operands Unpack(NodeContext& c) {
  Operands parts;
  for (size_t i = 0; i < c.num_outputs(); ++i) {
    parts.push_back(c.Op("take", {c.In(0), c.Integer(static_cast<int64_t>(i))},
                         {{"axis", static_cast<int64_t>(c.options().Number<int32_t>(1, 0))}}));
  }
  return parts;
}

// Parts of `sizes` extents along an axis; one of -1 is what the others leave.
Operands Parts(NodeContext& c, Operand x, int64_t axis, std::vector<int64_t> sizes) {
  axis = c.Axis(axis, c.RankOf(x));
  if (c.failed()) return {};
  Dim rest = c.ExtentOf(x, axis);
  for (int64_t size : sizes) rest = rest - std::max<int64_t>(size, 0);
  Dims extents;
  for (int64_t size : sizes) extents.push_back(size < 0 ? rest : Dim(size));
  return importing::PartsOf(c, x, axis, extents);
}

Operands Split(NodeContext& c) {
  const int64_t axis = c.Int(0, "axis"), count = c.options().Number<int32_t>(0, 0);
  Operand x = c.In(1);
  if (c.failed()) return {};
  const std::optional<int64_t> extent = c.ExtentOf(x, axis).AsConst();
  if (count < 1 || count > importing::kMaxParts || !extent || *extent % count != 0) {
    return {
        c.Unsupported(absl::StrCat("a split of ", c.ExtentOf(x, axis).ToString(), " into ", count, " equal parts"))};
  }
  return Parts(c, x, axis, std::vector<int64_t>(static_cast<size_t>(count), *extent / count));
}
Operands SplitV(NodeContext& c) {
  const std::vector<int64_t> sizes = c.Ints(1, "sizes");
  const int64_t axis = c.Int(2, "axis");
  return c.failed() ? Operands() : Parts(c, c.In(0), axis, sizes);
}

Operands Slice(NodeContext& c) {
  const std::vector<int64_t> begin = c.Ints(1, "begin"), size = c.Ints(2, "size");
  if (c.failed()) return {};
  return {c.Op("strided_slice", {c.In(0)},
               {{"begin", ir::IntList(begin)}, {"end", ir::IntList(size)}, {"slice_mode", "size"}})};
}

Operands StridedSlice(NodeContext& c) {
  std::vector<int64_t> begin = c.Ints(1, "begin"), end = c.Ints(2, "end"), strides = c.Ints(3, "strides");
  auto mask = [&](int field) { return static_cast<uint32_t>(c.options().Number<int32_t>(field, 0)); };
  if (c.failed()) return {};
  if (mask(2) != 0 || mask(3) != 0) return {c.Unsupported("an ellipsis, or new axes")};
  if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > 32) {
    return {c.Fail("its begin, end and strides have different lengths")};
  }
  std::vector<int64_t> dropped;
  for (size_t i = 0; i < begin.size(); ++i) {
    const uint32_t bit = uint32_t{1} << i;
    if (strides[i] == 0) return {c.Fail("a stride is 0")};
    if ((mask(4) & bit) != 0) {
      dropped.push_back(static_cast<int64_t>(i));
      end[i] = begin[i] == -1 ? importing::kBeyond : begin[i] + 1;
      strides[i] = 1;
      continue;
    }
    if ((mask(0) & bit) != 0) begin[i] = strides[i] > 0 ? 0 : importing::kBeyond;
    if ((mask(1) & bit) != 0) end[i] = strides[i] > 0 ? importing::kBeyond : -importing::kBeyond;
  }
  Operand y = c.Op("strided_slice", {c.In(0)},
                   {{"begin", ir::IntList(begin)}, {"end", ir::IntList(end)}, {"strides", ir::IntList(strides)}});
  return {c.Squeeze(y, dropped)};
}

Operands Pad(NodeContext& c) {
  const std::vector<int64_t> widths = c.Ints(1, "widths");
  Operand x = c.In(0);
  if (c.failed()) return {};
  if (static_cast<int64_t>(widths.size()) != 2 * c.RankOf(x)) return {c.Fail("its widths do not fit its input")};
  Operand value = c.Has(2) ? c.Scalar(c.In(2)) : c.Number(0, x);
  return {c.Op("nn.pad", {x, value}, {{"pad_width", importing::PadWidths(widths)}})};
}

Operands Gather(NodeContext& c) {
  ir::Attrs attrs = {{"axis", static_cast<int64_t>(c.options().Number<int32_t>(0, 0))}};
  if (const int32_t batch = c.options().Number<int32_t>(1, 0); batch != 0) {
    attrs.Set("batch_dims", static_cast<int64_t>(batch));
  }
  return {c.Op("take", {c.In(0), c.In(1)}, std::move(attrs))};
}

Operands ShapeOf(NodeContext& c) {
  Operand x = c.In(0);
  return {c.failed() ? nullptr : c.Cast(c.emit().FromDims(c.DimsOf(x)), c.OutputDType(0))};
}

// A value in the shape that a vector of extents says.
Operand Filled(NodeContext& c, Operand value, Operand extents) {
  if (c.failed()) return value;
  if (std::optional<Dims> dims = c.Symbols(extents)) return c.BroadcastTo(value, *dims);
  return c.Op("dyn.broadcast_to", {value, c.Cast(extents, kInt64)});
}
Operands Fill(NodeContext& c) { return {Filled(c, c.In(1), c.In(0))}; }

Operands Tile(NodeContext& c) {
  const std::vector<int64_t> counts = c.Ints(1, "counts");
  return {c.failed() ? nullptr : c.Op("tile", {c.In(0)}, {{"reps", ir::IntList(counts)}})};
}

Operands ReverseV2(NodeContext& c) {
  const std::vector<int64_t> axes = c.Ints(1, "axes");
  Operand x = c.In(0);
  for (int64_t axis : axes) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

constexpr OperatorRow kRows[] = {
    {"CONCATENATION", Concatenation},
    {"EXPAND_DIMS", ExpandDims},
    {"FILL", Fill},
    {"GATHER", Gather},
    {"PACK", Pack},
    {"PAD", Pad},
    {"PADV2", Pad},
    {"RESHAPE", Reshape},
    {"REVERSE_V2", ReverseV2},
    {"SHAPE", ShapeOf},
    {"SLICE", Slice},
    {"SPLIT", Split},
    {"SPLIT_V", SplitV},
    {"SQUEEZE", Squeeze},
    {"STRIDED_SLICE", StridedSlice},
    {"TILE", Tile},
    {"TRANSPOSE", Transpose},
    {"UNPACK", Unpack},
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::tflite
