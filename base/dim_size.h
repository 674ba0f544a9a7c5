// The size of a Dim as a tree, where a shared part counts each time that it occurs. Its text, its encoding and every
// walk over it are of that size.
#ifndef RVM_BASE_DIM_SIZE_H_
#define RVM_BASE_DIM_SIZE_H_

#include "base/dim.h"

namespace rvm {

// Extents that a compiler derives from each other stay below this many nodes: those of a deep network of residual
// blocks would double with each block. One that is larger is `?`, or begins a new kernel, which has a symbol for it.
inline constexpr int kMaxDerivedDimNodes = 200;

// The leaves and operations of `dim`, or some number above `limit`. Takes at most `limit` steps.
int CountDimNodes(const Dim& dim, int limit);

// Returns the operations between the root and its farthest leaf. Takes as many steps as `dim` has nodes.
int DimDepth(const Dim& dim);

}  // namespace rvm

#endif  // RVM_BASE_DIM_SIZE_H_
