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
constexpr int64_t kLeastUses = 2;

te::Tensor NewTensor(Schedule& schedule, DataType dtype, Dims dims, std::string name) {
  te::TensorNode node{
      .kind = te::TensorKind::kCompute, .dtype = dtype, .dims = std::move(dims), .name = std::move(name)};
  schedule.tensors.emplace_back(std::make_shared<const te::TensorNode>(std::move(node)));
  return schedule.tensors.back();
}

// Whether the tile multiplies an element of `tensor` by several vectors. Extents that are not known count as large.
bool IsUsedOften(const LoopNest& nest, const te::Tensor& tensor) {
  const Tile& tile = *nest.tile;
  if (nest.axes[tile.column].extent.AsConst().value_or(tile.panel() * kLeastUses) >= tile.panel() * kLeastUses) {
    return true;
  }
  Dim uses = 1, elements = tile.panel();
  for (const IndexVar& axis : nest.axes) uses = uses * axis.extent;
  for (const IndexVar& axis : nest.reduction()->axes) uses = uses * axis.extent;
  for (const Dim& dim : tensor.dims()) elements = elements * dim;
  return !uses.is_const() || !elements.is_const() || uses.constant() >= elements.constant() * kLeastUses;
}

// The nest that computes `tensor`, if one read is all that needs the tensor; else null.
LoopNest* OnlyWriter(const Schedule& schedule, std::vector<LoopNest>& planned, const te::Tensor& tensor) {
  for (const te::Tensor& output : schedule.outputs) {
    if (output.get() == tensor.get()) return nullptr;
  }
  if (CountReaders(schedule.nests, tensor) != 1) return nullptr;
  for (LoopNest& nest : planned) {
    bool writes = nest.tensors.size() == 1 && nest.tensors[0].tensor.get() == tensor.get();
    if (writes && !nest.tile && nest.replicas.empty()) return &nest;
  }
  return nullptr;
}

LoopNest Widening(Schedule& schedule, const te::Tensor& tensor, const te::Tensor& wide) {
  te::ExprPool& pool = *schedule.pool;
  LoopNest copy;
  std::vector<Expr> position;
  for (const Dim& extent : tensor.dims()) {
    copy.axes.push_back(pool.Fresh(extent, "w"));
    position.push_back(pool.Variable(copy.axes.back()));
  }
  copy.store_offset = pool.Offset(tensor.dims(), position);
  ExprNode read{.kind = ExprKind::kRead, .dtype = tensor.dtype()};
  read.tensor = tensor;
  read.operands = {copy.store_offset};
  read.int_value = te::kReadIsSafe;
  copy.tensors = {{wide, pool.Intern(*te::Cast(kInt16, pool.Intern(std::move(read)))), true}};
  CollapseAxes(pool, copy);
  return copy;
}

}  // namespace

LoopNest MakePanels(Schedule& schedule, LoopNest& nest) {
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  LoopNest copy;
  Dims dims;
  te::Rewrite rewrite;
  std::vector<Expr> position;
  auto add = [&](const Dim& extent) {
    dims.push_back(extent);
    if (extent == Dim(1)) {
      position.push_back(pool.Intern(*te::Index(0)));
    } else {
      copy.axes.push_back(pool.Fresh(extent, "p"));
      position.push_back(pool.Variable(copy.axes.back()));
    }
    return position.back();
  };
  for (size_t axis : tile.outer) rewrite.variables[nest.axes[axis].id] = add(nest.axes[axis].extent);
  const IndexVar& columns = nest.axes[tile.column];
  Expr panel = add(FloorDiv(columns.extent + (tile.panel() - 1), tile.panel()));
  for (const IndexVar& axis : nest.reduction()->axes) {
    bool innermost = axis.id == nest.reduction()->axes.back().id;
    rewrite.variables[axis.id] = add(innermost ? FloorDiv(axis.extent + (tile.group - 1), tile.group) : axis.extent);
  }
  Expr lane = add(tile.panel());
  if (tile.group > 1) {
    // What stands beyond the depth is multiplied by zeros.
    const IndexVar& innermost = nest.reduction()->axes.back();
    Expr first = pool.Binary(BinaryOp::kMultiply, rewrite.variables[innermost.id], pool.Extent(tile.group));
    Expr depth = pool.Binary(BinaryOp::kAdd, first, add(tile.group));
    bool groups_fit = innermost.extent.constant() % tile.group == 0;
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
  tile.panels = NewTensor(schedule, tile.vector.dtype(), dims, "panels");
  copy.store_offset = pool.Offset(dims, position);
  copy.tensors = {{tile.panels, pool.Copy(tile.vector, rewrite), true}};
  CollapseAxes(pool, copy);
  return copy;
}

void WidenBroadcast(Schedule& schedule, std::vector<LoopNest>& planned, LoopNest& nest) {
  te::ExprPool& pool = *schedule.pool;
  Tile& tile = *nest.tile;
  const Expr narrow = tile.broadcast;
  if (tile.group == 1 || narrow->kind != ExprKind::kRead || narrow->dtype.bytes() > 1) return;
  const te::Tensor& tensor = narrow->tensor;
  if (!IsUsedOften(nest, tensor)) return;
  te::Tensor wide = NewTensor(schedule, kInt16, tensor.dims(), tensor->name);
  if (LoopNest* writer = OnlyWriter(schedule, planned, tensor)) {
    NestTensor& stored = writer->tensors[0];
    stored = {wide, pool.Intern(*te::Cast(kInt16, stored.value)), true};
  } else {
    planned.push_back(Widening(schedule, tensor, wide));
  }
  ExprNode read = *narrow;
  read.tensor = wide;
  read.dtype = kInt16;
  tile.broadcast = pool.Intern(read);
  // What the factor is widened to is the same from either.
  te::Rewrite rewrite;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    bool widens = node->kind == ExprKind::kCast && node->operands[0].get() == narrow.get();
    if (widens) rewrite.done.emplace(node, pool.Intern(*te::Cast(node->dtype, tile.broadcast)));
  }
  Apply(pool, nest, std::move(rewrite));
}

}  // namespace rvm::schedule
