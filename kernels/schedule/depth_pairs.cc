#include "kernels/schedule/depth_pairs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/schedule/rewrite_tensors.h"
#include "kernels/schedule/stored_factors.h"
#include "kernels/schedule/tile_planner.h"
#include "kernels/te/expr_pool.h"

namespace rvm::schedule {
namespace {

using te::Expr;
using te::ExprKind;
using te::ExprNode;
using te::IndexVar;
using te::Tensor;

// An innermost extent of so many steps wastes little if it is no multiple of them: zeros fill the last one.
constexpr int64_t kLongDepth = 4;

bool IsConstant(const Expr& factor, const std::vector<bool>& constant_inputs) {
  return factor->kind == ExprKind::kRead && IsConstantInput(factor->tensor, constant_inputs);
}

// Returns whether the expression differs between neighbouring positions of an axis: not if it asks for the group of
// positions alone, as a convolution's image does.
bool VariesByEach(const Expr& e, const IndexVar& axis) {
  if (e->kind == ExprKind::kIndex) return e->index.id == axis.id;
  const bool divides = e->kind == ExprKind::kBinary && e->binary == te::BinaryOp::kFloorDivide &&
                       e->operands[0]->kind == ExprKind::kIndex && e->operands[1]->kind == ExprKind::kIntConst;
  if (divides && e->operands[1]->int_value > 1) return false;
  return std::ranges::any_of(e->operands, [&](const Expr& operand) { return VariesByEach(operand, axis); });
}

// Returns the read of what is multiplied by a constant, and the dtype of that; null if the sum is of another form, such
// as a depthwise convolution, whose constant has no columns of its own.
std::pair<Expr, DataType> PairedRead(const Tensor& tensor, const std::vector<bool>& constant_inputs) {
  const ExprNode& sum = *tensor->body;
  if (sum.kind != ExprKind::kReduce || sum.reduce != te::ReduceOp::kSum || sum.dtype != kInt32) return {};
  const Expr& product = sum.operands[0];
  if (product->kind != ExprKind::kBinary || product->binary != te::BinaryOp::kMultiply) return {};
  Expr a = NarrowFactor(product->operands[0]), b = NarrowFactor(product->operands[1]);
  if (!a || !b) return {};
  if (IsConstant(a, constant_inputs)) std::swap(a, b);
  bool fits = a->kind == ExprKind::kRead && !IsConstant(a, constant_inputs) && IsConstant(b, constant_inputs);
  bool has_columns = fits && std::ranges::any_of(tensor->axes, [&](const IndexVar& axis) {
                       return te::DependsOn(b, axis.id) && !VariesByEach(a, axis);
                     });
  return has_columns ? std::pair(a, b.dtype()) : std::pair(Expr(), DataType());
}

// Returns the axis of the tensor that `read` visits along `depth` alone, one position after the other.
std::optional<size_t> AxisAlong(const ExprNode& read, const IndexVar& depth) {
  std::optional<size_t> axis;
  for (size_t i = 0; i < read.operands.size(); ++i) {
    if (!te::DependsOn(read.operands[i], depth.id)) continue;
    if (axis || te::Stride(read.operands[i], depth.id) != int64_t{1}) return std::nullopt;
    axis = i;
  }
  return axis;
}

// Returns whether all values are multiples of `group`, provably.
bool IsMultiple(const Expr& e, int64_t group) {
  if (e->kind == ExprKind::kIntConst) return e->int_value % group == 0;
  if (e->kind != ExprKind::kBinary) return false;
  const bool first = IsMultiple(e->operands[0], group), second = IsMultiple(e->operands[1], group);
  return e->binary == te::BinaryOp::kMultiply ? first || second : e->binary == te::BinaryOp::kAdd && first && second;
}

bool HasSteps(const Dim& extent, int64_t group) { return extent.is_const() && extent.constant() % group == 0; }

class DepthPairer {
 public:
  DepthPairer(const std::vector<bool>& constant_inputs, const Target& target, te::ExprPool& pool)
      : constant_inputs_(constant_inputs), target_(target), pool_(pool) {}

  Tensor Run(const Tensor& tensor) {
    const auto [read, constant] = PairedRead(tensor, constant_inputs_);
    if (!read) return tensor;
    for (int64_t group = DepthStep(target_, read->dtype, constant); group >= 2; group /= 2) {
      if (std::optional<Tensor> grouped = WithGroups(tensor, read, group)) return *grouped;
    }
    return tensor;
  }

