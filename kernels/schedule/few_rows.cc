#include "kernels/schedule/few_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/schedule/split_axes.h"
#include "kernels/schedule/tile_planner.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::Tensor;

// Rows for which dot products take less time than copying the other factor for a tile.
constexpr int64_t kMaxFewRows = 4;
// Maximum number of vectors of the depth: they are loaded one after the other, without a loop.
constexpr int64_t kMaxDepthVectors = 32;

// Returns whether the factor is an element of a tensor, and the next one along the depth is its neighbour.
bool RunsAlong(const Expr& factor, const IndexVar& depth) {
  return factor->kind == ExprKind::kRead && te::Stride(factor->operands[0], depth.id) == int64_t{1};
}

// Returns whether the places that a factor reads lie at the same distance from one step of the depth, or row or column,
// to the next.
bool IsStrided(const LoopNest& nest, const Expr& factor) {
  if (factor->kind != ExprKind::kRead) return false;
  auto is_strided = [&](const IndexVar& axis) { return te::Stride(factor->operands[0], axis.id).has_value(); };
  return std::all_of(nest.direct->axes.begin(), nest.direct->axes.end(), is_strided) &&
         is_strided(nest.axes[nest.tile->column]) && (!nest.tile->row || is_strided(nest.axes[*nest.tile->row]));
}

bool IsOutput(const Schedule& schedule, const Tensor& tensor) {
  return std::any_of(schedule.outputs.begin(), schedule.outputs.end(),
                     [&](const Tensor& output) { return output.get() == tensor.get(); });
}

bool Reads(const LoopNest& nest, const Tensor& tensor) {
  bool reads_panels = nest.tile && !(nest.tile->few && nest.tile->few->always());
  if (reads_panels && nest.tile->panels.get() == tensor.get()) return true;
  std::vector<const ExprNode*> nodes = te::Postorder(ReadExpressions(nest));
  return std::any_of(nodes.begin(), nodes.end(), [&](const ExprNode* node) {
    return node->kind == ExprKind::kRead && node->tensor.get() == tensor.get();
  });
}

// Returns whether calls with few rows need the tensor: for them, the factors of the product are others.
bool FewRowsRead(const LoopNest& nest, const Tensor& tensor) {
  LoopNest few = nest;
  few.tile->few->rows = few.tile->few->most;
  return Reads(few, tensor);
}

}  // namespace

std::optional<LoopNest> ReadDirectly(Schedule& schedule, const LoopNest& nest) {
  if (!nest.direct || !nest.tile || nest.tile->is_packed()) return std::nullopt;
  bool is_known = te::NumPositions(nest.axes).is_const() && te::NumPositions(nest.direct->axes).is_const();
  const std::vector<Expr>& copied = nest.tensors[0].value->operands[0]->operands;
  const std::vector<Expr>& factors = nest.direct->operands[0]->operands;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (is_known || (factors[i].get() != copied[i].get() && !IsStrided(nest, factors[i]))) return std::nullopt;
  }
  LoopNest direct = nest;
  direct.tensors[0].value = nest.direct;
  direct.direct = Expr();
  direct.tile.reset();
  SplitDividedAxes(*schedule.pool, direct);
  direct.tile = PlanTile(schedule, direct);
  bool in_place = direct.tile && direct.tile->access == Tile::Access::kInPlace && direct.tile->column_stride == 1 &&
                  direct.tile->row.has_value() == nest.tile->row.has_value();
  return in_place ? std::optional(std::move(direct)) : std::nullopt;
}

std::optional<LoopNest> SumDirectly(Schedule& schedule, const LoopNest& nest) {
  if (!nest.direct || nest.tile || nest.direct->axes.size() != 1) return std::nullopt;
  LoopNest direct = nest;
  direct.tensors[0].value = nest.direct;
  direct.direct = Expr();
  SplitDividedAxes(*schedule.pool, direct);
  if (PlanTile(schedule, direct)) return std::nullopt;
  const Expr& sum = direct.tensors[0].value;
  for (const Expr& factor : sum->operands[0]->operands) {
    bool is_strided = RunsAlong(factor, sum->axes[0]) &&
                      std::all_of(direct.axes.begin(), direct.axes.end(), [&](const IndexVar& axis) {
                        return te::Stride(factor->operands[0], axis.id).has_value();
                      });
    if (!is_strided) return std::nullopt;
  }
  return direct;
}

