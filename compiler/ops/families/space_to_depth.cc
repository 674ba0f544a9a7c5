// Space to depth and space to batch, and back.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/dim_bounds.h"
#include "compiler/ops/families/families.h"
#include "compiler/ops/families/window.h"
#include "compiler/ops/gradients/rules.h"
#include "compiler/ops/relations.h"
#include "compiler/ops/te_expressions.h"

namespace rvm::ops {
namespace {

constexpr Input kImages[] = {{"data", "a batch of images"}};
constexpr Input kBatches[] = {{"data", "a tensor (n, space..., rest...)"}};
constexpr AttrSpec kDepthAttrs[] = {
    {"block_size", AttrType::kInt, "1", "extent of the blocks"},
    {"layout", AttrType::kString, "\"NCHW\"", "axes of data"},
    {"mode", AttrType::kString, "\"DCR\"",
     "where a channel's number has the position in the block: \"DCR\" (also \"\") first, \"CDR\" (also \"CRD\") last"}};
constexpr AttrSpec kToBatchAttrs[] = {
    {"block_shape", AttrType::kInts, "[1, 1]", "extents of the blocks, one per spatial axis"},
    {"paddings", AttrType::kAny, "", "for each spatial axis [before, after]"},
    {"pad_value", AttrType::kFloat, "0", "what the border holds"}};
constexpr AttrSpec kToSpaceAttrs[] = {
    {"block_shape", AttrType::kInts, "[1, 1]", "extents of the blocks, one per spatial axis"},
    {"crops", AttrType::kAny, "", "for each spatial axis how much to drop: [before, after]"}};

Expr Quotient(Expr a, const Dim& b) { return te::Binary(BinaryOp::kFloorDivide, std::move(a), te::DimValue(b)); }
Expr Remainder(Expr a, const Dim& b) { return te::Binary(BinaryOp::kFloorMod, std::move(a), te::DimValue(b)); }

// ---- depth -----------------------------------------------------------------------

// Returns whether `mode` is one that exists, and puts the position in the block before the channel.
bool IsDepthMode(const std::string& mode) { return mode.empty() || mode == "DCR" || mode == "CDR" || mode == "CRD"; }
bool IsPositionFirst(const std::string& mode) { return mode.empty() || mode == "DCR"; }

template <bool to_space>
Solve DepthRelation(TypeContext& context) {
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims = args[0]->shape.dims;
  if (dims.size() != 4) return FailRank(context, 0, dims.size(), "rank 4");
  const std::string& text = context.attrs().GetString("layout");
  if (!CheckLayout(context, text, "NCHW", "layout")) return Solve::kFailed;
  const std::string& mode = context.attrs().GetString("mode");
  int64_t block = context.attrs().GetInt("block_size");
  if (block < 1 || block > 4096 || !IsDepthMode(mode)) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`block_size` is ", block, " and `mode` is \"", mode,
                                     "\"; expected 1 to 4096, and \"DCR\", \"CDR\" or \"CRD\""));
  }
  Layout layout(text);
  Dim& channels = dims[layout.axis('C')];
  int64_t area = block * block;
  if (to_space) {
    if (!context.RequireEqual(FloorMod(channels, area), 0, "`nn.depth_to_space`: remainder of channels by blocks"))
      return Solve::kFailed;
    channels = FloorDiv(channels, area);
  } else {
    channels = channels * area;
  }
  for (size_t axis : layout.spatial) {
    if (!to_space && !context.RequireEqual(FloorMod(dims[axis], block), 0,
                                           "`nn.space_to_depth`: remainder of the extent by the blocks"))
      return Solve::kFailed;
    dims[axis] = to_space ? dims[axis] * block : FloorDiv(dims[axis], block);
  }
  return ResultTensor(context, dims, args[0]->dtype.dtype);
}

// Returns the number of the deep channel that holds `channel` of `channels` at `place` in the block.
Expr DeepChannel(bool position_first, const Expr& place, const Expr& channel, const Dim& channels, int64_t area) {
  return position_first ? place * te::DimValue(channels) + channel : channel * te::Index(area) + place;
}

std::vector<Tensor> ComputeDepthToSpace(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  int64_t block = context.attrs().GetInt("block_size");
  bool position_first = IsPositionFirst(context.attrs().GetString("mode"));
  size_t c = layout.axis('C'), h = layout.spatial[0], w = layout.spatial[1];
  return {te::ComputeTensor("depth_to_space", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr place = Remainder(i[h], block) * te::Index(block) + Remainder(i[w], block);
    std::vector<Expr> at(i.begin(), i.end());
    at[c] = DeepChannel(position_first, place, i[c], out.dims[c], block * block);
    for (size_t axis : layout.spatial) at[axis] = Quotient(i[axis], block);
    return data(at);
  })};
}

std::vector<Tensor> ComputeSpaceToDepth(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  Layout layout(context.attrs().GetString("layout"));
  int64_t block = context.attrs().GetInt("block_size");
  bool position_first = IsPositionFirst(context.attrs().GetString("mode"));
  size_t c = layout.axis('C'), h = layout.spatial[0], w = layout.spatial[1];
  const Dim& channels = data.dims()[c];
  return {te::ComputeTensor("space_to_depth", out.dtype, out.dims, [&](std::span<const Expr> i) {
    Expr place = position_first ? Quotient(i[c], channels) : Remainder(i[c], block * block);
    std::vector<Expr> at(i.begin(), i.end());
    at[c] = position_first ? Remainder(i[c], channels) : Quotient(i[c], block * block);
    at[h] = i[h] * te::Index(block) + Quotient(place, block);
    at[w] = i[w] * te::Index(block) + Remainder(place, block);
    return data(at);
  })};
}

