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
#include "compiler/import/checks.h"
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
  const std::vector<int32_t> axes = c.options().Numbers<int32_t>(0);
  return tensorflow_family::Squeeze(c, {axes.begin(), axes.end()});
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

Operands Split(NodeContext& c) { return tensorflow_family::Split(c, c.options().Number<int32_t>(0, 0)); }

// A slice as the masks of a node say it: an entry for each axis of the input.
struct Slices {
  std::vector<int64_t> begin, end, strides, dropped;  // axes of the input
  std::vector<int64_t> added;                         // places of new axes in the result
};

// Entries of an ellipsis take all of the axes that the others leave; those of new axes take none.
std::optional<Slices> ReadSlices(NodeContext& c, int64_t rank) {
  std::vector<int64_t> begin = c.Ints(1, "begin"), end = c.Ints(2, "end"), strides = c.Ints(3, "strides");
  auto mask = [&](int field) { return static_cast<uint32_t>(c.options().Number<int32_t>(field, 0)); };
  if (c.failed()) return std::nullopt;
  if (begin.size() != end.size() || begin.size() != strides.size() || begin.size() > 32) {
    c.Fail("its begin, end and strides have different lengths");
    return std::nullopt;
  }
  int64_t named = 0;
  for (size_t i = 0; i < begin.size(); ++i) named += ((mask(2) | mask(3)) >> i & 1) == 0 ? 1 : 0;
  Slices slices;
  int64_t results = 0;
  auto whole_axis = [&] {
    slices.begin.push_back(0);
    slices.end.push_back(importing::kBeyond);
    slices.strides.push_back(1);
    ++results;
  };
  for (size_t i = 0; i < begin.size(); ++i) {
    auto has = [&](int field) { return (mask(field) >> i & 1) != 0; };
    if (has(2)) {
      for (int64_t k = named; k < rank; ++k) whole_axis();
      continue;
    }
    if (has(3)) {
      slices.added.push_back(results++);
      continue;
    }
    if (strides[i] == 0) {
      c.Fail("a stride is 0");
      return std::nullopt;
    }
    if (has(4)) {
      slices.dropped.push_back(static_cast<int64_t>(slices.begin.size()));
      end[i] = begin[i] == -1 ? importing::kBeyond : begin[i] + 1;
      strides[i] = 1;
    } else {
      if (has(0)) begin[i] = strides[i] > 0 ? 0 : importing::kBeyond;
      if (has(1)) end[i] = strides[i] > 0 ? importing::kBeyond : -importing::kBeyond;
      ++results;
    }
    slices.begin.push_back(begin[i]);
    slices.end.push_back(end[i]);
    slices.strides.push_back(strides[i]);
  }
  if (static_cast<int64_t>(slices.begin.size()) > rank) c.Fail("it has more entries than its input has axes");
  return c.failed() ? std::nullopt : std::optional(slices);
}

// One place, or a range with a step of 1, that only the running program knows.
Operands SliceByValues(NodeContext& c, Operand x) {
  const std::vector<int64_t> strides = c.Ints(3, "strides");
  auto mask = [&](int field) { return static_cast<uint32_t>(c.options().Number<int32_t>(field, 0)); };
  const int64_t rank = c.RankOf(x), count = static_cast<int64_t>(strides.size());
  if (c.failed()) return {};
  if (mask(2) != 0 || mask(3) != 0) return {c.Unsupported("an ellipsis, or new axes, of a slice that is not known")};
  if (count > rank || count > 32) return {c.Fail("it has more entries than its input has axes")};
  if (count == 0) return {x};
  std::vector<int64_t> dropped;
  Operands begins, ends;
  const Dims dims = c.DimsOf(x);
  for (int64_t i = 0; i < count; ++i) {
    auto has = [&](int field) { return (mask(field) >> i & 1) != 0; };
    auto entry = [&](size_t input) { return c.Cast(c.SliceAxis(c.In(input), 0, i, i + 1), kInt64); };
    if (strides[static_cast<size_t>(i)] != 1)
      return {c.Unsupported("a step other than 1 of a slice that is not known")};
    Operand extent = c.emit().FromDims({{dims[static_cast<size_t>(i)]}});
    Operand begin = has(0) && !has(4) ? c.emit().Vector({{0}}) : entry(1);
    begin = c.Where(c.Op("less", {begin, c.Integer(0)}), c.Add(begin, extent), begin);
    begins.push_back(begin);
    if (has(4)) dropped.push_back(i);
    ends.push_back(has(4) ? c.Add(begin, c.Integer(1)) : has(1) ? extent : entry(2));
  }
  std::vector<int64_t> axes, ones(static_cast<size_t>(count), 1);
  for (int64_t i = 0; i < count; ++i) axes.push_back(i);
  Operand y = c.Op("dyn.strided_slice", {x, c.Concatenate(begins, 0), c.Concatenate(ends, 0), c.emit().Vector(ones)},
                   {{"axes", ir::IntList(axes)}});
  if (c.failed()) return {};
  // One place is an axis of extent 1.
  Dims known = c.DimsOf(y);
  for (int64_t axis : dropped) known[static_cast<size_t>(axis)] = 1;
  y = c.emit().Retyped(y, c.emit().TensorType(known, c.DTypeOf(y)));
  return {c.Squeeze(y, dropped)};
}

