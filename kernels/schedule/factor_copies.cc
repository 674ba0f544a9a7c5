#include "kernels/schedule/factor_copies.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;

// Copying an element pays if so many vectors are multiplied by it.
constexpr int64_t kMinUses = 2;
// Panels of rows pay for sums of so many products, with so many vectors of columns; less of both if they hold what is
// converted, which takes a few instructions.
constexpr int64_t kMinDepth = 128;
constexpr int64_t kMinVectors = 16;
constexpr int64_t kMinDepthConverted = 16;
constexpr int64_t kMinVectorsConverted = 4;
constexpr int64_t kLineBytes = 64;
// Panels that hold each element more often are larger than what the cache would save: windows of an image that overlap.
constexpr int64_t kMaxCopiesOfElement = 4;

// Returns whether the tile multiplies an element of `tensor` by several vectors. Extents that are not known count as
// large.
bool IsUsedOften(const LoopNest& nest, const te::Tensor& tensor) {
  const Tile& tile = *nest.tile;
  if (nest.axes[tile.column].extent.AsConst().value_or(tile.panel() * kMinUses) >= tile.panel() * kMinUses) {
    return true;
  }
  Dim uses = te::NumPositions(nest.axes) * te::NumPositions(nest.reduction()->axes);
  Dim elements = NumElements(tensor.dims()) * tile.panel();
  return !uses.is_const() || !elements.is_const() || uses.constant() >= elements.constant() * kMinUses;
}

// Returns the nest that computes each element of `tensor` by itself, if one read is all that needs the tensor; else
// null.
LoopNest* OnlyWriter(const Schedule& schedule, std::vector<LoopNest>& planned, const te::Tensor& tensor) {
  for (const te::Tensor& output : schedule.outputs) {
    if (output.get() == tensor.get()) return nullptr;
  }
  if (CountReaders(schedule.nests, tensor) != 1) return nullptr;
  for (LoopNest& nest : planned) {
    bool writes = nest.tensors.size() == 1 && nest.tensors[0].tensor.get() == tensor.get();
    bool by_element = nest.reduction() == nullptr && !nest.update && !tensor->self && !tensor->is_ordered;
    if (writes && by_element && !nest.tile && nest.replicas.empty()) return &nest;
  }
  return nullptr;
}

bool SameExtents(const te::Tensor& a, const te::Tensor& b) {
  return std::equal(a.dims().begin(), a.dims().end(), b.dims().begin(), b.dims().end(),
                    [](const Dim& x, const Dim& y) { return CompareDims(x, y) == DimEquality::kEqual; });
}

// Returns whether panels of rows would hold the elements of the tensor that the tile reads many times.
bool RepeatsElements(const LoopNest& nest) {
  const Expr& factor = nest.tile->broadcast;
  Dim copied = te::NumPositions(nest.reduction()->axes);
  for (const IndexVar& axis : nest.axes) {
    if (te::DependsOn(factor, axis.id)) copied = copied * axis.extent;
  }
  for (const ExprNode* node : te::Postorder({factor})) {
    if (node->kind != ExprKind::kRead) continue;
    const Dim elements = NumElements(node->tensor.dims());
    if (copied.is_const() && elements.is_const() && copied.constant() > elements.constant() * kMaxCopiesOfElement)
      return true;
  }
  return false;
}

// Returns whether each step, or each but the innermost, reads another line of memory.
bool ReadsManyLines(const LoopNest& nest) {
  const std::vector<IndexVar>& depth = nest.reduction()->axes;
  for (const ExprNode* node : te::Postorder({nest.tile->broadcast})) {
    if (node->kind != ExprKind::kRead) continue;
    int64_t stride = te::Stride(node->operands[0], depth[0].id).value_or(0);
    if (stride * node->dtype.bytes() < kLineBytes) return false;
  }
  return true;
}

bool PaysToCopyRows(const LoopNest& nest) {
  const Tile& tile = *nest.tile;
  if (!tile.row || tile.depth_step > 1) return false;
  const Dim &rows = nest.axes[*tile.row].extent, &columns = nest.axes[tile.column].extent;
  bool known = rows.is_const() && rows.constant() > 0 && columns.is_const();
  if (!known || !te::DependsOn(tile.broadcast, nest.axes[*tile.row].id)) return false;
  Dim depth = te::NumPositions(nest.reduction()->axes);
  if (!depth.is_const()) return false;
  int64_t vectors = columns.constant() / tile.lanes;
  const ExprNode& factor = *tile.broadcast;
  bool is_converted = factor.kind == ExprKind::kCast && factor.operands[0].dtype().is_small_float();
  if (is_converted) return depth.constant() >= kMinDepthConverted && vectors >= kMinVectorsConverted;
  return depth.constant() >= kMinDepth && vectors >= kMinVectors && ReadsManyLines(nest) && !RepeatsElements(nest);
}

