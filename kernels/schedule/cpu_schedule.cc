#include "kernels/schedule/cpu_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/schedule/axis_ranges.h"
#include "kernels/schedule/bordered_images.h"
#include "kernels/schedule/depth_blocks.h"
#include "kernels/schedule/factor_copies.h"
#include "kernels/schedule/few_rows.h"
#include "kernels/schedule/loop_order.h"
#include "kernels/schedule/merge_axes.h"
#include "kernels/schedule/split_axes.h"
#include "kernels/schedule/tile_planner.h"
#include "kernels/schedule/transposition.h"
#include "kernels/schedule/unrolled_axes.h"
#include "kernels/schedule/windows.h"

namespace rvm::schedule {
namespace {

using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;

constexpr int64_t kColumnBlock = 256;
// Maximum number of steps of a reduction by columns that are unrolled, and of the nodes that they have together.
constexpr int64_t kMaxUnrolledSteps = 25, kMaxUnrolledNodes = 2048;
// Rows of a column reduction that are folded per iteration.
constexpr int64_t kRowsAtOnce = 8;
constexpr int64_t kShortReduction = 16;
// Units of work of a product, which threads share, if it has so many rows; tiles of rows in a part of them.
constexpr int64_t kMinUnits = 16;
constexpr int64_t kMinTilesOfPart = 2;

// Returns whether reducing many columns side by side reads memory in better order than one by one.
bool ReducesByColumns(const LoopNest& nest) {
  const ExprNode* reduce = nest.reduction();
  if (reduce == nullptr || nest.axes.empty() || reduce->axes.empty() || IsArg(reduce->reduce)) {
    return false;
  }
  const IndexVar &column = nest.axes.back(), &inner = reduce->axes.back();
  int by_column = 0, by_inner = 0;
  for (const ExprNode* node : te::Postorder({reduce->operands[0]})) {
    if (node->kind != ExprKind::kRead) continue;
    by_column += te::Stride(node->operands[0], column.id).value_or(2) > 1;
    by_inner += te::Stride(node->operands[0], inner.id).value_or(2) > 1;
  }
  bool short_inner = inner.extent.is_const() && inner.extent.constant() < kShortReduction;
  return by_column < by_inner || (short_inner && by_column == 0);
}

// Returns whether all steps of the reduction are unrolled, as those of a window on an image with its channels last.
bool HasFewSteps(const ExprNode& reduce) {
  int64_t steps = 1;
  for (const IndexVar& axis : reduce.axes) {
    if (!axis.extent.is_const() || axis.extent.constant() > kMaxUnrolledSteps) return false;
    steps *= axis.extent.constant();
    if (steps > kMaxUnrolledSteps) return false;
  }
  return steps * static_cast<int64_t>(te::Postorder({reduce.operands[0]}).size()) <= kMaxUnrolledNodes;
}

// Plans the tile of a nest, and merges its last two axes where that gives better tiles: those of rows that tiles do not
// fill, such as of a 1x1 convolution of 7x7 images, and those whose columns can then be read in place.
void PlanTileAndAxes(Schedule& schedule, LoopNest& nest) {
  nest.tile = PlanTile(schedule, nest);
  if (!nest.tile || nest.axes.size() < 2) return;
  const Dim& inner = nest.axes.back().extent;
  if (!inner.is_const()) return;
  std::optional<LoopNest> merged = WithMergedAxes(*schedule.pool, nest, nest.axes.size() - 2);
  if (!merged) return;
  merged->tile = PlanTile(schedule, *merged);
  if (!merged->tile) return;
  bool reads_rows = merged->tile->row == merged->axes.size() - 1,
       in_place = merged->tile->column == merged->axes.size() - 1;
  bool fills_tiles = inner.constant() >= kMaxTileRows && inner.constant() % nest.tile->rows == 0;
  if ((reads_rows && !fills_tiles) || in_place) nest = *std::move(merged);
}

// Plans a product with the copies inlined that only it reads. Returns false if that gains nothing, and changes nothing.
bool PlanDirectly(Schedule& schedule, LoopNest& nest) {
  LoopNest attempt = nest;
  SplitDividedAxes(*schedule.pool, attempt);
  PlanTileAndAxes(schedule, attempt);
  if (!attempt.tile) {
    std::optional<LoopNest> sum = SumDirectly(schedule, nest);
    if (sum) nest = *std::move(sum);
    return sum.has_value();
  }
  if (std::optional<LoopNest> direct = ReadDirectly(schedule, attempt)) {
    nest = *std::move(direct);
    return true;
  }
  if (!schedule.sum_order.is_fixed) PlanFewRows(schedule.target, attempt);
  if (!attempt.tile->few) return false;
  nest = std::move(attempt);
  return true;
}

// Returns the extent where each that is not known is 1: the least that a nest is planned for.
int64_t LeastOf(const Dim& extent) {
  return EvaluateDim(extent, [](const Dim&) -> std::optional<int64_t> { return 1; }).value_or(1);
}

// Returns the number of parts of the rows, see Tile::row_parts.
int64_t RowParts(const LoopNest& nest) {
  const Tile& tile = *nest.tile;
  if (!tile.row || tile.few) return 1;
  const int64_t at_once = tile.panel() * tile.panels_at_once;
  int64_t units = (LeastOf(nest.axes[tile.column].extent) + at_once - 1) / at_once;
  for (const std::vector<size_t>& axes : {tile.outer, tile.inner}) {
    for (size_t axis : axes) units *= LeastOf(nest.axes[axis].extent);
  }
  const int64_t most = LeastOf(nest.axes[*tile.row].extent) / (tile.rows * kMinTilesOfPart);
  return std::clamp<int64_t>(kMinUnits / std::max<int64_t>(units, 1), 1, std::max<int64_t>(most, 1));
}

// Plans the copy of a factor: in square blocks, if nothing that it reads lies along the axis of the stores.
LoopNest Copying(LoopNest nest) {
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind == ExprKind::kRead && te::Stride(node->operands[0], nest.axes.back().id) == 1) return nest;
  }
  nest.transposed = TransposedAxis(nest);
  if (nest.transposed) nest.form = NestForm::kTransposed;
  return nest;
}

