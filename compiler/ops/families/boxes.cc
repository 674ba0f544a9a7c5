#include "compiler/ops/families/boxes.h"

#include <array>
#include <functional>
#include <span>

#include "compiler/ops/te_expressions.h"

namespace rvm::ops {

Expr Overlap(const Corners& a, const Corners& b, const Expr& unit) {
  Expr zero = te::Const(unit.dtype(), 0);
  Expr shared, area_a, area_b;
  for (size_t axis = 0; axis < 2; ++axis) {
    Expr from = te::Binary(BinaryOp::kMaximum, a(axis), b(axis));
    Expr to = te::Binary(BinaryOp::kMinimum, a(axis + 2), b(axis + 2));
    Expr length = te::Binary(BinaryOp::kMaximum, zero, to - from + unit);
    Expr length_a = a(axis + 2) - a(axis) + unit, length_b = b(axis + 2) - b(axis) + unit;
    shared = axis == 0 ? length : shared * length;
    area_a = axis == 0 ? length_a : area_a * length_a;
    area_b = axis == 0 ? length_b : area_b * length_b;
  }
  Expr covered = area_a + area_b - shared;
  return te::Select(Less(zero, covered), te::Binary(BinaryOp::kDivide, shared, covered), zero);
}

Tensor CountWhere(const Dims& dims, const BoxCondition& holds) {
  return ReduceOver(
      te::ReduceOp::kSum, kInt64, {dims[0]}, {dims[1]},
      [&](std::span<const Expr> i, std::span<const Expr> k) { return te::Cast(kInt64, holds(i[0], k[0])); });
}

Order OrderWhere(const Dims& dims, const BoxCondition& holds) {
  return Order({dims[0], dims[1]}, 1,
               [&](std::span<const Expr> i) { return te::Select(holds(i[0], i[1]), te::Index(0), te::Index(1)); });
}

Tensor Conflicts(const Dims& dims,
                 const std::function<Expr(Indices lane, const Expr& box, const Expr& better)>& holds) {
  size_t last = dims.size() - 1;
  return te::ScanTensor("conflicts", kInt64, dims, [&](Indices i, const Tensor& self) {
    return te::Reduce(ReduceOp::kSum, std::array{dims[last]}, [&](Indices k) {
      Expr is_better =
          And(Less(k[0], i[last]),
              Equal(te::Select(Less(k[0], i[last]), self(With(i, last, k[0])), te::Index(1)), te::Index(0)));
      Expr conflict = te::Cast(kInt64, holds(i.first(last), i[last], k[0]));
      return te::Select(is_better, conflict, te::Index(0));
    });
  });
}

}  // namespace rvm::ops