// A nest under construction that copies a factor into a tensor of another layout.
struct Copy {
  te::ExprPool& pool;
  LoopNest nest = {};
  Dims dims = {};
  std::vector<Expr> position = {};

  // Appends an axis to the nest and to the layout. Returns the position along it.
  const Expr& Add(const Dim& extent) {
    dims.push_back(extent);
    if (extent == Dim(1)) {
      position.push_back(pool.Intern(*te::Index(0)));
    } else {
      nest.axes.push_back(pool.Fresh(extent, "p"));
      position.push_back(pool.Variable(nest.axes.back()));
    }
    return position.back();
  }

  LoopNest Store(const te::Tensor& tensor, const Expr& value) {
    nest.store_offset = pool.Offset(dims, position);
    nest.tensors = {{tensor, value, true}};
    CollapseAxes(pool, nest);
    return std::move(nest);
  }
};

// Returns the tensor that a nest of `planned` stores if that is `tensor` as int16; else null.
te::Tensor WidenedBefore(const std::vector<LoopNest>& planned, const te::Tensor& tensor) {
  for (const LoopNest& nest : planned) {
    const NestTensor& stored = nest.tensors[0];
    bool widens = nest.tensors.size() == 1 && nest.replicas.empty() && stored.stored &&
                  stored.value->kind == ExprKind::kCast && stored.tensor.dtype() == kInt16;
    if (!widens) continue;
    const ExprNode& from = *stored.value->operands[0];
    bool reads = from.kind == ExprKind::kRead && from.tensor.get() == tensor.get() &&
                 from.operands[0].get() == nest.store_offset.get();
    if (reads && SameExtents(stored.tensor, tensor)) return stored.tensor;
  }
  return te::Tensor();
}

LoopNest Widening(Schedule& schedule, const te::Tensor& tensor, const te::Tensor& wide) {
  Copy copy{*schedule.pool};
  for (const Dim& extent : tensor.dims()) copy.Add(extent);
  Expr read = copy.pool.SafeRead(tensor, copy.position);
  return copy.Store(wide, copy.pool.Intern(*te::Cast(kInt16, read)));
}

}  // namespace

LoopNest MakePanels(Schedule& schedule, LoopNest& nest) {
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  Copy copy{pool};
  te::Rewrite rewrite;
  for (size_t axis : tile.outer) rewrite.variables[nest.axes[axis].id] = copy.Add(nest.axes[axis].extent);
  const IndexVar& columns = nest.axes[tile.column];
  Expr panel = copy.Add(FloorDiv(columns.extent + (tile.panel() - 1), tile.panel()));
  for (const IndexVar& axis : nest.reduction()->axes) {
    bool innermost = axis.id == nest.reduction()->axes.back().id;
    rewrite.variables[axis.id] =
        copy.Add(innermost ? FloorDiv(axis.extent + (tile.depth_step - 1), tile.depth_step) : axis.extent);
  }
  Expr lane = copy.Add(tile.panel());
  if (tile.depth_step > 1) {
    // Elements beyond the depth are multiplied by zeros.
    const IndexVar& innermost = nest.reduction()->axes.back();
    Expr first = pool.Binary(BinaryOp::kMultiply, rewrite.variables[innermost.id], pool.Extent(tile.depth_step));
    Expr depth = pool.Binary(BinaryOp::kAdd, first, copy.Add(tile.depth_step));
    bool groups_fit = innermost.extent.constant() % tile.depth_step == 0;
    if (!groups_fit) depth = pool.Binary(BinaryOp::kMinimum, depth, pool.Extent(innermost.extent - 1));
    rewrite.variables[innermost.id] = depth;
  }
  Expr first = pool.Binary(BinaryOp::kMultiply, panel, pool.Extent(tile.panel()));
  if (tile.overlaps) first = pool.Binary(BinaryOp::kMinimum, first, pool.Extent(columns.extent - tile.panel()));
  Expr column = pool.Binary(BinaryOp::kAdd, first, lane);
  // Lanes beyond the columns repeat the last one; what they sum up is dropped.
  bool inside = tile.overlaps || (columns.extent.is_const() && columns.extent.constant() % tile.panel() == 0);
  if (!inside) column = pool.Binary(BinaryOp::kMinimum, column, pool.Extent(columns.extent - 1));
  rewrite.variables[columns.id] = column;
  tile.panels = NewTensor(schedule, tile.vector.dtype(), copy.dims, "panels");
  return copy.Store(tile.panels, pool.Copy(tile.vector, rewrite));
}

