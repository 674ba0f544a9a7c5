#include "kernels/schedule/few_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/schedule/split_axes.h"
#include "kernels/schedule/stored_factors.h"
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
// The same where the factor would be copied for this product alone: a product with so many rows, all of a call, reads
// the factor from memory once, and a copy would be written and read in addition.
constexpr int64_t kMaxRowsOfDots = 16;
// Fewer columns are not worth a tile.
constexpr int64_t kMinColumnsOfDots = 8;
// Maximum number of vectors of the depth of products whose number of rows is not known.
constexpr int64_t kMaxDepthVectors = 32;

// Returns whether the factor is an element of a tensor, and the next one along the depth is its neighbour.
bool RunsAlong(const Target& target, const Expr& factor, const IndexVar& depth) {
  const Expr element = ElementOf(factor, target);
  return element->kind == ExprKind::kRead && te::Stride(element->operands[0], depth.id) == int64_t{1};
}

bool IsProductOfFloats(const ExprNode& sum) {
  const Expr& product = sum.operands[0];
  return sum.reduce == te::ReduceOp::kSum && product->kind == ExprKind::kBinary &&
         product->binary == te::BinaryOp::kMultiply && product.dtype().is_float();
}

// Returns whether dot products along the depth are made of whole vectors.
bool HasWholeVectors(const IndexVar& depth, int64_t lanes) {
  const int64_t positions = depth.extent.AsConst().value_or(0);
  return positions > 0 && positions % lanes == 0;
}

// Returns whether the places that a factor reads lie at the same distance from one step of the depth, or row or column,
// to the next.
bool IsStrided(const Target& target, const LoopNest& nest, const Expr& factor) {
  const Expr element = ElementOf(factor, target);
  if (element->kind != ExprKind::kRead) return false;
  auto is_strided = [&](const IndexVar& axis) { return te::Stride(element->operands[0], axis.id).has_value(); };
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
    if (is_known || (factors[i].get() != copied[i].get() && !IsStrided(schedule.target, nest, factors[i])))
      return std::nullopt;
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
    bool is_strided = RunsAlong(schedule.target, factor, sum->axes[0]) &&
                      std::all_of(direct.axes.begin(), direct.axes.end(), [&](const IndexVar& axis) {
                        return te::Stride(ElementOf(factor, schedule.target)->operands[0], axis.id).has_value();
                      });
    if (!is_strided) return std::nullopt;
  }
  direct.tile = PlanDots(schedule, direct);
  return direct;
}

std::optional<LoopNest> DotsDirectly(Schedule& schedule, const LoopNest& nest) {
  if (!IsProductOfFloats(nest.direct ? *nest.direct : *nest.reduction())) return std::nullopt;
  LoopNest direct = nest;
  if (nest.direct) direct.tensors[0].value = nest.direct;
  direct.direct = Expr();
  SplitDividedAxes(*schedule.pool, direct);
  direct.tile = PlanDots(schedule, direct);
  if (!direct.tile) return std::nullopt;
  // Vectors of a packed constant are faster, unless it leaves half of their lanes idle.
  auto is_constant = [&](const Expr& factor) {
    return IsConstantInput(ElementOf(factor, schedule.target)->tensor, schedule.constant_inputs);
  };
  if (is_constant(direct.tile->vector)) return std::nullopt;
  auto is_bfloat = [&](const Expr& factor) { return ElementOf(factor, schedule.target).dtype() == kBFloat16; };
  const bool has_pairs = is_bfloat(direct.tile->broadcast) && is_bfloat(direct.tile->vector);
  if (schedule.target.has_bfloat_matrices && has_pairs) return std::nullopt;
  if (is_constant(direct.tile->broadcast) && 2 * direct.tile->rows > direct.tile->lanes) return std::nullopt;
  return direct;
}