void PlanFewRows(LoopNest& nest) {
  Tile& tile = *nest.tile;
  const Expr& value = nest.direct ? nest.direct : nest.tensors[0].value;
  if (!tile.row || tile.is_packed() || tile.depth_step > 1 || value->axes.size() != 1) return;
  const IndexVar& depth = value->axes[0];
  const Expr& product = value->operands[0];
  if (!product.dtype().is_float() || !depth.extent.is_const()) return;
  int64_t steps = depth.extent.constant();
  if (steps == 0 || steps % tile.lanes != 0 || steps / tile.lanes > kMaxDepthVectors) return;
  // The vector factor depends on the columns.
  const IndexVar &row = nest.axes[*tile.row], &column = nest.axes[tile.column];
  size_t vector = te::DependsOn(product->operands[1], column.id) ? 1 : 0;
  const Expr &rows = product->operands[1 - vector], &columns = product->operands[vector];
  bool fits = RunsAlong(rows, depth) && RunsAlong(columns, depth) && te::DependsOn(rows, row.id) &&
              !te::DependsOn(rows, column.id) && !te::DependsOn(columns, row.id);
  if (!fits || rows.dtype() != product.dtype() || columns.dtype() != product.dtype()) return;
  Tile::FewRows few{row.extent, std::min(kMaxFewRows, tile.rows), rows, columns, depth};
  if (row.extent.is_const() && !few.always()) return;
  // A tile that reads in place what is no copy needs nothing else.
  if (tile.access == Tile::Access::kInPlace && !nest.direct) return;
  tile.few = std::move(few);
}

void LimitCopies(const Schedule& schedule, std::vector<LoopNest>& nests) {
  auto is_copy = [&](const NestTensor& t) {
    return t.stored && !IsOutput(schedule, t.tensor) && t.value->kind == ExprKind::kRead;
  };
  for (size_t n = nests.size(); n-- > 0;) {
    if (!nests[n].replicas.empty() || nests[n].update) continue;
    // Drops copies, of those that are made side by side, that no nest reads.
    std::vector<NestTensor> kept;
    for (const NestTensor& t : nests[n].tensors) {
      bool is_needed =
          nests[n].tensors.size() == 1 || !is_copy(t) ||
          std::any_of(nests.begin(), nests.end(), [&](const LoopNest& reader) { return Reads(reader, t.tensor); });
      if (is_needed) kept.push_back(t);
    }
    nests[n].tensors = std::move(kept);
    if (nests[n].tensors.empty()) {
      nests.erase(nests.begin() + static_cast<std::ptrdiff_t>(n));
      continue;
    }
    if (nests[n].tensors.size() > 1 || !is_copy(nests[n].tensors[0])) continue;
    const Tensor tensor = nests[n].tensors[0].tensor;
    std::optional<LoopNest::RowLimit> limit;
    bool is_read = false, is_limited = true;
    for (const LoopNest& reader : nests) {
      if (&reader == &nests[n] || !Reads(reader, tensor)) continue;
      is_read = true;
      std::optional<LoopNest::RowLimit> needs = reader.limit;
      if (reader.tile && reader.tile->few && !FewRowsRead(reader, tensor))
        needs = {reader.tile->few->rows, reader.tile->few->most};
      is_limited = is_limited && needs && (!limit || (limit->rows == needs->rows && limit->few == needs->few));
      if (is_limited) limit = needs;
    }
    if (!is_read) {
      nests.erase(nests.begin() + static_cast<std::ptrdiff_t>(n));
    } else if (is_limited) {
      nests[n].limit = limit;
    }
  }
}

}  // namespace rvm::schedule
