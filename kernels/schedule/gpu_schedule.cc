#include "kernels/schedule/gpu_schedule.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/schedule/block_tile_planner.h"
#include "kernels/schedule/merge_axes.h"
#include "kernels/schedule/reduction_parts.h"
#include "kernels/schedule/split_axes.h"
#include "kernels/schedule/transposition.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

// Reductions of at most so many elements are loops within a thread.
constexpr int64_t kShortReduction = 16;
// Minimum length of a long reduction. A warp takes several iterations per thread for it, which suffices if there are
// kManyReductions.
constexpr int64_t kLongReduction = 1024;
constexpr int64_t kManyReductions = 1024;
// Minimum number of blocks that a reduction should occupy. One with fewer results is divided into parts.
constexpr int64_t kFewBlocks = 64;
// Minimum number of elements per result for a division, and the number in a part. A block reduces one part of elements
// that are contiguous; a warp reduces 32 parts of columns.
constexpr int64_t kMinSplit = 1 << 15, kPartElements = 4096;
constexpr int64_t kMinSplitColumns = 1 << 12, kPartElementsColumns = 128;
// Positions that fill a GPU with one thread for each.
constexpr int64_t kFullGrid = 1 << 16;
// Minimum side of a transposition: shorter ones leave most of a square empty.
constexpr int64_t kMinSide = 16;

Dim CeilDiv(const Dim& x, int64_t y) { return FloorDiv(x + Dim(y - 1), Dim(y)); }

Dim BlockTiles(const LoopNest& nest) {
  const BlockTile& tile = *nest.block_tile;
  Dim blocks = 1;
  for (size_t axis : tile.outer) blocks = blocks * nest.axes[axis].extent;
  for (const Staging* side : {&tile.rows, &tile.columns}) blocks = blocks * CeilDiv(Lines(nest, *side), side->lines);
  return blocks;
}

// Squares of an axis along which a nest is transposed.
Dim Squares(const IndexVar& axis) { return CeilDiv(axis.extent, kTransposeTile); }

Dim TransposedBlocks(const LoopNest& nest) {
  Dim blocks = 1;
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    bool is_side = i == *nest.transposed || i + 1 == nest.axes.size();
    blocks = blocks * (is_side ? Squares(nest.axes[i]) : nest.axes[i].extent);
  }
  return blocks;
}

bool IsAtLeast(const Dim& extent, int64_t least) { return !extent.is_const() || extent.constant() >= least; }
bool IsKnownAtLeast(const Dim& extent, int64_t least) { return extent.is_const() && extent.constant() >= least; }

// Returns whether more of the elements are contiguous along the last reduced axis than along the last axis of the nest.
bool ReadsAlongReduction(const LoopNest& nest, const ExprNode& reduce) {
  if (nest.axes.empty()) return true;
  int64_t along_reduction = 0, along_positions = 0;
  for (const ExprNode* node : te::Postorder(reduce.operands)) {
    if (node->kind != ExprKind::kRead) continue;
    along_reduction += te::Stride(node->operands[0], reduce.axes.back().id) == 1;
    along_positions += te::Stride(node->operands[0], nest.axes.back().id) == 1;
  }
  return along_reduction >= along_positions;
}

// Returns the axis along which more of the reads are contiguous than along the last one, if both are long enough for
// squares.
std::optional<size_t> LongTransposedAxis(const LoopNest& nest) {
  std::optional<size_t> axis = TransposedAxis(nest);
  if (!axis || !IsAtLeast(nest.axes[*axis].extent, kMinSide) || !IsAtLeast(nest.axes.back().extent, kMinSide))
    return std::nullopt;
  int64_t more = 0;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind != ExprKind::kRead) continue;
    more += te::Stride(node->operands[0], nest.axes[*axis].id) == 1;
    more -= te::Stride(node->operands[0], nest.axes.back().id) == 1;
  }
  return more > 0 ? axis : std::nullopt;
}

