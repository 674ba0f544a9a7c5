#include "kernels/schedule/row_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kernels/schedule/matrix_groups.h"
#include "kernels/schedule/merge_axes.h"
#include "kernels/schedule/row_teams.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::ExprPool;
using te::IndexVar;
using te::Tensor;

constexpr int64_t kBlockBytes = 16384;  // of a tensor, a block of rows: a few of them fit the first-level cache
constexpr int64_t kStackBytes =
    65536;  // of all tensors that only the group needs: a host's thread may have little more

constexpr int64_t kMinTiledRows = 16;

// Rows of unknown size that nests between tiles take at once.
constexpr int64_t kUnknownRowsBetween = 4;

// Maximum number of elements of a row that a single block of a GPU works on.
constexpr int64_t kMaxBlockElements = 8192;

// Returns false if another axis than the first one stores farther apart.
bool StoresByRows(const LoopNest& nest) {
  int64_t rows = te::Stride(nest.store_offset, nest.axes[0].id).value_or(0);
  return rows == 0 || std::none_of(nest.axes.begin() + 1, nest.axes.end(), [&](const IndexVar& axis) {
           return te::Stride(nest.store_offset, axis.id).value_or(0) > rows;
         });
}

bool MayShareRows(const LoopNest& nest) {
  const Tensor& first = nest.tensors[0].tensor;
  if (nest.axes.empty() || first->self || nest.update || !StoresByRows(nest)) return false;
  if (first->is_ordered && RowSize(first, nest.axes[0].extent) != te::OrderedRowSize(first)) return false;
  // Tiles whose outermost loop is the first axis, as of a depthwise convolution, run behind the nest that pads their
  // image. A group is divided among threads by rows, so there must be enough of them.
  if (nest.form == NestForm::kTiles) {
    bool many = nest.axes[0].extent.is_const() && nest.axes[0].extent.constant() >= kMinTiledRows;
    return many && nest.tile->access == Tile::Access::kInPlace && !nest.tile->outer.empty() && nest.tile->outer[0] == 0;
  }
  if (nest.form == NestForm::kTeams) return nest.team->are_neighbours;
  // The others run blocks of their first axis that are no rows.
  bool has_blocks = nest.form == NestForm::kColumns || nest.form == NestForm::kWindows;
  return nest.form == NestForm::kPositions || (has_blocks && nest.axes.size() > 1);
}

class Grouper {
 public:
  explicit Grouper(Schedule& schedule) : schedule_(schedule) {}

  void Run() {
    for (size_t n = 0; n < schedule_.nests.size(); ++n) {
      if (!schedule_.target.has_blocks && TakesMatrices(n)) {
        n += schedule_.groups.back().count - 1;
        continue;
      }
      bool joins = n > 0 && !schedule_.groups.back().team && !schedule_.groups.back().matmuls &&
                   Joins(schedule_.groups.back(), n);
      if (joins) {
        ++schedule_.groups.back().count;
      } else if (schedule_.target.has_blocks && TakesTeam(n, GroupFrom(n).count, schedule_.nests.size())) {
        n += schedule_.groups.back().count - 1;
      } else {
        schedule_.groups.push_back({.first = n, .count = 1});
      }
    }
    if (schedule_.target.has_blocks) return DivideAmongBlocks();
    for (NestGroup& group : schedule_.groups) {
      if (group.count == 1) continue;
      group.matmuls ? PlanMatrixBlocks(group) : PlanBlocks(group);
      FindLocals(group);
    }
  }

 private:
  const LoopNest& nest(size_t n) const { return schedule_.nests[n]; }

  bool WrittenBy(const NestGroup& group, const Tensor& tensor) const {
    for (size_t n = group.first; n < group.first + group.count; ++n) {
      for (const NestTensor& t : nest(n).tensors) {
        if (t.tensor.get() == tensor.get()) return true;
      }
    }
    return false;
  }

  // Adds the group that nest `n`, a matmul, begins. Returns false if there is none at `n`.
  bool TakesMatrices(size_t n) {
    // Nests that are moved in front of the matmul come first: they may be groups of their own.
    const bool may_move = moved_.insert(nest(n).tensors[0].tensor.get()).second;
    std::optional<NestGroup> group = TakeMatrixGroup(schedule_, n, may_move);
    if (group && group->first > n) return TakesMatrices(n);
    if (group) schedule_.groups.push_back(*std::move(group));
    return group.has_value();
  }

