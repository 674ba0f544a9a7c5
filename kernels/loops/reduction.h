// The steps of a reduction: the partial result that it begins with, how that takes in an element, how two are merged.
#ifndef RVM_KERNELS_LOOPS_REDUCTION_H_
#define RVM_KERNELS_LOOPS_REDUCTION_H_

#include <cstddef>
#include <vector>

#include "kernels/loops/builder.h"
#include "kernels/te/tensor.h"

namespace rvm::loops {

// A partial result is one value, or, of a reduction that finds a place, three: the best value, its position among the
// reduced elements, and how many elements were taken in.
class Reduction {
 public:
  using Partial = std::vector<Value>;

  // REQUIRES: `reduce` is a node of kind kReduce.
  Reduction(Builder& builder, const te::ExprNode& reduce);

  Partial Initial();
  // Takes in the element at the position that is bound. `position`: its number among all elements.
  Partial Combine(const Partial& carried, Value position);
  // Merges partial results of different elements. The position decides between equal ones.
  Partial Merge(const Partial& x, const Partial& y);
  Value Result(const Partial& carried) const { return carried[finds_place_ ? 1 : 0]; }

  // Returns the dtypes of the values of a partial result.
  std::vector<DataType> types() const;

  // Partial results in memory, an array for each of their values.
  using Memory = std::vector<BufferId>;
  Memory NewPrivate();
  Partial Load(const Memory& memory, Value at);
  void Store(const Memory& memory, Value at, const Partial& partial);

 private:
  Value Merged(Value x, Value y);
  Value IsBetter(Value value, Value best, Value is_later);

  Builder& b_;
  const te::ExprNode& reduce_;
  DataType dtype_;  // of the values that are merged
  bool finds_place_;
};

// Reduces all elements in loops of the thread.
Reduction::Partial EmitReduction(Builder& b, Reduction& reduction, const te::ExprNode& reduce);
// Reduces the elements with the numbers begin, begin + step, ... below `end` in one loop of the thread.
Reduction::Partial EmitReductionPart(Builder& b, Reduction& reduction, const te::ExprNode& reduce, Value begin,
                                     Value end, Value step);

}  // namespace rvm::loops

#endif  // RVM_KERNELS_LOOPS_REDUCTION_H_