Operands StridedSlice(NodeContext& c) {
  Operand x = c.In(0), begin = c.In(1), end = c.In(2);
  if (c.failed()) return {};
  if (!begin->constant || !end->constant) return SliceByValues(c, x);
  const std::optional<Slices> slices = ReadSlices(c, c.RankOf(x));
  if (!slices) return {};
  // Axes that stay whole keep their extents, also unknown ones.
  std::vector<int64_t> axes, begin_of, end_of, stride_of;
  for (size_t i = 0; i < slices->begin.size(); ++i) {
    if (slices->begin[i] == 0 && slices->end[i] == importing::kBeyond && slices->strides[i] == 1) continue;
    axes.push_back(static_cast<int64_t>(i));
    begin_of.push_back(slices->begin[i]);
    end_of.push_back(slices->end[i]);
    stride_of.push_back(slices->strides[i]);
  }
  if (!axes.empty()) {
    x = c.Op("strided_slice", {x},
             {{"begin", ir::IntList(begin_of)},
              {"end", ir::IntList(end_of)},
              {"strides", ir::IntList(stride_of)},
              {"axes", ir::IntList(axes)}});
  }
  return {c.Unsqueeze(c.Squeeze(x, slices->dropped), slices->added)};
}

Operands Pad(NodeContext& c) {
  const std::vector<int64_t> widths = c.Ints(1, "widths");
  Operand x = c.In(0);
  if (c.failed()) return {};
  if (static_cast<int64_t>(widths.size()) != 2 * c.RankOf(x)) return {c.Fail("its widths do not fit its input")};
  // The border of a quantised tensor is 0 where its zero point is.
  const Tensor* input = c.Input(0);
  const bool is_code = c.DTypeOf(x).is_integral() && input->zero_points.size() == 1;
  Operand value = c.Has(2) ? c.Scalar(c.In(2)) : c.Number(is_code ? static_cast<double>(input->zero_points[0]) : 0, x);
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

Operands ReverseV2(NodeContext& c) {
  const std::vector<int64_t> axes = c.Ints(1, "axes");
  Operand x = c.In(0);
  for (int64_t axis : axes) x = c.Op("reverse", {x}, {{"axis", axis}});
  return {x};
}

Operands ZerosLike(NodeContext& c) { return {c.Op("zeros_like", {c.In(0)})}; }

// Blocks of space and channels, of the extent that the options say.
Operands Blocks(NodeContext& c) {
  return {c.Op(c.row().variant, {c.In(0)},
               {{"block_size", int64_t{c.options().Number<int32_t>(0, 0)}}, {"layout", "NHWC"}})};
}

Operands SpaceToBatch(NodeContext& c) {
  Operand x = c.In(0);
  const std::vector<int64_t> block = c.Ints(1, "block shape"), widths = c.Ints(2, "widths");
  const Tensor* input = c.Input(0);
  if (c.failed()) return {};
  if (widths.size() != 2 * block.size()) return {c.Fail("its widths do not fit its blocks")};
  ir::Attrs attrs = {{"block_shape", ir::IntList(block)}};
  attrs.Set(std::string(c.row().variant), importing::PadWidths(widths));
  if (c.row().variant == "crops") return {c.Op("nn.batch_to_space_nd", {x}, std::move(attrs))};
  if (c.DTypeOf(x).is_integral() && input->zero_points.size() == 1) {
    attrs.Set("pad_value", static_cast<double>(input->zero_points[0]));
  }
  return {c.Op("nn.space_to_batch_nd", {x}, std::move(attrs))};
}

Operands MirrorPad(NodeContext& c) {
  const std::vector<int64_t> widths = c.Ints(1, "widths");
  if (c.failed()) return {};
  const bool repeats_edge = c.options().Number<int8_t>(0, 0) != 0;
  return {c.Op("nn.mirror_pad", {c.In(0)},
               {{"mode", repeats_edge ? "SYMMETRIC" : "REFLECT"}, {"pad_width", importing::PadWidths(widths)}})};
}

// ---- StableHLO

Operands ReshapeToOutput(NodeContext& c) {
  Operand x = c.In(0);
  const Tensor* output = c.Output(0);
  if (c.failed()) return {};
  const auto dims = importing::TargetShape(c, c.DimsOf(x), Dims(output->shape.begin(), output->shape.end()));
  return {dims ? c.Reshape(x, *dims) : nullptr};
}
Operands Concatenate(NodeContext& c) {
  Operands parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) parts.push_back(c.In(i));
  if (parts.empty() || c.failed()) return {c.failed() ? nullptr : c.Fail("it has no inputs")};
  return {c.Concatenate(std::move(parts), c.options().Number<int64_t>(0, 0))};
}
Operands SliceByOptions(NodeContext& c) {
  auto numbers = [&](int field) { return ir::IntList(c.options().Numbers<int64_t>(field)); };
  return {c.Op("strided_slice", {c.In(0)}, {{"begin", numbers(0)}, {"end", numbers(1)}, {"strides", numbers(2)}})};
}
Operands TransposeByOptions(NodeContext& c) {
  const std::vector<int64_t> axes = c.options().Numbers<int64_t>(0);
  return {c.Op("transpose", {c.In(0)}, {{"axes", ir::IntList(axes)}})};
}