  // Returns whether nest `n` needs only the rows so far of what the group computes, and shares data of many elements
  // with it.
  bool Joins(const NestGroup& group, size_t n) const {
    const LoopNest& next = nest(n);
    const LoopNest& before = nest(group.first);
    if (!MayShareRows(before) || !MayShareRows(next)) return false;
    const IndexVar& axis = next.axes[0];
    if (CompareDims(axis.extent, before.axes[0].extent) != DimEquality::kEqual) return false;
    bool shares = false;
    for (const ExprNode* node : te::Postorder(ReadExpressions(next))) {
      if (node->kind != ExprKind::kRead) continue;
      bool own = std::any_of(next.tensors.begin(), next.tensors.end(),
                             [&](const NestTensor& t) { return t.tensor.get() == node->tensor.get(); });
      if (own) continue;
      bool in_row = IsInRow(*schedule_.pool, node->operands[0], node->tensor, {&axis, 1});
      bool written = WrittenBy(group, node->tensor);
      if (written && !in_row) return false;
      bool many = RowSize(node->tensor, axis.extent) != Dim(1);
      for (size_t k = group.first; in_row && many && k < n; ++k) shares |= written || Reads(nest(k), node->tensor);
    }
    return shares;
  }

  // Returns the nests that a block would run one after the other.
  NestGroup GroupFrom(size_t first) const {
    NestGroup group{.first = first, .count = 1};
    while (first + group.count < schedule_.nests.size() && Joins(group, first + group.count)) ++group.count;
    return group.count > 1 && IsForBlocks(group) ? group : NestGroup{.first = first, .count = 1};
  }

  // Adds a group of `least` to `most` nests that keep rows in registers. Returns false if there is none.
  bool TakesTeam(size_t first, size_t least, size_t most) {
    std::optional<RowTeamPlan> plan = PlanRowTeam(schedule_, first, most);
    if (!plan || plan->replaced < least) return false;
    auto begin = schedule_.nests.begin() + static_cast<std::ptrdiff_t>(first);
    auto next = schedule_.nests.erase(begin, begin + static_cast<std::ptrdiff_t>(plan->replaced));
    schedule_.groups.push_back({.first = first, .count = plan->nests.size(), .rows = 1, .team = std::move(plan->team)});
    schedule_.nests.insert(next, std::make_move_iterator(plan->nests.begin()),
                           std::make_move_iterator(plan->nests.end()));
    return true;
  }

  // A GPU runs a group in one launch, a row in each block, if blocks also reduce rows otherwise, and these are short;
  // else its nests are launched one by one, each of them divided among all threads.
  void DivideAmongBlocks() {
    std::vector<NestGroup> launches, groups = std::exchange(schedule_.groups, {});
    for (const NestGroup& group : groups) {
      if (group.team) {
        launches.push_back(group);
        continue;
      }
      if (group.count > 1 && IsForBlocks(group)) {
        launches.push_back({.first = group.first, .count = group.count, .rows = 1});
        for (size_t n = group.first; n < group.first + group.count; ++n) {
          LoopNest& in_row = schedule_.nests[n];
          in_row.elements_per_thread = 1;
          if (in_row.team) in_row.team->threads = kBlockThreads;
        }
        continue;
      }
      for (size_t n = group.first; n < group.first + group.count; ++n) {
        launches.push_back({.first = n, .count = 1});
        if (TakesTeam(n, 1, 1)) launches.back() = std::exchange(schedule_.groups, {})[0];
      }
    }
    schedule_.groups = std::move(launches);
  }

  bool IsForBlocks(const NestGroup& group) const {
    bool reduces = false;
    for (size_t n = group.first; n < group.first + group.count; ++n) {
      reduces |= nest(n).form == NestForm::kTeams;
      Dim size = te::NumPositions(std::span(nest(n).axes).subspan(1));
      if (const ExprNode* reduce = nest(n).reduction()) size = size * te::NumPositions(reduce->axes);
      if (size.is_const() && size.constant() > kMaxBlockElements) return false;
    }
    return reduces;
  }

  // Decides the size of blocks.
  void PlanBlocks(NestGroup& group) {
    const Dim& rows = nest(group.first).axes[0].extent;
    group.rows = RowsAtOnce(group.first, group.first + group.count, rows, 1);
    group.blocks = FloorDiv(rows + (group.rows - 1), group.rows);
  }

  // Decides how many rows nests between tiles take at once.
  void PlanMatrixBlocks(NestGroup& group) {
    const size_t end = group.first + group.count;
    const Dim rows = te::NumPositions(nest(group.first).RowAxes());
    size_t first = group.first;
    while (first < end && nest(first).HasTilesOfRows()) ++first;
    group.matmuls->rows_between = std::min(RowsAtOnce(first, end, rows, kUnknownRowsBetween), group.rows);
    const Dim& span = group.matmuls->span;
    group.blocks = FloorDiv(rows, span) * FloorDiv(span + (group.rows - 1), group.rows);
    group.strips = Min(group.blocks, NestGroup::kMaxStrips);
    for (size_t n = group.first; n < end; ++n) {
      if (std::optional<Tile>& tile = schedule_.nests[n].tile)
        tile->row_parts = 1, tile->blocks_of_rows = {group.rows, span};
    }
  }