// The axes of a plane, as of an image whose channels move, are merged, so that they are long.
void PlanTransposition(te::ExprPool& pool, LoopNest& nest) {
  if (!TransposedAxis(nest)) return;
  LoopNest merged = nest;
  for (size_t axis = merged.axes.size() - 1; axis-- > 0;) {
    if (std::optional<LoopNest> next = WithMergedAxes(pool, merged, axis)) merged = *std::move(next);
  }
  merged.transposed = LongTransposedAxis(merged);
  if (!merged.transposed) return;
  merged.form = NestForm::kTransposed;
  nest = std::move(merged);
}

// How many neighbouring positions a thread takes, so that its loads and stores are vectors of up to 16 bytes: several,
// if a grid of so many threads is full all the same, or may be. Rows of unknown extents align nothing, unless the nest
// has a single axis.
int64_t PlanNeighbours(const LoopNest& nest) {
  const NestTensor& tensor = nest.tensors[0];
  if (nest.form != NestForm::kPositions || nest.tensors.size() > 1 || !nest.replicas.empty() || nest.axes.empty())
    return 1;
  const IndexVar& last = nest.axes.back();
  int64_t bytes = tensor.tensor.dtype().bytes(), contiguous = 0;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    if (node->kind != ExprKind::kRead) continue;
    // Reads that are not safe everywhere are behind a condition.
    std::optional<int64_t> stride = te::Stride(node->operands[0], last.id);
    if (node->int_value != te::kReadIsSafe || !stride || *stride > 1) return 1;
    contiguous += *stride;
    bytes = std::max(bytes, node->dtype.bytes());
  }
  int64_t neighbours = 16 / std::max<int64_t>(bytes, 4);
  bool is_aligned = nest.axes.size() == 1 || (last.extent.is_const() && last.extent.constant() % neighbours == 0);
  bool fits = contiguous > 0 && te::Stride(nest.store_offset, last.id) == 1 && is_aligned;
  return fits && IsAtLeast(te::NumPositions(nest.axes), kFullGrid * neighbours) ? neighbours : 1;
}

std::optional<Team> PlanTeam(const LoopNest& nest) {
  const ExprNode* reduce = nest.reduction();
  if (reduce == nullptr || reduce->axes.empty()) return std::nullopt;
  Dim positions = te::NumPositions(nest.axes), elements = te::NumPositions(reduce->axes);
  if (!IsAtLeast(elements, kShortReduction + 1)) return std::nullopt;
  if (!ReadsAlongReduction(nest, *reduce)) {
    if (IsKnownAtLeast(positions, kFullGrid)) return std::nullopt;
    return Team{kBlockThreads / kWarpThreads, false};
  }
  bool is_many = IsAtLeast(positions, kManyReductions);
  bool is_long = IsAtLeast(elements, kLongReduction);
  return Team{is_long && !is_many ? kBlockThreads : kWarpThreads, true};
}

void PlanNest(Schedule& schedule, LoopNest& nest) {
  if (nest.tensors[0].tensor->self || nest.tensors[0].tensor->is_ordered) return;
  if (nest.reduction() == nullptr) {
    PlanTransposition(*schedule.pool, nest);
    nest.elements_per_thread = PlanNeighbours(nest);
    return;
  }
  LoopNest divided = nest;
  SplitDividedAxes(*schedule.pool, divided);
  if (std::optional<BlockTile> tile = PlanBlockTile(divided, schedule.target)) {
    nest = std::move(divided);
    nest.form = NestForm::kBlockTiles;
    nest.block_tile = *std::move(tile);
    if (!IsWorthTiles(nest).is_const()) nest.team = PlanTeam(nest);
  } else if (std::optional<Team> team = PlanTeam(nest)) {
    nest.form = NestForm::kTeams;
    nest.team = *team;
  }
}