 private:
  // Returns the sum with steps of so many positions; nullopt if it has none.
  std::optional<Tensor> WithGroups(const Tensor& tensor, const Expr& read, int64_t group) {
    const ExprNode& sum = *tensor->body;
    size_t last = read->operands.size() - 1;
    const IndexVar& innermost = sum.axes.back();
    bool are_neighbours = AxisAlong(*read, innermost) == last;
    int64_t extent = innermost.extent.AsConst().value_or(0);
    if (are_neighbours && (HasSteps(innermost.extent, group) || extent >= kLongDepth * group)) return tensor;
    std::optional<size_t> apart;
    for (size_t depth = 0; depth < sum.axes.size(); ++depth) {
      std::optional<size_t> axis = AxisAlong(*read, sum.axes[depth]);
      if (!axis || !HasSteps(sum.axes[depth].extent, group)) continue;
      if (*axis == last) return WithInnermost(tensor, depth);
      bool has_steps = BeginsWithAStep(read->operands[*axis], sum.axes[depth], group);
      if (!apart && has_steps && HasSteps(read->tensor.dims()[*axis], group)) apart = depth;
    }
    return apart ? std::optional(WithCopy(tensor, read, *apart, group)) : std::nullopt;
  }

  Expr Divided(const Expr& index, int64_t group) {
    return pool_.Binary(te::BinaryOp::kFloorDivide, index, pool_.Extent(group));
  }

  // Returns the index at position 0 of an axis.
  Expr FirstAlong(const Expr& index, const IndexVar& axis) {
    te::Rewrite first;
    first.variables[axis.id] = pool_.Intern(*te::Index(0));
    return pool_.Copy(index, first);
  }

  // Returns whether the index is the axis alone, or begins at a multiple of a step, as the channels of a group do.
  bool BeginsWithAStep(const Expr& index, const IndexVar& axis, int64_t group) {
    return IsMultiple(FirstAlong(index, axis), group);
  }

  // Returns the sum with that axis as the innermost.
  static Tensor WithInnermost(const Tensor& tensor, size_t depth) {
    ExprNode sum = *tensor->body;
    auto axis = sum.axes.begin() + static_cast<std::ptrdiff_t>(depth);
    std::rotate(axis, axis + 1, sum.axes.end());
    te::TensorNode node = *tensor;
    node.body = Expr(std::make_shared<const ExprNode>(std::move(sum)));
    return Tensor(std::make_shared<const te::TensorNode>(std::move(node)));
  }

  // Returns the sum over the steps of that axis and, innermost, over the positions of a step, read from a copy.
  Tensor WithCopy(const Tensor& tensor, const Expr& read, size_t depth, int64_t group) {
    const ExprNode& sum = *tensor->body;
    size_t axis = *AxisAlong(*read, sum.axes[depth]);
    Dims dims = read->tensor.dims(), extents;
    dims[axis] = FloorDiv(dims[axis], group);
    dims.push_back(group);
    Tensor pairs = te::ComputeTensor("pairs", read->dtype, dims, [&](std::span<const Expr> i) {
      std::vector<Expr> at(i.begin(), i.end() - 1);
      at[axis] = at[axis] * te::Index(group) + i.back();
      return read->tensor(at);
    });
    for (const IndexVar& old : sum.axes) extents.push_back(old.extent);
    // The sum may read less of the axis than the tensor has.
    extents[depth] = FloorDiv(sum.axes[depth].extent, group);
    extents.push_back(group);
    return te::ComputeTensor(tensor->name, tensor.dtype(), tensor.dims(), [&](std::span<const Expr> i) {
      return te::Reduce(te::ReduceOp::kSum, extents, [&](std::span<const Expr> r) {
        te::Rewrite rewrite;
        for (size_t k = 0; k < i.size(); ++k) rewrite.variables[tensor->axes[k].id] = pool_.Intern(*i[k]);
        for (size_t k = 0; k < sum.axes.size(); ++k) rewrite.variables[sum.axes[k].id] = pool_.Intern(*r[k]);
        Expr step = pool_.Intern(*r[depth]), place = pool_.Intern(*r.back());
        Expr first = pool_.Binary(te::BinaryOp::kMultiply, step, pool_.Extent(group));
        rewrite.variables[sum.axes[depth].id] = pool_.Binary(te::BinaryOp::kAdd, first, place);
        std::vector<Expr> at;
        for (const Expr& operand : read->operands) at.push_back(pool_.Copy(operand, rewrite));
        const Expr begin = pool_.Copy(FirstAlong(read->operands[axis], sum.axes[depth]), rewrite);
        at[axis] = pool_.Binary(te::BinaryOp::kAdd, Divided(begin, group), step);
        at.push_back(place);
        rewrite.done.emplace(read.get(), pool_.Intern(*pairs(at)));
        return pool_.Copy(sum.operands[0], rewrite);
      });
    });
  }

  const std::vector<bool>& constant_inputs_;
  const Target& target_;
  te::ExprPool& pool_;
};

}  // namespace

te::Computation PairDepth(const te::Computation& computation, const std::vector<bool>& constant_inputs,
                          const Target& target) {
  te::ExprPool pool;
  DepthPairer pairer(constant_inputs, target, pool);
  return RewriteTensors(computation, pool, [&](const Tensor& tensor) { return pairer.Run(tensor); });
}

}  // namespace rvm::schedule