  // Returns how many rows nests [first, end), of so many rows, take at once; `unknown` of rows whose size is not known.
  int64_t RowsAtOnce(size_t first, size_t end, const Dim& rows, int64_t unknown) const {
    int64_t row_bytes = 1;
    bool is_known = true;
    auto count = [&](const Tensor& tensor) {
      std::optional<Dim> size = RowSize(tensor, rows);
      if (!size) return;
      is_known &= size->is_const();
      if (is_known) row_bytes = std::max(row_bytes, size->constant() * tensor.dtype().bytes());
    };
    for (size_t n = first; n < end; ++n) {
      for (const ExprNode* node : te::Postorder(ReadExpressions(nest(n)))) {
        if (node->kind == ExprKind::kRead) count(node->tensor);
      }
      for (const NestTensor& t : nest(n).tensors) count(t.tensor);
    }
    return is_known ? std::clamp<int64_t>(kBlockBytes / row_bytes, 1, 64) : unknown;
  }

  // Finds the tensors that nothing behind the group reads: it keeps the rows at hand of them.
  void FindLocals(NestGroup& group) {
    const Dim rows = te::NumPositions(nest(group.first).RowAxes());
    int64_t left = kStackBytes;
    for (size_t n = group.first; n < group.first + group.count; ++n) {
      for (const NestTensor& t : nest(n).tensors) {
        std::optional<Dim> size = RowSize(t.tensor, rows);
        if (!t.stored || schedule_.buffers.contains(t.tensor.get()) || !size) continue;
        size_t last = n;
        for (size_t k = n; k < schedule_.nests.size(); ++k) {
          if (Reads(nest(k), t.tensor)) last = k;
        }
        // An image inside its border.
        const bool is_shared = WrittenBy({.first = 0, .count = group.first}, t.tensor);
        if (is_shared || last >= group.first + group.count) continue;
        NestGroup::Local local = {t.tensor, *size, group.rows, true, last};
        // A nest alone between tiles takes a block at once.
        if (group.matmuls && last > n && IsBetweenTiles(n, last)) local.rows = group.matmuls->rows_between;
        const Dim bytes = FloorDiv(*size * (local.rows * t.tensor.dtype().bytes()) + 63, 64) * 64;
        local.is_on_stack = bytes.is_const() && bytes.constant() <= left;
        if (local.is_on_stack) left -= bytes.constant();
        if (!local.is_on_stack) group.strips = Min(group.blocks, NestGroup::kMaxStrips);
        group.local.push_back(std::move(local));
      }
    }
  }

  // Returns whether no nest of [first, last] has tiles of rows.
  bool IsBetweenTiles(size_t first, size_t last) const {
    return std::none_of(schedule_.nests.begin() + static_cast<std::ptrdiff_t>(first),
                        schedule_.nests.begin() + static_cast<std::ptrdiff_t>(last) + 1,
                        [](const LoopNest& nest) { return nest.HasTilesOfRows(); });
  }

  Schedule& schedule_;
  absl::flat_hash_set<const te::TensorNode*> moved_;  // products of which TakesMatrices has been asked
};

}  // namespace

std::optional<Dim> RowSize(const Tensor& tensor, const Dim& rows) {
  Dim first = 1;
  for (size_t i = 0; i < tensor.rank(); ++i) {
    first = first * tensor.dims()[i];
    if (CompareDims(first, rows) != DimEquality::kEqual) continue;
    return NumElements(std::span(tensor.dims()).subspan(i + 1));
  }
  return std::nullopt;
}

bool IsInRow(ExprPool& pool, const Expr& offset, const Tensor& tensor, std::span<const IndexVar> axes) {
  if (axes.empty()) return false;
  Expr in_one = offset;
  IndexVar axis = axes.back();
  for (size_t i = axes.size() - 1; i-- > 0;) {
    IndexVar merged = pool.Fresh(axes[i].extent * axis.extent, "row");
    std::optional<te::Rewrite> rewrite = MergeOfAxes(pool, axes[i], axis, merged, {in_one});
    if (!rewrite) return false;
    in_one = pool.Copy(in_one, *rewrite);
    axis = merged;
  }
  std::optional<Dim> size = RowSize(tensor, axis.extent);
  if (!size) return false;
  te::Rewrite first_row;
  first_row.variables[axis.id] = pool.Intern(*te::Index(0));
  Expr rest = pool.Copy(in_one, first_row);
  if (te::DependsOn(rest, axis.id) || !pool.IsBelow(rest, pool.Extent(*size))) return false;
  // Nested indices, as in (row * 4 + 1) * 8 + i, do not have the form below.
  if (size->is_const() && te::Stride(in_one, axis.id) == size->constant()) return true;
  Expr row = pool.Binary(BinaryOp::kMultiply, pool.Variable(axis), pool.Extent(*size));
  return pool.Binary(BinaryOp::kAdd, row, rest).get() == in_one.get();
}

bool Reads(const LoopNest& nest, const Tensor& tensor) {
  if (nest.tile && nest.tile->panels.get() == tensor.get()) return true;
  return std::ranges::any_of(te::Postorder(ReadExpressions(nest)), [&](const ExprNode* node) {
    return node->kind == ExprKind::kRead && node->tensor.get() == tensor.get();
  });
}

void PlanRowGroups(Schedule& schedule) { Grouper(schedule).Run(); }

}  // namespace rvm::schedule