// Divides a long reduction whose results would occupy few multiprocessors and returns the nest of its parts; nullopt if
// it is not divided. The additional launch costs about a microsecond.
std::optional<LoopNest> PlanParts(Schedule& schedule, LoopNest& nest) {
  const ExprNode* reduce = nest.reduction();
  if (reduce == nullptr || reduce->axes.empty()) return std::nullopt;
  Dim positions = te::NumPositions(nest.axes), elements = te::NumPositions(reduce->axes);
  if (!positions.is_const() || !elements.is_const()) return std::nullopt;
  bool is_along = ReadsAlongReduction(nest, *reduce);
  int64_t blocks = is_along ? positions.constant() : positions.constant() / kWarpThreads;
  int64_t least = is_along ? kMinSplit : kMinSplitColumns;
  if (blocks >= kFewBlocks || elements.constant() < least) return std::nullopt;
  LoopNest divided = nest;
  SplitDividedAxes(*schedule.pool, divided);
  if (PlanBlockTile(divided, schedule.target)) return std::nullopt;
  return SplitIntoParts(schedule, nest, is_along ? kPartElements : kPartElementsColumns);
}

}  // namespace

void PlanForGpu(Schedule& schedule) {
  std::vector<LoopNest> nests = std::exchange(schedule.nests, {});
  for (LoopNest& nest : nests) {
    if (std::optional<LoopNest> parts = PlanParts(schedule, nest)) {
      PlanNest(schedule, *parts);
      schedule.nests.push_back(*std::move(parts));
    }
    PlanNest(schedule, nest);
    schedule.nests.push_back(std::move(nest));
  }
}

void InsertTail(Schedule& schedule, const NestGroup& launch, LoopNest tail) {
  PlanNest(schedule, tail);
  size_t at = launch.first + launch.count;
  schedule.nests.insert(schedule.nests.begin() + static_cast<std::ptrdiff_t>(at), std::move(tail));
  auto behind = std::find_if(schedule.groups.begin(), schedule.groups.end(),
                             [&](const NestGroup& group) { return group.first >= at; });
  for (auto group = behind; group != schedule.groups.end(); ++group) ++group->first;
  if (!schedule.groups.empty()) schedule.groups.insert(behind, {.first = at, .count = 1});
}

Dim Blocks(const LoopNest& nest) {
  if (nest.form == NestForm::kTransposed) return TransposedBlocks(nest);
  Dim teams = nest.team ? CeilDiv(te::NumPositions(nest.axes), nest.team->positions()) : Dim(0);
  if (!nest.block_tile) return teams;
  if (!nest.team) return BlockTiles(nest);
  Dim by_tiles = IsWorthTiles(nest);
  return by_tiles * BlockTiles(nest) + (1 - by_tiles) * teams;
}

Dim Blocks(const RowTeam& team) { return CeilDiv(te::NumPositions(team.rows), team.rows_of_block()); }

Dim TakesNeighbours(const LoopNest& nest) {
  if (nest.elements_per_thread == 1) return 0;
  return Min(FloorDiv(te::NumPositions(nest.axes), kFullGrid * nest.elements_per_thread), 1);
}

Dim GridThreads(const LoopNest& nest) {
  if (nest.elements_per_thread > 1) {
    Dim positions = te::NumPositions(nest.axes), groups = CeilDiv(positions, nest.elements_per_thread);
    Dim in_groups = TakesNeighbours(nest);
    return in_groups.is_const() ? groups : in_groups * groups + (1 - in_groups) * positions;
  }
  return nest.form == NestForm::kPositions ? te::NumPositions(nest.axes) : Blocks(nest) * Dim(kBlockThreads);
}

std::vector<NestGroup> Launches(const Schedule& schedule) {
  std::vector<NestGroup> launches = schedule.groups;
  if (!launches.empty()) return launches;
  for (size_t n = 0; n < schedule.nests.size(); ++n) launches.push_back({.first = n, .count = 1});
  return launches;
}

Dim GridThreads(const Schedule& schedule, const NestGroup& launch) {
  const LoopNest& first = schedule.nests[launch.first];
  if (launch.team) return Blocks(*launch.team) * Dim(kBlockThreads);
  return launch.count == 1 ? GridThreads(first) : first.axes[0].extent * Dim(kBlockThreads);
}

}  // namespace rvm::schedule
