// Folds: reductions that repeat one binary operation. All reductions but Arg* are folds.
#ifndef RVM_BASE_FOLD_H_
#define RVM_BASE_FOLD_H_

#include <cstdint>

#include "base/data_type.h"
#include "base/scalar_op.h"

namespace rvm {

// Returns true for the folds whose partial results are bools, whatever the elements are.
constexpr bool IsTruth(ReduceOp op) { return op == ReduceOp::kAll || op == ReduceOp::kAny; }

// Returns the operation that takes in an element and merges two partial results. REQUIRES: !IsArg(op).
BinaryOp FoldedOp(ReduceOp op);

// Returns the partial result of no elements; 0 for Arg*. `dtype`: of partial results. An integer is sign-extended or
// zero-extended as its dtype is; a float is the bits of a double.
int64_t FoldIdentity(ReduceOp op, DataType dtype);

}  // namespace rvm

#endif  // RVM_BASE_FOLD_H_