// Sparse constants are dense when they are read.
Operands Densify(NodeContext& c) { return {c.In(0)}; }

constexpr OperatorRow kRows[] = {
    Moves("BATCH_TO_SPACE_ND", SpaceToBatch, "crops"),
    Moves("BROADCAST_ARGS", Shared<tensorflow_family::BroadcastArgs>),
    Moves("BROADCAST_TO", Shared<tensorflow_family::BroadcastTo>),
    Moves("CONCATENATION", Concatenation),
    Moves("DENSIFY", Densify),
    Moves("DEPTH_TO_SPACE", Blocks, "nn.depth_to_space"),
    Moves("EXPAND_DIMS", Shared<tensorflow_family::ExpandDims>),
    Moves("FILL", Shared<tensorflow_family::Fill>),
    Moves("GATHER", Gather),
    Moves("MIRROR_PAD", MirrorPad),
    Moves("PACK", Pack),
    Moves("PAD", Pad),
    Moves("PADV2", Pad),
    Moves("RANGE", Shared<tensorflow_family::Range>),
    Moves("RANK", Shared<tensorflow_family::Rank>),
    Moves("RESHAPE", Reshape),
    Moves("REVERSE_V2", ReverseV2),
    Moves("SHAPE", ShapeOf),
    Moves("SLICE", Shared<tensorflow_family::Slice>),
    Moves("SPACE_TO_BATCH_ND", SpaceToBatch, "paddings"),
    Moves("SPACE_TO_DEPTH", Blocks, "nn.space_to_depth"),
    Moves("SPLIT", Split),
    Moves("SPLIT_V", Shared<tensorflow_family::SplitV>),
    Moves("SQUEEZE", Squeeze),
    Moves("STABLEHLO_CONCATENATE", Concatenate),
    Moves("STABLEHLO_RESHAPE", ReshapeToOutput),
    Moves("STABLEHLO_SLICE", SliceByOptions),
    Moves("STABLEHLO_TRANSPOSE", TransposeByOptions),
    Moves("STRIDED_SLICE", StridedSlice),
    Moves("TILE", Shared<tensorflow_family::Tile>),
    Moves("TRANSPOSE", Shared<tensorflow_family::Transpose>),
    Moves("UNPACK", Unpack),
    Moves("ZEROS_LIKE", ZerosLike),
};

}  // namespace

std::span<const OperatorRow> ShapeOperators() { return kRows; }

}  // namespace rvm::tflite