// ---- batches ---------------------------------------------------------------------

struct Block {
  int64_t extent, before, after;
};

// One per spatial axis; nullopt if the attributes do not fit.
std::optional<std::vector<Block>> Blocks(const ir::Attrs& attrs, std::string_view margins, size_t rank) {
  std::vector<int64_t> extents = attrs.GetInts("block_shape");
  auto widths = PadWidths(attrs, margins, extents.size());
  if (!widths || extents.size() >= rank) return std::nullopt;
  std::vector<Block> blocks;
  for (size_t s = 0; s < extents.size(); ++s) {
    if (extents[s] < 1 || extents[s] > 4096) return std::nullopt;
    blocks.push_back({extents[s], (*widths)[s].first, (*widths)[s].second});
  }
  return blocks;
}

int64_t Area(const std::vector<Block>& blocks) {
  int64_t area = 1;
  for (const Block& block : blocks) area *= block.extent;
  return area;
}

template <bool to_space>
Solve BatchRelation(TypeContext& context) {
  constexpr const char* margins = to_space ? "crops" : "paddings";
  Types args;
  if (Solve solve = TensorArgs(context, args); solve != Solve::kDone) return solve;
  Dims dims = args[0]->shape.dims;
  std::optional<std::vector<Block>> blocks = Blocks(context.attrs(), margins, dims.size());
  if (!blocks) {
    return context.Fail(DiagnosticKind::kBadAttribute,
                        absl::StrCat("`block_shape` and `", margins, "` do not fit rank ", dims.size(),
                                     "; expected a positive extent and a pair [before, after] per spatial axis"));
  }
  int64_t area = Area(*blocks);
  if (to_space && !context.RequireEqual(FloorMod(dims[0], area), 0,
                                        "`nn.batch_to_space_nd`: remainder of the batches by the blocks"))
    return Solve::kFailed;
  dims[0] = to_space ? FloorDiv(dims[0], area) : dims[0] * area;
  for (size_t s = 0; s < blocks->size(); ++s) {
    const Block& block = (*blocks)[s];
    Dim& dim = dims[s + 1];
    if (to_space) {
      dim = ClampedToNatural(dim * block.extent - (block.before + block.after));
      continue;
    }
    dim = dim + (block.before + block.after);
    if (!context.RequireEqual(FloorMod(dim, block.extent), 0,
                              "`nn.space_to_batch_nd`: remainder of the padded extent by the block"))
      return Solve::kFailed;
    dim = FloorDiv(dim, block.extent);
  }
  return ResultTensor(context, dims, args[0]->dtype.dtype);
}

std::vector<Tensor> ComputeSpaceToBatch(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  std::vector<Block> blocks = *Blocks(context.attrs(), "paddings", data.rank());
  Expr fill = te::Const(out.dtype, context.attrs().GetDouble("pad_value"));
  return {te::ComputeTensor("space_to_batch", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    at[0] = Remainder(i[0], data.dims()[0]);
    Expr place = Quotient(i[0], data.dims()[0]);
    Expr inside;
    for (size_t s = blocks.size(); s-- > 0;) {
      const Block& block = blocks[s];
      at[s + 1] = i[s + 1] * te::Index(block.extent) + Remainder(place, block.extent) - te::Index(block.before);
      place = Quotient(place, block.extent);
      if (block.before == 0 && block.after == 0) continue;
      Expr fits = InRange(at[s + 1], data.dims()[s + 1]);
      inside = inside ? And(inside, fits) : fits;
    }
    return inside ? te::Select(inside, data(at), fill) : data(at);
  })};
}

std::vector<Tensor> ComputeBatchToSpace(const ComputeContext& context) {
  const Tensor& data = context.input(0);
  const te::TensorSpec& out = context.output();
  std::vector<Block> blocks = *Blocks(context.attrs(), "crops", data.rank());
  return {te::ComputeTensor("batch_to_space", out.dtype, out.dims, [&](std::span<const Expr> i) {
    std::vector<Expr> at(i.begin(), i.end());
    Expr place = te::Index(0);
    for (size_t s = 0; s < blocks.size(); ++s) {
      Expr position = i[s + 1] + te::Index(blocks[s].before);
      at[s + 1] = Quotient(position, blocks[s].extent);
      place = place * te::Index(blocks[s].extent) + Remainder(position, blocks[s].extent);
    }
    at[0] = place * te::DimValue(out.dims[0]) + i[0];
    return data(at);
  })};
}

constexpr OpDef kOps[] = {
    WithGradient(Op("nn.depth_to_space", "channels spread over blocks of space", kImages, kDepthAttrs,
                    DepthRelation<true>, FusionClass::kInjective, ComputeDepthToSpace),
                 DepthToSpaceGradient),
    WithGradient(Op("nn.space_to_depth", "blocks of space gathered into channels", kImages, kDepthAttrs,
                    DepthRelation<false>, FusionClass::kInjective, ComputeSpaceToDepth),
                 SpaceToDepthGradient),
    WithGradient(Op("nn.space_to_batch_nd", "places in blocks of padded space moved into the batch", kBatches,
                    kToBatchAttrs, BatchRelation<false>, FusionClass::kInjective, ComputeSpaceToBatch),
                 SpaceToBatchGradient),
    WithGradient(Op("nn.batch_to_space_nd", "batches spread over blocks of space, cropped", kBatches, kToSpaceAttrs,
                    BatchRelation<true>, FusionClass::kInjective, ComputeBatchToSpace),
                 BatchToSpaceGradient),
};

}  // namespace

std::span<const OpDef> SpaceToDepthOps() { return kOps; }

}  // namespace rvm::ops
