// Terms that the gradient rules of several operators are made of.
#ifndef RVM_COMPILER_OPS_GRADIENTS_TERMS_H_
#define RVM_COMPILER_OPS_GRADIENTS_TERMS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ops/gradients/pullback.h"

namespace rvm::ops {

// `axis` in [-rank, rank) as [0, rank).
int64_t FromFront(int64_t axis, int64_t rank);
// Returns the attribute `axis`, counted from the front of argument 0.
int64_t AxisOf(Pullback& p);

// Sums and means over `axes`, which stay as extents of 1.
Term SumOver(Term x, const std::vector<int64_t>& axes);
Term MeanOver(Term x, const std::vector<int64_t>& axes);
// Summed over all axes but `axis`.
Term SumBut(Term x, int64_t axis);
// Returns the number of elements of argument 0 along `axes`: a scalar if it is known, else of the shape of a sum over
// them.
Term CountOver(Pullback& p, const std::vector<int64_t>& axes);

// Returns the identity matrix of the extent of x along `axis`.
Term UnitMatrix(Term x, int64_t axis);

// The end of a slice that takes an axis to its end.
inline constexpr int64_t kWholeAxis = int64_t{1} << 62;

Term Cast(Term x, ir::DTypeTerm dtype);
// Returns the layout of images with `axes` axes of space: "NCW", "NCHW" or "NCDHW".
std::string ImageLayout(size_t axes);
// `x` of layout `from` with its axes in the order of `to`.
Term InLayout(Term x, const std::string& from, const std::string& to);

// 1, 2, ... as int64, in the shape of `x`.
Term Numbered(Term x);
// Casts to int64.
Term Wide(Term indices);
// Casts to float32 if `x` is narrower: coordinates and weights are computed in it.
Term WideFloat(Term x);

// Returns the extent of `x` along `axis`, a scalar of int64; 0, 1, ... for each of its elements along it, a vector.
Term Extent(Term x, int64_t axis);
Term Places(Term x, int64_t axis);
// 0, 1, ..., `count` - 1, a vector of int64.
Term Counted(Pullback& p, int64_t count);

// The extents that index tuples (m, places...), argument 1, are for in argument 0, as they broadcast with them.
Term ExtentsOfTuples(Pullback& p);

Term Reshaped(Term x, const std::vector<int64_t>& newshape);
Term Transposed(Term x, const std::vector<int64_t>& axes);
// With `count` axes of one element before `axis`.
Term Expanded(Term x, int64_t axis, int64_t count = 1);
// Returns the elements `index` along `axis`, which is dropped.
Term Picked(Term x, int64_t index, int64_t axis);
Term Stacked(std::vector<Term> parts, int64_t axis);
// `indices` from `least` to one less than `extents`.
Term Clamped(Term indices, Term least, Term extents);
Term Where(Term condition, Term x, Term y);
// Returns a scalar of the dtype of `like`.
Term Zero(Term like);

}  // namespace rvm::ops

#endif  // RVM_COMPILER_OPS_GRADIENTS_TERMS_H_
