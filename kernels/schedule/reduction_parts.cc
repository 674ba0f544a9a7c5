#include "kernels/schedule/reduction_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/dim.h"
#include "base/scalar_op.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::BinaryOp;
using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::ReduceOp;

// Maximum number of parts that the second nest merges for a result.
constexpr int64_t kMaxParts = 512;

bool MayBeSplit(const LoopNest& nest, const ExprNode& reduce) {
  if (reduce.axes.empty() || IsArg(reduce.reduce)) return false;
  bool rounds = reduce.reduce == ReduceOp::kSum || reduce.reduce == ReduceOp::kProduct;
  if (rounds && reduce.dtype.is_small_float()) return false;
  auto is_known = [](const IndexVar& axis) { return axis.extent.is_const() && axis.extent.constant() > 0; };
  return std::all_of(nest.axes.begin(), nest.axes.end(), is_known) &&
         std::all_of(reduce.axes.begin(), reduce.axes.end(), is_known);
}

// Splits one axis of a reduction.
class PartsMaker {
 public:
  PartsMaker(Schedule& schedule, LoopNest& nest)
      : schedule_(schedule), pool_(*schedule.pool), nest_(nest), reduce_(*nest.reduction()) {}

  std::optional<LoopNest> Run(int64_t elements) {
    ChooseAxis(elements);
    if (parts_ < 2) return std::nullopt;
    LoopNest first = PartsNest();
    MergeParts(first);
    return first;
  }

 private:
  void ChooseAxis(int64_t elements) {
    int64_t others = 1;
    for (size_t i = 0; i < reduce_.axes.size(); ++i) {
      if (reduce_.axes[i].extent.constant() > reduce_.axes[axis_].extent.constant()) axis_ = i;
      others *= reduce_.axes[i].extent.constant();
    }
    extent_ = reduce_.axes[axis_].extent.constant();
    others /= extent_;
    length_ = std::max({elements / others, (extent_ + kMaxParts - 1) / kMaxParts, int64_t{1}});
    parts_ = (extent_ + length_ - 1) / length_;
  }

  // Returns the element at `within` of `part`. Past the end of the axis that is the last element again, which leaves
  // minima and maxima unchanged; sums and products take their neutral element instead.
  Expr Element(const IndexVar& part, const IndexVar& within) {
    Expr at = pool_.Binary(BinaryOp::kAdd,
                           pool_.Binary(BinaryOp::kMultiply, pool_.Variable(part), pool_.Intern(*te::Index(length_))),
                           pool_.Variable(within));
    te::Rewrite rewrite;
    bool is_even = extent_ % length_ == 0;
    Expr last = pool_.Intern(*te::Index(extent_ - 1));
    rewrite.variables[reduce_.axes[axis_].id] = is_even ? at : pool_.Binary(BinaryOp::kMinimum, at, last);
    Expr value = pool_.Copy(reduce_.operands[0], rewrite);
    bool is_fold = reduce_.reduce == ReduceOp::kSum || reduce_.reduce == ReduceOp::kProduct;
    if (is_even || !is_fold) return value;
    ExprNode select{.kind = ExprKind::kSelect, .dtype = value->dtype};
    Expr neutral = pool_.Intern(*te::Const(value->dtype, reduce_.reduce == ReduceOp::kSum ? 0 : 1));
    Expr is_element = pool_.Binary(BinaryOp::kLessEqual, at, last);
    select.operands = {is_element, value, neutral};
    return pool_.Intern(std::move(select));
  }

  LoopNest PartsNest() {
    IndexVar part = pool_.Fresh(Dim(parts_), "part"), within = pool_.Fresh(Dim(length_), "k");
    ExprNode of_part{.kind = ExprKind::kReduce, .dtype = reduce_.dtype};
    of_part.reduce = reduce_.reduce;
    of_part.operands = {Element(part, within)};
    of_part.axes = reduce_.axes;
    of_part.axes[axis_] = within;
    if (length_ == 1) of_part.axes.erase(of_part.axes.begin() + static_cast<std::ptrdiff_t>(axis_));
    LoopNest parts;
    parts.axes = {part};
    parts.axes.insert(parts.axes.end(), nest_.axes.begin(), nest_.axes.end());
    Dims dims;
    std::vector<Expr> position;
    for (const IndexVar& axis : parts.axes) {
      dims.push_back(axis.extent);
      position.push_back(pool_.Variable(axis));
    }
    parts.store_offset = pool_.Offset(dims, position);
    te::Tensor tensor = NewTensor(schedule_, reduce_.dtype, dims, nest_.tensors[0].tensor->name + "_parts");
    parts.tensors = {{tensor, pool_.Intern(std::move(of_part)), true}};
    // The nests share no variables.
    for (IndexVar& axis : parts.axes) {
      IndexVar own = pool_.Fresh(axis.extent, axis.name);
      Substitute(pool_, parts, axis, pool_.Variable(own));
      axis = own;
    }
    return parts;
  }

  void MergeParts(const LoopNest& parts) {
    IndexVar part = pool_.Fresh(Dim(parts_), "part");
    std::vector<Expr> position = {pool_.Variable(part)};
    for (const IndexVar& axis : nest_.axes) position.push_back(pool_.Variable(axis));
    ExprNode merged{.kind = ExprKind::kReduce, .dtype = reduce_.dtype};
    merged.reduce = reduce_.reduce;
    merged.operands = {pool_.SafeRead(parts.tensors[0].tensor, position)};
    merged.axes = {part};
    nest_.tensors[0].value = pool_.Intern(std::move(merged));
  }

  Schedule& schedule_;
  te::ExprPool& pool_;
  LoopNest& nest_;
  const ExprNode& reduce_;
  size_t axis_ = 0;  // of the reduction, the one that is split
  int64_t extent_ = 0, length_ = 0, parts_ = 0;
};

}  // namespace

std::optional<LoopNest> SplitIntoParts(Schedule& schedule, LoopNest& nest, int64_t elements) {
  // The node outlives the nest's reference to it.
  Expr reduce = nest.tensors[0].value;
  return MayBeSplit(nest, *reduce) ? PartsMaker(schedule, nest).Run(elements) : std::nullopt;
}

}  // namespace rvm::schedule
