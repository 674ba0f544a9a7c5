#include "kernels/schedule/depth_blocks.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/dim.h"
#include "kernels/te/expr_pool.h"
#include "kernels/te/tensor.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprNode;

// Rows of a nest with vectors in place: each tile of them has code of its own.
constexpr int64_t kMaxRowsInPlace = 16;
// Bytes of the sums of all units of such a nest: they are on the stack.
constexpr int64_t kMaxBytesOfSums = 16 * 1024;
// Bytes of the vector factor in a block, which stays in the first-level cache for all units, and the least positions of
// one. A nest with fewer than kMinBlocksInPlace blocks does without them.
constexpr int64_t kBytesInPlace = 16 * 1024, kMinPositionsInPlace = 8, kMinBlocksInPlace = 4;

// Bytes of a part of a panel that stays in the second-level cache. With fewer such parts, or fewer tiles of rows that
// read them, sums in memory do not pay.
constexpr int64_t kBytesOfPanelPart = 256 * 1024;
constexpr int64_t kMinPanelParts = 3;
constexpr int64_t kMinTilesOfPanelPart = 3;

// Returns Tile::depth_block for a tile that reads its vectors in place.
int64_t BlockInPlace(const LoopNest& nest) {
  const Tile& tile = *nest.tile;
  const ExprNode& sum = *nest.reduction();
  const bool is_plain = sum.axes.size() == 1 && tile.column_stride == 1 && !tile.few && !tile.window &&
                        !tile.shared_by_column && !tile.matrices && tile.segments == 0 && tile.inner.empty() &&
                        !tile.outer.empty();
  const Dim rows = tile.row ? nest.axes[*tile.row].extent : Dim(1);
  if (!is_plain || !rows.is_const() || rows.constant() < 1 || rows.constant() > kMaxRowsInPlace) return 0;
  const Expr& place = tile.vector->operands[0];
  const std::optional<int64_t> apart = te::Stride(place, sum.axes[0].id);
  if (!apart || *apart <= 0) return 0;
  int64_t units = 1;
  for (size_t axis : tile.outer) {
    const Dim& extent = nest.axes[axis].extent;
    std::optional<int64_t> stride = te::Stride(place, nest.axes[axis].id);
    if (!stride || *stride < 0 || !extent.is_const() || *stride * extent.constant() > *apart) return 0;
    units *= extent.constant();
  }
  const Dim& columns = nest.axes[tile.column].extent;
  if (!columns.is_const()) return 0;
  units *= (columns.constant() + tile.panel() - 1) / tile.panel();
  if (units * rows.constant() * tile.panel() * sum.dtype.bytes() > kMaxBytesOfSums) return 0;
  const int64_t block = std::max<int64_t>(kBytesInPlace / (*apart * tile.vector.dtype().bytes()), kMinPositionsInPlace);
  const Dim& depth = sum.axes[0].extent;
  return depth.is_const() && depth.constant() < kMinBlocksInPlace * block ? 0 : block;
}

// Returns Tile::depth_block for a tile that reads panels.
int64_t BlockOfPanels(const LoopNest& nest) {
  const Tile& tile = *nest.tile;
  if (!tile.sources.empty() || !tile.row) return 0;
  const ExprNode& sum = *nest.reduction();
  const Dim& rows = nest.axes[*tile.row].extent;
  if (rows.is_const() && rows.constant() < kMinTilesOfPanelPart * tile.rows) return 0;
  const std::optional<int64_t> depth = te::NumPositions(sum.axes).AsConst();
  if (!depth || *depth == 0) return 0;
  const int64_t outermost = sum.axes[0].extent.constant();
  const int64_t bytes = *depth / outermost * tile.panel() * tile.vector.dtype().bytes();
  const int64_t block = std::max<int64_t>(kBytesOfPanelPart / bytes, 1);
  return outermost < kMinPanelParts * block ? 0 : block;
}

}  // namespace

void PlanDepthBlocks(const Schedule& schedule, LoopNest& nest) {
  Tile& tile = *nest.tile;
  const bool is_plain =
      nest.reduction()->dtype.is_float() && !tile.transposed_store && tile.depth_step == 1 && tile.panels_at_once == 1;
  if (!is_plain || schedule.sum_order.is_fixed) return;
  if (tile.access == Tile::Access::kInPlace) tile.depth_block = BlockInPlace(nest);
  if (tile.access == Tile::Access::kPanels) tile.depth_block = BlockOfPanels(nest);
}

}  // namespace rvm::schedule
