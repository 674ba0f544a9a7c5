#include "kernels/schedule/matrix_groups.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/row_groups.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::ExprKind;
using te::ExprNode;
using te::Tensor;

// Bytes that a block of rows is to have: a part of the second-level cache.
constexpr int64_t kBlockBytes = 262144;
// The bytes of a row of an unknown number of elements, as a rule.
constexpr int64_t kUnknownRowBytes = 8192;
// Bounds of the number of rows of a block: each block loads again what all rows share.
constexpr int64_t kMinRows = 24, kMaxRows = 96;
// Blocks of a call, which threads share, if there are so many rows.
constexpr int64_t kMinBlocks = 16;
// The greatest depth of the first product, and the most columns of another, for each row of a block: so often an
// element that all rows share is loaded for an element of a row, which stays in a cache.
constexpr int64_t kMaxLoadsPerRow = 6;

// Returns whether the tiles of the nest can run for any range of their rows.
bool RunsByRows(const LoopNest& nest) {
  if (nest.form != NestForm::kTiles || !nest.tile->row || nest.update || nest.limit) return false;
  const Tile& tile = *nest.tile;
  if (!tile.inner.empty() || tile.matrices || tile.window || tile.row_panels || tile.is_packed() || tile.packed_rows ||
      tile.blocks || tile.shared_by_column || tile.transposed_store || tile.depth_block > 0)
    return false;
  // All other loops are around the rows.
  if (*tile.row != tile.outer.size()) return false;
  for (size_t i = 0; i < tile.outer.size(); ++i) {
    if (tile.outer[i] != i) return false;
  }
  return !tile.few || !tile.few->always();
}

// Returns whether one extent is known to be a multiple of another.
bool IsMultiple(const Dim& whole, const Dim& part) {
  // The quotient where each symbol has a value of its own is the one everywhere, or there is none.
  const auto value = [](const Dim& dim) {
    return EvaluateDim(dim, [](const Dim& leaf) -> std::optional<int64_t> { return 1009 + 2 * leaf.id(); });
  };
  const std::optional<int64_t> a = value(whole), b = value(part);
  return a && b && *b > 0 && *a % *b == 0 && CompareDims(part * (*a / *b), whole) == DimEquality::kEqual;
}

// Finds the nests that share the rows of a product.
class MatrixGrouper {
 public:
  MatrixGrouper(Schedule& schedule, size_t first)
      : schedule_(schedule), first_(first), span_(nest(first).axes[*nest(first).tile->row].extent) {
    count_ = te::NumPositions(std::span(nest(first).axes).first(*nest(first).tile->row + 1));
  }

  std::optional<NestGroup> Run(bool may_move);

 private:
  const LoopNest& nest(size_t n) const { return schedule_.nests[n]; }

  struct Rows {
    size_t axes;  // the first ones, which count rows
    Dim span;     // of blocks then
  };
  // Returns how the nest has the rows; nullopt if its first axes count others, or if blocks would not fit these.
  std::optional<Rows> RowsOf(const LoopNest& nest) const;
  // Returns whether the nest may run block by block; `axes` count its rows.
  bool RunsByBlocks(const LoopNest& nest, size_t axes) const;
  // Returns whether the nest reads a tensor of a member, and whether it needs only the rows so far of all that it
  // reads.
  bool NeedsMembers(const LoopNest& nest) const;
  bool NeedsRowsOnly(const LoopNest& nest) const;
  int64_t RowsOfBlock() const;

  Schedule& schedule_;
  size_t first_;
  Dim span_;   // rows at whose multiples a block ends: those of a matrix, or of a part of it
  Dim count_;  // of all rows
  std::vector<size_t> members_;
};

std::optional<MatrixGrouper::Rows> MatrixGrouper::RowsOf(const LoopNest& nest) const {
  Dim rows = 1;
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    rows = rows * nest.axes[i].extent;
    if (CompareDims(rows, count_) != DimEquality::kEqual) continue;
    // A block does not go beyond the end of the last of these axes.
    const Dim& inner = nest.axes[i].extent;
    if (i == 0 || IsMultiple(inner, span_)) return Rows{i + 1, span_};
    return IsMultiple(span_, inner) ? std::optional(Rows{i + 1, inner}) : std::nullopt;
  }
  return std::nullopt;
}

bool MatrixGrouper::RunsByBlocks(const LoopNest& nest, size_t axes) const {
  const Tensor& tensor = nest.tensors[0].tensor;
  if (tensor->self || tensor->is_ordered || nest.update || nest.limit || !nest.replicas.empty()) return false;
  if (nest.form == NestForm::kTiles) return RunsByRows(nest) && *nest.tile->row + 1 == axes;
  for (size_t i = 0; i < std::min(axes, nest.ranges.size()); ++i) {
    if (!nest.ranges[i].empty()) return false;
  }
  bool has_blocks = nest.form == NestForm::kColumns || nest.form == NestForm::kWindows;
  return nest.form == NestForm::kPositions || (has_blocks && nest.axes.size() > axes);
}

