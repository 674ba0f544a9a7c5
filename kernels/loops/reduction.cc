#include "kernels/loops/reduction.h"

#include "base/fold.h"

namespace rvm::loops {

using te::ReduceOp;

Reduction::Reduction(Builder& builder, const te::ExprNode& reduce)
    : b_(builder),
      reduce_(reduce),
      dtype_(IsTruth(reduce.reduce) ? kBool : reduce.operands[0].dtype()),
      finds_place_(IsArg(reduce.reduce)) {}

std::vector<DataType> Reduction::types() const {
  return finds_place_ ? std::vector<DataType>{dtype_, kInt64, kInt64} : std::vector<DataType>{dtype_};
}

Reduction::Partial Reduction::Initial() {
  Value first = b_.Constant(dtype_, FoldIdentity(reduce_.reduce, dtype_));
  return finds_place_ ? Partial{first, b_.Number(0), b_.Number(0)} : Partial{first};
}

Value Reduction::Merged(Value x, Value y) { return b_.Binary(FoldedOp(reduce_.reduce), dtype_, x, y); }

// Returns true if the value replaces the best one. Of equal ones the first, or the last, is the best; a NaN is better
// than all other values.
Value Reduction::IsBetter(Value value, Value best, Value is_later) {
  bool maximum = reduce_.reduce == ReduceOp::kArgMax || reduce_.reduce == ReduceOp::kArgMaxLast;
  bool last = reduce_.reduce == ReduceOp::kArgMaxLast || reduce_.reduce == ReduceOp::kArgMinLast;
  auto either = [&](Value x, Value y) { return b_.Binary(BinaryOp::kOr, kBool, x, y); };
  Value is_preferred = last ? is_later : b_.Unary(UnaryOp::kLogicalNot, kBool, is_later);
  Value is_more = b_.Binary(maximum ? BinaryOp::kGreater : BinaryOp::kLess, dtype_, value, best);
  Value is_equal = b_.Binary(BinaryOp::kEqual, dtype_, value, best);
  Value is_better = either(is_more, b_.And(is_equal, is_preferred));
  if (!dtype_.is_float()) return is_better;
  Value is_nan = b_.Binary(BinaryOp::kNotEqual, dtype_, value, value);
  Value beats = either(is_preferred, b_.Binary(BinaryOp::kEqual, dtype_, best, best));
  return either(is_better, b_.And(is_nan, beats));
}

Reduction::Partial Reduction::Combine(const Partial& carried, Value position) {
  Value value = b_.Emit(reduce_.operands[0]);
  DataType from = reduce_.operands[0].dtype();
  if (IsTruth(reduce_.reduce) && !from.is_bool()) {
    value = b_.Binary(BinaryOp::kNotEqual, from, value, b_.Constant(from, 0));
  }
  if (!finds_place_) return {Merged(carried[0], value)};
  return Merge(carried, {value, position, b_.Number(1)});
}

Reduction::Partial Reduction::Merge(const Partial& x, const Partial& y) {
  if (!finds_place_) return {Merged(x[0], y[0])};
  Value none = b_.Number(0);
  Value is_better = IsBetter(y[0], x[0], b_.IsBelow(x[1], y[1]));
  Value is_first = b_.Binary(BinaryOp::kEqual, kInt64, x[2], none);
  Value is_there = b_.Binary(BinaryOp::kNotEqual, kInt64, y[2], none);
  Value takes = b_.And(b_.Binary(BinaryOp::kOr, kBool, is_better, is_first), is_there);
  return {b_.Select(dtype_, takes, y[0], x[0]), b_.Select(kInt64, takes, y[1], x[1]), b_.Plus(x[2], y[2])};
}

Reduction::Memory Reduction::NewPrivate() {
  Memory memory;
  for (DataType type : types()) memory.push_back(b_.NewPrivate(type, 1));
  return memory;
}

Reduction::Partial Reduction::Load(const Memory& memory, Value at) {
  std::vector<DataType> of = types();
  Partial partial;
  for (size_t i = 0; i < memory.size(); ++i) partial.push_back(b_.Load(of[i], memory[i], at));
  return partial;
}

void Reduction::Store(const Memory& memory, Value at, const Partial& partial) {
  for (size_t i = 0; i < memory.size(); ++i) b_.Store(memory[i], at, partial[i]);
}

Reduction::Partial EmitReduction(Builder& b, Reduction& reduction, const te::ExprNode& reduce) {
  Reduction::Memory sums = reduction.NewPrivate();
  Value first = b.Number(0), one = b.Number(1);
  reduction.Store(sums, first, reduction.Initial());
  // `number`: of the position of the axes so far.
  auto loop = [&](auto& self, size_t axis, Value number) -> void {
    if (axis == reduce.axes.size()) {
      return reduction.Store(sums, first, reduction.Combine(reduction.Load(sums, first), number));
    }
    Value extent = b.Extent(reduce.axes[axis].extent);
    b.For(first, extent, one, [&](Value at) {
      b.Bind(reduce.axes[axis], at);
      self(self, axis + 1, IsArg(reduce.reduce) ? b.Plus(b.Times(number, extent), at) : first);
    });
  };
  loop(loop, 0, first);
  return reduction.Load(sums, first);
}

Reduction::Partial EmitReductionPart(Builder& b, Reduction& reduction, const te::ExprNode& reduce, Value begin,
                                     Value end, Value step) {
  Reduction::Memory sums = reduction.NewPrivate();
  Value first = b.Number(0);
  reduction.Store(sums, first, reduction.Initial());
  b.For(begin, end, step, [&](Value at) {
    b.BindFlat(reduce.axes, at);
    reduction.Store(sums, first, reduction.Combine(reduction.Load(sums, first), at));
  });
  return reduction.Load(sums, first);
}

}  // namespace rvm::loops