std::optional<Tile> PlanDots(const Schedule& schedule, const LoopNest& nest) {
  const ExprNode& sum = *nest.reduction();
  const bool may_be_dots = !schedule.sum_order.is_fixed && schedule.target.has_vectors;
  if (!may_be_dots || !IsProductOfFloats(sum) || sum.axes.size() != 1) return std::nullopt;
  const Expr& product = sum.operands[0];
  const IndexVar& depth = sum.axes[0];
  Tile tile;
  tile.access = Tile::Access::kPanels;
  tile.lanes = schedule.target.Lanes(product.dtype());
  if (depth.extent.AsConst().value_or(0) % tile.lanes != 0) tile.lanes /= 2;
  if (tile.lanes < 2 || !HasWholeVectors(depth, tile.lanes)) return std::nullopt;
  for (size_t side : {1, 0}) {
    const Expr &broadcast = product->operands[1 - side], &vector = product->operands[side];
    if (!RunsAlong(schedule.target, broadcast, depth) || !RunsAlong(schedule.target, vector, depth)) continue;
    std::vector<size_t> columns, rows;
    for (size_t i = 0; i < nest.axes.size(); ++i) {
      bool by_broadcast = te::DependsOn(broadcast, nest.axes[i].id), by_vector = te::DependsOn(vector, nest.axes[i].id);
      if (by_broadcast && by_vector) tile.outer.push_back(i);
      if (by_broadcast != by_vector) (by_vector ? columns : rows).push_back(i);
    }
    const bool fits =
        columns.size() == 1 && rows.size() <= 1 &&
        nest.axes[columns[0]].extent.AsConst().value_or(kMinColumnsOfDots) >= kMinColumnsOfDots &&
        (rows.empty() || nest.axes[rows[0]].extent.AsConst().value_or(kMaxRowsOfDots + 1) <= kMaxRowsOfDots);
    if (!fits) {
      tile.outer.clear();
      continue;
    }
    tile.broadcast = broadcast;
    tile.vector = vector;
    tile.column = columns[0];
    if (!rows.empty()) tile.row = rows[0];
    const Dim count = rows.empty() ? Dim(1) : nest.axes[rows[0]].extent;
    tile.rows = std::max<int64_t>(count.constant(), 1);
    tile.transposed_store = tile.row && *tile.row > tile.column;
    tile.few = {count, tile.rows, broadcast, vector, depth};
    // Columns lie apart in memory, with those of the outer axes between them.
    const Expr& place = ElementOf(vector, schedule.target)->operands[0];
    const std::optional<int64_t> apart = te::Stride(place, nest.axes[tile.column].id);
    tile.panels_first = !tile.outer.empty() && apart && std::ranges::all_of(tile.outer, [&](size_t axis) {
      std::optional<int64_t> stride = te::Stride(place, nest.axes[axis].id);
      return stride && *stride >= 0 && *stride < *apart && nest.axes[axis].extent.is_const();
    });
    return tile;
  }
  return std::nullopt;
}

void PlanFewRows(const Target& target, LoopNest& nest) {
  Tile& tile = *nest.tile;
  const Expr& value = nest.direct ? nest.direct : nest.tensors[0].value;
  if (!tile.row || tile.is_packed() || tile.depth_step > 1 || value->axes.size() != 1) return;
  const IndexVar& depth = value->axes[0];
  const Expr& product = value->operands[0];
  if (!product.dtype().is_float() || !HasWholeVectors(depth, tile.lanes)) return;
  if (depth.extent.constant() / tile.lanes > kMaxDepthVectors) return;
  // The vector factor depends on the columns.
  const IndexVar &row = nest.axes[*tile.row], &column = nest.axes[tile.column];
  size_t vector = te::DependsOn(product->operands[1], column.id) ? 1 : 0;
  const Expr &rows = product->operands[1 - vector], &columns = product->operands[vector];
  bool fits = RunsAlong(target, rows, depth) && RunsAlong(target, columns, depth) && te::DependsOn(rows, row.id) &&
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
    return t.stored && !IsOutput(schedule, t.tensor) && ElementOf(t.value, schedule.target)->kind == ExprKind::kRead;
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