std::optional<LoopNest> MakeRowPanels(Schedule& schedule, LoopNest& nest) {
  if (!PaysToCopyRows(nest)) return std::nullopt;
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  const IndexVar& rows = nest.axes[*tile.row];
  const auto [tiles, low, higher] = tile.HeightsOf(rows.extent.constant());
  Copy copy{pool};
  te::Rewrite rewrite;
  std::vector<Expr> place;  // where the tile reads
  auto add = [&](const IndexVar& axis) {
    place.push_back(pool.Variable(axis));
    return rewrite.variables[axis.id] = copy.Add(axis.extent);
  };
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    if (i != *tile.row && te::DependsOn(tile.broadcast, nest.axes[i].id)) add(nest.axes[i]);
  }
  tile.row_panels = {pool.Fresh(tiles, "t"), pool.Fresh(low + (higher > 0), "r")};
  Expr number = add(tile.row_panels->tile);
  Expr first = pool.Binary(BinaryOp::kMultiply, number, pool.Extent(low));
  if (higher > 0) {
    first = pool.Binary(BinaryOp::kAdd, first, pool.Binary(BinaryOp::kMinimum, number, pool.Extent(higher)));
  }
  for (const IndexVar& axis : nest.reduction()->axes) add(axis);
  Expr row = pool.Binary(BinaryOp::kAdd, first, add(tile.row_panels->row));
  // A lower tile has the first row of the next one at its end, or the last row twice.
  if (higher > 0) row = pool.Binary(BinaryOp::kMinimum, row, pool.Extent(rows.extent - 1));
  rewrite.variables[rows.id] = row;
  te::Tensor panels = NewTensor(schedule, tile.broadcast.dtype(), copy.dims, "row_panels");
  Expr value = pool.Copy(tile.broadcast, rewrite);
  tile.broadcast = pool.SafeRead(panels, place);
  return copy.Store(panels, value);
}

void WidenBroadcast(Schedule& schedule, std::vector<LoopNest>& planned, LoopNest& nest) {
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  const Expr narrow = tile.broadcast;
  if (tile.depth_step != 2 || narrow->kind != ExprKind::kRead || narrow->dtype.bytes() > 1) return;
  const te::Tensor& tensor = narrow->tensor;
  if (!IsUsedOften(nest, tensor)) return;
  te::Tensor wide = WidenedBefore(planned, tensor);
  if (!wide) {
    wide = NewTensor(schedule, kInt16, tensor.dims(), tensor->name);
    if (LoopNest* writer = OnlyWriter(schedule, planned, tensor)) {
      NestTensor& stored = writer->tensors[0];
      stored = {wide, pool.Intern(*te::Cast(kInt16, stored.value)), true};
    } else {
      planned.push_back(Widening(schedule, tensor, wide));
    }
  }
  ExprNode read = *narrow;
  read.tensor = wide;
  read.dtype = kInt16;
  tile.broadcast = pool.Intern(read);
  // The widened factor is the same from either tensor.
  te::Rewrite rewrite;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    bool widens = node->kind == ExprKind::kCast && node->operands[0].get() == narrow.get();
    if (widens) rewrite.done.emplace(node, pool.Intern(*te::Cast(node->dtype, tile.broadcast)));
  }
  Apply(pool, nest, std::move(rewrite));
}

void PackRows(Schedule& schedule, LoopNest& nest) {
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  if (!tile.packed_rows) return;
  const Expr as_stored = tile.broadcast;
  Dims dims;
  std::vector<Expr> position;
  auto add = [&](const IndexVar& axis) {
    if (!te::DependsOn(as_stored, axis.id)) return;
    dims.push_back(axis.extent);
    position.push_back(pool.Variable(axis));
  };
  for (size_t i = 0; i < nest.axes.size(); ++i) {
    if (i != *tile.row) add(nest.axes[i]);
  }
  add(nest.axes[*tile.row]);
  for (const IndexVar& axis : nest.reduction()->axes) add(axis);
  ExprNode read = *as_stored;
  read.operands = {pool.Offset(dims, position)};
  tile.broadcast = pool.Intern(read);
  te::Rewrite rewrite;
  rewrite.done.emplace(as_stored.get(), tile.broadcast);
  Apply(pool, nest, std::move(rewrite));
}

}  // namespace rvm::schedule
