#include "kernels/schedule/loop_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "kernels/schedule/split_axes.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::ExprKind;
using te::ExprNode;

// Elements that are still cached when they are read again: those of a part of a second-level cache.
constexpr int64_t kCachedBytes = 256 << 10;
constexpr int64_t kLineBytes = 64;

// Returns the memory from the first to the last element that a read touches at all positions of the axes behind
// `number`, as far as that is known.
int64_t BytesBehind(const LoopNest& nest, size_t number, const ExprNode& read) {
  Dim bytes = read.dtype.bytes() * te::Stride(read.operands[0], nest.axes.back().id).value_or(1);
  for (size_t i = number + 1; i < nest.axes.size(); ++i) {
    if (te::DependsOn(read.operands[0], nest.axes[i].id)) bytes = bytes * nest.axes[i].extent;
  }
  return bytes.AsConst().value_or(0);
}

// Returns whether the nest reads for all positions of axis `number` the same elements, or, of an axis that is not the
// first, those between the elements that the innermost axis reads, and too much in the meantime to be cached.
bool ReadsAgain(const LoopNest& nest, size_t number) {
  bool is_much = false;
  for (const ExprNode* node : te::Postorder(Values(nest))) {
    // A tensor that the axis selects is not read at its other positions.
    if (node->kind == ExprKind::kSelect && te::DependsOn(node->operands[0], nest.axes[number].id)) return false;
    if (node->kind != ExprKind::kRead) continue;
    std::optional<int64_t> near = te::Stride(node->operands[0], nest.axes[number].id),
                           far = te::Stride(node->operands[0], nest.axes.back().id);
    bool is_between =
        number > 0 && near && far && 0 < *near && *near < *far && *far * node->dtype.bytes() <= kLineBytes;
    if (near != int64_t{0} && !is_between) return false;
    is_much = is_much || BytesBehind(nest, number, *node) > kCachedBytes;
  }
  return is_much;
}

// Returns whether an axis moved.
bool MoveAxes(LoopNest& nest) {
  bool has_moved = false;
  for (size_t i = nest.axes.size() - 1; i-- > 0;) {
    if (i + 2 >= nest.axes.size() || !ReadsAgain(nest, i)) continue;
    auto axis = nest.axes.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(axis, axis + 1, nest.axes.end() - 1);
    has_moved = true;
  }
  return has_moved;
}

}  // namespace

void OrderAxes(te::ExprPool& pool, LoopNest& nest) {
  if (nest.tensors.size() != 1 || nest.axes.size() < 3 || MoveAxes(nest)) return;
  // The places of a block are one axis, the quotient of a split, until it is split again.
  LoopNest split = nest;
  SplitDividedAxes(pool, split);
  if (split.axes.size() == nest.axes.size() || !MoveAxes(split)) return;
  // Threads share the first axis, which is shorter now.
  if (split.axes[0].id != nest.axes[0].id) std::swap(split.axes[0], split.axes[1]);
  nest = std::move(split);
}

}  // namespace rvm::schedule
