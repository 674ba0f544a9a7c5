#include "kernels/schedule/row_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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

// Maximum number of elements of a row that a single block of a GPU works on.
constexpr int64_t kMaxBlockElements = 8192;

// Elements of one row of the tensor, where the axis counts its rows; nullopt if it does not.
std::optional<Dim> RowSize(const Tensor& tensor, const IndexVar& axis) {
  Dim rows = 1;
  for (size_t i = 0; i < tensor.rank(); ++i) {
    rows = rows * tensor.dims()[i];
    if (CompareDims(rows, axis.extent) != DimEquality::kEqual) continue;
    return NumElements(std::span(tensor.dims()).subspan(i + 1));
  }
  return std::nullopt;
}

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
  if (first->is_ordered && RowSize(first, nest.axes[0]) != te::OrderedRowSize(first)) return false;
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
      bool joins = n > 0 && !schedule_.groups.back().team && Joins(schedule_.groups.back(), n);
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
      if (group.count > 1) Finish(group);
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

  bool ReadBy(const LoopNest& reader, const Tensor& tensor) const {
    for (const ExprNode* node : te::Postorder(ReadExpressions(reader))) {
      if (node->kind == ExprKind::kRead && node->tensor.get() == tensor.get()) return true;
    }
    return false;
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
      bool in_row = IsInRow(*schedule_.pool, node->operands[0], node->tensor, axis);
      bool written = WrittenBy(group, node->tensor);
      if (written && !in_row) return false;
      bool many = RowSize(node->tensor, axis) != Dim(1);
      for (size_t k = group.first; in_row && many && k < n; ++k) shares |= written || ReadBy(nest(k), node->tensor);
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

  // The size of blocks, and what is needed nowhere else.
  void Finish(NestGroup& group) {
    const IndexVar& axis = nest(group.first).axes[0];
    int64_t row_bytes = 1;
    bool known = true;
    auto count = [&](const Tensor& tensor) {
      std::optional<Dim> size = RowSize(tensor, axis);
      if (!size) return;
      known &= size->is_const();
      if (known) row_bytes = std::max(row_bytes, size->constant() * tensor.dtype().bytes());
    };
    for (size_t n = group.first; n < group.first + group.count; ++n) {
      for (const ExprNode* node : te::Postorder(ReadExpressions(nest(n)))) {
        if (node->kind == ExprKind::kRead) count(node->tensor);
      }
      for (const NestTensor& t : nest(n).tensors) count(t.tensor);
    }
    group.rows = known ? std::clamp<int64_t>(kBlockBytes / row_bytes, 1, 64) : 1;
    int64_t left = kStackBytes;
    for (size_t n = group.first; n < group.first + group.count; ++n) {
      for (const NestTensor& t : nest(n).tensors) {
        std::optional<Dim> size = RowSize(t.tensor, axis);
        if (!t.stored || schedule_.buffers.contains(t.tensor.get()) || !size || !size->is_const()) continue;
        bool is_shared = false;
        for (size_t k = group.first + group.count; k < schedule_.nests.size(); ++k) {
          is_shared |= ReadBy(nest(k), t.tensor) || (nest(k).tile && nest(k).tile->panels.get() == t.tensor.get());
        }
        // An image inside its border.
        is_shared |= WrittenBy({.first = 0, .count = group.first}, t.tensor);
        int64_t bytes = (group.rows * size->constant() * t.tensor.dtype().bytes() + 63) / 64 * 64;
        if (is_shared || bytes > left) continue;
        left -= bytes;
        group.local.push_back({t.tensor, size->constant()});
      }
    }
  }

  Schedule& schedule_;
};

}  // namespace

bool IsInRow(ExprPool& pool, const Expr& offset, const Tensor& tensor, const IndexVar& axis) {
  std::optional<Dim> size = RowSize(tensor, axis);
  if (!size) return false;
  te::Rewrite first_row;
  first_row.variables[axis.id] = pool.Intern(*te::Index(0));
  Expr rest = pool.Copy(offset, first_row);
  if (te::DependsOn(rest, axis.id) || !pool.IsBelow(rest, pool.Extent(*size))) return false;
  // Nested indices, as in (row * 4 + 1) * 8 + i, do not have the form below.
  if (size->is_const() && te::Stride(offset, axis.id) == size->constant()) return true;
  Expr row = pool.Binary(BinaryOp::kMultiply, pool.Variable(axis), pool.Extent(*size));
  return pool.Binary(BinaryOp::kAdd, row, rest).get() == offset.get();
}

void PlanRowGroups(Schedule& schedule) { Grouper(schedule).Run(); }

}  // namespace rvm::schedule