// Merges the rows of an image whose channels are interleaved, so that vectors run over their ends.
void MergeInterleavedRows(te::ExprPool& pool, LoopNest& nest) {
  const size_t count = nest.axes.size();
  if (nest.update || count < 3 || !IsInterleaved(nest.axes.back())) return;
  if (std::optional<LoopNest> merged = WithMergedAxes(pool, nest, count - 3)) nest = *std::move(merged);
}

// The sort writes its scratch before it reads it: of each row only the keys and their positions are computed.
void LeaveScratch(LoopNest& nest) {
  const te::Tensor& tensor = nest.tensors[0].tensor;
  for (te::IndexVar& axis : nest.axes) {
    if (axis.id == tensor->axes.end()[-2].id) axis.extent = 2;
  }
}

}  // namespace

void PlanForCpu(Schedule& schedule) {
  std::vector<LoopNest> nests;
  for (LoopNest nest : schedule.nests) {  // a copy: who reads a tensor is decided by the nests as they were built
    const te::Tensor first = nest.tensors[0].tensor;
    bool any_order = !first->self && !first->is_ordered && !nest.update;
    if (first->is_ordered) LeaveScratch(nest);
    std::optional<LoopNest> dots;
    if (nest.reduction() != nullptr && any_order) dots = DotsDirectly(schedule, nest);
    bool is_planned = dots.has_value() || (nest.direct && any_order && PlanDirectly(schedule, nest));
    if (dots) nest = *std::move(dots);
    if (nest.direct && !is_planned) {
      nest.direct = te::Expr();
      CollapseAxes(*schedule.pool, nest);
    }
    if (any_order && !is_planned) SplitDividedAxes(*schedule.pool, nest);
    if (nest.reduction() != nullptr && any_order) {
      if (!is_planned) {
        PlanTileAndAxes(schedule, nest);
        if (nest.tile && !schedule.sum_order.is_fixed) PlanFewRows(schedule.target, nest);
        if (!nest.tile) nest.tile = PlanDots(schedule, nest);
      }
      if (nest.tile) {
        nest.form = NestForm::kTiles;
        nest.tile->row_parts = RowParts(nest);
        PlanDepthBlocks(schedule, nest);
        bool copies = !nest.tile->few || !nest.tile->few->always();
        if (copies && nest.tile->access == Tile::Access::kPanels && !nest.tile->is_packed()) {
          nests.push_back(Copying(MakePanels(schedule, nest)));
        }
        if (copies) WidenBroadcast(schedule, nests, nest);
        if (copies) PackRows(schedule, nest);
        std::optional<LoopNest> copy = copies ? MakeRowPanels(schedule, nest) : std::nullopt;
        if (copy) nests.push_back(Copying(*std::move(copy)));
      } else if (nest.windows = FindWindows(*schedule.pool, nest.axes, *nest.reduction()); nest.windows) {
        nest.form = NestForm::kWindows;
      } else if (ReducesByColumns(nest)) {
        nest.form = NestForm::kColumns;
        if (!HasFewSteps(*nest.reduction())) {
          nest.column_block = kColumnBlock;
          nest.rows_at_once = kRowsAtOnce;
        }
      }
    } else if (nest.transposed = TransposedAxis(nest); nest.transposed) {
      nest.form = NestForm::kTransposed;
    } else if (any_order && !UnrollAxes(*schedule.pool, nest)) {
      MergeInterleavedRows(*schedule.pool, nest);
      OrderAxes(*schedule.pool, nest);
      PlanAxisRanges(nest);
    }
    nests.push_back(std::move(nest));
  }
  LimitCopies(schedule, nests);
  schedule.nests = std::move(nests);
  if (schedule.target.has_vectors) StoreIntoBorders(schedule);
}

}  // namespace rvm::schedule