bool MatrixGrouper::NeedsMembers(const LoopNest& reader) const {
  return std::ranges::any_of(members_, [&](size_t member) {
    return std::ranges::any_of(nest(member).tensors, [&](const NestTensor& t) { return Reads(reader, t.tensor); });
  });
}

bool MatrixGrouper::NeedsRowsOnly(const LoopNest& reader) const {
  for (size_t member : members_) {
    const LoopNest& writer = nest(member);
    for (const NestTensor& t : writer.tensors) {
      if (!Reads(reader, t.tensor)) continue;
      if (reader.tile && reader.tile->panels.get() == t.tensor.get()) return false;
      if (!IsInRow(*schedule_.pool, writer.store_offset, t.tensor, writer.RowAxes())) return false;
      for (const ExprNode* node : te::Postorder(ReadExpressions(reader))) {
        if (node->kind == ExprKind::kRead && node->tensor.get() == t.tensor.get() &&
            !IsInRow(*schedule_.pool, node->operands[0], node->tensor, reader.RowAxes()))
          return false;
      }
    }
  }
  return true;
}

// Returns the number of rows of a block: whole tiles, or all rows of a matrix. 0: loading what all rows share for each
// block takes longer than the rows, which then stay in a cache.
int64_t MatrixGrouper::RowsOfBlock() const {
  int64_t height = 1, row_bytes = 1, loads = 0;
  for (size_t member : members_) {
    for (const NestTensor& t : nest(member).tensors) {
      std::optional<Dim> size = RowSize(t.tensor, count_);
      if (size && size->is_const()) row_bytes = std::max(row_bytes, size->constant() * t.tensor.dtype().bytes());
      if (size && !size->is_const()) row_bytes = std::max(row_bytes, kUnknownRowBytes);
    }
    if (const std::optional<Tile>& tile = nest(member).tile) {
      height = std::lcm(height, tile->rows);
      const Dim shared =
          member == first_ ? te::NumPositions(nest(member).reduction()->axes) : nest(member).axes[tile->column].extent;
      if (!shared.is_const()) return 0;
      loads = std::max(loads, shared.constant());
    }
  }
  // Else some tiles of each block have fewer rows.
  if (height > kMaxRows) height = nest(first_).tile->rows;
  int64_t rows = kBlockBytes / row_bytes;
  if (count_.is_const()) rows = std::min(rows, count_.constant() / kMinBlocks);
  rows = std::clamp(rows, kMinRows, kMaxRows);
  int64_t in_tiles = std::max<int64_t>(rows / height, 1) * height;
  if (span_.is_const()) {
    const int64_t all = std::max<int64_t>(span_.constant(), 1);
    if (all <= in_tiles) return all;
    // Blocks have nearly the same number of rows.
    const int64_t blocks = (all + in_tiles - 1) / in_tiles;
    in_tiles = ((all + blocks - 1) / blocks + height - 1) / height * height;
  }
  return loads <= kMaxLoadsPerRow * in_tiles ? in_tiles : 0;
}

std::optional<NestGroup> MatrixGrouper::Run(bool may_move) {
  members_ = {first_};
  schedule_.nests[first_].row_axes = *nest(first_).tile->row + 1;
  std::vector<size_t> others;
  size_t num_others = 0;  // in front of the last member
  for (size_t n = first_ + 1; n < schedule_.nests.size(); ++n) {
    LoopNest& next = schedule_.nests[n];
    if (next.update) break;
    if (!NeedsMembers(next)) {
      if (!may_move) break;
      others.push_back(n);
      continue;
    }
    std::optional<Rows> rows = RowsOf(next);
    if (!rows || !RunsByBlocks(next, rows->axes)) break;
    next.row_axes = rows->axes;
    if (!NeedsRowsOnly(next)) {
      next.row_axes = 1;
      break;
    }
    span_ = rows->span;
    members_.push_back(n);
    num_others = others.size();
  }
  NestGroup group{.first = first_ + num_others, .count = members_.size()};
  group.rows = RowsOfBlock();
  if (members_.size() < 2 || group.rows == 0) {
    for (size_t member : members_) schedule_.nests[member].row_axes = 1;
    return std::nullopt;
  }
  group.matmuls = NestGroup::Matmuls{.span = span_};
  others.resize(num_others);
  std::vector<LoopNest> ordered;
  for (const std::vector<size_t>& part : {others, members_}) {
    for (size_t n : part) ordered.push_back(std::move(schedule_.nests[n]));
  }
  std::ranges::move(ordered, schedule_.nests.begin() + static_cast<std::ptrdiff_t>(first_));
  return group;
}

}  // namespace

std::optional<NestGroup> TakeMatrixGroup(Schedule& schedule, size_t first, bool may_move) {
  if (!RunsByRows(schedule.nests[first])) return std::nullopt;
  return MatrixGrouper(schedule, first).Run(may_move);
}

}  // namespace rvm::schedule
